"""What each call does inside a capture: 29 operations, three modes, cold and warm (grown from `h200-capture-legality.json`).

Cold: nothing of the operation has been done before. Warm: it was done once on that stream outside the capture, so kernels are
loaded and the pool holds memory.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
from cases._common import MODES, cupy_mode, nodes, usable
from harness import case


def _array_kernel(lab):
    def increment(x):
        x[0] += 1

    return lab.cuda.jit(increment)


NEEDS: dict[str, Callable] = {
    "d": lambda lab: lab.zeros(4),
    "ints": lambda lab: lab.zeros(1000, "int32"),
    "reals": lambda lab: lab.zeros(64),
    "matrix": lambda lab: lab.zeros(1024).reshape(32, 32),
    "side": lambda lab: lab.stream(),
    "increment": _array_kernel,
    "events": lambda lab: (lab.cp.cuda.Event(), lab.cp.cuda.Event()),
}
"""What an operation finds in its scratch, made before the capture."""

OPERATIONS: dict[str, tuple[Callable, tuple[str, ...]]] = {}


def operation(name: str, *needs: str) -> Callable:
    """Registers a function of (lab, stream, scratch)."""

    def register(function: Callable) -> Callable:
        OPERATIONS[name] = function, needs
        return function

    return register


@operation("kernel", "d")
def kernel(lab, stream, scratch):
    lab.launch("add", stream, scratch.d, 1.0)


@operation("cupy-array-to-numba", "d", "increment")
def cupy_array(lab, stream, scratch):
    scratch.increment[1, 1, lab.numba_stream(stream)](scratch.d)


@operation("numpy-array-to-numba", "increment")
def numpy_array(lab, stream, scratch):
    scratch.increment[1, 1, lab.numba_stream(stream)](np.zeros(4, np.float32))


@operation("stream-synchronize")
def stream_synchronize(lab, stream, scratch):
    stream.synchronize()


@operation("device-synchronize")
def device_synchronize(lab, stream, scratch):
    lab.cp.cuda.Device().synchronize()


@operation("stream-done")
def stream_done(lab, stream, scratch):
    return stream.done


@operation("float-of-element", "d")
def float_of_element(lab, stream, scratch):
    with stream:
        return float(scratch.d[0])


@operation("empty-big")
def empty_big(lab, stream, scratch):
    with stream:
        return lab.cp.empty(1 << 22, dtype=lab.cp.float32)


@operation("runtime-malloc")
def runtime_malloc(lab, stream, scratch):
    return lab.cp.cuda.runtime.malloc(1024)


@operation("malloc-async")
def malloc_async(lab, stream, scratch):
    return lab.cp.cuda.runtime.mallocAsync(1024, stream.ptr)


@operation("add-out", "d")
def add_out(lab, stream, scratch):
    with stream:
        return lab.cp.add(scratch.d, 1, out=scratch.d)


@operation("times-two", "d")
def times_two(lab, stream, scratch):
    with stream:
        return scratch.d * 2


@operation("matmul", "matrix")
def matmul(lab, stream, scratch):
    with stream:
        return scratch.matrix @ scratch.matrix


@operation("sum", "ints")
def total(lab, stream, scratch):
    with stream:
        return scratch.ints.sum()


@operation("sort", "ints")
def sort(lab, stream, scratch):
    with stream:
        return lab.cp.sort(scratch.ints)


@operation("fft", "reals")
def fft(lab, stream, scratch):
    with stream:
        return lab.cp.fft.fft(scratch.reals)


@operation("random")
def random(lab, stream, scratch):
    with stream:
        return lab.cp.random.random(4)


@operation("rawkernel-jit", "d")
def rawkernel_jit(lab, stream, scratch):
    source = 'extern "C" __global__ void add_one(float* x) { x[0] += 1; }'
    lab.cp.RawKernel(source, "add_one")((1,), (1,), (scratch.d,), stream=stream)


@operation("numba-jit", "d")
def numba_jit(lab, stream, scratch):
    def subtract(p, value):
        p[0] -= value

    types = lab.types
    fresh = lab.cuda.jit(types.void(types.CPointer(types.float32), types.float32))(subtract)
    fresh[1, 1, lab.numba_stream(stream)](scratch.d.data.ptr, 1.0)


@operation("numba-synchronize")
def numba_synchronize(lab, stream, scratch):
    lab.cuda.synchronize()


@operation("numba-to-device")
def numba_to_device(lab, stream, scratch):
    return lab.cuda.to_device(np.zeros(4, np.float32), stream=lab.numba_stream(stream))


@operation("numba-copy-to-host", "d")
def numba_copy_to_host(lab, stream, scratch):
    return lab.cuda.as_cuda_array(scratch.d, sync=False).copy_to_host(stream=lab.numba_stream(stream))


@operation("events", "events")
def events(lab, stream, scratch):
    for event in scratch.events:
        event.record(stream)


@operation("legacy-kernel", "d")
def legacy_kernel(lab, stream, scratch):
    lab.kernel("add")[1, 1](scratch.d.data.ptr, 1.0)


@operation("host-func")
def host_func(lab, stream, scratch):
    stream.launch_host_func(lambda _: None, None)


@operation("nothing")
def nothing(lab, stream, scratch):
    pass


@operation("fork", "d", "side", "events")
def unjoined_fork(lab, stream, scratch):
    scratch.side.wait_event(stream.record(scratch.events[0]))
    lab.launch("add", scratch.side, scratch.d, 1.0)


@operation("fork-join", "d", "side", "events")
def fork_join(lab, stream, scratch):
    there, back = scratch.events
    lab.launch("add", stream, scratch.d, 1.0)
    scratch.side.wait_event(stream.record(there))
    lab.launch("add", scratch.side, scratch.d, 1.0)
    stream.wait_event(scratch.side.record(back))
    lab.launch("add", stream, scratch.d, 1.0)


@operation("begin")
def begin(lab, stream, scratch):
    stream.begin_capture(scratch.mode)


def scratch_of(lab, operation: str, mode: str) -> SimpleNamespace:
    """What an operation works on, made before the capture."""
    return SimpleNamespace(mode=cupy_mode(lab, mode), **{n: NEEDS[n](lab) for n in OPERATIONS[operation][1]})


def warm_up(lab, stream, scratch, function: Callable, ends: bool) -> None:
    """Once outside a capture; what begins one is ended again."""
    lab.attempt("warm", function, lab, stream, scratch)
    if ends:
        stream.end_capture()
    lab.cp.cuda.Device().synchronize()


def run(lab, operation: str, mode: str, warm: bool) -> None:
    """Captures the one operation, and says what became of it, of the capture, the stream and the context."""
    function, _ = OPERATIONS[operation]
    stream = lab.stream()
    lab.kernel("add")
    lab.numba_stream(stream)  # Numba finds its context
    scratch = scratch_of(lab, operation, mode)
    if warm:
        warm_up(lab, stream, scratch, function, ends=operation == "begin")
    stream.begin_capture(scratch.mode)
    result = graph = None
    try:
        result = lab.attempt("operation", function, lab, stream, scratch)
        lab.log("gives", result if result is None or isinstance(result, bool) else type(result).__name__)
        lab.attempt("is capturing", stream.is_capturing, show=True)
    finally:
        graph = lab.attempt("end", stream.end_capture)
    if graph is not None:
        lab.log("nodes", len(nodes(lab, graph)))
    lab.attempt("context", lab.cp.cuda.Device().synchronize)
    if hasattr(scratch, "d"):  # what ran at once, not captured
        lab.attempt("d", lambda: float(scratch.d.get()[0]), show=True)
    usable(lab, stream)


for _mode in MODES:
    for _warm in (False, True):
        for _name in OPERATIONS:
            case(f"legality/{_mode}/{'warm' if _warm else 'cold'}/{_name}", operation=_name, mode=_mode, warm=_warm)(run)
