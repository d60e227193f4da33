"""The capture state machine: modes, invalidation, ends, forks and joins, events, the legacy stream, threads, every call."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
from cases._common import (
    MODES,
    Capture,
    begin,
    capture_info,
    cupy_mode,
    edges,
    end,
    fork,
    handle,
    in_thread,
    join,
    kind,
    make_event,
    make_stream,
    mode,
    nodes,
    pinned,
    read,
    replay,
    shape,
    status,
    succeed,
    usable,
)
from harness import case


def ready(lab) -> tuple:
    """A stream and an array, with the kernels that the cases here launch loaded."""
    lab.warm("add", "affine", "copy")
    return lab.stream(), lab.zeros()


# -- begin and end -----------------------------------------------------------------------------------------------------

for _mode in MODES:

    @case(f"capture/mode/{_mode}", capture_mode=_mode)
    def captures_and_replays(lab, capture_mode):
        s, x = ready(lab)
        status(lab, s, "before")
        with Capture(lab, s, capture_mode) as capture:
            status(lab, s)
            lab.attempt("launch", lab.launch, "add", s, x, 1.0)
        status(lab, s, "after")
        read(lab, "not run yet", x)
        replay(lab, capture.graph, s, 3)
        read(lab, "after three replays", x)

    @case(f"capture/end/other-thread/{_mode}", capture_mode=_mode)
    def end_from_another_thread(lab, capture_mode):
        s, x = ready(lab)
        begin(lab, s, capture_mode)
        lab.attempt("launch", lab.launch, "add", s, x, 1.0)
        in_thread(lab, lambda: end(lab, s, "end elsewhere"))
        status(lab, s)
        end(lab, s, "end here")
        status(lab, s, "after")
        usable(lab, s)

    @case(f"capture/thread/launch/{_mode}", capture_mode=_mode)
    def launch_from_another_thread(lab, capture_mode):
        s, x = ready(lab)
        with Capture(lab, s, capture_mode) as capture:
            lab.attempt("here", lab.launch, "add", s, x, 1.0)
            in_thread(lab, lambda: lab.attempt("elsewhere", lab.launch, "affine", s, x, 3.0, 1.0))
            in_thread(lab, lambda: status(lab, s, "status elsewhere"))
        replay(lab, capture.graph, s)
        read(lab, "x", x)

    @case(f"capture/begin/nested/{_mode}", capture_mode=_mode)
    def nested_begin(lab, capture_mode):
        s, x = ready(lab)
        with Capture(lab, s, capture_mode) as capture:
            begin(lab, s, "relaxed", "begin again")
            status(lab, s)
            lab.attempt("launch", lab.launch, "add", s, x, 1.0)
        replay(lab, capture.graph, s)
        read(lab, "x", x)


@case("capture/end/without-begin")
def end_without_begin(lab):
    s, _ = ready(lab)
    end(lab, s)
    status(lab, s)
    usable(lab, s)


@case("capture/end/twice")
def end_twice(lab):
    s, _ = ready(lab)
    with Capture(lab, s):
        pass
    end(lab, s, "end again")
    usable(lab, s)


@case("capture/end/stranger")
def end_on_a_stream_outside(lab):
    s, x = ready(lab)
    other = lab.stream()
    with Capture(lab, s):
        end(lab, other, "end other")
        status(lab, s)
        lab.attempt("launch", lab.launch, "add", s, x, 1.0)


@case("capture/end/fork")
def end_on_a_fork(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        fork(lab, s, side)
        lab.attempt("launch", lab.launch, "add", side, x, 1.0)
        end(lab, side, "end fork")
        status(lab, s)
        status(lab, side, "status of the fork")
        join(lab, s, side)
    usable(lab, side)


@case("capture/begin/on-a-fork")
def begin_on_a_fork(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        fork(lab, s, side)
        begin(lab, side, "global", "begin on the fork")
        status(lab, s)
        lab.attempt("launch", lab.launch, "add", side, x, 1.0)
        join(lab, s, side)


for _name, _handle in {"null": 0, "legacy": 1, "per-thread": 2}.items():

    @case(f"capture/begin/on-{_name}", ptr=_handle)
    def begin_on_a_default_stream(lab, ptr):
        _, x = ready(lab)
        with Capture(lab, ptr) as capture:
            status(lab, ptr)
            if ptr == 2:
                lab.attempt("launch", lab.launch, "add", ptr, x, 1.0)
        if capture.graph is not None:
            replay(lab, capture.graph, ptr)
        read(lab, "x", x)


@case("capture/cupy/null-stream")
def cupy_null_stream(lab):
    null = lab.cp.cuda.Stream.null
    lab.attempt("begin", null.begin_capture)
    lab.attempt("is capturing", null.is_capturing, show=True)
    lab.attempt("end", null.end_capture)
    usable(lab, null)


@case("capture/cupy/end-without-begin")
def cupy_end_without_begin(lab):
    s, _ = ready(lab)
    lab.attempt("is capturing", s.is_capturing, show=True)
    lab.attempt("end", s.end_capture)
    usable(lab, s)


@case("capture/cupy/default-mode")
def cupy_default_mode(lab):
    s, _ = ready(lab)
    s.begin_capture()
    lab.rt("cudaMalloc", 1024)  # what global and thread-local forbid
    lab.attempt("is capturing", s.is_capturing, show=True)
    lab.attempt("end", s.end_capture)


@case("capture/cupy/launch-on-another-stream")
def cupy_launch_elsewhere(lab):
    s, x = ready(lab)
    other = lab.stream()
    s.begin_capture()
    lab.attempt("launch", lab.launch, "affine", s, x, 2.0, 1.0)
    graph = s.end_capture()
    lab.log("graph", shape(lab, graph))
    for stream in (s, other, lab.cp.cuda.Stream.null):
        graph.launch(stream)
        stream.synchronize()
    with other:
        graph.launch()
        lab.log("x", float(x[0]))


for _name in MODES:

    @case(f"capture/cupy/array-to-numba-in-with/{_name}", capture_mode=_name)
    def array_interface_of_the_capturing_stream(lab, capture_mode):
        s, x = ready(lab)

        def increment(a):
            a[0] += 1

        kernel = lab.cuda.jit(increment)
        with s:
            s.begin_capture(cupy_mode(lab, capture_mode))
            lab.attempt("launch", lambda: kernel[1, 1, lab.numba_stream(s)](x))
            status(lab, s)
            lab.attempt("end", s.end_capture)


@case("capture/numba/forgotten-stream")
def forgotten_stream(lab):
    s, x = ready(lab)
    with Capture(lab, s):
        lab.attempt("launch", lambda: lab.kernel("add")[1, 1](x.data.ptr, 1.0))
    read(lab, "ran at once", x)


# -- invalidation: what every later call gives -------------------------------------------------------------------------

CAUSES: dict[str, Callable] = {
    "synchronize": lambda lab, s: lab.rt("cudaStreamSynchronize", s.ptr, label="cause"),
    "query": lambda lab, s: lab.rt("cudaStreamQuery", s.ptr, label="cause"),
    "malloc": lambda lab, s: lab.rt("cudaMalloc", 1024, label="cause"),
    "device-synchronize": lambda lab, s: lab.rt("cudaDeviceSynchronize", label="cause"),
    "cupy-done": lambda lab, s: lab.log("cause", s.done),
}
"""What invalidates a capture."""

for _cause in CAUSES:

    @case(f"capture/invalidated/by/{_cause}", cause=_cause)
    def invalidated_by(lab, cause):
        s, x = ready(lab)
        with Capture(lab, s):
            lab.attempt("launch", lab.launch, "add", s, x, 1.0)
            CAUSES[cause](lab, s)
            status(lab, s)
            lab.attempt("launch again", lab.launch, "add", s, x, 1.0)
        status(lab, s, "after")
        read(lab, "x", x)
        with Capture(lab, s):
            lab.attempt("a new capture", lab.launch, "add", s, x, 1.0)


THEN: dict[str, Callable] = {
    "launch": lambda lab, k: lab.attempt("then", lab.launch, "add", k.s, k.x, 1.0),
    "record": lambda lab, k: lab.rt("cudaEventRecord", k.event, k.s.ptr, label="then"),
    "wait": lambda lab, k: lab.rt("cudaStreamWaitEvent", k.s.ptr, k.event, 0, label="then"),
    "wait-for-captured": lambda lab, k: lab.rt("cudaStreamWaitEvent", k.other.ptr, k.captured, 0, label="then"),
    "is-capturing": lambda lab, k: status(lab, k.s, "then"),
    "cupy-is-capturing": lambda lab, k: lab.attempt("then", k.s.is_capturing, show=True),
    "info": lambda lab, k: capture_info(lab, k.s, "then"),
    "begin": lambda lab, k: begin(lab, k.s, "global", "then"),
    "begin-elsewhere": lambda lab, k: (begin(lab, k.other, "global", "then"), end(lab, k.other, "end elsewhere")),
    "query": lambda lab, k: lab.rt("cudaStreamQuery", k.s.ptr, label="then"),
    "query-elsewhere": lambda lab, k: lab.rt("cudaStreamQuery", k.other.ptr, label="then"),
    "synchronize": lambda lab, k: lab.rt("cudaStreamSynchronize", k.s.ptr, label="then"),
    "device-synchronize": lambda lab, k: lab.rt("cudaDeviceSynchronize", label="then"),
    "malloc": lambda lab, k: lab.rt("cudaMalloc", 1024, label="then"),
    "malloc-async": lambda lab, k: lab.rt("cudaMallocAsync", 1024, k.s.ptr, label="then"),
    "memset-async": lambda lab, k: lab.rt("cudaMemsetAsync", k.x.data.ptr, 0, 16, k.s.ptr, label="then"),
    "event-query": lambda lab, k: lab.rt("cudaEventQuery", k.event, label="then"),
    "captured-event-query": lambda lab, k: lab.rt("cudaEventQuery", k.captured, label="then"),
    "host-func": lambda lab, k: lab.attempt("then", k.s.launch_host_func, lambda _: None, None),
    "cupy-end": lambda lab, k: lab.attempt("then", k.s.end_capture),
    "launch-on-fork": lambda lab, k: lab.attempt("then", lab.launch, "add", k.side, k.x, 1.0),
    "fork-is-capturing": lambda lab, k: status(lab, k.side, "then"),
    "end-on-fork": lambda lab, k: end(lab, k.side, "then"),
    "thread-mode": lambda lab, k: lab.log(
        "then", succeed(lab.cudart.cudaThreadExchangeStreamCaptureMode(mode(lab, "relaxed"))).name
    ),
}
"""Calls after a capture was invalidated."""

for _then in THEN:

    @case(f"capture/invalidated/then/{_then}", then=_then)
    def after_invalidation(lab, then):
        s, x = ready(lab)
        k = SimpleNamespace(s=s, x=x, other=lab.stream(), side=lab.stream(), event=make_event(lab), captured=make_event(lab))
        with Capture(lab, s):
            lab.rt("cudaEventRecord", k.captured, s.ptr, label="record")
            lab.rt("cudaStreamWaitEvent", k.side.ptr, k.captured, 0, label="fork")
            lab.rt("cudaStreamQuery", s.ptr, label="cause")
            THEN[then](lab, k)
            status(lab, s)
        status(lab, s, "after")
        status(lab, k.side, "fork after")
        usable(lab, s)
        usable(lab, k.side, "fork usable")


@case("capture/invalidated/in-a-fork")
def invalidated_in_a_fork(lab):
    s, _ = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        fork(lab, s, side)
        lab.rt("cudaStreamQuery", side.ptr)
        status(lab, s)
        status(lab, side, "status of the fork")
        join(lab, s, side)
    status(lab, side, "fork after")
    usable(lab, side)


@case("capture/invalidated/one-of-two")
def one_of_two_invalidated(lab):
    s, x = ready(lab)
    other = lab.stream()
    begin(lab, s, "relaxed")
    begin(lab, other, "relaxed", "begin other")
    lab.rt("cudaStreamQuery", other.ptr)
    status(lab, s)
    status(lab, other, "status of the other")
    lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    end(lab, other, "end other")
    end(lab, s)


@case("capture/invalidated/both-by-malloc")
def both_invalidated(lab):
    s, _ = ready(lab)
    other = lab.stream()
    begin(lab, s, "global")
    begin(lab, other, "relaxed", "begin other")
    lab.rt("cudaMalloc", 1024)
    status(lab, s)
    status(lab, other, "status of the relaxed one")
    end(lab, other, "end other")
    end(lab, s)


# -- forks and joins ---------------------------------------------------------------------------------------------------


@case("capture/fork/unjoined-kernel")
def unjoined_kernel(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        fork(lab, s, side)
        lab.attempt("launch", lab.launch, "add", side, x, 1.0)
    status(lab, s, "after")
    status(lab, side, "fork after")
    usable(lab, s)
    usable(lab, side, "fork usable")


@case("capture/fork/unjoined-after-more-work")
def unjoined_after_join(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        fork(lab, s, side)
        join(lab, s, side)
        lab.attempt("after the join", lab.launch, "add", side, x, 1.0)


@case("capture/fork/only-waited")
def fork_that_only_waited(lab):
    s, _ = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        fork(lab, s, side)
        status(lab, side, "status of the fork")
    status(lab, side, "fork after")
    usable(lab, side)


@case("capture/fork/only-waited-behind-a-kernel")
def fork_that_only_waited_behind_a_kernel(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        lab.attempt("launch", lab.launch, "add", s, x, 1.0)
        fork(lab, s, side)
    status(lab, side, "fork after")


@case("capture/fork/joined-through-another")
def joined_through_another(lab):
    s, x = ready(lab)
    a, b = lab.stream(), lab.stream()
    with Capture(lab, s):
        fork(lab, s, a)
        lab.attempt("launch a", lab.launch, "add", a, x, 1.0)
        fork(lab, a, b, label="onwards")
        lab.attempt("launch b", lab.launch, "add", b, x, 1.0)
        join(lab, s, b)


for _width in (2, 3, 5):

    @case(f"capture/fork/{_width}-streams", width=_width)
    def fork_and_join(lab, width):
        s, _ = ready(lab)
        sides, xs, total = [lab.stream() for _ in range(width - 1)], [lab.zeros() for _ in range(width)], lab.zeros()
        with Capture(lab, s) as capture:
            fork(lab, s, *sides)
            for stream, x in zip((s, *sides), xs, strict=True):
                lab.attempt("launch", lab.launch, "add", stream, x, 1.0)
            join(lab, s, *sides)
            lab.attempt("after the join", lab.launch, "copy", s, total, xs[-1])
        replay(lab, capture.graph, s, 2)
        read(lab, "total", total)

    @case(f"capture/fork/{_width}-streams-behind-a-kernel", width=_width)
    def fork_behind_a_kernel(lab, width):
        s, x = ready(lab)
        sides, ys = [lab.stream() for _ in range(width - 1)], [lab.zeros() for _ in range(width - 1)]
        with Capture(lab, s) as capture:
            lab.attempt("before the fork", lab.launch, "add", s, x, 1.0)
            fork(lab, s, *sides)
            for stream, y in zip(sides, ys, strict=True):
                lab.attempt("launch", lab.launch, "copy", stream, y, x)
            join(lab, s, *sides)
            lab.attempt("after the join", lab.launch, "affine", s, x, 2.0, 1.0)
        replay(lab, capture.graph, s, 2)
        for y in ys:
            read(lab, "y", y)
        read(lab, "x", x)


@case("capture/fork/diamond")
def diamond(lab):
    s, x = ready(lab)
    side, y = lab.stream(), lab.zeros()
    with Capture(lab, s) as capture:
        lab.attempt("top", lab.launch, "add", s, x, 1.0)
        fork(lab, s, side)
        lab.attempt("left", lab.launch, "affine", s, x, 3.0, 1.0)
        lab.attempt("right", lab.launch, "add", side, y, 5.0)
        join(lab, s, side)
        lab.attempt("bottom", lab.launch, "copy", s, x, y)
    lab.log("roots", succeed(lab.cudart.cudaGraphGetRootNodes(capture.graph, 0))[1])
    replay(lab, capture.graph, s, 2)
    read(lab, "x", x)
    read(lab, "y", y)


@case("capture/fork/ping-pong")
def ping_pong(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s) as capture:
        for _ in range(3):
            lab.attempt("ping", lab.launch, "add", s, x, 1.0)
            fork(lab, s, side)
            lab.attempt("pong", lab.launch, "affine", side, x, 2.0, 0.0)
            join(lab, s, side)
    replay(lab, capture.graph, s)
    read(lab, "x", x)


@case("capture/fork/joined-twice")
def joined_twice(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        fork(lab, s, side)
        lab.attempt("launch", lab.launch, "add", side, x, 1.0)
        join(lab, s, side)
        join(lab, s, side)
        capture_info(lab, s)
        lab.attempt("after the joins", lab.launch, "add", s, x, 1.0)


@case("capture/fork/chain-makes-an-edge-redundant")
def redundant_edge(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        lab.attempt("first", lab.launch, "add", s, x, 1.0)
        fork(lab, s, side)
        lab.attempt("second", lab.launch, "add", s, x, 1.0)
        join(lab, s, side)  # the fork did nothing: its dependency is the first kernel
        capture_info(lab, s)
        lab.attempt("third", lab.launch, "add", s, x, 1.0)


@case("capture/fork/same-stream-event")
def event_of_the_same_stream(lab):
    s, x = ready(lab)
    with Capture(lab, s):
        lab.attempt("first", lab.launch, "add", s, x, 1.0)
        join(lab, s, s)
        capture_info(lab, s)
        lab.attempt("second", lab.launch, "add", s, x, 1.0)


@case("capture/fork/usable-while-the-origin-captures")
def joined_fork_still_captures(lab):
    s, x = ready(lab)
    side = lab.stream()
    with Capture(lab, s):
        fork(lab, s, side)
        lab.attempt("launch", lab.launch, "add", side, x, 1.0)
        join(lab, s, side)
        status(lab, side, "status of the joined fork")
    status(lab, side, "fork after")
    usable(lab, side)


# -- events ------------------------------------------------------------------------------------------------------------

CAPTURED: dict[str, Callable] = {
    "query": lambda lab, k: lab.rt("cudaEventQuery", k.event),
    "synchronize": lambda lab, k: lab.rt("cudaEventSynchronize", k.event),
    "elapsed": lambda lab, k: lab.rt("cudaEventElapsedTime", k.before, k.event),
    "elapsed-both": lambda lab, k: lab.rt("cudaEventElapsedTime", k.event, k.event),
    "record-outside": lambda lab, k: (
        lab.rt("cudaEventRecord", k.event, k.other.ptr),
        lab.rt("cudaEventSynchronize", k.event),
    ),
    "wait-outside": lambda lab, k: (
        lab.rt("cudaStreamWaitEvent", k.other.ptr, k.event, 0),
        status(lab, k.other, "status of the other"),
    ),
    "wait-on-null": lambda lab, k: lab.rt("cudaStreamWaitEvent", 0, k.event, 0),
    "wait-on-a-blocking-stream": lambda lab, k: (
        lab.rt("cudaStreamWaitEvent", k.blocking.ptr, k.event, 0),
        status(lab, k.blocking, "status of the blocking stream"),
    ),
    "destroy": lambda lab, k: lab.rt("cudaEventDestroy", k.event),
    "cupy-done": lambda lab, k: lab.attempt("done", lambda: k.cupy_event.done, show=True),
    "cupy-synchronize": lambda lab, k: lab.attempt("synchronize", k.cupy_event.synchronize),
}
"""What is done with an event that was last recorded in a capture."""


def event_kit(lab) -> SimpleNamespace:
    """A stream, others, and events: one recorded before, on another stream."""
    s, x = ready(lab)
    k = SimpleNamespace(s=s, x=x, other=lab.stream(), blocking=lab.stream(blocking=True))
    k.event, k.before, k.cupy_event = make_event(lab), make_event(lab), lab.cp.cuda.Event()
    succeed(lab.cudart.cudaEventRecord(k.before, k.other.ptr))
    lab.cp.cuda.Device().synchronize()
    return k


for _use in CAPTURED:

    @case(f"capture/event/in-capture/{_use}", use=_use)
    def event_used_in_capture(lab, use):
        k = event_kit(lab)
        with Capture(lab, k.s, "relaxed"):
            lab.rt("cudaEventRecord", k.event, k.s.ptr, label="record")
            lab.attempt("cupy record", k.cupy_event.record, k.s)
            CAPTURED[use](lab, k)
            status(lab, k.s)
        usable(lab, k.other)

    if _use != "destroy":

        @case(f"capture/event/after-the-end/{_use}", use=_use)
        def event_used_after_the_end(lab, use):
            k = event_kit(lab)
            with Capture(lab, k.s, "relaxed"):
                lab.rt("cudaEventRecord", k.event, k.s.ptr, label="record")
                lab.attempt("cupy record", k.cupy_event.record, k.s)
            CAPTURED[use](lab, k)
            usable(lab, k.other)


@case("capture/event/recorded-before")
def event_recorded_before(lab):
    k = event_kit(lab)
    with Capture(lab, k.s):
        lab.rt("cudaStreamWaitEvent", k.s.ptr, k.before, 0)
        status(lab, k.s)
        lab.attempt("launch", lab.launch, "add", k.s, k.x, 1.0)
    usable(lab, k.s)


@case("capture/event/recorded-before-on-the-same-stream")
def event_recorded_before_on_the_same_stream(lab):
    k = event_kit(lab)
    lab.rt("cudaEventRecord", k.event, k.s.ptr)
    with Capture(lab, k.s):
        lab.rt("cudaStreamWaitEvent", k.s.ptr, k.event, 0)
        status(lab, k.s)


@case("capture/event/never-recorded")
def event_never_recorded(lab):
    k = event_kit(lab)
    with Capture(lab, k.s):
        lab.rt("cudaStreamWaitEvent", k.s.ptr, k.event, 0)
        status(lab, k.s)
        lab.attempt("launch", lab.launch, "add", k.s, k.x, 1.0)


@case("capture/event/recorded-outside-during")
def event_recorded_outside_during(lab):
    k = event_kit(lab)
    with Capture(lab, k.s):
        lab.rt("cudaEventRecord", k.event, k.other.ptr)
        lab.rt("cudaStreamWaitEvent", k.s.ptr, k.event, 0)
        status(lab, k.s)


@case("capture/event/of-an-earlier-capture")
def event_of_an_earlier_capture(lab):
    k = event_kit(lab)
    with Capture(lab, k.s):
        lab.rt("cudaEventRecord", k.event, k.s.ptr, label="record")
    with Capture(lab, k.s):
        lab.rt("cudaStreamWaitEvent", k.s.ptr, k.event, 0)
        status(lab, k.s)


@case("capture/event/recorded-again-in-capture")
def event_recorded_again(lab):
    k = event_kit(lab)
    with Capture(lab, k.s):
        lab.rt("cudaEventRecord", k.event, k.s.ptr, label="record")
        lab.attempt("launch", lab.launch, "add", k.s, k.x, 1.0)
        lab.rt("cudaEventRecord", k.event, k.s.ptr, label="record again")
        lab.rt("cudaStreamWaitEvent", k.other.ptr, k.event, 0)
        capture_info(lab, k.other)
        lab.attempt("launch other", lab.launch, "add", k.other, k.x, 1.0)
        join(lab, k.s, k.other)


EXTERNAL: dict[str, tuple[bool, bool]] = {"record": (True, False), "wait": (False, True), "both": (True, True)}

for _name, (_record, _wait) in EXTERNAL.items():

    @case(f"capture/event/external/{_name}", record=_record, wait=_wait)
    def external_events(lab, record, wait):
        k, flags = event_kit(lab), lab.cudart
        with Capture(lab, k.s) as capture:
            lab.attempt("launch", lab.launch, "add", k.s, k.x, 1.0)
            if record:
                lab.rt("cudaEventRecordWithFlags", k.event, k.s.ptr, flags.cudaEventRecordExternal)
            if wait:
                lab.rt("cudaStreamWaitEvent", k.s.ptr, k.before, flags.cudaEventWaitExternal)
            capture_info(lab, k.s)
            lab.attempt("launch again", lab.launch, "add", k.s, k.x, 1.0)
        if record:
            lab.rt("cudaEventElapsedTime", k.before, k.event, label="elapsed before a replay")
        replay(lab, capture.graph, k.s)
        read(lab, "x", k.x)
        if record:
            lab.rt("cudaEventQuery", k.event)


@case("capture/event/external/outside-a-capture")
def external_flags_outside(lab):
    k = event_kit(lab)
    lab.rt("cudaEventRecordWithFlags", k.event, k.s.ptr, lab.cudart.cudaEventRecordExternal)
    lab.rt("cudaStreamWaitEvent", k.s.ptr, k.event, lab.cudart.cudaEventWaitExternal)
    usable(lab, k.s)


# -- several captures --------------------------------------------------------------------------------------------------


@case("capture/two/independent")
def two_independent(lab):
    s, x = ready(lab)
    other, y = lab.stream(), lab.zeros()
    begin(lab, s)
    begin(lab, other, "global", "begin other")
    first, second = capture_info(lab, s), capture_info(lab, other, "info of the other")
    lab.log("same id", first[0] == second[0])
    lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    lab.attempt("launch other", lab.launch, "add", other, y, 2.0)
    lab.attempt("launch again", lab.launch, "add", s, x, 3.0)
    graph, graph_of_other = end(lab, s), end(lab, other, "end other")
    replay(lab, graph, s)
    replay(lab, graph_of_other, s)
    read(lab, "x", x)
    read(lab, "y", y)


@case("capture/two/merge")
def merge_of_two(lab):
    s, x = ready(lab)
    other, event = lab.stream(), make_event(lab)
    begin(lab, s)
    begin(lab, other, "global", "begin other")
    lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    lab.rt("cudaEventRecord", event, s.ptr)
    lab.rt("cudaStreamWaitEvent", other.ptr, event, 0)
    status(lab, s)
    status(lab, other, "status of the other")
    end(lab, other, "end other")
    end(lab, s)
    usable(lab, s)
    usable(lab, other)


@case("capture/two/begin-while-forked-into")
def begin_then_pulled_in(lab):
    s, _ = ready(lab)
    other = lab.stream()
    begin(lab, s)
    fork(lab, s, other)
    begin(lab, other, "global", "begin other")
    status(lab, other, "status of the other")
    end(lab, other, "end other")
    end(lab, s)


@case("capture/two/threads")
def two_threads(lab):
    s, x = ready(lab)
    other, y = lab.stream(), lab.zeros()
    begin(lab, s, "threadlocal")

    def elsewhere():
        with Capture(lab, other, "threadlocal"):
            lab.attempt("launch elsewhere", lab.launch, "add", other, y, 1.0)

    in_thread(lab, elsewhere)
    lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    end(lab, s)


# -- the legacy stream -------------------------------------------------------------------------------------------------

LEGACY: dict[str, Callable] = {
    "kernel": lambda lab, k: lab.attempt("legacy", lambda: lab.kernel("add")[1, 1](k.x.data.ptr, 1.0)),
    "memcpy": lambda lab, k: lab.rt("cudaMemcpy", k.x.data.ptr, k.host.ctypes.data, 16, kind(lab, "h2d"), label="legacy"),
    "memcpy-async": lambda lab, k: lab.rt(
        "cudaMemcpyAsync", k.x.data.ptr, k.host.ctypes.data, 16, kind(lab, "h2d"), 0, label="legacy"
    ),
    "memset": lambda lab, k: lab.rt("cudaMemset", k.x.data.ptr, 0, 16, label="legacy"),
    "memset-async": lambda lab, k: lab.rt("cudaMemsetAsync", k.x.data.ptr, 0, 16, 0, label="legacy"),
    "synchronize": lambda lab, k: lab.rt("cudaStreamSynchronize", 0, label="legacy"),
    "query": lambda lab, k: lab.rt("cudaStreamQuery", 0, label="legacy"),
    "record": lambda lab, k: lab.rt("cudaEventRecord", k.event, 0, label="legacy"),
    "wait": lambda lab, k: lab.rt("cudaStreamWaitEvent", 0, k.event, 0, label="legacy"),
    "is-capturing": lambda lab, k: status(lab, 0, "legacy"),
    "info": lambda lab, k: capture_info(lab, 0, "legacy"),
    "graph-launch": lambda lab, k: lab.rt("cudaGraphLaunch", k.executable, 0, label="legacy"),
    "malloc-async": lambda lab, k: lab.rt("cudaMallocAsync", 1024, 0, label="legacy"),
    "cupy-zeros": lambda lab, k: lab.attempt("legacy", lambda: lab.cp.zeros(4, dtype=lab.cp.float32)),
    "explicit-handle-kernel": lambda lab, k: lab.attempt("legacy", lab.launch, "add", 1, k.x, 1.0),
    "per-thread-kernel": lambda lab, k: lab.attempt("per-thread", lab.launch, "add", 2, k.x, 1.0),
}
"""What the legacy stream is asked to do while another stream captures."""


def one_kernel_graph(lab, x):
    """An executable graph of one kernel, captured aside."""
    stream = lab.stream()
    succeed(lab.cudart.cudaStreamBeginCapture(stream.ptr, mode(lab, "relaxed")))
    lab.launch("add", stream, x, 1.0)
    graph = succeed(lab.cudart.cudaStreamEndCapture(stream.ptr))
    return graph, succeed(lab.cudart.cudaGraphInstantiate(graph, 0))


for _call in LEGACY:
    for _blocking in (True, False):

        @case(f"capture/legacy/{'blocking' if _blocking else 'non-blocking'}/{_call}", call=_call, blocking=_blocking)
        def legacy_stream_while_capturing(lab, call, blocking):
            _, x = ready(lab)
            s = lab.stream(blocking=blocking)
            k = SimpleNamespace(x=x, host=np.full(4, 7, np.float32), event=make_event(lab))
            _, k.executable = one_kernel_graph(lab, x)
            with Capture(lab, s, "relaxed"):
                LEGACY[call](lab, k)
                status(lab, s)
            read(lab, "x", x)
            usable(lab, s)


# -- capture info ------------------------------------------------------------------------------------------------------


@case("capture/info/fields")
def info_fields(lab):
    s, x = ready(lab)
    side = lab.stream()
    capture_info(lab, s, "before")
    with Capture(lab, s):
        first = capture_info(lab, s, "nothing yet")
        lab.attempt("launch", lab.launch, "add", s, x, 1.0)
        second = capture_info(lab, s, "one kernel")
        lab.log("depends on it", second[2] == nodes(lab, second[1]))
        fork(lab, s, side)
        third = capture_info(lab, side, "fork")
        lab.log("same id", first[0] == second[0] == third[0])
        lab.attempt("launch side", lab.launch, "add", side, x, 1.0)
        lab.attempt("launch again", lab.launch, "add", s, x, 1.0)
        join(lab, s, side)
        capture_info(lab, s, "joined")
        capture_info(lab, side, "fork once joined")
    capture_info(lab, s, "after")


@case("capture/info/new-id")
def new_id(lab):
    s, _ = ready(lab)
    ids = []
    for _ in range(3):
        with Capture(lab, s):
            ids.append(capture_info(lab, s)[0])
    lab.log("ids differ", len(set(ids)))


@case("capture/info/graph-grows")
def graph_grows(lab):
    s, x = ready(lab)
    with Capture(lab, s) as capture:
        _, graph, _ = capture_info(lab, s)
        for _ in range(3):
            lab.log("nodes", len(nodes(lab, graph)))
            lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    lab.log("the graph that end gives", int(graph) == int(capture.graph))


UPDATES: dict[str, tuple[str, bool]] = {
    "set-none": ("Set", False),
    "set-first": ("Set", True),
    "add-none": ("Add", False),
    "add-first": ("Add", True),
}

for _name, (_how, _first) in UPDATES.items():

    @case(f"capture/dependencies/{_name}", how=_how, first=_first)
    def update_dependencies(lab, how, first):
        s, x = ready(lab)
        flags = getattr(lab.cudart.cudaStreamUpdateCaptureDependenciesFlags, f"cudaStream{how}CaptureDependencies")
        with Capture(lab, s) as capture:
            lab.attempt("first", lab.launch, "add", s, x, 1.0)
            _, _, chosen = capture_info(lab, s, "after the first")
            lab.attempt("second", lab.launch, "add", s, x, 1.0)
            chosen = chosen if first else []
            lab.rt("cudaStreamUpdateCaptureDependencies", s.ptr, chosen or None, None, len(chosen), int(flags))
            capture_info(lab, s, "updated")
            lab.attempt("third", lab.launch, "add", s, x, 1.0)
        if capture.graph is not None:
            lab.log("roots", succeed(lab.cudart.cudaGraphGetRootNodes(capture.graph, 0))[1])


@case("capture/dependencies/not-capturing")
def update_outside(lab):
    s, _ = ready(lab)
    lab.rt("cudaStreamUpdateCaptureDependencies", s.ptr, None, None, 0, 0)
    usable(lab, s)


@case("capture/dependencies/node-added-by-hand")
def node_added_by_hand(lab):
    s, x = ready(lab)
    flags = lab.cudart.cudaStreamUpdateCaptureDependenciesFlags.cudaStreamSetCaptureDependencies
    with Capture(lab, s):
        lab.attempt("first", lab.launch, "add", s, x, 1.0)
        _, graph, dependencies = capture_info(lab, s)
        node = lab.rt("cudaGraphAddEmptyNode", graph, dependencies, len(dependencies))
        lab.rt("cudaStreamUpdateCaptureDependencies", s.ptr, [node], None, 1, int(flags))
        lab.attempt("second", lab.launch, "add", s, x, 1.0)


@case("capture/dependencies/node-left-out")
def node_left_out(lab):
    s, x = ready(lab)
    with Capture(lab, s):
        lab.attempt("first", lab.launch, "add", s, x, 1.0)
        _, graph, dependencies = capture_info(lab, s)
        lab.rt("cudaGraphAddEmptyNode", graph, dependencies, len(dependencies))
        lab.attempt("second", lab.launch, "add", s, x, 1.0)


# -- into an existing graph --------------------------------------------------------------------------------------------


def begin_into(lab, stream, graph, dependencies=(), label: str = "begin") -> None:
    """cudaStreamBeginCaptureToGraph, in global mode."""
    found = list(dependencies)
    arguments = (handle(stream), graph, found or None, None, len(found), mode(lab, "global"))
    lab.rt("cudaStreamBeginCaptureToGraph", *arguments, label=label)


@case("capture/to-graph/empty")
def into_an_empty_graph(lab):
    s, x = ready(lab)
    graph = lab.rt("cudaGraphCreate", 0)
    begin_into(lab, s, graph)
    capture_info(lab, s)
    lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    ended = end(lab, s)
    lab.log("the same graph", int(ended) == int(graph))
    replay(lab, graph, s)
    read(lab, "x", x)


for _depends in (True, False):

    @case(f"capture/to-graph/{'with' if _depends else 'without'}-dependencies", depends=_depends)
    def into_a_graph_with_nodes(lab, depends):
        s, x = ready(lab)
        with Capture(lab, s) as capture:
            lab.attempt("launch", lab.launch, "add", s, x, 1.0)
        y = x if depends else lab.zeros()
        begin_into(lab, s, capture.graph, nodes(lab, capture.graph) if depends else (), label="begin again")
        capture_info(lab, s)
        lab.attempt("launch again", lab.launch, "affine", s, y, 3.0, 1.0)
        ended = end(lab, s, "end again")
        lab.log("the same graph", int(ended) == int(capture.graph))
        replay(lab, capture.graph, s)
        read(lab, "x", x)
        read(lab, "y", y)


@case("capture/to-graph/invalidated")
def into_a_graph_and_invalidated(lab):
    s, x = ready(lab)
    graph = lab.rt("cudaGraphCreate", 0)
    begin_into(lab, s, graph)
    lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    lab.rt("cudaStreamQuery", s.ptr)
    end(lab, s)
    usable(lab, s)


@case("capture/to-graph/while-capturing")
def into_a_graph_while_capturing(lab):
    s, _ = ready(lab)
    graph = lab.rt("cudaGraphCreate", 0)
    with Capture(lab, s):
        begin_into(lab, s, graph, label="begin into")
        status(lab, s)


@case("capture/to-graph/on-the-null-stream")
def into_a_graph_on_the_null_stream(lab):
    ready(lab)
    begin_into(lab, 0, lab.rt("cudaGraphCreate", 0))
    status(lab, 0)


@case("capture/to-graph/unjoined")
def into_a_graph_unjoined(lab):
    s, x = ready(lab)
    side, graph = lab.stream(), lab.rt("cudaGraphCreate", 0)
    begin_into(lab, s, graph)
    fork(lab, s, side)
    lab.attempt("launch", lab.launch, "add", side, x, 1.0)
    end(lab, s)
    usable(lab, s)


@case("capture/to-graph/node-added-during")
def node_added_to_the_graph_during(lab):
    s, x = ready(lab)
    graph = lab.rt("cudaGraphCreate", 0)
    begin_into(lab, s, graph)
    lab.rt("cudaGraphAddEmptyNode", graph, None, 0)
    lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    end(lab, s)
    lab.log("edges", len(edges(lab, graph)))


# -- destroying what captures ------------------------------------------------------------------------------------------


@case("capture/destroy/origin")
def destroy_the_capturing_stream(lab):
    s, x = ready(lab)
    doomed = make_stream(lab)
    begin(lab, doomed)
    lab.attempt("launch", lab.launch, "add", doomed, x, 1.0)
    lab.rt("cudaStreamDestroy", doomed)
    lab.rt("cudaMalloc", 1024, label="malloc after")  # whether a capture still forbids it
    usable(lab, s)


@case("capture/destroy/origin-with-a-fork")
def destroy_the_origin_of_a_fork(lab):
    s, _ = ready(lab)
    doomed = make_stream(lab)
    begin(lab, doomed)
    fork(lab, doomed, s)
    lab.rt("cudaStreamDestroy", doomed)
    status(lab, s, "status of the fork")


@case("capture/destroy/fork")
def destroy_a_fork(lab):
    s, x = ready(lab)
    doomed = make_stream(lab)
    with Capture(lab, s):
        fork(lab, s, doomed)
        lab.attempt("launch", lab.launch, "add", doomed, x, 1.0)
        lab.rt("cudaStreamDestroy", doomed)
        status(lab, s)
    usable(lab, s)


@case("capture/destroy/joined-fork")
def destroy_a_joined_fork(lab):
    s, x = ready(lab)
    doomed = make_stream(lab)
    with Capture(lab, s):
        fork(lab, s, doomed)
        lab.attempt("launch", lab.launch, "add", doomed, x, 1.0)
        join(lab, s, doomed)
        lab.rt("cudaStreamDestroy", doomed)
        status(lab, s)
    usable(lab, s)


# -- every call, in every mode -----------------------------------------------------------------------------------------

CALLS: dict[str, tuple] = {
    "device-synchronize": ("cudaDeviceSynchronize",),
    "stream-synchronize": ("cudaStreamSynchronize", "s"),
    "stream-synchronize-other": ("cudaStreamSynchronize", "other"),
    "stream-query-other": ("cudaStreamQuery", "other"),
    "malloc": ("cudaMalloc", 1024),
    "free": ("cudaFree", "spare"),
    "free-null": ("cudaFree", 0),
    "host-alloc": ("cudaHostAlloc", 1024, 0),
    "malloc-host": ("cudaMallocHost", 1024),
    "free-host": ("cudaFreeHost", "spare_pinned"),
    "malloc-async": ("cudaMallocAsync", 1024, "s"),
    "malloc-async-other": ("cudaMallocAsync", 1024, "other"),
    "free-async": ("cudaFreeAsync", "pooled", "s"),
    "free-async-other": ("cudaFreeAsync", "pooled", "other"),
    "memcpy-h2d": ("cudaMemcpy", "p", "pageable", 16, "h2d"),
    "memcpy-d2h": ("cudaMemcpy", "pageable", "p", 16, "d2h"),
    "memcpy-d2d": ("cudaMemcpy", "p", "q", 16, "d2d"),
    "memcpy-h2h": ("cudaMemcpy", "pinned", "pageable", 16, "h2h"),
    "memcpy-async-h2d-pageable": ("cudaMemcpyAsync", "p", "pageable", 16, "h2d", "s"),
    "memcpy-async-h2d-pinned": ("cudaMemcpyAsync", "p", "pinned", 16, "h2d", "s"),
    "memcpy-async-d2h-pageable": ("cudaMemcpyAsync", "pageable", "p", 16, "d2h", "s"),
    "memcpy-async-d2h-pinned": ("cudaMemcpyAsync", "pinned", "p", 16, "d2h", "s"),
    "memcpy-async-d2d": ("cudaMemcpyAsync", "p", "q", 16, "d2d", "s"),
    "memcpy-async-h2h": ("cudaMemcpyAsync", "pinned", "pageable", 16, "h2h", "s"),
    "memcpy-async-default": ("cudaMemcpyAsync", "p", "pinned", 16, "default", "s"),
    "memcpy-async-nothing": ("cudaMemcpyAsync", "p", "q", 0, "d2d", "s"),
    "memcpy-async-other": ("cudaMemcpyAsync", "p", "pinned", 16, "h2d", "other"),
    "memset": ("cudaMemset", "p", 0, 16),
    "memset-async": ("cudaMemsetAsync", "p", 0, 16, "s"),
    "memset-async-nothing": ("cudaMemsetAsync", "p", 0, 0, "s"),
    "memset-async-other": ("cudaMemsetAsync", "p", 0, 16, "other"),
    "memset-2d-async": ("cudaMemset2DAsync", "p", 64, 0, 16, 4, "s"),
    "stream-create": ("cudaStreamCreate",),
    "stream-create-non-blocking": ("cudaStreamCreateWithFlags", 1),
    "stream-destroy": ("cudaStreamDestroy", "spare_stream"),
    "stream-flags": ("cudaStreamGetFlags", "s"),
    "stream-priority": ("cudaStreamGetPriority", "s"),
    "event-create": ("cudaEventCreate",),
    "event-destroy": ("cudaEventDestroy", "spare_event"),
    "event-query": ("cudaEventQuery", "event"),
    "event-synchronize": ("cudaEventSynchronize", "event"),
    "event-elapsed": ("cudaEventElapsedTime", "event", "event"),
    "event-record": ("cudaEventRecord", "spare_event", "s"),
    "event-record-other": ("cudaEventRecord", "spare_event", "other"),
    "wait-event-other": ("cudaStreamWaitEvent", "other", "event", 0),
    "graph-create": ("cudaGraphCreate", 0),
    "graph-destroy": ("cudaGraphDestroy", "spare_graph"),
    "graph-instantiate": ("cudaGraphInstantiate", "graph", 0),
    "graph-exec-destroy": ("cudaGraphExecDestroy", "spare_executable"),
    "graph-launch": ("cudaGraphLaunch", "executable", "s"),
    "graph-launch-other": ("cudaGraphLaunch", "executable", "other"),
    "graph-upload": ("cudaGraphUpload", "executable", "s"),
    "graph-upload-other": ("cudaGraphUpload", "executable", "other"),
    "mem-get-info": ("cudaMemGetInfo",),
    "pointer-attributes": ("cudaPointerGetAttributes", "p"),
    "get-last-error": ("cudaGetLastError",),
    "set-device": ("cudaSetDevice", 0),
}
"""A runtime call: a name is an argument in the kit (`call_kit`), a kind of copy, or as it stands."""


def call_kit(lab) -> dict:
    """What the calls need, all of it made and idle before the capture."""
    rt, (s, x) = lab.cudart, ready(lab)
    other = lab.stream()
    kit = {"s": s.ptr, "other": other.ptr}
    kit |= {name: succeed(rt.cudaMalloc(1024)) for name in ("p", "q", "spare")}
    kit |= {name: make_event(lab) for name in ("event", "spare_event")}
    for name in ("p", "q"):
        succeed(rt.cudaMemset(kit[name], 0, 1024))
    kit["spare_stream"] = make_stream(lab)
    kit["pinned"], kit["spare_pinned"] = pinned(lab)[0], pinned(lab)[0]
    kit["pooled"] = succeed(rt.cudaMallocAsync(1024, other.ptr))
    kit["array"] = np.zeros(4, np.float32)
    kit["pageable"] = kit["array"].ctypes.data
    kit["graph"], kit["executable"] = one_kernel_graph(lab, x)
    kit["spare_graph"], kit["spare_executable"] = one_kernel_graph(lab, x)
    succeed(rt.cudaEventRecord(kit["event"], other.ptr))
    lab.cp.cuda.Device().synchronize()
    kit |= {name: kind(lab, name) for name in ("h2h", "h2d", "d2h", "d2d", "default")}
    return kit


def make_call(lab, kit: dict, call: str) -> None:
    """Makes the call, and notes the error's name."""
    name, *arguments = CALLS[call]
    lab.rt(name, *(kit[a] if isinstance(a, str) else a for a in arguments), label="call")


