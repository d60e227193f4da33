"""Streams and events outside captures: what waits for what, queries, elapsed times, host functions, launch errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from cases._common import (
    Capture,
    cupy_mode,
    fork,
    in_thread,
    make_event,
    make_stream,
    pinned,
    read,
    shape,
    succeed,
    usable,
)
from harness import case

NAPS = 40  # so long that no host call comes after their end by chance


def busy(lab, stream, x, naps: int = NAPS) -> None:
    """Some 36 ms of work on `stream`, which adds `naps` to `x`."""
    for _ in range(naps):
        lab.launch("nap", stream, x, 1.0)


def ready(lab) -> tuple:
    """Two arrays, with the kernels loaded."""
    lab.warm("add", "affine", "copy", "nap", "index")
    return lab.zeros(), lab.zeros()


STREAMS: dict[str, Callable] = {
    "null": lambda lab: 0,
    "legacy": lambda lab: 1,
    "per-thread": lambda lab: 2,
    "blocking": lambda lab: lab.stream(blocking=True),
    "non-blocking": lambda lab: lab.stream(),
    "made-by-cudart": lambda lab: make_stream(lab, 0),
}
"""Every kind of stream."""


def query(lab, stream, label: str = "query") -> None:
    """cudaStreamQuery."""
    lab.rt("cudaStreamQuery", int(getattr(stream, "ptr", stream)), label=label)


def synchronize(lab, stream, label: str = "synchronize") -> None:
    """cudaStreamSynchronize."""
    lab.rt("cudaStreamSynchronize", int(getattr(stream, "ptr", stream)), label=label)


# -- order -------------------------------------------------------------------------------------------------------------

for _kind in STREAMS:

    @case(f"streams/order/within/{_kind}", kind=_kind)
    def order_within_a_stream(lab, kind):
        x, _ = ready(lab)
        stream = STREAMS[kind](lab)
        lab.launch("nap", stream, x, 1.0)
        lab.launch("affine", stream, x, 2.0, 3.0)
        lab.launch("affine", stream, x, 5.0, 7.0)
        synchronize(lab, stream)
        read(lab, "x", x)

    @case(f"streams/query/{_kind}", kind=_kind)
    def query_a_busy_stream(lab, kind):
        x, _ = ready(lab)
        stream = STREAMS[kind](lab)
        query(lab, stream, "idle")
        busy(lab, stream, x)
        query(lab, stream, "busy")
        synchronize(lab, stream)
        query(lab, stream, "done")
        read(lab, "x", x)


@case("streams/order/event/cudart")
def order_by_event(lab):
    x, _ = ready(lab)
    a, b = lab.stream(), lab.stream()
    lab.launch("nap", a, x, 1.0)
    fork(lab, a, b)
    lab.launch("affine", b, x, 3.0, 1.0)
    fork(lab, b, a)
    lab.launch("affine", a, x, 2.0, 5.0)
    synchronize(lab, a)
    read(lab, "x", x)


@case("streams/order/event/cupy")
def order_by_cupy_event(lab):
    x, _ = ready(lab)
    a, b = lab.stream(), lab.stream()
    lab.launch("nap", a, x, 1.0)
    event = a.record()
    b.wait_event(event)
    lab.launch("affine", b, x, 3.0, 1.0)
    b.synchronize()
    lab.log("done", [a.done, b.done, event.done])
    read(lab, "x", x)


@case("streams/order/event/chain-of-five")
def chain_of_five(lab):
    x, _ = ready(lab)
    streams = [lab.stream() for _ in range(5)]
    for i, stream in enumerate(streams):
        lab.launch("nap", stream, x, 1.0)
        lab.launch("affine", stream, x, 2.0, float(i))
        if i < 4:
            fork(lab, stream, streams[i + 1])
    synchronize(lab, streams[-1])
    for stream in streams:
        query(lab, stream)
    read(lab, "x", x)


LEGACY_ORDERS: dict[str, tuple[str, str]] = {
    f"{a}-then-{b}": (a, b)
    for a, b in (
        ("null", "blocking"), ("blocking", "null"), ("null", "per-thread"), ("per-thread", "null"), ("legacy", "null"),
        ("made-by-cudart", "legacy"),
    )
}  # fmt: skip
"""Pairs of streams that wait for each other without events."""

for _name, (_first, _second) in LEGACY_ORDERS.items():

    @case(f"streams/order/legacy/{_name}", first=_first, second=_second)
    def legacy_order(lab, first, second):
        x, _ = ready(lab)
        a, b = STREAMS[first](lab), STREAMS[second](lab)
        lab.launch("nap", a, x, 1.0)
        lab.launch("affine", b, x, 3.0, 1.0)
        synchronize(lab, b)
        read(lab, "x", x)


@case("streams/order/legacy/between-two-blocking")
def legacy_between_two_blocking(lab):
    x, _ = ready(lab)
    a, b = lab.stream(blocking=True), lab.stream(blocking=True)
    lab.launch("nap", a, x, 1.0)
    lab.launch("affine", 0, x, 3.0, 1.0)
    lab.launch("affine", b, x, 2.0, 5.0)
    synchronize(lab, b)
    read(lab, "x", x)


for _kind in ("blocking", "non-blocking", "per-thread", "made-by-cudart"):

    @case(f"streams/legacy/holds/{_kind}", kind=_kind)
    def busy_legacy_stream_holds(lab, kind):
        x, y = ready(lab)
        stream = STREAMS[kind](lab)
        busy(lab, 0, x)
        lab.launch("add", stream, y, 1.0)
        synchronize(lab, stream)
        query(lab, 0, "legacy stream")
        synchronize(lab, 0)
        read(lab, "y", y)

    @case(f"streams/legacy/waits-for/{_kind}", kind=_kind)
    def legacy_stream_waits(lab, kind):
        x, y = ready(lab)
        stream = STREAMS[kind](lab)
        busy(lab, stream, x)
        query(lab, 0, "legacy stream")
        lab.launch("add", 0, y, 1.0)
        synchronize(lab, 0)
        query(lab, stream, "the other stream")
        lab.rt("cudaDeviceSynchronize")
        query(lab, stream, "after the device")
        read(lab, "x", x)


@case("streams/legacy/synchronize-with-nothing-in-it")
def synchronize_an_empty_legacy_stream(lab):
    x, _ = ready(lab)
    blocking, other = lab.stream(blocking=True), lab.stream()
    busy(lab, blocking, x)
    synchronize(lab, other)
    query(lab, blocking, "blocking, after another's synchronize")
    synchronize(lab, 0)
    query(lab, blocking, "blocking, after the legacy stream's")


@case("streams/independent")
def independent_streams(lab):
    x, y = ready(lab)
    a, b = lab.stream(), lab.stream()
    busy(lab, a, x)
    lab.launch("add", b, y, 1.0)
    synchronize(lab, b)
    query(lab, a, "the busy one")
    lab.rt("cudaDeviceSynchronize")
    query(lab, a, "after the device")


for _name, _flags in {"default": 0, "non-blocking": 1}.items():

    @case(f"streams/flags/{_name}", flags=_flags)
    def stream_flags(lab, flags):
        lab.log("flags", lab.rt("cudaStreamGetFlags", make_stream(lab, flags)))


@case("streams/flags/special")
def flags_of_special_streams(lab):
    for ptr in (0, 1, 2):
        lab.log("flags", lab.rt("cudaStreamGetFlags", ptr))
    lab.rt("cudaStreamCreateWithFlags", 2)


@case("streams/destroy/busy")
def destroy_a_busy_stream(lab):
    x, _ = ready(lab)
    stream = make_stream(lab)
    busy(lab, stream, x)
    lab.rt("cudaStreamDestroy", stream)
    read(lab, "its work is done", x)


# -- priorities --------------------------------------------------------------------------------------------------------


@case("streams/priority/range")
def priority_range(lab):
    lab.log("range", lab.rt("cudaDeviceGetStreamPriorityRange"))


for _priority in (0, -1, -5, -100, 3):

    @case(f"streams/priority/{_priority}", priority=_priority)
    def stream_priority(lab, priority):
        stream = lab.rt("cudaStreamCreateWithPriority", 1, priority)
        lab.log("priority", lab.rt("cudaStreamGetPriority", stream))
        lab.attempt("cupy", lambda: lab.cp.cuda.Stream(non_blocking=True, priority=priority).priority, show=True)


# -- events ------------------------------------------------------------------------------------------------------------


@case("streams/event/query")
def event_query(lab):
    x, _ = ready(lab)
    s, event = lab.stream(), make_event(lab)
    lab.rt("cudaEventQuery", event, label="never recorded")
    lab.rt("cudaEventSynchronize", event, label="synchronize, never recorded")
    lab.rt("cudaEventRecord", event, s.ptr)
    lab.rt("cudaEventSynchronize", event)
    lab.rt("cudaEventQuery", event, label="reached")
    busy(lab, s, x)
    lab.rt("cudaEventQuery", event, label="reached, the stream busy again")
    lab.rt("cudaEventRecord", event, s.ptr, label="record again")
    lab.rt("cudaEventQuery", event, label="pending")
    lab.rt("cudaEventSynchronize", event)
    lab.rt("cudaEventQuery", event, label="reached again")
    query(lab, s, "stream")


@case("streams/event/cupy")
def cupy_event(lab):
    x, _ = ready(lab)
    s, event = lab.stream(), lab.cp.cuda.Event()
    lab.log("never recorded", event.done)
    busy(lab, s, x)
    lab.log("stream", s.done)
    event.record(s)
    lab.log("pending", event.done)
    event.synchronize()
    lab.log("reached", event.done)
    lab.log("stream done", s.done)


@case("streams/event/numba")
def numba_event(lab):
    x, _ = ready(lab)
    s = lab.stream()
    ns, event, later = lab.numba_stream(s), lab.cuda.event(), lab.cuda.event()
    busy(lab, s, x)
    event.record(ns)
    lab.log("pending", event.query())
    lab.launch("nap", s, x, 1.0)
    later.record(ns)
    later.synchronize()
    lab.log("reached", event.query())
    lab.log("ordered", event.elapsed_time(later) > 0)


@case("streams/event/synchronize")
def synchronize_on_an_event(lab):
    x, _ = ready(lab)
    s, event, (address, host) = lab.stream(), make_event(lab), pinned(lab)
    lab.launch("nap", s, address, 1.0)
    lab.rt("cudaEventRecord", event, s.ptr)
    busy(lab, s, x)
    lab.rt("cudaEventSynchronize", event)
    lab.log("written before the event", float(host[0]))
    query(lab, s, "stream")
    synchronize(lab, s)


@case("streams/event/of-the-legacy-stream")
def event_of_the_legacy_stream(lab):
    x, _ = ready(lab)
    blocking, event = lab.stream(blocking=True), make_event(lab)
    busy(lab, blocking, x)
    lab.rt("cudaEventRecord", event, 0)
    lab.rt("cudaEventQuery", event)
    lab.rt("cudaEventSynchronize", event)
    query(lab, blocking, "blocking stream")


@case("streams/event/wait-for-unrecorded")
def wait_for_an_unrecorded_event(lab):
    x, _ = ready(lab)
    s, event = lab.stream(), make_event(lab)
    lab.rt("cudaStreamWaitEvent", s.ptr, event, 0)
    lab.launch("add", s, x, 1.0)
    synchronize(lab, s)
    read(lab, "x", x)


@case("streams/event/recorded-twice")
def recorded_twice(lab):
    x, _ = ready(lab)
    idle, s, event = lab.stream(), lab.stream(), make_event(lab)
    busy(lab, s, x)
    lab.rt("cudaEventRecord", event, s.ptr)
    lab.rt("cudaEventQuery", event, label="behind the work")
    lab.rt("cudaEventRecord", event, idle.ptr)
    lab.rt("cudaEventSynchronize", event)
    lab.rt("cudaEventQuery", event, label="on the idle stream")
    query(lab, s, "the busy stream")


@case("streams/event/wait-keeps-what-was-recorded")
def wait_keeps_what_was_recorded(lab):
    x, y = ready(lab)
    idle, s, event = lab.stream(), lab.stream(), make_event(lab)
    waiter = lab.stream()
    lab.rt("cudaEventRecord", event, idle.ptr)
    lab.rt("cudaStreamWaitEvent", waiter.ptr, event, 0)
    busy(lab, s, x)
    lab.rt("cudaEventRecord", event, s.ptr)  # comes after the wait: does not count for it
    lab.launch("add", waiter, y, 1.0)
    synchronize(lab, waiter)
    query(lab, s, "the busy stream")
    lab.rt("cudaEventSynchronize", event)
    query(lab, s, "after the event")


@case("streams/event/destroyed-while-pending")
def destroy_a_pending_event(lab):
    x, _ = ready(lab)
    a, b, event = lab.stream(), lab.stream(), make_event(lab)
    lab.launch("nap", a, x, 1.0)
    lab.rt("cudaEventRecord", event, a.ptr)
    lab.rt("cudaStreamWaitEvent", b.ptr, event, 0)
    lab.rt("cudaEventDestroy", event)
    lab.launch("affine", b, x, 3.0, 1.0)
    synchronize(lab, b)
    read(lab, "x", x)


ELAPSED: dict[str, tuple[str, str]] = {
    "in-order": ("first", "second"),
    "reversed": ("second", "first"),
    "same": ("first", "first"),
    "start-unrecorded": ("unrecorded", "first"),
    "end-unrecorded": ("first", "unrecorded"),
    "start-untimed": ("untimed", "first"),
    "end-untimed": ("first", "untimed"),
    "start-pending": ("pending", "first"),
    "end-pending": ("first", "pending"),
    "pending-and-unrecorded": ("pending", "unrecorded"),
    "pending-and-untimed": ("pending", "untimed"),
}
"""Which events' distance is asked for."""


