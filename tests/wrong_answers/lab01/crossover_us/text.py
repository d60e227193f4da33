"""text, not a number"""


def crossover_us(launch_us, overhead_us):
    return str(max(0.0, launch_us - overhead_us))
