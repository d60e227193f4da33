"""not in turn"""


def spread(kernel, arrays, streams, launches):
    for i in reversed(range(launches)):
        k = i % len(streams)
        kernel[1, 1, streams[k]](arrays[k])
    for s in streams:
        s.synchronize()