def elapsed_kit(lab) -> dict:
    """Events of every kind; the one that is pending has much work before it."""
    x, _ = ready(lab)
    s, untimed = lab.stream(), lab.cudart.cudaEventDisableTiming
    kit = {name: make_event(lab) for name in ("first", "second", "unrecorded", "pending")}
    kit["untimed"] = make_event(lab, untimed)
    for name in ("first", "untimed", "second"):
        succeed(lab.cudart.cudaEventRecord(kit[name], s.ptr))
        busy(lab, s, x, 2)
    lab.cp.cuda.Device().synchronize()
    busy(lab, s, x)
    succeed(lab.cudart.cudaEventRecord(kit["pending"], s.ptr))
    return kit


for _name, (_start, _end) in ELAPSED.items():

    @case(f"streams/elapsed/{_name}", start=_start, end=_end)
    def elapsed(lab, start, end):
        kit = elapsed_kit(lab)
        ms = lab.rt("cudaEventElapsedTime", kit[start], kit[end])
        if ms is not None:
            lab.log("sign", int(np.sign(ms)))
        lab.rt("cudaDeviceSynchronize")


@case("streams/elapsed/cupy")
def cupy_elapsed(lab):
    x, _ = ready(lab)
    s, event = lab.stream(), lab.cp.cuda.Event
    start, end, untimed = event(), event(), event(disable_timing=True)
    between = lab.cp.cuda.get_elapsed_time
    lab.attempt("unrecorded", between, start, end)
    start.record(s)
    busy(lab, s, x)
    end.record(s)
    lab.attempt("pending", between, start, end)
    untimed.record(s)
    s.synchronize()
    lab.log("in order", between(start, end) > 0)
    lab.attempt("untimed", between, start, untimed)


