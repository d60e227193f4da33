"""do not fill a whole round"""


def spread(kernel, arrays, streams, launches):
    for _ in range(launches // len(streams)):
        for s, a in zip(streams, arrays, strict=True):
            kernel[1, 1, s](a)
    for s in streams:
        s.synchronize()
