"""not waited for, or only by the next one"""

import statistics

from onelaunch import time


def benchmark(fn, stream):
    fn()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        fn()
        stream.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)