# -- host functions ----------------------------------------------------------------------------------------------------


@case("streams/host-func/order")
def host_func_order(lab):
    ready(lab)
    s, (address, host), seen = lab.stream(), pinned(lab), []

    def note(tag):
        seen.append([tag, float(host[0])])

    lab.launch("nap", s, address, 1.0)
    s.launch_host_func(note, "after the nap")
    lab.launch("affine", s, address, 3.0, 1.0)
    s.launch_host_func(note, "after the affine")
    s.launch_host_func(note, "and again")
    s.synchronize()
    lab.log("seen", seen)


@case("streams/host-func/holds-the-stream")
def host_func_writes(lab):
    ready(lab)
    s, (address, host) = lab.stream(), pinned(lab)

    def write(value):
        host[0] = value

    lab.launch("nap", s, address, 1.0)
    s.launch_host_func(write, 10.0)
    lab.launch("add", s, address, 1.0)
    s.synchronize()
    lab.log("value", float(host[0]))


@case("streams/host-func/across-streams")
def host_func_across_streams(lab):
    ready(lab)
    a, b, (address, host), seen = lab.stream(), lab.stream(), pinned(lab), []
    a.launch_host_func(lambda _: host.__setitem__(0, 5.0), None)
    b.wait_event(event := a.record())
    lab.launch("affine", b, address, 2.0, 1.0)
    b.launch_host_func(lambda _: seen.append(float(host[0])), None)
    b.synchronize()
    lab.log("seen", seen)
    lab.log("event", event.done)