for _mode in MODES:
    for _call in CALLS:

        @case(f"capture/call/{_mode}/{_call}", call=_call, capture_mode=_mode)
        def call_in_capture(lab, call, capture_mode):
            kit = call_kit(lab)
            with Capture(lab, kit["s"], capture_mode):
                make_call(lab, kit, call)
                status(lab, kit["s"])
            usable(lab, kit["s"])


# -- unsafe calls and threads ------------------------------------------------------------------------------------------

UNSAFE = (
    "malloc", "free", "memcpy-h2d", "memcpy-async-h2d-pinned", "memset", "host-alloc", "device-synchronize",
    "stream-synchronize", "stream-synchronize-other", "stream-query-other", "stream-create", "event-create", "event-query",
    "graph-instantiate", "graph-launch-other",
)  # fmt: skip
"""Calls made in another thread while this one captures."""

for _mode in MODES:
    for _call in UNSAFE:

        @case(f"capture/thread/call/{_mode}/{_call}", call=_call, capture_mode=_mode)
        def call_in_another_thread(lab, call, capture_mode):
            kit = call_kit(lab)
            with Capture(lab, kit["s"], capture_mode):
                in_thread(lab, lambda: make_call(lab, kit, call))
                status(lab, kit["s"])

    for _thread_mode in MODES:
        for _where in ("here", "elsewhere"):

            @case(f"capture/thread/exchanged/{_mode}/{_thread_mode}-{_where}", modes=(_mode, _thread_mode), where=_where)
            def malloc_in_a_thread_of_a_mode(lab, modes, where):
                (capture_mode, thread_mode), kit = modes, call_kit(lab)

                def call():
                    swap = lab.cudart.cudaThreadExchangeStreamCaptureMode
                    before = succeed(swap(mode(lab, thread_mode)))
                    lab.log("thread mode before", before.name)
                    make_call(lab, kit, "malloc")
                    lab.log("thread mode after", succeed(swap(before)).name)

                with Capture(lab, kit["s"], capture_mode):
                    call() if where == "here" else in_thread(lab, call)
                    status(lab, kit["s"])


