"""the wrong way round, and then cut off at zero"""


def crossover_us(launch_us, overhead_us):
    return max(0.0, overhead_us - launch_us)
