"""a single launch is set against all kernels"""


def bottleneck(launches, launch_us, kernel_us):
    return "host" if launch_us > launches * kernel_us else "GPU"
