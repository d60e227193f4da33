"""Random programs of stream, capture and graph calls, run on a GPU and on the simulated device: every outcome must be the same.

A program is a list of steps, plain tuples that JSON can hold. `draw_program` draws one. `run` runs one and returns what every
step did ("ok", a value, or the error), which streams capture after it, and at the end all memory. The steps name fixed slots
(streams 0–3, arrays 0–5, graphs, executables, events), and a step whose slot is empty is skipped, so every list of steps is a
program: hypothesis may drop any of them.

Undefined behaviour is kept out while a program runs, by what the calls have answered so far (`Tracker`), never by what the
device is believed to do: as long as two devices answer alike they are also kept from the same steps. A step that would be
undefined runs after a cudaDeviceSynchronize where no stream captures and that helps, else it is skipped, and says so:

- *races*: two operations on one 512-byte unit of memory, one of them a write, neither ordered before the other. Ordered are: a
  stream's own work; work behind an event that it waits for; the legacy stream and the blocking one, each after the other's
  earlier launches and copies; everything behind a host call that waited. A graph counts as one operation on all that its
  nodes may touch, updates and disabled nodes included.
- *races inside a graph*: nodes on the same unit, neither of which is the other's ancestor.
- *answers that depend on time*: a query of a stream or event with work that the host has not waited for.
- *uninitialised memory*: a read of fresh memory before a memset (an allocation is followed by one where it must be).
- *memory that cudaFree has returned* to the device, by a launch or by a graph that still points there: not even such a graph's
  instantiation is defined (a driver crashed at the copy's pointer). (A block that only went
  back to CuPy's pool is still mapped: a graph that writes to its new owner is defined, and wanted here.)
- *cudaFree of memory with work pending*, and freeing into the pool likewise, by the two rules above.
- *which of several free blocks* CuPy's pool hands out (it keeps them in a set): such an allocation is skipped.
- *overlapping copies*.
- *order behind a disabled memset or copy*: on an H200 with driver 580, work queued behind a replay whose last node is a
  disabled memset did not wait for the nodes before it (a second replay overtook the first, memory was freed under a running
  one). So only kernel nodes are disabled here.
- *handles that were destroyed*: slots whose handle is gone are empty; all else is destroyed at the end.
- *the order of a graph's nodes*: `inspect` and `enable` tell nodes apart by type and by their place in the graph only.
- *rounding*: kernels multiply by 2 or −1, so that a fused multiply-add gives what the two steps give.

Illegal addresses and other errors that kill the context are left to the conformance cases, which have a process each.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Step = tuple
Program = list[Step]
Choose = Callable[[int], int]

STREAMS = 4
BLOCKING, LEGACY = 2, 3  # streams 0 and 1 are non-blocking
POOLED, ARRAYS = 4, 6  # slots 0–3 come from CuPy's pool, 4 and 5 from cudaMalloc
GRAPHS, EXECS, EVENTS = 4, 3, 3
UNIT = 512  # bytes: what CuPy's pool rounds to
MAX_UNITS = 3
SCALES = (2.0, -1.0)
BYTES = (0, 63, 64)
MAX_STEPS = 60

# -- the grammar ---------------------------------------------------------------------------------------------------------


def seeded(seed: int) -> Program:
    """The program of a seed; the same on every machine and Python version."""
    rng = random.Random(seed)
    return draw_program(lambda n: int(rng.random() * n))


def draw_program(choose: Choose) -> Program:
    """A program; `choose(n)` gives each of its decisions, from range(n). Zeros give the simplest one."""
    return _Grammar(choose).program()


class _Grammar:
    """Draws phrases that make sense more often than not; it knows roughly which slots are filled."""

    def __init__(self, choose: Choose):
        self.choose = choose
        self.steps: Program = []
        self.arrays: list[int] = []
        self.homes: dict[int, tuple[int, int]] = {}  # array slot → (size, stream)
        self.graphs: list[int] = []
        self.execs: list[int] = []

    def add(self, *step: Any) -> None:
        self.steps.append(step)

    def one(self, options: Sequence) -> Any:
        return options[self.choose(len(options))]

    def weighted(self, options: Sequence[tuple[int, Any]]) -> Any:
        left = self.choose(sum(w for w, _ in options))
        for weight, option in options:
            if left < weight:
                return option
            left -= weight
        raise AssertionError

    def chance(self, percent: int) -> bool:
        return self.choose(100) >= 100 - percent

    def program(self) -> Program:
        for slot in range(2 + self.choose(2)):
            self.allocate(slot)
        if self.chance(50):
            self.cuda_malloc()
        self.add("sync_device")
        target = 14 + self.choose(22)
        while len(self.steps) < target:
            self.weighted([
                (10, self.capture), (5, self.eager), (3, self.replay), (4, self.stale), (5, self.update),
                (2, self.inspect), (5, self.enable), (3, self.clone), (2, self.events), (4, self.noise), (2, self.cross),
                (1, self.two_captures), (1, self.cuda_malloc), (1, self.settle),
            ])()  # fmt: skip
        return self.steps[:MAX_STEPS]

    # -- pieces --

    def filled(self, slots: list[int], all_slots: int) -> int:
        """A slot that holds something, if one does, nearly always."""
        return self.one(slots[::-1]) if slots and not self.chance(4) else self.choose(all_slots)

    def stream(self) -> int:
        return self.weighted([(4, 0), (3, 1), (3, BLOCKING), (1, LEGACY)])

    def capturable(self) -> int:
        return self.weighted([(4, 0), (2, 1), (3, BLOCKING)])

    @property
    def pooled(self) -> list[int]:
        return [a for a in self.arrays if a < POOLED]

    def operand(self) -> int:
        """An array slot, and +8 for its second unit."""
        return self.filled(self.arrays, ARRAYS) + 8 * self.chance(12)

    def allocate(self, slot: int, like: int | None = None) -> None:
        size, stream = self.homes[like] if like is not None else (self.weighted([(5, 1), (3, 2), (1, 3)]), self.stream())
        self.add(self.weighted([(3, "zeros"), (2, "empty")]), slot, size, stream)
        self.homes[slot] = size, stream
        if slot not in self.arrays:
            self.arrays.append(slot)

    def cuda_malloc(self) -> None:
        slot = POOLED + self.choose(ARRAYS - POOLED)
        self.add("malloc", slot, 1 + self.choose(2), self.stream())
        if slot not in self.arrays:
            self.arrays.append(slot)

    def work(self, stream: int) -> None:
        """One operation on `stream`."""
        kind = self.weighted([(5, "add"), (6, "affine"), (3, "copy"), (2, "memset"), (2, "memcpy")])
        if kind == "add":
            self.add("add", stream, self.operand(), 1 + self.choose(7))
        elif kind == "affine":
            self.add("affine", stream, self.operand(), self.choose(len(SCALES)), 1 + self.choose(7))
        elif kind == "memset":
            self.add("memset", stream, self.operand() % 8, self.choose(len(BYTES)))
        else:
            target, source = self.operand(), self.operand()
            if kind == "memcpy" and target % 8 == source % 8:  # onto itself: another one, then
                source = self.choose(ARRAYS)
            self.add(kind, stream, target, source)

    def read(self) -> None:
        if self.pooled:
            self.add("read", self.one(self.pooled), self.stream())

    def settle(self) -> None:
        self.add("sync_device")
        self.read()

    # -- phrases --

    def eager(self) -> None:
        stream = self.stream()
        for _ in range(1 + self.choose(3)):
            self.work(stream)
        if self.chance(60):
            self.add(*self.one([("sync", stream), ("sync_device",)]))

    def capture(self) -> None:
        stream, mode = self.capturable(), self.choose(3)
        if self.chance(70):
            self.add("sync_device")
        self.add("begin", stream, mode)
        for _ in range(1 + self.choose(4)):
            self.weighted([(12, self.work), (4, self.fork), (3, self.child), (4, self.illegal)])(stream)
        if self.chance(6):
            self.fork(stream, join=False)
        graph = self.choose(GRAPHS)
        if self.chance(3):
            self.add("end", self.choose(STREAMS), graph)
        if not self.chance(4):
            self.add("end", stream, graph)
            self.graphs = [*(g for g in self.graphs if g != graph), graph]
        if self.chance(15):
            self.add("inspect", graph)
        if not self.chance(12):
            self.instantiate(graph)
            self.replay(self.execs[-1])

    def instantiate(self, graph: int) -> None:
        executable = self.choose(EXECS)
        self.add("instantiate", graph, executable)
        self.execs = [*(x for x in self.execs if x != executable), executable]

    def replay(self, executable: int | None = None) -> None:
        if not self.execs:
            return
        executable = self.one(self.execs[::-1]) if executable is None else executable
        stream = self.stream()
        for _ in range(1 + self.choose(3)):
            self.add("graph", executable, stream)
            if self.chance(15):
                stream = self.stream()
            if self.chance(15):
                self.work(stream)
        self.add(*self.weighted([(3, ("sync", stream)), (3, ("sync_device",)), (1, ("query", stream))]))
        if self.chance(60):
            self.read()

    def fork(self, stream: int, join: bool = True) -> None:
        other = self.choose(STREAMS - 1)
        event, back = self.choose(EVENTS), self.choose(EVENTS)
        self.add("record", event, stream)
        self.add("wait", other, event)
        for _ in range(1 + self.choose(2)):
            self.work(other)
        if self.chance(70):
            self.work(stream)
        if join:
            self.add("record", back, other)
            self.add("wait", stream, back)

    def child(self, stream: int) -> None:
        if self.execs:
            self.add("graph", self.one(self.execs), stream)
        else:
            self.work(stream)

    def illegal(self, stream: int) -> None:
        """What a capture may not survive, or survives against expectation."""
        other, event = self.choose(STREAMS), self.choose(EVENTS)
        slot, array = self.choose(POOLED), self.filled(self.pooled, ARRAYS)
        graph, executable = self.filled(self.graphs, GRAPHS), self.filled(self.execs, EXECS)
        if self.chance(30):
            self.work(LEGACY if self.chance(70) else other)
            return
        self.add(*self.one([
            ("sync", stream), ("sync_device",), ("query", stream), ("sync", other), ("query", other), ("query_event", event),
            ("sync_event", event), ("begin", stream, self.choose(3)), ("begin", other, self.choose(3)),
            ("end", other, self.choose(GRAPHS)), ("wait", stream, event), ("wait", other, event), ("record", event, other),
            ("read", array, stream), ("read", array, other), ("free", slot),
            ("zeros", slot, 1 + self.choose(3), stream), ("empty", slot, 1 + self.choose(3), stream),
            ("empty", slot, 1 + self.choose(3), other), ("malloc", POOLED + self.choose(2), 1, stream),
            ("malloc", POOLED + self.choose(2), 1, other), ("cudafree", POOLED + self.choose(2)),
            ("instantiate", graph, self.choose(EXECS)), ("graph", executable, other), ("update", executable, graph),
            ("clone", graph, self.choose(GRAPHS)),
        ]))  # fmt: skip

    def stale(self) -> None:
        """An array that graphs may point to goes, and another of its size may get its block; then a replay."""
        if not self.pooled:
            return
        slot = self.one(self.pooled)
        if self.chance(70):
            self.add("sync_device")
        self.add("free", slot)
        self.allocate(self.weighted([(2, slot), (1, self.choose(POOLED))]), like=slot)
        self.replay()
        self.add("read", slot, self.stream())

    def update(self) -> None:
        if not self.execs or not self.graphs:
            return
        executable = self.one(self.execs[::-1])
        if self.chance(60):  # a graph of the same shape, perhaps
            stream = self.capturable()
            self.add("sync_device")
            self.add("begin", stream, self.choose(3))
            for _ in range(1 + self.choose(3)):
                self.work(stream)
            graph = self.choose(GRAPHS)
            self.add("end", stream, graph)
            self.graphs = [*(g for g in self.graphs if g != graph), graph]
        self.add("update", executable, self.one(self.graphs[::-1]))
        self.replay(executable)

    def inspect(self) -> None:
        if self.graphs:
            self.add("inspect", self.one(self.graphs[::-1]))

    def enable(self) -> None:
        if self.execs:
            executable = self.one(self.execs[::-1])
            self.add("enable", executable, self.choose(4), int(self.chance(30)))
            self.replay(executable)

    def clone(self) -> None:
        if self.graphs:
            source, target = self.one(self.graphs[::-1]), self.choose(GRAPHS)
            self.add("clone", source, target)
            if self.chance(30):
                self.add("destroy_graph", source)
            self.instantiate(target)
            self.replay(self.execs[-1])

    def events(self) -> None:
        event, stream, other = self.choose(EVENTS), self.stream(), self.stream()
        self.add("record", event, stream)
        self.add(*self.weighted([
            (3, ("wait", other, event)), (2, ("sync_event", event)), (1, ("query_event", event)), (1, ("query", stream)),
        ]))  # fmt: skip
        self.work(other)

    def cross(self) -> None:
        """Work on one stream that depends on another's, through an event or the legacy stream's own rule."""
        first, second = self.stream(), self.stream()
        operand, event = self.operand(), self.choose(EVENTS)
        self.add("affine", first, operand, 0, 1 + self.choose(7))
        if self.chance(70):
            self.add("record", event, first)
            self.add("wait", second, event)
        self.add("affine", second, operand, 1, 1 + self.choose(7))
        self.add("sync", second)

    def two_captures(self) -> None:
        first, second = self.capturable(), self.capturable()
        event, graph = self.choose(EVENTS), self.choose(GRAPHS)
        self.add("begin", first, self.choose(3))
        self.work(first)
        self.add("begin", second, self.choose(3))
        self.work(second)
        if self.chance(40):
            self.add("record", event, first)
            self.add("wait", second, event)
        self.add("end", first, graph)
        self.add("end", second, (graph + 1) % GRAPHS)
        self.graphs = [*self.graphs, graph]
        self.instantiate(self.one([graph, (graph + 1) % GRAPHS]))
        self.replay(self.execs[-1])

    def noise(self) -> None:
        """Any step at all."""
        stream, event = self.choose(STREAMS), self.choose(EVENTS)
        graph, executable = self.filled(self.graphs, GRAPHS), self.filled(self.execs, EXECS)
        self.add(*self.one([
            ("record", event, stream), ("wait", stream, event), ("query_event", event), ("sync_event", event),
            ("query", stream), ("sync", stream), ("sync_device",), ("begin", stream, self.choose(3)),
            ("end", stream, self.choose(GRAPHS)), ("free", self.choose(POOLED)), ("cudafree", POOLED + self.choose(2)),
            ("destroy_graph", graph), ("instantiate", graph, self.choose(EXECS)),
            ("read", self.filled(self.pooled, ARRAYS), stream), ("empty", self.choose(POOLED), 1 + self.choose(3), stream),
            ("graph", executable, stream), ("update", executable, graph),
        ]))  # fmt: skip


# -- what may go wrong on its own: the tracker ------------------------------------------------------------------------------


def _units(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


class Captured:
    """A capture, or the graph that came of it: what its nodes touch (masks of units), and which of them are ordered."""

    def __init__(self, origin: int = 0):
        self.origin = origin
        self.live = True
        self.nodes: list[tuple[int, int, int]] = []  # (ancestors, reads, writes)
        self.tails: dict[int, int] = {origin: 0}  # stream → the nodes before what comes next in it, as a mask
        self.reads = self.writes = 0
        self.needs = 0  # units that must be initialised before it runs
        self.inits = 0  # units that it initialises

    def races(self, stream: int, reads: int, writes: int) -> bool:
        before = self.tails[stream]
        return any(
            (writes & (r | w)) | (reads & w) for i, (_, r, w) in enumerate(self.nodes) if not before >> i & 1
        )  # fmt: skip

    def add(self, stream: int, reads: int, writes: int, needs: int, inits: int) -> None:
        before = self.tails[stream]
        self.tails[stream] = before | 1 << len(self.nodes)
        self.nodes.append((before, reads, writes))
        self.needs |= needs & ~self.inits
        self.inits |= inits
        self.reads |= reads
        self.writes |= writes


class Executable:
    """An executable graph: its handle, the graph it came from, and all that a replay may touch."""

    def __init__(self, handle: Any, graph: Graph):
        self.handle, self.graph = handle, graph
        self.reads, self.writes = graph.captured.reads, graph.captured.writes
        self.needs, self.inits = graph.captured.needs, graph.captured.inits
        self.is_empty = not graph.captured.nodes

    def may_also(self, captured: Captured) -> None:
        """After an update, which may have failed half way."""
        self.reads |= captured.reads
        self.writes |= captured.writes
        self.needs |= captured.needs
        self.inits = 0


class Graph:
    def __init__(self, handle: Any, captured: Captured):
        self.handle, self.captured, self.alive = handle, captured, True


class Event:
    def __init__(self, handle: Any):
        self.handle = handle
        self.clock: list[int] | None = None  # None: never recorded, or captured
        self.captured: tuple[Captured, int] | None = None
        self.certain = True


class Tracker:
    """Which work is ordered before which, by vector clocks: one count for each stream; what the host has waited for."""

    def __init__(self) -> None:
        self.count = [0] * STREAMS
        self.clock = [[0] * STREAMS for _ in range(STREAMS)]
        self.host = [0] * STREAMS
        self.published = {BLOCKING: [0] * STREAMS, LEGACY: [0] * STREAMS}  # as of the last launch or copy
        self.idle = [True] * STREAMS  # nothing issued since a host call waited for the stream
        self.wrote: dict[int, tuple[int, int]] = {}  # unit → (stream, count)
        self.has_read: dict[int, dict[int, int]] = {}

    def _before(self, stream: int) -> list[int]:
        before = [max(a, b) for a, b in zip(self.clock[stream], self.host, strict=True)]
        other = {BLOCKING: LEGACY, LEGACY: BLOCKING}.get(stream)
        if other is not None:
            before = [max(a, b) for a, b in zip(before, self.published[other], strict=True)]
        return before

    def races(self, stream: int, reads: int, writes: int) -> bool:
        before = self._before(stream)
        for unit in _units(reads | writes):
            if unit in self.wrote:
                other, count = self.wrote[unit]
                if count > before[other]:
                    return True
            if writes >> unit & 1:
                for other, count in self.has_read.get(unit, {}).items():
                    if count > before[other]:
                        return True
        return False

    def did(self, stream: int, reads: int, writes: int) -> None:
        """Work was issued."""
        self.clock[stream] = self._before(stream)
        self._tick(stream)
        if stream in self.published:
            self.published[stream] = list(self.clock[stream])
        for unit in _units(reads):
            self.has_read.setdefault(unit, {})[stream] = self.count[stream]
        for unit in _units(writes):
            self.wrote[unit] = stream, self.count[stream]
            self.has_read.pop(unit, None)

    def _tick(self, stream: int) -> None:
        self.count[stream] += 1
        self.clock[stream][stream] = self.count[stream]
        self.idle[stream] = False
        if stream in (BLOCKING, LEGACY):
            self.idle[BLOCKING] = self.idle[LEGACY] = False

    def recorded(self, stream: int) -> list[int]:
        self._tick(stream)
        return [max(a, b) for a, b in zip(self.clock[stream], self.host, strict=True)]

    def waits(self, stream: int, clock: list[int]) -> None:
        self._tick(stream)
        self.clock[stream] = [max(a, b) for a, b in zip(self.clock[stream], clock, strict=True)]

    def host_waited(self, stream: int) -> None:
        self.host_saw(self.clock[stream])
        self.idle[stream] = True

    def host_saw(self, clock: list[int]) -> None:
        self.host = [max(a, b) for a, b in zip(self.host, clock, strict=True)]

    def host_waited_for_all(self) -> None:
        self.host = list(self.count)
        self.idle = [True] * STREAMS

    def is_idle(self, stream: int) -> bool:
        return all(self.idle[s] for s in ((BLOCKING, LEGACY) if stream in (BLOCKING, LEGACY) else (stream,)))

    @property
    def all_idle(self) -> bool:
        return all(self.idle)


class PoolModel:
    """CuPy's pool, as far as it must be known to tell which allocations it leaves open: free blocks by stream, split and
    merged. A block is [base, size, stream, free], in the list of its segment."""

    def __init__(self) -> None:
        self.segments: list[list[list]] = []

    def pick(self, size: int, stream: int) -> list | str | None:
        """The free block that serves `size` units, None where a new segment must be allocated, or "several"."""
        fits = [b for s in self.segments for b in s if b[3] and b[2] == stream and b[1] >= size]
        if not fits:
            return None
        least = min(b[1] for b in fits)
        best = [b for b in fits if b[1] == least]
        return best[0] if len(best) == 1 else "several"

    def take(self, address: int, size: int, stream: int) -> list:
        """Notes that the pool gave out the block at `address`."""
        for segment in self.segments:
            for i, block in enumerate(segment):
                if block[0] == address and block[3] and block[2] == stream and block[1] >= size:
                    if block[1] > size:
                        segment.insert(i + 1, [address + size * UNIT, block[1] - size, stream, True])
                        block[1] = size
                    block[3] = False
                    return block
        block = [address, size, stream, False]
        self.segments.append([block])
        return block

    def release(self, block: list) -> None:
        segment = next(s for s in self.segments if any(b is block for b in s))
        block[3] = True
        i = next(i for i, b in enumerate(segment) if b is block)
        if i + 1 < len(segment) and segment[i + 1][3]:
            block[1] += segment.pop(i + 1)[1]
        if i and segment[i - 1][3]:
            segment[i - 1][1] += segment.pop(i)[1]


class Array:
    """An array of a slot: CuPy's object (None for cudaMalloc), its address, its units as a mask from `first` on."""

    def __init__(self, pointer: int, size: int, first: int, array: Any = None, block: list | None = None):
        self.pointer, self.size, self.first, self.array, self.block = pointer, size, first, array, block

    @property
    def mask(self) -> int:
        return ((1 << self.size) - 1) << self.first

    def unit(self, i: int) -> tuple[int, int]:
        """(address, mask) of unit `i`, or of unit 0 where there are fewer."""
        i = i if i < self.size else 0
        return self.pointer + i * UNIT, 1 << (self.first + i)


