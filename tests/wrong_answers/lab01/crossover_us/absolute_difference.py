"""the sign matters"""


def crossover_us(launch_us, overhead_us):
    return abs(launch_us - overhead_us)
