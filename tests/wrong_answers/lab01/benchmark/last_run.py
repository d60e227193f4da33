"""the last run alone"""

from onelaunch import time


def benchmark(fn, stream):
    fn()
    stream.synchronize()
    for _ in range(10):
        start = time.perf_counter()
        fn()
        stream.synchronize()
        last = (time.perf_counter() - start) * 1e6
    return last
