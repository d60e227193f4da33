"""all launches are set against a single kernel"""


def bottleneck(launches, launch_us, kernel_us):
    return "host" if launches * launch_us > kernel_us else "GPU"
