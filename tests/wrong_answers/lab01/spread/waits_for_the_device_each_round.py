"""synchronises between launches"""

from onelaunch import cuda


def spread(kernel, arrays, streams, launches):
    for i in range(launches):
        k = i % len(streams)
        kernel[1, 1, streams[k]](arrays[k])
        if k == len(streams) - 1:
            cuda.synchronize()
    for s in streams:
        s.synchronize()
