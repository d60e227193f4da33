"""Streams, events and the operations that wait in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .capture import Capture
    from .gpu import Gpu
    from .graph import Node

LEGACY_HANDLE = 0  # CuPy's null stream: cudaStreamLegacy
LEGACY_HANDLES = (0, 1)
PER_THREAD_HANDLE = 2  # cudaStreamPerThread


class NodeAt(NamedTuple):
    """Where a graph's node is while it runs: in which stream the graph was launched, and which node of which graph it is."""

    stream: int
    graph: object
    node: tuple[int, ...]  # its number in the plan; inside a conditional body, that of the conditional node in front


class Op:
    """One piece of device work: how long it takes, known when it starts, and what it does, at its end.

    One object may wait in a queue many times over (a graph that is replayed), so it holds no time of its own.
    """

    kind = "op"
    name = ""
    occupies_queue = True

    def gap_us(self, gpu: Gpu) -> float:
        """The least time between the end of the stream's previous operation and the start of this one."""
        return 0.0

    def duration_us(self, gpu: Gpu) -> float:
        return 0.0

    def effect(self, gpu: Gpu) -> None:
        """Does the work."""

    def run(self, gpu: Gpu, start: float) -> float:
        """Both at once, where nothing else can look in between; returns the end."""
        end = start + self.duration_us(gpu)
        self.effect(gpu)
        return end

    def start(self, gpu: Gpu, start: float, finish: Callable[[float], None], place: int | NodeAt = 0) -> None:
        """Begins beside other work; calls `finish` with the end when the device's time has come there. `place`, the stream's
        handle or a graph's node, is for traces."""

        def end_here(end: float) -> None:
            gpu.perform(self, start, end, place)
            finish(end)

        gpu.at(start + self.duration_us(gpu), end_here)


class Effect(Op):
    """Work with a fixed duration, done by a function."""

    def __init__(self, kind: str, name: str, duration_us: float, effect: Callable[[], object], gap: float = 0.0):
        self.kind, self.name, self._duration_us, self._effect, self._gap = kind, name, duration_us, effect, gap

    def gap_us(self, gpu: Gpu) -> float:
        return self._gap

    def duration_us(self, gpu: Gpu) -> float:
        return self._duration_us

    def effect(self, gpu: Gpu) -> None:
        self._effect()


class RecordOp(Op):
    """The point in a stream that an event marks; `time_us` once it has been reached."""

    kind = "event record"
    occupies_queue = False

    def __init__(self) -> None:
        self.time_us: float | None = None
        self._waiting: list[Callable[[float], None]] = []

    def gap_us(self, gpu: Gpu) -> float:
        return gpu.costs.event_gap_us

    def run(self, gpu: Gpu, start: float) -> float:
        self.reach(start)
        return start

    def reach(self, us: float) -> None:
        """The point has been reached, at `us`."""
        self.time_us = us
        for callback in self._waiting:
            callback(us)
        self._waiting.clear()

    def when_reached(self, callback: Callable[[float], None]) -> None:
        """Calls `callback` with the time, now or when it comes to that."""
        if self.time_us is not None:
            callback(self.time_us)
        else:
            self._waiting.append(callback)


class WaitOp(Op):
    """Holds a stream until `record` has been reached."""

    kind = "event wait"
    occupies_queue = False

    def __init__(self, record: RecordOp):
        self.record = record

    def run(self, gpu: Gpu, start: float) -> float:
        return max(start, self.record.time_us or 0.0)


class Stream:
    """An in-order queue of work on the device.

    `pending` holds what has not started yet in virtual time, `busy` is what is running, `ends` says when the launches that
    have run finished: together they are what the hardware's queue holds.
    """

    def __init__(self, handle: int, *, blocking: bool = True, priority: int = 0):
        self.handle = handle
        self.blocking = blocking
        self.priority = priority  # given back; the simulated device runs all streams alike
        self.pending: deque[tuple[float, Op]] = deque()  # (earliest start, operation)
        self.busy: Op | None = None
        self.ends: deque[float] = deque()
        self.free_at = 0.0
        self.closed = False  # destroyed: it lives on until its work is done
        self.capture: Capture | None = None
        self.capture_tail: list[Node] = []  # the nodes that the next captured node depends on

    def has_work(self, now_us: float) -> bool:
        """Whether anything is queued, running, or only just ending after `now_us`."""
        return bool(self.pending) or self.busy is not None or self.free_at > now_us

    def __repr__(self) -> str:
        return f"<simulated stream {self.handle:#x}>"


class Event:
    """A CUDA event: the last record of it, on the device or in a capture."""

    def __init__(self, *, timed: bool = True) -> None:
        self.timed = timed
        self.record: RecordOp | None = None
        self.captured: tuple[Capture, list[Node]] | None = None
