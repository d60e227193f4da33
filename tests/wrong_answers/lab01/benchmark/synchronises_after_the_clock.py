"""before the GPU had finished"""

import statistics

from onelaunch import time


def benchmark(fn, stream):
    fn()
    times = []
    for _ in range(10):
        stream.synchronize()
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e6)
        stream.synchronize()
    return statistics.median(times)
