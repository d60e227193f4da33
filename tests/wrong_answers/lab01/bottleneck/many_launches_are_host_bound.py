"""something else than one launch against one kernel"""


def bottleneck(launches, launch_us, kernel_us):
    return "host" if launches > 100 or launch_us > kernel_us else "GPU"
