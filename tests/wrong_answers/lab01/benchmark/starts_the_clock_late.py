"""the clock starts only after fn() was called"""

import statistics

from onelaunch import time


def benchmark(fn, stream):
    fn()
    stream.synchronize()
    times = []
    for _ in range(10):
        fn()
        start = time.perf_counter()
        stream.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)