@case("streams/host-func/callback")
def add_callback(lab):
    ready(lab)
    s, (address, host), seen = lab.stream(), pinned(lab), []
    lab.launch("nap", s, address, 1.0)
    lab.attempt("add", s.add_callback, lambda stream, error, tag: seen.append([int(error), tag, float(host[0])]), "first")
    lab.launch("add", s, address, 1.0)
    s.synchronize()
    lab.log("seen", seen)


@case("streams/host-func/captured")
def captured_host_func(lab):
    ready(lab)
    s, (address, host), seen = lab.stream(), pinned(lab), []
    s.begin_capture(cupy_mode(lab, "global"))
    try:
        lab.launch("add", s, address, 1.0)
        lab.attempt("host func", s.launch_host_func, lambda tag: seen.append([tag, float(host[0])]), "replayed")
        lab.launch("affine", s, address, 2.0, 0.0)
    finally:
        graph = s.end_capture()
    lab.log("graph", shape(lab, graph))
    lab.log("not yet", list(seen))
    for _ in range(3):
        graph.launch(s)
    s.synchronize()
    lab.log("seen", seen)


@case("streams/host-func/captured-alone")
def captured_host_func_alone(lab):
    s, seen = lab.stream(), []
    s.begin_capture()
    s.launch_host_func(seen.append, 7)
    s.launch_host_func(seen.append, 8)
    graph = s.end_capture()
    lab.log("graph", shape(lab, graph))
    graph.launch(s)
    graph.launch(s)
    s.synchronize()
    lab.log("seen", seen)


