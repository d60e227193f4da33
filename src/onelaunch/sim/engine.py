"""The engine of the simulated device: two virtual clocks, and streams whose work runs at its virtual time."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from .capture import Capture, Mode
from .costs import Costs
from .errors import CUDARuntimeError
from .graph import Replay
from .memory import Memory, Pool
from .ops import Condition, CopyOp
from .stream import LEGACY_HANDLE, LEGACY_HANDLES, PER_THREAD_HANDLE, NodeAt, Op, RecordOp, Stream, WaitOp


@dataclass(frozen=True)
class Span:
    """Something that took time: on the host an API call, on the device an operation. Times in µs of one clock for both.

    On the device, `stream` is a number for the stream, and an operation that a graph launched has what stands for the graph
    and for the node, in the order of the nodes; they mean something within one trace only.
    """

    name: str
    start_us: float
    end_us: float
    stream: int = 0
    kind: str = ""
    graph: int | None = None
    node: int | tuple[int, ...] | None = None


@dataclass
class Trace:
    """What happened while tracing was on. `source` says who saw it, `note` what it could not see; `returned_us` is when the
    traced function returned."""

    host: list[Span] = field(default_factory=list)
    device: list[Span] = field(default_factory=list)
    source: str = ""
    note: str = ""
    returned_us: float = math.inf
    _graphs: dict[object, int] = field(default_factory=dict, repr=False)

    def on_device(self, op: Op, start: float, end: float, place: int | NodeAt = 0) -> None:
        moves = type(op) is CopyOp or op.kind == "memcpy"  # a copy is there even where it takes the device no time
        if op.kind == "graph" or not (end > start or moves):
            return
        stream, graph, node = (place, None, None) if isinstance(place, int) else place
        if graph is not None:
            graph = self._graphs.setdefault(graph, len(self._graphs))
        name = op.name or op.kind
        if type(op) is CopyOp:
            target, source = ("D" if side else "H" for side in op.sides)
            name = f"memcpy {source}to{target}"
        spans = self.host if op.kind == "host" else self.device
        spans.append(Span(name, start, end, stream, op.kind, graph, node))


class ThreadState(threading.local):
    """What each host thread has of its own."""

    def __init__(self) -> None:
        self.token = object()  # the thread itself: Python gives its number to another thread later
        self.default: Stream | None = None  # its own default stream (cudaStreamPerThread)
        self.mode = Mode.GLOBAL  # how its unsafe calls look upon captures
        self.last_error = ""  # the name of the last error that a runtime call returned
        self.streams: list = []  # CuPy's current streams, the innermost last


class Engine:
    """The clocks of one device and of its host, and the streams between them.

    `now_us` is the host's clock: it moves only when an API call is charged or waits. Work waits in its stream until
    something asks for its result; then operations start and end in the order of virtual time, whichever stream they are in,
    and each does its work at its end.
    """

    def __init__(self, costs: Costs | None = None):
        self.costs = costs or Costs.load()
        self.now_us = 0.0
        self.memory = Memory()
        self.pool = Pool(self.memory, self.wait_for_device)
        self.legacy = Stream(LEGACY_HANDLE)
        self.streams: dict[int, Stream] = {LEGACY_HANDLE: self.legacy}
        self.trace: Trace | None = None
        self.fault: str | None = None  # the name of the error that killed the context
        self.captures: list[Capture] = []
        self.thread = ThreadState()
        self._handles = itertools.count(0x55_0000_1000, 0x10)
        self._active: dict[int, Stream] = {}  # streams with work queued or running
        self._coming: list[tuple[float, int, Callable[[float], None]]] = []  # a heap: what ends when
        self._order = itertools.count()
        self._error: Exception | None = None
        self.node_gap_us = 0.0  # between two nodes of a graph
        self._waited_us: float | None = 0.0  # the host's last wait, until the next launch
        self._last_was_graph = False
        self._created = 0
        self.in_host_function = False
        self.conditions: dict[int, Condition] = {}  # of the graph whose kernel is running

    # -- the host's clock ---------------------------------------------------------------------------------------------

    def charge(self, us: float, name: str = "") -> None:
        """The host spends `us` in an API call."""
        if self.trace is not None and name:
            self.trace.host.append(Span(name, self.now_us, self.now_us + us))
        self.now_us += us

    def charge_call(self, name: str, nodes: int | None = None) -> None:
        """The host spends what the call of this name costs (`Costs.calls`); on a graph of `nodes`, `Costs.graph_calls`."""
        self.charge(self.costs.calls[name] if nodes is None else self.costs.graph_calls[name](nodes), name)

    def charge_node(self, verb: str, kind: str) -> None:
        """The host adds or updates a node ("add", "update"); a kind that was not measured costs what the cheapest one does."""
        name = f"{verb} {kind} node"
        self.charge_call(name if name in self.costs.calls else {"add": "add memset node", "update": "update memcpy node"}[verb])

    def charge_launch(self, api: str, stream: Stream, extra_us: float = 0.0) -> None:
        """The host spends what one kernel launch through `api` costs, `extra_us` more for its arguments."""
        cost = self.costs.launch[api]
        if stream.capture is not None:
            nodes = len(stream.capture.graph.nodes)
            self.charge(cost.in_capture(nodes + 1) - (cost.in_capture(nodes) if nodes else 0.0) + extra_us, "captured launch")
            return
        if self._waited_us is not None:
            extra_us += cost.after_wait(self._waited_us)
            self._waited_us = None
        self._last_was_graph = False
        self.charge(cost.per_launch_us + extra_us, "launch")

    # -- streams ------------------------------------------------------------------------------------------------------

    def create_stream(self, *, blocking: bool = True, priority: int = 0) -> Stream:
        self.raise_fault()
        stream = Stream(next(self._handles), blocking=blocking, priority=priority)
        self._created += 1
        if self._created == 2:
            self.node_gap_us = self.costs.second_stream_us
        self.streams[stream.handle] = stream
        return stream

    def destroy_stream(self, stream: Stream) -> None:
        """What is queued still runs, and nobody waits for it. A capture that began here is lost; one that the stream only
        joined goes on."""
        capture = stream.capture
        if capture is not None and capture.origin is stream:
            self.abandon(capture)
        elif capture is not None:
            capture.streams.remove(stream)
        stream.closed = True
        self._settle(stream)

    def stream(self, handle: int) -> Stream:
        """The stream behind a handle. Raises cudaErrorInvalidResourceHandle for one that does not exist."""
        handle = int(handle)
        if handle in LEGACY_HANDLES:
            return self.legacy
        if handle == PER_THREAD_HANDLE:
            return self._per_thread()
        stream = self.streams.get(handle)
        if stream is None or stream.closed:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle")
        return stream

    def _per_thread(self) -> Stream:
        """This thread's own default stream, a blocking one."""
        if self.thread.default is None:
            self.thread.default = Stream(next(self._handles))
            self.streams[self.thread.default.handle] = self.thread.default
        return self.thread.default

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
            self.forbid_implicit()
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
            elif self._is_alone(stream):
                self._run_alone(stream, 1)
            elif not self._step():
                return

    # -- the device's time --------------------------------------------------------------------------------------------

    def at(self, us: float, callback: Callable[[float], None]) -> None:
        """Calls `callback(us)` when the device's time has come to `us`."""
        heapq.heappush(self._coming, (us, next(self._order), callback))

    def perform(self, op: Op, start: float, end: float, place: int | NodeAt = 0) -> None:
        """Does what an operation does, at its end; what goes wrong is kept for the host's next call. `place` is the stream's
        handle, or in a graph the node."""
        if self.fault is None:
            try:
                op.effect(self)
            except Exception as error:
                self.went_wrong(error, op)
        if self.trace is not None:
            self.trace.on_device(op, start, end, place)

    def _start_of(self, stream: Stream) -> float | None:
        """When the stream's next operation would start; None while it waits for something that has no time yet."""
        ready_us, op = stream.pending[0]
        start = max(ready_us, stream.free_at + op.gap_us(self))
        if type(op) is WaitOp:
            if op.record.time_us is None:
                return None
            start = max(start, op.record.time_us)
        elif type(op) is Replay:
            executable = op.executable
            if executable.running or executable.queue[0] != stream.handle:
                return None
            start = max(start, executable.free_at)
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
        op.start(self, start, lambda end: self._end(stream, end), stream.handle)

    def _end(self, stream: Stream, end: float) -> None:
        stream.busy, stream.free_at = None, end
        stream.ends.append(end)
        self._settle(stream)

    def _settle(self, stream: Stream) -> None:
        if not stream.pending and stream.busy is None:
            self._active.pop(stream.handle, None)
            if stream.closed:
                self.streams.pop(stream.handle, None)

    def run_until(self, us: float) -> None:
        """Lets the device's time come to `us`."""
        while self._step(us):
            pass

    def drain(self, stream: Stream) -> float:
        """Runs `stream` dry; returns when its last operation ends."""
        while stream.pending or stream.busy is not None:
            if self._is_alone(stream):
                self._run_alone(stream)
            elif not self._step():
                raise RuntimeError(f"{stream!r} waits for something that will never happen")  # a fault of the simulator
        return stream.free_at

    def _is_alone(self, stream: Stream) -> bool:
        """Whether nothing else has work, and nobody looks on."""
        alone = len(self._active) == 1 and not self._coming and stream.busy is None and stream.pending
        return bool(alone) and self.trace is None and self.fault is None

    def _run_alone(self, stream: Stream, count: int | None = None) -> None:
        """`drain` for the one stream that has work (or `count` operations of it): the same order and times as `_step`, without
        the search."""
        pending, ends, free_at = stream.pending, stream.ends, stream.free_at
        left = len(pending) if count is None else count
        try:
            while left and pending and self.fault is None:
                left -= 1
                ready_us, op = pending.popleft()
                start = free_at + op.gap_us(self)
                if ready_us > start:
                    start = ready_us
                if type(op) is Replay and op.executable.free_at > start:
                    start = op.executable.free_at
                try:
                    free_at = op.run(self, start)
                except Exception as error:
                    free_at = start
                    self.went_wrong(error, op)
                if op.occupies_queue:
                    ends.append(free_at)
        finally:
            stream.free_at = free_at
            self._settle(stream)

    def went_wrong(self, error: Exception, op: Op) -> None:
        """A CUDA error kills the context: nothing runs any more. A Python error in a kernel is the host's to hear of, once."""
        if not isinstance(error, CUDARuntimeError):
            note = "a GPU raises nothing here: Numba refuses at the launch what it cannot compile, and arithmetic goes on"
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
        """The host waits for `streams` (all, if none are named). Raises what their work did wrong.

        The legacy stream counts as done once every blocking stream is.
        """
        self.raise_fault()
        targets = streams or tuple(self.streams.values())
        if self.legacy in streams:
            self.forbid_implicit()
        self.forbid_in_capture(*streams)
        if streams:
            self.forbid_unsafe()
        if self.legacy in streams:
            targets += tuple(s for s in self.streams.values() if s.blocking)
        self.wait_until(max((self.drain(s) for s in targets), default=0.0))
        for stream in targets:
            stream.ends.clear()
        if not streams:
            self.memory.trim_async()
        self.raise_fault()

    def wait_for_device(self, name: str = "synchronize") -> None:
        """The host waits until nothing runs any more; raises nothing (what a free does before it frees)."""
        self.wait_until(max(map(self.drain, list(self.streams.values()))), name)

    def wait_until(self, us: float, name: str = "synchronize") -> None:
        """The host's clock goes to `us`, and through the return from the wait."""
        started = self.now_us
        if us > self.now_us:
            self.run_until(us)
            self.now_us = us + self.costs.sync_return_us
        else:
            self.now_us += self.costs.sync_idle_us
        if self.trace is not None:
            self.trace.host.append(Span(name, started, self.now_us))
        self._waited_us = self.now_us - started

    def raise_fault(self) -> None:
        """Raises the error that killed the context, if one did, again at every call, as on the device; else what a kernel
        raised, once. Inside a host function, cudaErrorNotPermitted."""
        if self.in_host_function:
            raise CUDARuntimeError("cudaErrorNotPermitted")
        if self.fault is not None:
            raise CUDARuntimeError(self.fault)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
