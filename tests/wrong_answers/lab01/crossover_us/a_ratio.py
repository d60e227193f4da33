"""the two sides of the balance"""


def crossover_us(launch_us, overhead_us):
    return launch_us / overhead_us if overhead_us else launch_us
