"""`import time` reads this computer's clock; the simulated GPU's host has its own"""

import statistics
from time import perf_counter


def benchmark(fn, stream):
    fn()
    stream.synchronize()
    times = []
    for _ in range(10):
        start = perf_counter()
        fn()
        stream.synchronize()
        times.append((perf_counter() - start) * 1e6)
    return statistics.median(times)
