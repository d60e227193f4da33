"""What a stream or a graph node does besides running a kernel: copies, memory, host functions, events, conditions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .errors import CUDARuntimeError
from .memory import Memory
from .stream import Event, NodeAt, Op, RecordOp

if TYPE_CHECKING:
    from .gpu import Gpu
    from .graph import Graph, Plan


class CopyOp(Op):
    """A copy of `nbytes` from one address to another, each on the device or on the host. `keep` stays alive with it; `pinned`
    are the ends that were page-locked host memory: freed since, they are illegal to touch."""

    kind, name = "memcpy", "memcpy"

    def __init__(self, target: int, source: int, nbytes: int, keep: object = None, pinned: tuple[int, ...] = ()):
        self.target, self.source, self.nbytes, self.keep, self.pinned = target, source, nbytes, keep, pinned

    def duration_us(self, gpu: Gpu) -> float:
        return gpu.costs.copy_us(self.nbytes)

    def effect(self, gpu: Gpu) -> None:
        if not all(gpu.memory.is_pinned(address, self.nbytes) for address in self.pinned):
            raise CUDARuntimeError("cudaErrorIllegalAddress")
        gpu.memory.copy(self.target, self.source, self.nbytes)

    def at_once(self, gpu: Gpu) -> Callable[[], None]:
        """The copy alone, for a host that waits."""
        return lambda: self.effect(gpu)

    @property
    def sides(self) -> tuple[bool, bool]:
        """Whether target and source are on the device."""
        return Memory.is_device(self.target), Memory.is_device(self.source)


class MemsetOp(Op):
    """Sets `height` rows of `width` elements, `pitch` bytes apart, to the low bytes of `value`."""

    kind, name = "memset", "memset"

    def __init__(self, address: int, value: int, element_size: int, width: int, height: int = 1, pitch: int = 0):
        self.address, self.value, self.element_size = address, value, element_size
        self.width, self.height, self.pitch = width, height, pitch

    def duration_us(self, gpu: Gpu) -> float:
        return gpu.costs.memset_us(self.width * self.element_size * self.height)

    def effect(self, gpu: Gpu) -> None:
        pattern = (self.value & (1 << 8 * self.element_size) - 1).to_bytes(self.element_size, "little")
        for row in range(self.height):
            gpu.memory.fill(self.address + row * self.pitch, pattern, self.width)


class HostOp(Op):
    """A Python function that the driver calls in stream order. It may not call CUDA."""

    kind, name = "host", "host function"

    def __init__(self, function: Callable[[], object]):
        self.function = function

    def duration_us(self, gpu: Gpu) -> float:
        return gpu.costs.nodes["host"]

    def effect(self, gpu: Gpu) -> None:
        gpu.call_host(self.function)


class EmptyOp(Op):
    """Nothing: a point where branches join."""

    kind, name = "empty", "empty"


EMPTY = EmptyOp()


class ChildOp(Op):
    """A whole graph as one node. It never runs itself: an executable graph holds the child's nodes instead."""

    kind, name = "graph", "child graph"

    def __init__(self, graph: Graph):
        self.graph = graph


class RecordNodeOp(Op):
    """Records an event. `launched` holds the records of the replays to come, in order."""

    kind, name = "event record", "event record"

    def __init__(self, event: Event):
        self.event = event
        self.launched: deque[RecordOp] = deque()

    def on_launch(self) -> None:
        """A replay has been launched: the event is not reached any more until that replay comes here."""
        record = RecordOp()
        self.launched.append(record)
        self.event.captured, self.event.record = None, record

    def perform_at(self, end: float) -> None:
        self.launched.popleft().reach(end)

    def duration_us(self, gpu: Gpu) -> float:
        return gpu.costs.nodes["event record"]

    def run(self, gpu: Gpu, start: float) -> float:
        end = start + self.duration_us(gpu)
        self.perform_at(end)
        return end

    def start(self, gpu: Gpu, start: float, finish: Callable[[float], None], place: int | NodeAt = 0) -> None:
        gpu.at(start + self.duration_us(gpu), lambda end: (self.perform_at(end), finish(end)))


class WaitNodeOp(Op):
    """Waits for an event as it stood when the replay was launched."""

    kind, name = "event wait", "event wait"

    def __init__(self, event: Event):
        self.event = event
        self.launched: deque[RecordOp | None] = deque()

    def on_launch(self) -> None:
        self.launched.append(self.event.record)

    def run(self, gpu: Gpu, start: float) -> float:
        record = self.launched.popleft()
        return max(start, record.time_us or 0.0) if record else start

    def start(self, gpu: Gpu, start: float, finish: Callable[[float], None], place: int | NodeAt = 0) -> None:
        record = self.launched.popleft()

        def reached(us: float) -> None:
            gpu.at(max(start, us), finish)

        if record is None:
            reached(start)
        else:
            record.when_reached(reached)


class AllocOp(Op):
    """Maps memory at the address that the node was given when it was made."""

    kind, name = "memory allocation", "alloc"

    def __init__(self, address: int, nbytes: int):
        self.address, self.nbytes = address, nbytes

    def effect(self, gpu: Gpu) -> None:
        gpu.memory.map_reserved(self.address)


class FreeOp(Op):
    """Gives memory back: a graph's own, or one of `cudaMallocAsync`."""

    kind, name = "memory free", "free"

    def __init__(self, address: int):
        self.address = address

    def effect(self, gpu: Gpu) -> None:
        gpu.memory.free_async(self.address)


class Condition:
    """What a conditional handle stands for: a value that kernels set; `default`, if there is one, at each launch.

    The handle is its number within its graph: those of two graphs look alike, and an executable graph has values of its own.
    """

    def __init__(self, number: int, default: int | None):
        self.number, self.default = number, default
        self.value = default or 0

    def begin_replay(self) -> None:
        if self.default is not None:
            self.value = self.default


class ConditionalOp(Op):
    """IF (with ELSE), WHILE or SWITCH: runs one of its bodies, none, or one again and again."""

    kind, name = "conditional", "conditional"

    def __init__(self, condition: Condition, form: str, bodies: list[Graph]):
        self.condition, self.form, self.bodies = condition, form, bodies
        self.plans: list[Plan] = []  # of the bodies, in an executable graph

    def chosen(self) -> Plan | None:
        """The body to run now."""
        value = self.condition.value
        if self.form == "while" and value and not self.plans[0].ops:
            raise RuntimeError("a WHILE node with an empty body and a condition that holds never ends")
        if self.form == "switch":
            return self.plans[value] if value < len(self.plans) else None
        if value:
            return self.plans[0]
        return self.plans[1] if self.form == "if" and len(self.plans) > 1 else None

    def run(self, gpu: Gpu, start: float) -> float:
        end = start
        while (plan := self.chosen()) is not None:
            end = plan.run(gpu, end + gpu.costs.nodes["while iteration"])
            if self.form != "while":
                break
        return end

    def start(self, gpu: Gpu, start: float, finish: Callable[[float], None], place: int | NodeAt = 0) -> None:
        plan, begin = self.chosen(), start + gpu.costs.nodes["while iteration"]
        if plan is None:
            gpu.at(start, finish)
        elif self.form == "while":
            plan.begin(gpu, begin, lambda end: self.start(gpu, end, finish, place), place=place)
        else:
            plan.begin(gpu, begin, finish, place=place)
