"""not every launch was made, or with another kernel than the one given"""


def spread(kernel, arrays, streams, launches):
    for s in streams:
        s.synchronize()
