"""more launches than asked for"""


def spread(kernel, arrays, streams, launches):
    for i in range(launches + 1):
        k = i % len(streams)
        kernel[1, 1, streams[k]](arrays[k])
    for s in streams:
        s.synchronize()