# -- the interpreter --------------------------------------------------------------------------------------------------------

FATAL = {
    "cudaErrorIllegalAddress", "cudaErrorLaunchFailure", "cudaErrorContextIsDestroyed", "cudaErrorMisalignedAddress",
    "cudaErrorIllegalInstruction", "cudaErrorHardwareStackError", "cudaErrorAssert", "cudaErrorUnknown",
    "cudaErrorLaunchTimeout",
}  # fmt: skip
CUDA_ERRORS = {"CUDARuntimeError", "CUDADriverError", "CUDAError", "CudaAPIError", "OutOfMemoryError"}


class ContextDied(Exception):
    """The program killed the context: nothing more can be run in this process."""


class Bench:
    """What programs share in one process: the libraries, compiled kernels, and streams."""

    def __init__(self, libs: Any):
        self.libs = libs
        self.cudart = libs.cudart
        self.modes = [
            self.cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal,
            self.cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal,
            self.cudart.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed,
        ]
        self.to_device = self.cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        self.kernels = self._kernels()
        self.renew_streams()
        self._keep = self.cudart.cudaMalloc(UNIT)  # the page that small allocations share stays mapped
        self._warm()

    def _kernels(self) -> dict[str, Any]:
        cuda, types = self.libs.cuda, self.libs.types
        pointer, number = types.CPointer(types.float32), types.float32

        @cuda.jit(types.void(pointer, number))
        def add(p, value):
            p[0] += value

        @cuda.jit(types.void(pointer, number, number))
        def affine(p, a, b):
            p[0] = p[0] * a + b

        @cuda.jit(types.void(pointer, pointer))
        def copy(target, source):
            target[0] = source[0]

        return {"add": add, "affine": affine, "copy": copy}

    def renew_streams(self) -> None:
        cp, cuda = self.libs.cp, self.libs.cuda
        self.streams = [
            cp.cuda.Stream(non_blocking=True),
            cp.cuda.Stream(non_blocking=True),
            cp.cuda.Stream(),
            cp.cuda.Stream.null,
        ]
        self.handles = [int(s.ptr) for s in self.streams]
        on = [cuda.external_stream(h) for h in self.handles[:LEGACY]]
        self.launchers = {n: [*(k[1, 1, s] for s in on), k[1, 1]] for n, k in self.kernels.items()}

    def _warm(self) -> None:
        cp = self.libs.cp
        x = cp.zeros(8, dtype=cp.float32)
        for stream in range(STREAMS):
            self.launchers["add"][stream](x.data.ptr, 1.0)
            self.launchers["affine"][stream](x.data.ptr, 1.0, 1.0)
            self.launchers["copy"][stream](x.data.ptr, x.data.ptr + 4)
            cp.cuda.Device().synchronize()
        x.get()
        del x
        cp.get_default_memory_pool().free_all_blocks()


