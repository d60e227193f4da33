"""the function returns no number"""


def crossover_us(launch_us, overhead_us):
    print(max(0.0, launch_us - overhead_us))