@case("capture/thread/exchanged/sequence")
def exchange_sequence(lab):
    ready(lab)
    for name in ("threadlocal", "relaxed", "relaxed", "global"):
        lab.log(f"before {name}", succeed(lab.cudart.cudaThreadExchangeStreamCaptureMode(mode(lab, name))).name)
    swap = lab.cudart.cudaThreadExchangeStreamCaptureMode
    lab.log("elsewhere", in_thread(lab, lambda: succeed(swap(mode(lab, "global"))).name))


@case("capture/thread/exchanged/before-the-begin")
def exchanged_before_the_begin(lab):
    kit = call_kit(lab)
    lab.log("before", succeed(lab.cudart.cudaThreadExchangeStreamCaptureMode(mode(lab, "relaxed"))).name)
    with Capture(lab, kit["s"], "global"):
        make_call(lab, kit, "malloc")
        status(lab, kit["s"])


@case("capture/thread/fork-elsewhere")
def fork_in_another_thread(lab):
    s, x = ready(lab)
    side, y = lab.stream(), lab.zeros()

    def elsewhere():
        fork(lab, s, side)
        lab.attempt("launch elsewhere", lab.launch, "add", side, y, 1.0)
        join(lab, s, side)

    with Capture(lab, s) as capture:
        lab.attempt("launch", lab.launch, "add", s, x, 1.0)
        in_thread(lab, elsewhere)
        lab.attempt("launch again", lab.launch, "copy", s, x, y)
    replay(lab, capture.graph, s)
    read(lab, "x", x)


