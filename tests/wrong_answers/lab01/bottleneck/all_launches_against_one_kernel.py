def bottleneck(launches, launch_us, kernel_us):
    return "host" if launches * launch_us > kernel_us else "GPU"
