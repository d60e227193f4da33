"""the warm-up run is counted too"""

import statistics

from onelaunch import time


def benchmark(fn, stream):
    times = []
    for _ in range(11):
        start = time.perf_counter()
        fn()
        stream.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)
