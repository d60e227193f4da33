"""The simulated device: virtual clocks, and the engine that runs each stream's work at its virtual time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from .capture import Capture, Mode
from .costs import Costs
from .errors import CUDARuntimeError
from .graph import GraphExec
from .memory import Memory, Pool
from .stream import LEGACY_HANDLE, Event, Op, RecordOp, Stream, WaitOp


@dataclass(frozen=True)
class Span:
    """Something that took time: on the host an API call, on the device an operation. Times in µs of the virtual clock."""

    name: str
    start_us: float
    end_us: float
    stream: int = 0


@dataclass
class Trace:
    """What happened while tracing was on."""

    host: list[Span] = field(default_factory=list)
    device: list[Span] = field(default_factory=list)

    def on_device(self, op: Op, start: float, end: float, stream: int = 0) -> None:
        if end > start and op.kind != "graph":
            self.device.append(Span(op.name or op.kind, start, end, stream))


class Gpu:
    """One device and its host.

    `now_us` is the host's clock: it moves only when an API call is charged or waits. Work waits in its stream until
    something asks for its result; then operations start and end in the order of virtual time, whichever stream they are in,
    and each does its work at its end.
    """

    def __init__(self, costs: Costs | None = None):
        self.costs = costs or Costs.load()
        self.now_us = 0.0
        self.memory = Memory()
        self.pool = Pool(self.memory)
        self.legacy = Stream(LEGACY_HANDLE)
        self.streams: dict[int, Stream] = {LEGACY_HANDLE: self.legacy}
        self.trace: Trace | None = None
        self.fault: str | None = None  # the name of the error that killed the context
        self.captures: list[Capture] = []
        self._handles = itertools.count(0x55_0000_1000, 0x10)
        self._active: dict[int, Stream] = {}  # streams with work queued or running
        self._coming: list[tuple[float, int, Callable[[float], None]]] = []  # a heap: what ends when
        self._order = itertools.count()
        self._error: Exception | None = None
        self.node_gap_us = 0.0  # between two nodes of a graph
        self._waited_us: float | None = 0.0  # the host's last wait, until the next launch
        self._last_was_graph = False
        self._created = 0

    # -- the host's clock ---------------------------------------------------------------------------------------------

    def charge(self, us: float, name: str = "") -> None:
        """The host spends `us` in an API call."""
        if self.trace is not None and name:
            self.trace.host.append(Span(name, self.now_us, self.now_us + us))
        self.now_us += us

    def charge_launch(self, api: str, stream: Stream, extra_us: float = 0.0) -> None:
        """The host spends what one kernel launch through `api` costs, `extra_us` more for its arguments."""
        cost = self.costs.launch[api]
        if stream.capture is not None:
            nodes = len(stream.capture.graph.nodes)
            self.charge(cost.in_capture(nodes + 1) - (cost.in_capture(nodes) if nodes else 0.0) + extra_us, "launch")
            return
        if self._waited_us is not None:
            extra_us += cost.after_wait(self._waited_us)
            self._waited_us = None
        self._last_was_graph = False
        self.charge(cost.per_launch_us + extra_us, "launch")

    # -- streams ------------------------------------------------------------------------------------------------------

    def create_stream(self, *, blocking: bool = True) -> Stream:
        stream = Stream(next(self._handles), blocking=blocking)
        self._created += 1
        if self._created == 2:
            self.node_gap_us = self.costs.second_stream_us
        self.streams[stream.handle] = stream
        return stream

    def destroy_stream(self, stream: Stream) -> None:
        """What is queued still runs. A capture that the stream is part of is lost."""
        if stream.capture is not None:
            self.abandon(stream.capture)
        self.drain(stream)
        self.streams.pop(stream.handle, None)

    def stream(self, handle: int) -> Stream:
        """The stream behind a handle. Raises cudaErrorInvalidResourceHandle for one that does not exist."""
        try:
            return self.streams[int(handle)]
        except KeyError:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle") from None

    def submit(self, stream: Stream, op: Op, ready_us: float | None = None) -> None:
        """Queues `op` (or records it as a node, in a capture); it starts at `ready_us` at the earliest.

        Blocks the host's clock while the launch queue is full.
        """
        self.raise_fault()
        if stream.capture is not None:
            stream.capture.add(stream, op)
            return
        self._order_with_legacy(stream)
        self._enqueue(stream, op, ready_us)

    def _enqueue(self, stream: Stream, op: Op, ready_us: float | None = None) -> None:
        if op.occupies_queue and len(stream.pending) + len(stream.ends) >= self.costs.queue_depth:
            self._make_room(stream)
        stream.pending.append((self.now_us + self.costs.launch_latency_us if ready_us is None else ready_us, op))
        self._active[stream.handle] = stream

    def _order_with_legacy(self, stream: Stream) -> None:
        """The legacy stream waits for every blocking stream's work so far, and they wait for its.

        While a blocking stream captures, that would make the legacy stream depend on the capture: it is refused, and the
        capture is lost (CUDA Programming Guide, cross-stream dependencies in a capture).
        """
        if not stream.blocking:
            return
        if stream is self.legacy:
            captures = [c for c in self.captures if any(s.blocking for s in c.streams)]
            for capture in captures:
                capture.valid = False
            if captures:
                raise CUDARuntimeError("cudaErrorStreamCaptureImplicit")
            others = [s for s in self.streams.values() if s.blocking and s is not stream]
        else:
            others = [self.legacy]
        for other in others:
            if other.has_work(self.now_us):
                record = RecordOp()
                self._enqueue(other, record)
                self._enqueue(stream, WaitOp(record))

    def _make_room(self, stream: Stream) -> None:
        ends, depth = stream.ends, self.costs.queue_depth
        while True:
            while ends and ends[0] <= self.now_us:
                ends.popleft()
            if len(stream.pending) + len(ends) < depth:
                return
            if ends:
                self.now_us = ends.popleft()
            elif not self._step():
                return

    # -- the device's time --------------------------------------------------------------------------------------------

    def at(self, us: float, callback: Callable[[float], None]) -> None:
        """Calls `callback(us)` when the device's time has come to `us`."""
        heapq.heappush(self._coming, (us, next(self._order), callback))

    def perform(self, op: Op, start: float, end: float, stream: int = 0) -> None:
        """Does what an operation does, at its end; what goes wrong is kept for the host's next call."""
        if self.fault is None:
            try:
                op.effect(self)
            except Exception as error:
                self._went_wrong(error, op)
        if self.trace is not None:
            self.trace.on_device(op, start, end, stream)

    def _start_of(self, stream: Stream) -> float | None:
        """When the stream's next operation would start; None while it waits for something that has no time yet."""
        ready_us, op = stream.pending[0]
        start = max(ready_us, stream.free_at + op.gap_us(self))
        if type(op) is WaitOp:
            if op.record.time_us is None:
                return None
            start = max(start, op.record.time_us)
        elif type(op) is GraphExec:
            if op.running:
                return None
            start = max(start, op.free_at)
        return start

    def _step(self, until: float = math.inf) -> bool:
        """The next thing that happens on the device, if it does by `until`: an operation starts, or one ends."""
        best: tuple[float, Stream] | None = None
        for stream in self._active.values():
            if stream.busy is None and (start := self._start_of(stream)) is not None and (best is None or start < best[0]):
                best = (start, stream)
        if self._coming and (best is None or self._coming[0][0] <= best[0]):
            if self._coming[0][0] > until:
                return False
            us, _, callback = heapq.heappop(self._coming)
            callback(us)
            return True
        if best is None or best[0] > until:
            return False
        self._begin(*best)
        return True

    def _begin(self, start: float, stream: Stream) -> None:
        _, op = stream.pending.popleft()
        if not op.occupies_queue:  # a mark takes no time
            stream.free_at = op.run(self, start)
            self._settle(stream)
            return
        stream.busy = op
        if type(op) is GraphExec:
            op.begin(self, start, lambda end: self._end(stream, end))
        else:
            self.at(start + op.duration_us(self), lambda end: self._finish(stream, op, start, end))

    def _finish(self, stream: Stream, op: Op, start: float, end: float) -> None:
        self.perform(op, start, end, stream.handle)
        self._end(stream, end)

    def _end(self, stream: Stream, end: float) -> None:
        stream.busy, stream.free_at = None, end
        stream.ends.append(end)
        self._settle(stream)

    def _settle(self, stream: Stream) -> None:
        if not stream.pending and stream.busy is None:
            self._active.pop(stream.handle, None)

    def run_until(self, us: float) -> None:
        """Lets the device's time come to `us`."""
        while self._step(us):
            pass

    def drain(self, stream: Stream) -> float:
        """Runs `stream` dry; returns when its last operation ends."""
        while stream.pending or stream.busy is not None:
            if len(self._active) == 1 and not self._coming and self.trace is None and self.fault is None:
                self._run_alone(stream)
            elif not self._step():
                raise RuntimeError(f"{stream!r} waits for something that will never happen")  # a fault of the simulator
        return stream.free_at

    def _run_alone(self, stream: Stream) -> None:
        """`drain` for the one stream that has work: the same order and times as `_step`, without the search."""
        pending, ends, free_at = stream.pending, stream.ends, stream.free_at
        try:
            while pending and self.fault is None:
                ready_us, op = pending.popleft()
                start = free_at + op.gap_us(self)
                if ready_us > start:
                    start = ready_us
                if type(op) is GraphExec and op.free_at > start:
                    start = op.free_at
                try:
                    free_at = op.run(self, start)
                except Exception as error:
                    free_at = start
                    self._went_wrong(error, op)
                if op.occupies_queue:
                    ends.append(free_at)
        finally:
            stream.free_at = free_at
            self._settle(stream)

    def _went_wrong(self, error: Exception, op: Op) -> None:
        """A CUDA error kills the context: nothing runs any more. A Python error in a kernel is the host's to hear of, once."""
        if not isinstance(error, CUDARuntimeError):
            note = "a GPU would not have got this far: Numba refuses such a kernel when it compiles it, at the launch"
            error.add_note(f"raised by the kernel {op.name!r} on the simulated device; {note}")
            self._error = self._error or error
            return
        self.fault = error.name
        for stream in self.streams.values():
            for _, dropped in stream.pending:
                if isinstance(dropped, RecordOp):
                    dropped.time_us = self.now_us
            stream.pending.clear()
            stream.busy = None
        self._active.clear()
        self._coming.clear()

    # -- synchronising ------------------------------------------------------------------------------------------------

    def synchronize(self, *streams: Stream) -> None:
        """The host waits for `streams` (all, if none are named). Raises what their work did wrong."""
        targets = streams or tuple(self.streams.values())
        self.forbid_in_capture(*streams)
        self.wait_until(max((self.drain(s) for s in targets), default=0.0))
        for stream in targets:
            stream.ends.clear()
        self.raise_fault()

    def wait_until(self, us: float) -> None:
        """The host's clock goes to `us`, and through the return from the wait."""
        started = self.now_us
        if us > self.now_us:
            self.run_until(us)
            self.now_us = us + self.costs.sync_return_us
        else:
            self.now_us += self.costs.sync_idle_us
        if self.trace is not None:
            self.trace.host.append(Span("synchronize", started, self.now_us))
        self._waited_us = self.now_us - started

    def raise_fault(self) -> None:
        """Raises the error that killed the context, if one did, again at every call, as on the device; else what a kernel
        raised, once."""
        if self.fault is not None:
            raise CUDARuntimeError(self.fault)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    # -- events -------------------------------------------------------------------------------------------------------

    def record(self, event: Event, stream: Stream) -> None:
        self.charge(self.costs.event_record_us, "event record")
        if stream.capture is not None:
            stream.capture.require_valid()
            event.captured = (stream.capture, list(stream.capture_tail))
            return
        event.captured, event.record = None, RecordOp()
        self.submit(stream, event.record)

    def wait_event(self, stream: Stream, event: Event) -> None:
        """Later work in `stream` waits for `event`; in a capture this is an edge, and may join the stream to it."""
        self.charge(self.costs.event_record_us, "event wait")
        if event.captured is not None:
            if event.captured[0].ended:
                raise CUDARuntimeError("cudaErrorCapturedEvent")
            event.captured[0].join(stream, event)
        elif stream.capture is not None:
            stream.capture.valid = False
            raise CUDARuntimeError("cudaErrorStreamCaptureIsolation")
        elif event.record is not None:
            self.submit(stream, WaitOp(event.record))

    def poll(self) -> None:
        """The host asks how far the device is: that takes a moment, in which the device works on."""
        self.charge(self.costs.sync_idle_us)
        self.run_until(self.now_us)

    def wait_for(self, event: Event) -> None:
        """The host waits until the event's last record has been reached."""
        if event.captured is not None:
            event.captured[0].valid = False
            raise CUDARuntimeError("cudaErrorCapturedEvent")
        record = event.record
        while record is not None and record.time_us is None:
            if not self._step():
                raise RuntimeError("the event waits for something that will never happen")  # a fault of the simulator
        self.wait_until(record.time_us if record else 0.0)
        self.raise_fault()

    def is_done(self, event: Event) -> bool:
        """Whether the event's last record has been reached by now. Of an event in a capture: False, and the capture is lost."""
        if event.captured is not None:
            event.captured[0].valid = False
            return False
        if event.record is None:
            return True
        self.poll()
        return self.fault is None and event.record.time_us is not None and event.record.time_us <= self.now_us

    # -- capture and graphs -------------------------------------------------------------------------------------------

    def begin_capture(self, stream: Stream, mode: Mode) -> None:
        if stream is self.legacy:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")
        if stream.capture is not None:
            raise CUDARuntimeError("cudaErrorIllegalState")
        self.charge(self.costs.begin_capture_us, "begin capture")
        self.captures.append(Capture(stream, mode))

    def end_capture(self, stream: Stream):
        """The captured graph. Raises cudaErrorIllegalState where nothing is captured, or why the capture failed."""
        capture = stream.capture
        if capture is None or capture.origin is not stream:
            raise CUDARuntimeError("cudaErrorIllegalState")
        self.captures.remove(capture)
        graph = capture.end()
        self.charge(self.costs.end_capture(len(graph.nodes)), "end capture")
        return graph

    def abandon(self, capture: Capture) -> None:
        """Ends a capture without a graph."""
        capture.leave()
        if capture in self.captures:
            self.captures.remove(capture)

    def forbid_in_capture(self, *streams: Stream) -> None:
        """For a call that waits: illegal on a capturing stream, or on the whole device while any stream captures."""
        hit = [c for c in self.captures if not streams or any(s.capture is c for s in streams)]
        self._invalidate(hit)

    def forbid_unsafe(self) -> None:
        """For a call that may synchronise under the hood (cudaMalloc): illegal while a capture is not relaxed."""
        self._invalidate([c for c in self.captures if c.mode is not Mode.RELAXED])

    @staticmethod
    def _invalidate(captures: list[Capture]) -> None:
        for capture in captures:
            capture.valid = False
        if captures:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")

    def instantiate(self, graph) -> GraphExec:
        self.charge(self.costs.instantiate(len(graph.nodes)), "instantiate")
        return GraphExec(graph)

    def launch_graph(self, executable: GraphExec, stream: Stream, caller: str = "cupy") -> None:
        """One replay. The first one uploads the graph, which takes the host longer than the start of its first node."""
        nodes = len(executable.nodes)
        if executable.launches == 0:
            ready_us = self.now_us + self.costs.first_launch_start(nodes)
            self.charge(self.costs.first_launch_host(nodes), "graph launch (first)")
        else:
            self.charge(self._replay_host_us(nodes, caller), "graph launch")
            ready_us = self.now_us + self.costs.graph_latency_us
        self.submit(stream, executable, ready_us)
        executable.launches += 1
        self._waited_us = None
        self._last_was_graph = True

    def _replay_host_us(self, nodes: int, caller: str) -> float:
        alone = self.costs.replay_host[caller](nodes)
        if self._waited_us is None:
            return max(0.1, alone - self.costs.replay_queued_saves(nodes))
        other = 0.0 if self._last_was_graph else self.costs.replay_after_kernels_us
        return alone + other + self.costs.replay_after_wait[caller](self._waited_us)

    # -- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, stream: Stream):
        """A chunk from the pool, `cudaMalloc` behind it where the pool has none (illegal in most captures)."""
        if self.captures and not self.pool.has(nbytes, stream.handle):
            self.forbid_unsafe()
        chunk, pooled = self.pool.malloc(nbytes, stream.handle)
        self.charge(self.costs.pool_alloc_us if pooled else self.costs.cuda_malloc_us)
        return chunk

    def copy(self, name: str, stream: Stream, host_us: float, effect: Callable[[], object]) -> None:
        """A synchronous copy of pageable memory: after the stream's work, and back `host_us` later."""
        self.forbid_in_capture(stream)
        self._order_with_legacy(stream)
        end = self.drain(stream)
        self.raise_fault()
        started = self.now_us
        self.now_us = max(self.now_us, end) + host_us
        self.run_until(self.now_us)
        effect()
        stream.free_at = max(stream.free_at, self.now_us - self.costs.sync_return_us)
        stream.ends.clear()
        self._waited_us = self.now_us - started
        if self.trace is not None:
            self.trace.host.append(Span(name, started, self.now_us))


_current: Gpu | None = None


def current() -> Gpu:
    """The device that the faces use."""
    global _current
    if _current is None:
        _current = Gpu()
    return _current


def swap(gpu: Gpu | None) -> Gpu | None:
    """Makes `gpu` the device that the faces use (None: a fresh one at the next use); returns the one before."""
    global _current
    before, _current = _current, gpu
    return before
