"""the function returns before the GPU has finished"""


def spread(kernel, arrays, streams, launches):
    for i in range(launches):
        k = i % len(streams)
        kernel[1, 1, streams[k]](arrays[k])
    streams[0].synchronize()
