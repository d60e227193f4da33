"""the kernel alone decides, against a fixed limit"""


def bottleneck(launches, launch_us, kernel_us):
    return "host" if kernel_us < 10 else "GPU"
