"""text, not a number"""

import statistics

from onelaunch import time


def benchmark(fn, stream):
    fn()
    stream.synchronize()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        fn()
        stream.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return f"{statistics.median(times):.1f}"
