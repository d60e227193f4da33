"""overhead for each kernel is left out"""


def crossover_us(launch_us, overhead_us):
    return launch_us