_benches: dict[int, Bench] = {}


def run(program: Program, libs: Any, prepare: Callable[[Any], None] | None = None) -> list[str]:
    """What each step of `program` did on a device, then its clean-up and the memory.

    `libs` has the libraries (`cp`, `cuda`, `types`, `cudart`): a simulated device gets a fresh GPU for the program, on which
    `prepare` is called before. Raises ContextDied on a live one.
    """
    with np.errstate(all="ignore"):
        if getattr(libs, "kind", "") == "simulated":
            return _simulate(program, libs, prepare)
        if id(libs) not in _benches:
            _benches[id(libs)] = Bench(libs)
        return Runner(_benches[id(libs)]).run(program)


def _simulate(program: Program, libs: Any, prepare: Callable[[Any], None] | None) -> list[str]:
    from onelaunch.sim import gpu as sim_gpu

    gpu = sim_gpu.Gpu()
    before = sim_gpu.swap(gpu)
    try:
        bench = _benches.get(id(libs))
        if bench is None:
            bench = _benches[id(libs)] = Bench(libs)
        bench.renew_streams()
        if prepare is not None:
            prepare(gpu)
        return Runner(bench).run(program)
    finally:
        sim_gpu.swap(before)


class Answer:
    """What a call answered: its text, whether it succeeded, and its value."""

    __slots__ = ("ok", "text", "value")

    def __init__(self, text: str, value: Any = None):
        self.text, self.value, self.ok = text, value, text == "ok"