for _mode in ("global", "relaxed"):

    @case(f"streams/host-func/callback-in-capture/{_mode}", mode=_mode)
    def callback_in_capture(lab, mode):
        s = lab.stream()
        s.begin_capture(cupy_mode(lab, mode))
        lab.attempt("add", s.add_callback, lambda stream, error, argument: None, None)
        lab.attempt("is capturing", s.is_capturing, show=True)
        lab.attempt("end", s.end_capture)
        usable(lab, s)


# -- errors that a call returns, and the last error --------------------------------------------------------------------

FAILURES: dict[str, Callable] = {
    "out-of-memory": lambda lab: lab.rt("cudaMalloc", 1 << 50),
    "free-wild": lambda lab: lab.rt("cudaFree", 0xDEAD0000),
    "memset-null": lambda lab: lab.rt("cudaMemset", 0, 0, 16),
    "end-without-begin": lambda lab: lab.rt("cudaStreamEndCapture", make_stream(lab)),
    "bad-flags": lambda lab: lab.rt("cudaStreamCreateWithFlags", 99),
    "elapsed-unrecorded": lambda lab: lab.rt("cudaEventElapsedTime", make_event(lab), make_event(lab)),
    "null-graph": lambda lab: lab.rt("cudaGraphInstantiate", 0, 0),
}
"""Calls that fail without harm."""

