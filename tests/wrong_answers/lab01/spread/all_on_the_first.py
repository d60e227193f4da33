"""all on one stream"""


def spread(kernel, arrays, streams, launches):
    for _ in range(launches):
        kernel[1, 1, streams[0]](arrays[0])
    for s in streams:
        s.synchronize()
