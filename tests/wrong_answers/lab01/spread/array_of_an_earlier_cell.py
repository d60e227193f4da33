"""must be one of `arrays`"""

import numpy as np

from onelaunch import cuda

array = cuda.to_device(np.zeros(1, np.float32))


def spread(kernel, arrays, streams, launches):
    for i in range(launches):
        kernel[1, 1, streams[i % len(streams)]](array)
    for s in streams:
        s.synchronize()