for _name in FAILURES:

    @case(f"streams/last-error/{_name}", failure=_name)
    def last_error(lab, failure):
        s = lab.stream()
        lab.rt("cudaGetLastError", label="before")
        FAILURES[failure](lab)
        lab.rt("cudaDeviceSynchronize", label="a call that succeeds")
        lab.rt("cudaPeekAtLastError", label="peek")
        lab.rt("cudaPeekAtLastError", label="peek again")
        lab.rt("cudaGetLastError", label="get")
        lab.rt("cudaGetLastError", label="get again")
        usable(lab, s)


@case("streams/last-error/not-ready")
def not_ready_is_no_error(lab):
    x, _ = ready(lab)
    s = lab.stream()
    busy(lab, s, x)
    query(lab, s)
    lab.rt("cudaPeekAtLastError")
    synchronize(lab, s)


@case("streams/last-error/two-failures")
def two_failures(lab):
    lab.rt("cudaFree", 0xDEAD0000)
    lab.rt("cudaMalloc", 1 << 50)
    lab.rt("cudaGetLastError")
    lab.rt("cudaGetLastError")


@case("streams/last-error/by-thread")
def last_error_by_thread(lab):
    lab.rt("cudaMalloc", 1 << 50)
    in_thread(lab, lambda: lab.rt("cudaGetLastError", label="elsewhere"))
    lab.rt("cudaGetLastError", label="here")


# -- launches ----------------------------------------------------------------------------------------------------------

CONFIGURATIONS: dict[str, tuple] = {
    "block-1024": (1, 1024),
    "block-1025": (1, 1025),
    "block-32x32": (1, (32, 32)),
    "block-32x33": (1, (32, 33)),
    "block-1x1x64": (1, (1, 1, 64)),
    "block-1x1x65": (1, (1, 1, 65)),
    "block-1x1025": (1, (1, 1025)),
    "block-zero": (1, 0),
    "block-negative": (1, -1),
    "block-four-dimensions": (1, (1, 1, 1, 1)),
    "block-float": (1, 1.5),
    "grid-zero": (0, 1),
    "grid-zero-in-y": ((1, 0), 1),
    "grid-negative": (-1, 1),
    "grid-y-65535": ((1, 65535), 1),
    "grid-y-65536": ((1, 65536), 1),
    "grid-z-65536": ((1, 1, 65536), 1),
    "grid-x-2-31": (1 << 31, 1),
}
"""name → (grid, block)."""

for _name, (_grid, _block) in CONFIGURATIONS.items():

    @case(f"streams/launch/{_name}", grid=_grid, block=_block)
    def launch_configuration(lab, grid, block):
        x, _ = ready(lab)
        s = lab.stream()
        lab.attempt("launch", lab.launch, "copy", s, x, x, grid=grid, block=block)
        lab.rt("cudaStreamSynchronize", s.ptr)
        lab.rt("cudaGetLastError")
        usable(lab, s)

    if not _name.startswith(("grid-y-65535", "block-1024", "block-32x32", "block-1x1x64")):

        @case(f"streams/launch/in-capture/{_name}", grid=_grid, block=_block)
        def launch_configuration_in_capture(lab, grid, block):
            x, _ = ready(lab)
            s = lab.stream()
            with Capture(lab, s):
                lab.attempt("launch", lab.launch, "copy", s, x, x, grid=grid, block=block)
                lab.attempt("a good one", lab.launch, "copy", s, x, x)


