"""the wrong way round"""


def bottleneck(launches, launch_us, kernel_us):
    return "GPU" if launch_us > kernel_us else "host"
