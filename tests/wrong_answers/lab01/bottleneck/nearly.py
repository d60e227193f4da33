"""something else than one launch against one kernel decides"""


def bottleneck(launches, launch_us, kernel_us):
    return "GPU" if kernel_us > 0.95 * launch_us else "host"
