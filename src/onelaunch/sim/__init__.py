"""One simulated CUDA device: memory, streams, clocks, capture and graphs, with a face for each library.

The device is a discrete-event simulation. The host has a virtual clock that moves only when an API call is charged; work
that the host submits waits in its stream until something needs its result, and then runs, as plain Python, at the virtual
time at which the device would have started it. Every duration comes from `costs`, fitted to a recording of a real GPU.
"""
