def spread(kernel, arrays, streams, launches):
    for s in streams:
        s.synchronize()
