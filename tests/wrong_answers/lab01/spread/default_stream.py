"""goes to the default stream"""


def spread(kernel, arrays, streams, launches):
    for i in range(launches):
        kernel[1, 1](arrays[i % len(streams)])
    for s in streams:
        s.synchronize()
