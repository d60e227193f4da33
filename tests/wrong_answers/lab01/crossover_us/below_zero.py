"""cannot take less than no time"""


def crossover_us(launch_us, overhead_us):
    return launch_us - overhead_us
