"""the difference is the wrong way round"""


def crossover_us(launch_us, overhead_us):
    return overhead_us - launch_us
