"""too few runs for a median that can be trusted"""

from onelaunch import time


def benchmark(fn, stream):
    start = time.perf_counter()
    fn()
    stream.synchronize()
    return (time.perf_counter() - start) * 1e6
