"""before the GPU had finished"""

import statistics

from onelaunch import time


def benchmark(fn, stream):
    fn()
    stream.synchronize()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)
