"""What the cases share: captures through cudart, graphs as shapes that can be compared, pinned memory, threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

MODES = {"global": "Global", "threadlocal": "ThreadLocal", "relaxed": "Relaxed"}
"""The name of a capture mode in the cases → in CUDA."""


def mode(lab, name: str) -> Any:
    """The `cudaStreamCaptureMode` of that name."""
    return getattr(lab.cudart.cudaStreamCaptureMode, f"cudaStreamCaptureMode{MODES[name]}")


def cupy_mode(lab, name: str) -> int:
    """The same for CuPy's `begin_capture`."""
    return getattr(lab.cp.cuda.runtime, f"streamCaptureMode{MODES[name]}")


def kind(lab, name: str) -> Any:
    """The `cudaMemcpyKind` "h2h", "h2d", "d2h", "d2d" or "default"."""
    sides = {"h": "Host", "d": "Device"}
    full = "Default" if name == "default" else f"{sides[name[0]]}To{sides[name[2]]}"
    return getattr(lab.cudart.cudaMemcpyKind, f"cudaMemcpy{full}")


def handle(stream: Any) -> int:
    """The handle of a CuPy or a cudart stream; a handle as it is."""
    return int(getattr(stream, "ptr", stream))


def succeed(result: tuple) -> Any:
    """The value or values of a cuda.bindings call that is not under test; raises if it fails."""
    error, *values = result
    if error.name != "cudaSuccess":
        raise RuntimeError(f"a step that should succeed gave {error.name}")
    return values[0] if len(values) == 1 else tuple(values)


def make_event(lab, flags: int = 0) -> Any:
    """A cudart event."""
    return succeed(lab.cudart.cudaEventCreateWithFlags(flags))


def make_stream(lab, flags: int = 1) -> Any:
    """A cudart stream (non-blocking by default) that nobody destroys."""
    return succeed(lab.cudart.cudaStreamCreateWithFlags(flags))


def in_thread(lab, function: Callable[[], Any]) -> Any:
    """Calls `function` in another thread, on device 0, and waits; raises here what it raises there."""
    value, errors = [], []

    def run() -> None:
        try:
            lab.cudart.cudaSetDevice(0)
            value.append(function())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return value[0]


# -- graphs ------------------------------------------------------------------------------------------------------------


def nodes(lab, graph: Any) -> list:
    """The nodes of a cudart graph or of a CuPy graph."""
    graph = getattr(graph, "graph", graph)
    _, count = succeed(lab.cudart.cudaGraphGetNodes(graph, 0))
    return list(succeed(lab.cudart.cudaGraphGetNodes(graph, count))[0])[:count] if count else []


def edges(lab, graph: Any) -> list[tuple]:
    """Its edges as (from, to)."""
    graph = getattr(graph, "graph", graph)
    *_, count = succeed(lab.cudart.cudaGraphGetEdges(graph, 0))
    if not count:
        return []
    sources, targets, *_ = succeed(lab.cudart.cudaGraphGetEdges(graph, count))
    return list(zip(sources, targets, strict=True))[:count]


def node_type(lab, node: Any) -> str:
    """The end of its name in `cudaGraphNodeType`: "Kernel", "Memcpy", …"""
    return succeed(lab.cudart.cudaGraphNodeGetType(node)).name.removeprefix("cudaGraphNodeType")


def shape(lab, graph: Any) -> dict:
    """What a graph looks like whatever the order of its nodes: types, number of edges, and each node's (edges in, out)."""
    found, links = nodes(lab, graph), [(int(a), int(b)) for a, b in edges(lab, graph)]
    degrees = sorted([sum(b == int(n) for _, b in links), sum(a == int(n) for a, _ in links)] for n in found)
    return {"types": sorted(node_type(lab, n) for n in found), "edges": len(links), "degrees": degrees}


def replay(lab, graph: Any, stream: Any, times: int = 1) -> Any:
    """Instantiates a cudart graph, launches it `times` times, waits; returns the executable graph."""
    executable = lab.rt("cudaGraphInstantiate", graph, 0, label="instantiate")
    for _ in range(times):
        lab.rt("cudaGraphLaunch", executable, handle(stream), label="replay")
    lab.rt("cudaStreamSynchronize", handle(stream), label="replays done")
    return executable


