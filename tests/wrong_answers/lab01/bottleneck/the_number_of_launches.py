"""the number of launches alone decides"""


def bottleneck(launches, launch_us, kernel_us):
    return "host" if launches > 100 else "GPU"
