"""too few runs for a median that can be trusted"""


def benchmark(fn, stream):
    fn()
    stream.synchronize()
    return 4000.0
