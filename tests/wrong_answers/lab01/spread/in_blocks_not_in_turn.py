"""not in turn"""


def spread(kernel, arrays, streams, launches):
    each = -(-launches // len(streams))
    for i in range(launches):
        kernel[1, 1, streams[i // each]](arrays[i // each])
    for s in streams:
        s.synchronize()
