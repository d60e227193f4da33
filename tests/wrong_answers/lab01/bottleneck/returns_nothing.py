"""returns nothing"""


def bottleneck(launches, launch_us, kernel_us):
    launch_us > kernel_us
