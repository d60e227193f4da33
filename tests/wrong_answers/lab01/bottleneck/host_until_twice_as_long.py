"""something else than one launch against one kernel decides"""


def bottleneck(launches, launch_us, kernel_us):
    return "host" if 2 * launch_us > kernel_us else "GPU"
