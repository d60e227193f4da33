"""What random programs (`programs.py`) found the simulated device to do otherwise than the H200; each mended since."""

from __future__ import annotations

import numpy as np
from cases._common import Capture, begin, end, fork, make_event, status, usable
from cases.streams import busy, query, ready, synchronize
from harness import case

ONES = np.ones(4, np.float32)


def copy_beside_a_capture(lab, mode, on, direction):
    """CuPy copies asynchronously and then synchronises, which is unsafe while another stream captures."""
    x, s, other = lab.zeros(), lab.stream(), lab.stream()
    stream = {"another stream": other, "the null stream": lab.cp.cuda.Stream.null}[on]
    with Capture(lab, s, mode):
        with stream:
            call = x.get if direction == "get" else lambda: x.set(ONES)
            lab.attempt(direction, call)
        status(lab, s)
    usable(lab, s)


for _mode in ("global", "threadlocal", "relaxed"):
    for _on in ("another stream", "the null stream"):
        for _direction in ("get", "set"):
            _name = f"found/copy-beside-a-capture/{_mode}/{_on.replace(' ', '-')}/{_direction}"
            case(_name, mode=_mode, on=_on, direction=_direction)(copy_beside_a_capture)


@case("found/copy-on-null-beside-a-blocking-capture")
def copy_on_null(lab):
    x, s = lab.zeros(), lab.stream(blocking=True)
    with Capture(lab, s):
        lab.attempt("get", x.get)
        status(lab, s)
    usable(lab, s)


@case("found/copy-on-an-invalidated-stream")
def copy_on_invalidated(lab):
    x, s = lab.zeros(), lab.stream()
    with Capture(lab, s):
        query(lab, s)
        with s:
            lab.attempt("get", x.get)
            lab.attempt("set", x.set, ONES)
    usable(lab, s)


def legacy_beside_a_blocking_capture(lab, call):
    """Whatever is asked of the legacy stream, the dependency that it would imply comes first."""
    s = lab.stream(blocking=True)
    with Capture(lab, s):
        if call == "begin":
            begin(lab, 0, label="begin on legacy")
        elif call == "end":
            end(lab, 0, label="end on legacy")
        elif call == "synchronize":
            synchronize(lab, 0)
        else:
            query(lab, 0)
        status(lab, s)
    usable(lab, s)


for _call in ("begin", "end", "synchronize", "query"):
    case(f"found/legacy-beside-a-blocking-capture/{_call}", call=_call)(legacy_beside_a_blocking_capture)


@case("found/wait-for-a-place-in-an-invalidated-capture")
def wait_in_invalidated(lab):
    s, side, event = lab.stream(), lab.stream(), make_event(lab)
    with Capture(lab, s):
        fork(lab, s, side)
        lab.rt("cudaEventRecord", event, side.ptr)
        query(lab, s)
        for name, stream in (("origin", s), ("fork", side), ("outside", lab.stream())):
            lab.rt("cudaStreamWaitEvent", stream.ptr, event, 0, label=name)
    usable(lab, s)


@case("found/refused-record-leaves-the-event")
def refused_record(lab):
    """A record that the legacy stream is refused: the event stays what it was."""
    s, event = lab.stream(blocking=True), make_event(lab)
    lab.rt("cudaEventRecord", event, s.ptr)
    lab.cp.cuda.Device().synchronize()
    with Capture(lab, s, "relaxed"):
        lab.rt("cudaEventRecord", event, 0, label="on legacy")
    lab.rt("cudaEventQuery", event)
    lab.rt("cudaEventSynchronize", event)


@case("found/refused-launch-does-not-hold-the-next")
def refused_launch(lab):
    x, s, blocking = lab.zeros(), lab.stream(), lab.stream(blocking=True)
    lab.warm("add")
    with Capture(lab, s, "relaxed") as capture:
        lab.launch("add", s, x, 1.0)
    executable = lab.rt("cudaGraphInstantiate", capture.graph, 0)
    with Capture(lab, blocking, "relaxed"):
        lab.rt("cudaGraphLaunch", executable, 0, label="on legacy")
    lab.rt("cudaGraphLaunch", executable, s.ptr)
    lab.rt("cudaStreamSynchronize", s.ptr)
    lab.log("x", float(x.get()[0]))


def empty_graph(lab, nodes):
    """Whether its replay on a blocking stream waits for the legacy stream."""
    x, _ = ready(lab)
    blocking = lab.stream(blocking=True)
    graph, behind = lab.rt("cudaGraphCreate", 0), []
    for _ in range(nodes):
        behind = [lab.rt("cudaGraphAddEmptyNode", graph, behind, len(behind))]
    executable = lab.rt("cudaGraphInstantiate", graph, 0)
    busy(lab, 0, x)
    lab.rt("cudaGraphLaunch", executable, blocking.ptr)
    synchronize(lab, blocking)
    query(lab, 0, "legacy stream")
    lab.cp.cuda.Device().synchronize()
    lab.log("x", float(x.get()[0]))


for _nodes in (0, 1, 2):
    case(f"found/what-an-empty-graph-orders/{_nodes}-nodes", nodes=_nodes)(empty_graph)
