"""the overhead was added: but it makes the GPU slower, so the kernel itself can be shorter"""


def crossover_us(launch_us, overhead_us):
    return launch_us + overhead_us
