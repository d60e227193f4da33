"""not given: one of an earlier cell"""

from onelaunch import cuda

on_stream = cuda.stream()


def spread(kernel, arrays, streams, launches):
    for i in range(launches):
        kernel[1, 1, on_stream](arrays[i % len(streams)])
    for s in streams:
        s.synchronize()