# -- captures ----------------------------------------------------------------------------------------------------------


def begin(lab, stream: Any, name: str = "global", label: str = "begin") -> None:
    """cudaStreamBeginCapture."""
    lab.rt("cudaStreamBeginCapture", handle(stream), mode(lab, name), label=label)


def end(lab, stream: Any, label: str = "end") -> Any:
    """cudaStreamEndCapture; notes the graph's shape; returns the graph, None after an error."""
    graph = lab.rt("cudaStreamEndCapture", handle(stream), label=label)
    if graph is not None:
        lab.attempt(f"{label}: graph", shape, lab, graph, show=True)
    return graph


class Capture:
    """`with Capture(lab, stream) as capture:` begins and always ends; `capture.graph` is then the graph, or None."""

    def __init__(self, lab, stream: Any, name: str = "global"):
        self.lab, self.stream, self.name, self.graph = lab, stream, name, None

    def __enter__(self) -> Capture:
        begin(self.lab, self.stream, self.name)
        return self

    def __exit__(self, *_: Any) -> None:
        self.graph = end(self.lab, self.stream)


def status(lab, stream: Any, label: str = "status") -> None:
    """Notes what cudaStreamIsCapturing says: the status, or the error."""
    error, value = lab.cudart.cudaStreamIsCapturing(handle(stream))
    name = value.name.removeprefix("cudaStreamCaptureStatus") if error.name == "cudaSuccess" else error.name
    lab.log(label, name)


def capture_info(lab, stream: Any, label: str = "info") -> tuple[int, Any, list] | None:
    """Notes the status and, if active, the number of dependencies; returns (id, graph, dependencies) if active."""
    error, state, ident, graph, dependencies, _, count = lab.cudart.cudaStreamGetCaptureInfo(handle(stream))
    if error.name != "cudaSuccess":
        lab.log(label, error.name)
        return None
    short = state.name.removeprefix("cudaStreamCaptureStatus")
    if short != "Active":
        lab.log(label, short)
        return None
    lab.log(label, [short, count])
    return int(ident), graph, list(dependencies or [])


def fork(lab, origin: Any, *sides: Any, label: str = "fork") -> None:
    """Records an event on `origin` and lets each side wait for it."""
    event = make_event(lab)
    lab.rt("cudaEventRecord", event, handle(origin), label=f"{label}: record")
    for side in sides:
        lab.rt("cudaStreamWaitEvent", handle(side), event, 0, label=f"{label}: wait")


def join(lab, origin: Any, *sides: Any) -> None:
    """Lets `origin` wait for each side."""
    for side in sides:
        fork(lab, side, origin, label="join")


# -- values ------------------------------------------------------------------------------------------------------------


def read(lab, label: str, array: Any, n: int = 1) -> None:
    """Notes the first `n` elements once the device is idle."""
    lab.cp.cuda.Device().synchronize()
    lab.log(label, array.get()[:n].tolist())


def usable(lab, stream: Any, label: str = "usable") -> None:
    """Notes what a kernel on `stream` writes, 2.0 if stream and context are well."""

    def work() -> float:
        x = lab.zeros()
        lab.launch("add", stream, x, 2.0)
        succeed(lab.cudart.cudaStreamSynchronize(handle(stream)))
        return float(x.get()[0])

    lab.attempt(label, work, show=True)


def pinned(lab, n: int = 4) -> tuple[int, np.ndarray]:
    """`n` pinned float32 zeros from cudaHostAlloc: the address, and the host's view."""
    address = int(succeed(lab.cudart.cudaHostAlloc(4 * n, 0)))
    view = host_view(address, n)
    view[:] = 0
    return address, view


def host_view(address: int, n: int) -> np.ndarray:
    """The host's float32 view of `n` elements there."""
    return np.ctypeslib.as_array((ctypes.c_float * n).from_address(address))