# -- what nodes a captured call becomes, and what replays do -----------------------------------------------------------


@case("capture/replay/copies-and-sets")
def copies_and_sets(lab):
    s, x = ready(lab)
    (address, host), y = pinned(lab), lab.zeros()
    with Capture(lab, s) as capture:
        lab.rt("cudaMemcpyAsync", x.data.ptr, address, 16, kind(lab, "h2d"), s.ptr)
        lab.attempt("launch", lab.launch, "affine", s, x, 2.0, 1.0)
        lab.rt("cudaMemcpyAsync", y.data.ptr, x.data.ptr, 16, kind(lab, "d2d"), s.ptr)
        lab.rt("cudaMemsetAsync", x.data.ptr, 0, 16, s.ptr)
    executable = lab.rt("cudaGraphInstantiate", capture.graph, 0)
    for value in (1.0, 10.0):
        host[0] = value
        lab.rt("cudaGraphLaunch", executable, s.ptr, label="replay")
        read(lab, "y", y)
        read(lab, "x", x)


@case("capture/replay/graph-of-graphs")
def captured_graph_launch(lab):
    s, x = ready(lab)
    _, executable = one_kernel_graph(lab, x)
    with Capture(lab, s) as capture:
        lab.rt("cudaGraphLaunch", executable, s.ptr)
        lab.attempt("launch", lab.launch, "affine", s, x, 3.0, 0.0)
        lab.rt("cudaGraphLaunch", executable, s.ptr)
    if capture.graph is not None:
        replay(lab, capture.graph, s, 2)
    read(lab, "x", x)


@case("capture/replay/argument-baked")
def argument_baked(lab):
    s, x = ready(lab)
    value = 1.0
    with Capture(lab, s) as capture:
        lab.attempt("launch", lab.launch, "add", s, x, value)
        value = 100.0
    replay(lab, capture.graph, s, 2)
    read(lab, "x", x)


@case("capture/replay/empty-graph")
def empty_graph(lab):
    s, _ = ready(lab)
    with Capture(lab, s) as capture:
        pass
    replay(lab, capture.graph, s, 2)
    usable(lab, s)


@case("capture/replay/graph-destroyed")
def graph_destroyed_before_the_replay(lab):
    s, x = ready(lab)
    with Capture(lab, s) as capture:
        lab.attempt("launch", lab.launch, "add", s, x, 1.0)
    executable = lab.rt("cudaGraphInstantiate", capture.graph, 0)
    lab.rt("cudaGraphDestroy", capture.graph)
    lab.rt("cudaGraphLaunch", executable, s.ptr)
    read(lab, "x", x)