@case("streams/launch/indices")
def launch_indices(lab):
    ready(lab)
    x, s = lab.zeros(12), lab.stream()
    lab.launch("index", s, x, 10, grid=3, block=4)
    read(lab, "x", x, 12)


@case("streams/launch/arguments-copied")
def arguments_are_copied(lab):
    x, _ = ready(lab)
    s, value = lab.stream(), 1.0
    busy(lab, s, x, 2)
    lab.launch("add", s, x, value)
    value = 100.0
    synchronize(lab, s)
    read(lab, "x", x)


NUMBA_ERRORS: dict[str, Callable] = {
    "no-configuration": lambda k, p: k(p, 1.0),
    "grid-only": lambda k, p: k[1](p, 1.0),
    "empty-configuration": lambda k, p: k[()](p, 1.0),
    "five-in-configuration": lambda k, p: k[1, 1, 0, 0, 0](p, 1.0),
    "too-few-arguments": lambda k, p: k[1, 1](p),
    "too-many-arguments": lambda k, p: k[1, 1](p, 1.0, 2.0),
    "text-for-a-number": lambda k, p: k[1, 1](p, "1"),
    "none-for-a-number": lambda k, p: k[1, 1](p, None),
}
"""Wrong calls of a Numba kernel over (float32*, float32)."""

for _name in NUMBA_ERRORS:

    @case(f"streams/numba/{_name}", wrong=_name)
    def numba_error(lab, wrong):
        x, _ = ready(lab)
        lab.attempt("call", NUMBA_ERRORS[wrong], lab.kernel("add"), x.data.ptr)
        usable(lab, lab.stream())


@case("streams/numba/external-stream-of-text")
def external_stream_of_text(lab):
    lab.attempt("stream", lab.cuda.external_stream, "7")


@case("streams/numba/own-stream")
def numba_own_stream(lab):
    x, _ = ready(lab)
    ns = lab.cuda.stream()
    lab.kernel("nap")[1, 1, ns](x.data.ptr, 1.0)
    lab.kernel("affine")[1, 1, ns](x.data.ptr, 3.0, 1.0)
    ns.synchronize()
    read(lab, "x", x)


@case("streams/numba/arrays")
def numba_arrays(lab):
    ready(lab)
    s = lab.stream()

    cuda = lab.cuda

    def increment(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] += i

    ns, kernel = lab.numba_stream(s), cuda.jit(increment)
    array = cuda.to_device(np.ones(6, np.float32), stream=ns)
    kernel[2, 4, ns](array)
    ns.synchronize()
    lab.log("array", array.copy_to_host())


@case("streams/numba/host-array-comes-back")
def host_array_comes_back(lab):
    ready(lab)
    host, cuda = np.ones(4, np.float32), lab.cuda

    def double(a):
        a[cuda.grid(1)] *= 2

    cuda.jit(double)[1, 4](host)
    lab.log("host", host)


@case("streams/cupy/with-and-use")
def current_stream(lab):
    a, b = lab.stream(), lab.stream()
    current = lab.cp.cuda.get_current_stream
    lab.log("at first", current() == lab.cp.cuda.Stream.null)
    with a:
        lab.log("in a", current() == a)
        with b:
            lab.log("in b", current() == b)
        lab.log("in a again", current() == a)
    b.use()
    lab.log("b in use", current() == b)


@case("streams/pinned/kernel-writes-host")
def kernel_writes_host_memory(lab):
    ready(lab)
    s, (address, host) = lab.stream(), pinned(lab, 2)
    lab.launch("nap", s, address, 1.0)
    lab.launch("copy", s, address + 4, address)
    synchronize(lab, s)
    lab.log("host", host)
