"""rounded"""


def crossover_us(launch_us, overhead_us):
    return round(max(0.0, launch_us - overhead_us), 1)
