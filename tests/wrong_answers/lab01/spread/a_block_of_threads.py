"""more blocks or threads than one"""


def spread(kernel, arrays, streams, launches):
    for i in range(launches):
        k = i % len(streams)
        kernel[1, 32, streams[k]](arrays[k])
    for s in streams:
        s.synchronize()
