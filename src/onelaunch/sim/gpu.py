"""The simulated device: virtual clocks, and the engine that runs each stream's work at its virtual time."""

from __future__ import annotations

import itertools
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

    `now_us` is the host's clock: it moves only when an API call is charged or waits. Work waits in its stream and runs
    when something asks for its result; `_next` always picks the operation that starts first, so effects happen in
    virtual time, whichever stream they are in.
    """

    def __init__(self, costs: Costs | None = None):
        self.costs = costs or Costs.load()
        self.now_us = 0.0
        self.memory = Memory()
        self.pool = Pool(self.memory)
        self.legacy = Stream(LEGACY_HANDLE)
        self.streams: dict[int, Stream] = {LEGACY_HANDLE: self.legacy}
        self.trace: Trace | None = None
        self.fault: BaseException | None = None
        self.captures: list[Capture] = []
        self._handles = itertools.count(0x55_0000_1000, 0x10)
        self._active: dict[int, Stream] = {}
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
        if self.fault is not None:
            raise self.fault
        if stream.capture is not None:
            stream.capture.add(stream, op)
            return
        if stream is self.legacy or (stream.blocking and (self.legacy.pending or self.legacy.free_at > self.now_us)):
            self._order_with_legacy(stream)
        self._enqueue(stream, op, ready_us)

    def _enqueue(self, stream: Stream, op: Op, ready_us: float | None = None) -> None:
        if op.occupies_queue and len(stream.pending) + len(stream.ends) >= self.costs.queue_depth:
            self._make_room(stream)
        stream.pending.append((self.now_us + self.costs.launch_latency_us if ready_us is None else ready_us, op))
        self._active[stream.handle] = stream

    def _order_with_legacy(self, stream: Stream) -> None:
        """The legacy stream waits for every blocking stream's work so far, and they wait for its."""
        others = (
            [s for s in self.streams.values() if s.blocking and s is not stream] if stream is self.legacy else [self.legacy]
        )
        for other in others:
            if other.pending or other.free_at > self.now_us:
                record = RecordOp(other)
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
            else:
                self._run_next()

    # -- the device's time --------------------------------------------------------------------------------------------

    def _start_of(self, stream: Stream) -> float | None:
        """When the stream's next operation would start; None while it waits for another stream."""
        ready_us, op = stream.pending[0]
        start = max(ready_us, stream.free_at + op.gap_us(self))
        if isinstance(op, WaitOp):
            if op.record.time_us is None:
                return None
            start = max(start, op.record.time_us)
        return start

    def _next(self) -> tuple[float, Stream] | None:
        best: tuple[float, Stream] | None = None
        for stream in self._active.values():
            start = self._start_of(stream)
            if start is not None and (best is None or start < best[0]):
                best = (start, stream)
        return best

    def _run_next(self, until: float = float("inf")) -> bool:
        """Runs the one operation that starts first, if it starts by `until`."""
        best = self._next()
        if best is None or best[0] > until:
            return False
        start, stream = best
        _, op = stream.pending.popleft()
        if not stream.pending:
            del self._active[stream.handle]
        if self.fault is not None:
            end = start  # the context is dead: nothing runs any more
        else:
            try:
                end = op.run(self, start)
            except Exception as error:
                self.fault, end = error, start
        stream.free_at = end
        if op.occupies_queue:
            stream.ends.append(end)
        if self.trace is not None:
            self.trace.on_device(op, start, end, stream.handle)
        return True

    def run_until(self, us: float) -> None:
        """Runs everything that starts by `us`."""
        while self._run_next(us):
            pass

    def drain(self, stream: Stream) -> float:
        """Runs `stream` dry; returns when its last operation ends."""
        while stream.pending:
            if len(self._active) == 1 and self.trace is None and self.fault is None:
                self._run_alone(stream)
            else:
                self._run_next()
        return stream.free_at

    def _run_alone(self, stream: Stream) -> None:
        """`drain` for the one stream that has work: the same order and times as `_run_next`, without the search."""
        pending, ends, free_at = stream.pending, stream.ends, stream.free_at
        del self._active[stream.handle]
        try:
            while pending:
                ready_us, op = pending.popleft()
                start = free_at + op.gap_us(self)
                free_at = op.run(self, start if start > ready_us else ready_us)
                if op.occupies_queue:
                    ends.append(free_at)
        except Exception as error:
            self.fault = error
            pending.clear()
        stream.free_at = free_at

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
        """Raises the error that killed the context, if one did: every later call gives it again, as on the device."""
        if self.fault is not None:
            raise self.fault

    # -- events -------------------------------------------------------------------------------------------------------

    def record(self, event: Event, stream: Stream) -> None:
        self.charge(self.costs.event_record_us, "event record")
        if stream.capture is not None:
            stream.capture.require_valid()
            event.captured = (stream.capture, list(stream.capture_tail))
            return
        event.captured, event.record = None, RecordOp(stream)
        self.submit(stream, event.record)

    def wait_event(self, stream: Stream, event: Event) -> None:
        """Later work in `stream` waits for `event`; in a capture this is an edge, and may join the stream to it."""
        self.charge(self.costs.event_record_us, "event wait")
        if event.captured is not None:
            event.captured[0].join(stream, event)
        elif stream.capture is not None:
            stream.capture.valid = False
            raise CUDARuntimeError("cudaErrorStreamCaptureIsolation")
        elif event.record is not None:
            self.submit(stream, WaitOp(event.record))

    def is_done(self, event: Event) -> bool:
        """Whether the event's last record has been reached by now."""
        if event.captured is not None:
            event.captured[0].valid = False
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")
        if event.record is None:
            return True
        self.run_until(self.now_us)
        return event.record.time_us is not None and event.record.time_us <= self.now_us

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
        chunk, pooled = self.pool.malloc(nbytes, stream.handle)
        if not pooled and self.captures:
            try:
                self.forbid_unsafe()
            except CUDARuntimeError:
                self.memory.free(chunk.address)
                raise
        self.charge(self.costs.pool_alloc_us if pooled else self.costs.cuda_malloc_us)
        return chunk

    def copy(self, name: str, stream: Stream, host_us: float, effect: Callable[[], object]) -> None:
        """A synchronous copy of pageable memory: after the stream's work, and back `host_us` later."""
        self.forbid_in_capture(stream)
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