SKIP_EMPTY = Answer("skipped: empty slot")
SKIP_FREED = Answer("skipped: freed memory")


class Runner:
    """Runs one program on a bench."""

    def __init__(self, bench: Bench):
        self.bench, self.cudart, self.cp = bench, bench.cudart, bench.libs.cp
        self.handles = bench.handles
        self.tracker, self.pool = Tracker(), PoolModel()
        self.arrays: list[Array | None] = [None] * ARRAYS
        self.graphs: list[Graph | None] = [None] * GRAPHS
        self.execs: list[Executable | None] = [None] * EXECS
        self.events = [Event(self.must("cudaEventCreateWithFlags", 2)) for _ in range(EVENTS)]
        self.status = ["-"] * LEGACY
        self.member: list[Captured | None] = [None] * LEGACY
        self.made: list[tuple[str, Any]] = []  # (the call that destroys it, handle)
        self.segments: list[tuple[int, int, int]] = []  # (base, end, first unit) of what cudaMalloc gave
        self.units = 0
        self.tainted = 0  # units that hold nothing defined
        self.dead = 0  # units that cudaFree has taken back
        self.synced = ""  # what the step had to do first
        self.lost = ""  # why what happens can no longer be followed

    def run(self, program: Program) -> list[str]:
        outcomes = []
        for step in program:
            self.synced = ""
            answer = getattr(self, f"do_{step[0]}")(*step[1:])
            outcomes.append(self.synced + answer.text + self.capturing())
            if self.lost:
                outcomes.append(f"stopped: {self.lost}")
                break
        return outcomes + self.clean_up()

    # -- calls --

    def call(self, name: str, *args: Any) -> Answer:
        """Calls cudart."""
        error, *values = getattr(self.cudart, name)(*args)
        if int(error) == 0:
            return Answer("ok", values[0] if len(values) == 1 else values)
        if error.name in FATAL:
            raise ContextDied(f"{name}: {error.name}")
        return Answer(error.name)

    def must(self, name: str, *args: Any) -> Any:
        answer = self.call(name, *args)
        if not answer.ok:
            raise ContextDied(f"{name}: {answer.text}")
        return answer.value

    def attempt(self, function: Callable, *args: Any) -> Answer:
        """Calls CuPy or Numba."""
        try:
            return Answer("ok", function(*args))
        except Exception as error:
            kind, text = type(error).__name__, str(error)
            if kind not in CUDA_ERRORS and not (kind == "RuntimeError" and "captur" in text):
                raise
            name = text.partition(":")[0] if text.startswith(("cuda", "CUDA")) else text[:60]
            if name in FATAL:
                raise ContextDied(name) from error
            return Answer(f"{kind} {name}")

    # -- captures --

    def capturing(self) -> str:
        """Looks which streams capture now; " [A-I]" while any does: active, not, invalidated."""
        if not any(self.member) and self.status == ["-"] * LEGACY:
            return ""
        for s in range(LEGACY):
            answer = self.call("cudaStreamIsCapturing", self.handles[s])
            letter = "-AI"[int(answer.value)] if answer.ok else "?"
            self.status[s] = letter
            if letter == "-":
                self.member[s] = None
            elif self.member[s] is None or letter == "?":
                self.lost = f"stream {s} captures ({letter})"
        return f" [{''.join(self.status)}]"

    def captures(self, s: int) -> str:
        return self.status[s] if s < LEGACY else "-"

    @property
    def quiet(self) -> bool:
        """Whether no stream captures."""
        return self.status == ["-"] * LEGACY

    def settle(self) -> bool:
        """Waits for the device, if no stream captures."""
        if not self.quiet:
            return False
        self.must("cudaDeviceSynchronize")
        self.tracker.host_waited_for_all()
        self.synced = "after a sync: "
        return True

    # -- work --

    def issue(
        self, s: int, reads: int, writes: int, call: Callable[[], Answer], *, needs: int | None = None, inits: int = 0
    ) -> Answer:
        """Issues work on stream `s` if it is defined: it reads and writes those units, `needs` must hold something before
        (all but those that it initialises, by default), `inits` do after."""
        needs = (reads | writes) & ~inits if needs is None else needs
        if (reads | writes) & self.dead:
            return SKIP_FREED
        state = self.captures(s)
        if state == "A":
            captured = self.member[s]
            if captured.races(s, reads, writes):
                return Answer("skipped: a race in the graph")
            answer = call()
            if answer.ok:
                captured.add(s, reads, writes, needs, inits)
            return answer
        if state == "I":
            answer = call()
            if answer.ok:
                self.lost = "work was taken by an invalidated capture"
            return answer
        if needs & self.tainted:
            return Answer("skipped: uninitialised")
        if self.tracker.races(s, reads, writes) and not self.settle():
            return Answer("skipped: a race")
        answer = call()
        if answer.ok:
            self.tracker.did(s, reads, writes)
            self.tainted &= ~inits
        return answer

    def _launch(self, kernel: str, s: int, *args: Any) -> Answer:
        return self.attempt(self.bench.launchers[kernel][s], *args)

    def _operand(self, operand: int) -> tuple[int, int] | None:
        array = self.arrays[operand % 8 % ARRAYS]
        return None if array is None else array.unit(operand // 8)

    def do_add(self, s: int, x: int, value: int) -> Answer:
        if (target := self._operand(x)) is None:
            return SKIP_EMPTY
        return self.issue(s, target[1], target[1], lambda: self._launch("add", s, target[0], float(value)))

    def do_affine(self, s: int, x: int, scale: int, value: int) -> Answer:
        if (target := self._operand(x)) is None:
            return SKIP_EMPTY
        a, b = SCALES[scale], float(value)
        return self.issue(s, target[1], target[1], lambda: self._launch("affine", s, target[0], a, b))

    def do_copy(self, s: int, x: int, y: int) -> Answer:
        if (target := self._operand(x)) is None or (source := self._operand(y)) is None:
            return SKIP_EMPTY
        return self.issue(s, source[1], target[1], lambda: self._launch("copy", s, target[0], source[0]))

    def do_memset(self, s: int, x: int, value: int) -> Answer:
        return SKIP_EMPTY if (array := self.arrays[x % ARRAYS]) is None else self._fill(s, array, BYTES[value])

    def _fill(self, s: int, array: Array, value: int) -> Answer:
        size, handle = array.size * UNIT, self.handles[s]
        return self.issue(
            s, 0, array.mask, lambda: self.call("cudaMemsetAsync", array.pointer, value, size, handle), inits=array.mask
        )

    def do_memcpy(self, s: int, x: int, y: int) -> Answer:
        target, source = self.arrays[x % 8 % ARRAYS], self.arrays[y % 8 % ARRAYS]
        if target is None or source is None:
            return SKIP_EMPTY
        size = min(target.size, source.size)
        ones = (1 << size) - 1
        reads, writes = ones << source.first, ones << target.first
        if reads & writes:
            return Answer("skipped: overlap")
        args = target.pointer, source.pointer, size * UNIT, self.bench.to_device, self.handles[s]
        return self.issue(s, reads, writes, lambda: self.call("cudaMemcpyAsync", *args), needs=reads, inits=writes)

    # -- memory --

    def do_zeros(self, slot: int, size: int, s: int) -> Answer:
        """`cupy.zeros`, where its memset cannot fail; else `cupy.empty` and a memset."""
        legacy_is_refused = s in (LEGACY, BLOCKING) and not self.quiet
        return self._pooled(slot, size, s, zeros=self.captures(s) != "I" and not legacy_is_refused)

    def do_empty(self, slot: int, size: int, s: int) -> Answer:
        return self._pooled(slot, size, s, zeros=False)

    def _pooled(self, slot: int, size: int, s: int, zeros: bool) -> Answer:
        """An array of `size` units from the pool of stream `s`; the slot's old one goes afterwards, as when a name is bound
        anew."""
        block = self.pool.pick(size, s)
        if block == "several":
            return Answer("skipped: several free blocks")
        cp, n = self.cp, size * UNIT // 4

        def allocate(function: Callable) -> Any:
            with self.bench.streams[s]:
                return function(n, dtype=cp.float32)

        if not zeros:
            answer = self.attempt(allocate, cp.empty)
        else:
            expected = ((1 << size) - 1) << (self._first_unit(block[0]) if block is not None else self.units)
            answer = self.issue(s, 0, expected, lambda: self.attempt(allocate, cp.zeros), inits=expected)
        if not answer.ok:
            return answer
        array, answer.value = answer.value, None
        pointer = int(array.data.ptr)
        segment = self._segment(pointer, size, initialised=zeros and self.captures(s) == "-")
        made = Array(pointer, size, self._first_unit(pointer), array, self.pool.take(pointer, size, s))
        del array
        self._release(slot)
        self.arrays[slot] = made
        place = "as expected" if block is None or block[0] == pointer else "elsewhere"
        text = f"ok, segment {segment} + {(pointer - self.segments[segment][0]) // UNIT}, {place}"
        if not zeros and made.mask & self.tainted:
            text += f", memset {self._fill(s, made, 0).text}"
        return Answer(text)

    def _segment(self, pointer: int, size: int, initialised: bool) -> int:
        """The number of the segment that holds `pointer`, a new one if none does."""
        for i, (base, end, first) in enumerate(self.segments):
            if base <= pointer < end and not self.dead >> first & 1:
                return i
        self.segments.append((pointer, pointer + size * UNIT, self.units))
        if not initialised:
            self.tainted |= ((1 << size) - 1) << self.units
        self.units += size
        return len(self.segments) - 1

    def _first_unit(self, pointer: int) -> int:
        for base, end, first in reversed(self.segments):
            if base <= pointer < end and not self.dead >> first & 1:
                return first + (pointer - base) // UNIT
        raise AssertionError("an address outside every segment")

    def _release(self, slot: int) -> None:
        """The slot's array goes back to the pool. Memory of cudaMalloc stays allocated until the end."""
        old, self.arrays[slot] = self.arrays[slot], None
        if old is not None and old.block is not None:
            old.array = None
            self.pool.release(old.block)

    def do_free(self, slot: int) -> Answer:
        if self.arrays[slot] is None:
            return SKIP_EMPTY
        self._release(slot)
        return Answer("ok")

    def do_malloc(self, slot: int, size: int, s: int) -> Answer:
        answer = self.call("cudaMalloc", size * UNIT)
        if not answer.ok:
            return answer
        pointer = int(answer.value)
        self.made.append(("cudaFree", pointer))
        self._segment(pointer, size, initialised=False)
        self.arrays[slot] = made = Array(pointer, size, self._first_unit(pointer))
        return Answer(f"ok, memset {self._fill(s, made, 0).text}")

    def do_cudafree(self, slot: int) -> Answer:
        array = self.arrays[slot]
        if array is None or array.block is not None:
            return SKIP_EMPTY
        if not self.tracker.all_idle and not self.settle():
            return Answer("skipped: work is pending")
        answer = self.call("cudaFree", array.pointer)
        if answer.ok:
            self.made.remove(("cudaFree", array.pointer))
            self.dead |= array.mask
            self.arrays[slot] = None
        return answer

    def do_read(self, slot: int, s: int) -> Answer:
        """`ndarray.get` under a stream; memory of cudaMalloc is not CuPy's to read."""
        array = self.arrays[slot]
        if array is None or array.block is None:
            return SKIP_EMPTY
        state = self.captures(s)
        if state == "-":
            if array.mask & self.tainted:
                return Answer("skipped: uninitialised")
            if self.tracker.races(s, array.mask, 0) and not self.settle():
                return Answer("skipped: a race")
        answer = self.attempt(self._get, array.array, s)
        if not answer.ok:
            return answer
        if state != "-":
            self.lost = "a capturing stream was read"
            return answer
        self.tracker.did(s, array.mask, 0)
        self.tracker.host_waited(s)
        return Answer(describe(answer.value))

    def _get(self, array: Any, s: int) -> np.ndarray:
        with self.bench.streams[s]:
            return array.get()

    # -- streams and events --

    def do_sync(self, s: int) -> Answer:
        answer = self.call("cudaStreamSynchronize", self.handles[s])
        if answer.ok:
            self.tracker.host_waited(s)
        return answer

    def do_sync_device(self) -> Answer:
        answer = self.call("cudaDeviceSynchronize")
        if answer.ok:
            self.tracker.host_waited_for_all()
        return answer

    def do_query(self, s: int) -> Answer:
        if self.captures(s) == "-" and not self.tracker.is_idle(s) and not self.settle():
            return Answer("skipped: work is pending")
        return self.call("cudaStreamQuery", self.handles[s])

    def do_record(self, e: int, s: int) -> Answer:
        event = self.events[e]
        answer = self.call("cudaEventRecord", event.handle, self.handles[s])
        if not answer.ok:
            event.certain = False
            return answer
        event.certain, event.clock, event.captured = True, None, None
        if self.captures(s) == "-":
            event.clock = self.tracker.recorded(s)
        else:
            event.captured = self.member[s], self.member[s].tails[s]
        return answer

    def do_wait(self, s: int, e: int) -> Answer:
        event = self.events[e]
        answer = self.call("cudaStreamWaitEvent", self.handles[s], event.handle, 0)
        if not answer.ok:
            return answer
        if event.captured is not None and event.captured[0].live:
            captured, tail = event.captured
            if s == LEGACY or not event.certain or self.member[s] not in (None, captured):
                self.lost = "an unexpected wait on an event of a capture"
            else:
                self.member[s] = captured
                captured.tails[s] = captured.tails.get(s, 0) | tail
        elif self.captures(s) == "-":
            self.tracker.waits(s, event.clock if event.clock is not None and event.certain else [0] * STREAMS)
        return answer

    def _event_is_decided(self, event: Event) -> bool:
        if event.certain and (event.captured is not None or event.clock is None):
            return True
        if event.certain and all(c <= h for c, h in zip(event.clock, self.tracker.host, strict=True)):
            return True
        return self.settle()

    def do_query_event(self, e: int) -> Answer:
        event = self.events[e]
        if not self._event_is_decided(event):
            return Answer("skipped: work is pending")
        return self.call("cudaEventQuery", event.handle)

    def do_sync_event(self, e: int) -> Answer:
        event = self.events[e]
        answer = self.call("cudaEventSynchronize", event.handle)
        if answer.ok and event.certain and event.clock is not None:
            self.tracker.host_saw(event.clock)
        return answer

    # -- captures and graphs --

    def do_begin(self, s: int, mode: int) -> Answer:
        answer = self.call("cudaStreamBeginCapture", self.handles[s], self.bench.modes[mode])
        if answer.ok:
            if s == LEGACY or self.member[s] is not None:
                self.lost = "a capture began where none can"
            else:
                self.member[s] = Captured(s)
        return answer

    def do_end(self, s: int, g: int) -> Answer:
        captured = self.member[s] if s < LEGACY else None
        answer = self.call("cudaStreamEndCapture", self.handles[s])
        if answer.ok and captured is None:
            self.lost = "a capture ended that never began"
        elif captured is not None and (answer.ok or s == captured.origin):
            captured.live = False
        if answer.ok and captured is not None:
            self._keep_graph(g, answer.value, captured)
        return answer

    def _keep_graph(self, g: int, handle: Any, captured: Captured) -> None:
        if int(handle) == 0:
            self.lost = "no graph, and no error"
            return
        self.made.append(("cudaGraphDestroy", handle))
        self.graphs[g] = Graph(handle, captured)

    def do_destroy_graph(self, g: int) -> Answer:
        graph = self.graphs[g]
        if graph is None:
            return SKIP_EMPTY
        answer = self.call("cudaGraphDestroy", graph.handle)
        self.made = [m for m in self.made if m[1] is not graph.handle]
        graph.alive, self.graphs[g] = False, None
        return answer

    def do_clone(self, g: int, target: int) -> Answer:
        graph = self.graphs[g]
        if graph is None:
            return SKIP_EMPTY
        if self._points_to_freed(graph.captured):
            return SKIP_FREED
        answer = self.call("cudaGraphClone", graph.handle)
        if answer.ok:
            self._keep_graph(target, answer.value, graph.captured)
        return answer

    def do_instantiate(self, g: int, x: int) -> Answer:
        graph = self.graphs[g]
        if graph is None:
            return SKIP_EMPTY
        if self._points_to_freed(graph.captured):
            return SKIP_FREED
        answer = self.call("cudaGraphInstantiate", graph.handle, 0)
        if answer.ok:
            self.made.append(("cudaGraphExecDestroy", answer.value))
            self.execs[x] = Executable(answer.value, graph)
        return answer

    def _points_to_freed(self, graph: Captured | Executable) -> bool:
        return bool((graph.reads | graph.writes) & self.dead)

    def do_graph(self, x: int, s: int) -> Answer:
        executable = self.execs[x]
        if executable is None:
            return SKIP_EMPTY
        if executable.is_empty:  # its replay is no work, and orders nothing
            return self.call("cudaGraphLaunch", executable.handle, self.handles[s])
        return self.issue(
            s, executable.reads, executable.writes,
            lambda: self.call("cudaGraphLaunch", executable.handle, self.handles[s]),
            needs=executable.needs, inits=executable.inits,
        )  # fmt: skip

    def do_update(self, x: int, g: int) -> Answer:
        executable, graph = self.execs[x], self.graphs[g]
        if executable is None or graph is None:
            return SKIP_EMPTY
        if self._points_to_freed(executable) or self._points_to_freed(graph.captured):
            return SKIP_FREED
        executable.may_also(graph.captured)
        return self.call("cudaGraphExecUpdate", executable.handle, graph.handle)

    def do_enable(self, x: int, n: int, on: int) -> Answer:
        """Enables or disables the n-th node that can be told apart from all others."""
        executable = self.execs[x]
        if executable is None or not executable.graph.alive:
            return SKIP_EMPTY
        if self._points_to_freed(executable):
            return SKIP_FREED
        nodes = self._nodes(executable.graph.handle)
        keys = [key for key, _ in nodes]
        single = sorted((pair for pair in nodes if keys.count(pair[0]) == 1), key=lambda pair: pair[0])
        if not single:
            return Answer("skipped: no node that can be told apart")
        key, node = single[n % len(single)]
        if not on and key[0] != "Kernel":
            return Answer("skipped: order behind a disabled copy or memset")
        executable.inits = 0
        answer = self.call("cudaGraphNodeSetEnabled", executable.handle, node, on)
        return Answer(f"{key[0]}: {answer.text}")

    def do_inspect(self, g: int) -> Answer:
        """Each node's type, and how many nodes come before and after it; the number of edges."""
        graph = self.graphs[g]
        if graph is None:
            return SKIP_EMPTY
        nodes = self._nodes(graph.handle)
        described = " ".join(sorted(f"{kind}<{before},{after}>" for (kind, before, after), _ in nodes))
        return Answer(f"{len(nodes)} nodes, {self.edges} edges: {described}")

    def _nodes(self, handle: Any) -> list[tuple[tuple[str, int, int], Any]]:
        """Each node as ((type, ancestors, descendants), handle)."""
        _, count = self.must("cudaGraphGetNodes", handle)
        self.edges = 0
        if not count:
            return []
        nodes, _ = self.must("cudaGraphGetNodes", handle, count)
        nodes = nodes[:count]
        place = {int(node): i for i, node in enumerate(nodes)}
        *_, self.edges = self.must("cudaGraphGetEdges", handle)
        successors: list[list[int]] = [[] for _ in nodes]
        if self.edges:
            sources, targets, *_ = self.must("cudaGraphGetEdges", handle, self.edges)
            for a, b in zip(sources[: self.edges], targets[: self.edges], strict=True):
                successors[place[int(a)]].append(place[int(b)])
        below = [_reach(i, successors) for i in range(len(nodes))]
        above = [sum(i in reach for reach in below) for i in range(len(nodes))]
        kinds = [self.must("cudaGraphNodeGetType", node).name.removeprefix("cudaGraphNodeType") for node in nodes]
        return [((k, a, len(b)), node) for k, a, b, node in zip(kinds, above, below, nodes, strict=True)]

    # -- the end --

    def clean_up(self) -> list[str]:
        """Ends every capture, waits, tells what memory holds, and leaves nothing behind."""
        said = []
        for _ in range(2):
            for s in range(LEGACY):
                captured = self.member[s]
                if self.status[s] == "-" and captured is None:
                    continue
                if captured is None or captured.origin == s or _:
                    answer = self.call("cudaStreamEndCapture", self.handles[s])
                    if answer.ok and int(answer.value):
                        self.made.append(("cudaGraphDestroy", answer.value))
                    said.append(f"end of stream {s}: {answer.text}")
            self.capturing()
        if not self.quiet:
            said.append("a capture does not end")
            self.bench.renew_streams()
        self.must("cudaDeviceSynchronize")
        if not self.lost:
            said += self._memory()
        for call, handle in reversed(self.made):
            self.must(call, handle)
        for event in self.events:
            self.must("cudaEventDestroy", event.handle)
        self.arrays = []
        self.cp.get_default_memory_pool().free_all_blocks()
        if (forget := getattr(self.cudart, "cudaGetLastError", None)) is not None:
            forget()
        return said

    def _memory(self) -> list[str]:
        said = []
        for slot, array in enumerate(self.arrays):
            if array is None:
                continue
            if array.mask & self.tainted:
                said.append(f"array {slot}: uninitialised")
                continue
            values = array.array
            if values is None:  # cudaMalloc: by way of an array
                values = self.cp.empty(array.size * UNIT // 4, dtype=self.cp.float32)
                self.must("cudaMemcpyAsync", int(values.data.ptr), array.pointer, array.size * UNIT, self.bench.to_device, 0)
            said.append(f"array {slot}: {describe(values.get())}")
        return said


def _reach(i: int, successors: list[list[int]]) -> set[int]:
    seen: set[int] = set()
    todo = list(successors[i])
    while todo:
        j = todo.pop()
        if j not in seen:
            seen.add(j)
            todo.extend(successors[j])
    return seen


def describe(values: np.ndarray) -> str:
    """The first values of each unit, and a checksum of all bytes."""
    firsts = " ".join(f"{values[i]:g}" for i in range(0, len(values), UNIT // 4))
    return f"{firsts}, {values[1]:g}, crc {zlib.crc32(values.tobytes()):08x}"


def digest(outcomes: list[str]) -> int:
    """32 bits that stand for the outcomes."""
    return zlib.crc32("\n".join(outcomes).encode())


def first_difference(program: Program, one: list[str], other: list[str]) -> str:
    """The first outcome in which two runs differ, with its step; "" where they agree."""
    for i in range(max(len(one), len(other))):
        a, b = (run[i] if i < len(run) else "nothing" for run in (one, other))
        if a != b:
            step = f"step {i} {program[i]}" if i < len(program) else "at the end"
            return f"{step}: {a!r} against {b!r}"
    return ""


def shrink(program: Program, still: Callable[[Program], bool], tries: int = 400) -> Program:
    """A smaller program for which `still` holds: steps are left out, ever fewer at once."""
    size = len(program) // 2
    while size:
        i = 0
        while i < len(program):
            smaller = program[:i] + program[i + size :]
            tries -= 1
            if tries < 0:
                return program
            if still(smaller):
                program = smaller
            else:
                i += size
        size //= 2
    return program


def grammar_version() -> str:
    """Changes when the seeds draw other programs: recorded outcomes hold for one version only."""
    return f"{zlib.crc32(repr([seeded(seed) for seed in range(200)]).encode()):08x}"
