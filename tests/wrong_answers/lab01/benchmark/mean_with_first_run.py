"""no warm-up run, or only nine that count"""

from onelaunch import time


def benchmark(fn, stream):
    start = time.perf_counter()
    for _ in range(10):
        fn()
        stream.synchronize()
    return (time.perf_counter() - start) / 10 * 1e6
