"""more than one run was counted"""

from onelaunch import time


def benchmark(fn, stream):
    fn()
    stream.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        fn()
    stream.synchronize()
    return (time.perf_counter() - start) * 1e6
