"""the answer is another value than the two words"""


def bottleneck(launches, launch_us, kernel_us):
    return "host" if launch_us > kernel_us else "device"
