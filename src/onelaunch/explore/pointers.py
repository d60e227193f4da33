"""The explorer of the chapter on baked pointers: what a graph's pointer leads to, step by step, while arrays come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import ipywidgets as widgets
import numpy as np

from onelaunch.charts.memory_map import FREED, LIVE, RETURNED, REUSED, UNUSED, Block, MemoryMap, MemoryMapChart, Step
from onelaunch.device import Device, current
from onelaunch.instruments.addresses import BakedPointer, addresses

from .base import Dial, Explorer

SAME, OTHER, STATIC, REAL = "same size", "other size", "static buffer", "freed for real"
LABELS = {
    SAME: "same size (the pool hands the block back)",
    OTHER: "other size (b is larger)",
    STATIC: "static buffer kept alive (inputs are copied in)",
    REAL: "freed for real (the block goes back to the device)",
}
SMALL, LARGER = 1_000, 3_000  # float32 elements: what is freed must not be large enough for the larger one
HUGE = 4 << 20  # 16 MiB, which the driver unmaps when it is freed
SHOWN = 4  # values of each block

LAUNCH = "graph.launch(stream)"


def _zeros(name: str, n: str) -> str:
    return f'{name} = cp.zeros({n}, "float32")'


_START = (
    Step("allocate a", _zeros("a", "1_000")),
    Step("capture a[0] += 1", "first = a[:1]; first += 1"),
    Step("replay", LAUNCH),
)
_FREE = Step("free a", "del a")
STEPS: dict[str, tuple[Step, ...]] = {
    SAME: (*_START, _FREE, Step("allocate b", _zeros("b", "1_000")), Step("replay", LAUNCH), Step("read b", "b.get()")),
    OTHER: (*_START, _FREE, Step("allocate b", _zeros("b", "3_000")), Step("replay", LAUNCH), Step("read b", "b.get()")),
    STATIC: (
        *_START,
        Step("a new input, in b", 'b = cp.full(1_000, 5, "float32")'),
        Step("copy it into a, which stayed", "a[...] = b"),
        Step("replay", LAUNCH),
        Step("read a", "a.get()"),
    ),
    REAL: (
        Step("allocate a, 16 MiB", _zeros("a", "4 << 20")),
        *_START[1:],
        _FREE,
        Step("empty CuPy's pool", "pool.free_all_blocks(stream)"),
        Step("replay", LAUNCH, is_run=False),
        Step("anything else", "cp.zeros(1)", is_run=False),
    ),
}


@dataclass(frozen=True)
class Place:
    """Where an array is or was."""

    address: int
    nbytes: int

    @classmethod
    def of(cls, array: Any) -> Place:
        return cls(array.data.ptr, array.nbytes)


@dataclass
class Story:
    """One run on the device, on a stream of its own: CuPy's pool keeps the blocks of a stream apart from all others, so it
    starts with none. `moments` are what was read back after each step."""

    device: Device
    stream: Any
    steps: tuple[Step, ...]
    arrays: dict[str, Any] = field(default_factory=dict)  # what Python's names hold
    places: dict[str, Place] = field(default_factory=dict)  # of all arrays that there ever were
    graph: Any = None
    book: Any = None
    is_returned: bool = False  # whether the driver has the freed block
    moments: list[tuple[MemoryMap, str]] = field(default_factory=list)

    @property
    def pool(self) -> Any:
        return self.device.cp.get_default_memory_pool()

    # -- what the steps do --------------------------------------------------------------------------------------------

    def allocate(self, name: str, elements: int, value: float = 0.0) -> None:
        cp = self.device.cp
        before = self.pool.used_bytes()
        array = cp.full(elements, value, "float32") if value else cp.zeros(elements, "float32")
        if self.pool.used_bytes() < before + array.nbytes:  # what is freed elsewhere may be unmapped, and a replay fatal
            raise RuntimeError("the memory map needs CuPy's default memory pool, and cupy.cuda.set_allocator chose another")
        self.arrays[name], self.places[name] = array, Place.of(array)
        if self.book is not None:
            self.book.update(**{name: array})

    def capture(self) -> None:
        first = self.arrays["a"][:1]
        self.stream.begin_capture()
        try:
            first += 1
        finally:
            self.graph = self.stream.end_capture()
        self.book = addresses(self.graph, a=self.arrays["a"])
        if self.pointer is None or self.pointer.address != self.places["a"].address:
            raise RuntimeError("the node of the captured graph does not hold the address of a")

    def replay(self) -> None:
        self.graph.launch(self.stream)

    def free(self, name: str) -> None:
        self.stream.synchronize()
        del self.arrays[name]

    def copy_in(self) -> None:
        self.arrays["a"][...] = self.arrays["b"]

    def empty_pool(self) -> None:
        before = self.pool.total_bytes()
        self.pool.free_all_blocks(stream=self.stream)
        self.is_returned = self.pool.total_bytes() <= before - self.places["a"].nbytes

    # -- what is read back --------------------------------------------------------------------------------------------

    def tell(self, verdict: Callable[[], str], *, writes: bool = False) -> None:
        """Reads back what the last step has left, and remembers it with the verdict."""
        self.stream.synchronize()
        places = {place.address: place.nbytes for place in self.places.values()}
        blocks = tuple(self._block(address, nbytes) for address, nbytes in places.items())
        baked = self.pointer.address if self.pointer else None
        self.moments.append((MemoryMap(self.steps, len(self.moments) + 1, blocks, baked, writes), verdict()))

    def _block(self, address: int, nbytes: int) -> Block:
        names = [name for name, place in self.places.items() if place.address == address]
        owner = next((name for name in names if name in self.arrays), None)
        was = next((name for name in names if name not in self.arrays), None)
        if owner is None and self.is_returned:
            return Block(address, nbytes, RETURNED, was=was)  # not to be read
        state = FREED if owner is None else REUSED if was else LIVE
        return Block(address, nbytes, state, owner, self.read(address), was)

    def read(self, address: int) -> tuple[float, ...]:
        """The first values there, whoever owns them."""
        host, runtime = np.empty(SHOWN, np.float32), self.device.cp.cuda.runtime
        runtime.memcpyAsync(host.ctypes.data, address, host.nbytes, runtime.memcpyDeviceToHost, self.stream.ptr)
        self.stream.synchronize()
        return tuple(host.tolist())

    def first(self, name: str) -> float:
        """What the name's array has in its first element, or what stands where it was."""
        return self.read(self.places[name].address)[0]

    @property
    def pointer(self) -> BakedPointer | None:
        """The pointer in the graph's node, as it was read out of the node."""
        return next(iter(self.book), None) if self.book is not None else None

    @property
    def is_handed_on(self) -> bool:
        """Whether b has the block that the graph's pointer leads to."""
        return self.places["b"].address == self.pointer.address

    def close(self) -> None:
        """Leaves nothing behind on the device."""
        self.stream.synchronize()
        self.arrays.clear()
        self.graph = self.book = None
        self.pool.free_all_blocks(stream=self.stream)


# -- the scenarios ----------------------------------------------------------------------------------------------------


def _begin(story: Story, elements: int) -> None:
    story.allocate("a", elements)
    story.tell(
        lambda: f"a has a block of device memory, and a[0] is {story.first('a'):.1f}; so far only the name a leads there"
    )
    story.capture()
    story.tell(
        lambda: (
            f"the graph's node holds the address of a, as a bare number; a[0] is still {story.first('a'):.1f}, "
            "for a capture runs nothing"
        )
    )
    story.replay()
    story.tell(lambda: f"the replay added 1 at the baked address: a[0] is {story.first('a'):.1f}, as it should be", writes=True)


def _free(story: Story) -> None:
    story.free("a")
    story.tell(
        lambda: f"a is gone, its block is back in CuPy's pool, and nobody told the graph; its pointer: {story.pointer.now}"
    )


def _pooled(story: Story, elements: int) -> None:
    """Frees a into the pool; b comes, and gets that block or another."""
    _begin(story, SMALL)
    _free(story)
    story.allocate("b", elements)
    pointer = f"the graph's pointer: {story.pointer.now}"

    def allocated() -> str:
        if story.is_handed_on:
            return f"the pool handed a's block to b: the same address, and b[0] is {story.first('b'):.1f}; {pointer}"
        if elements == SMALL:
            return f"the pool did not hand a's block back this time: b is elsewhere; {pointer}"
        return f"b does not fit into a's block and is elsewhere; {pointer}"

    def replayed() -> str:
        if story.is_handed_on:
            return f"the replay wrote into b: b[0] is {story.first('b'):.1f}, nobody wrote it there"
        return (
            f"the replay wrote into freed memory, without an error: {story.first('a'):.1f} where a[0] was; "
            f"b[0] is still {story.first('b'):.1f}"
        )

    def looked() -> str:
        got = story.arrays["b"].get()[0]
        if story.is_handed_on:
            return f"b was made of zeros, and reads {got:.1f} in front: no error, no warning, a wrong number"
        return f"b reads {got:.1f}, unharmed by luck: whoever gets a's old block next is written into by the next replay"

    story.tell(allocated)
    story.replay()
    story.tell(replayed, writes=True)
    story.tell(looked)


def _static(story: Story) -> None:
    _begin(story, SMALL)
    story.allocate("b", SMALL, 5.0)
    story.tell(
        lambda: (
            f"the new input came in b, in a block of its own: b[0] is {story.first('b'):.1f}; a stays; "
            f"the graph's pointer: {story.pointer.now}"
        )
    )
    story.copy_in()
    story.tell(
        lambda: f"the input is copied into a, the static buffer: a[0] is {story.first('a'):.1f}, at the address the graph knows"
    )
    story.replay()
    story.tell(
        lambda: f"the replay worked on a: a[0] is {story.first('a'):.1f}; b[0] is still {story.first('b'):.1f}", writes=True
    )
    story.tell(
        lambda: f"a reads {story.arrays['a'].get()[0]:.1f}, the input plus 1: its memory never moved, so the graph stays good"
    )


def _returned(story: Story) -> None:
    _begin(story, HUGE)
    _free(story)
    story.empty_pool()

    def emptied() -> str:
        if not story.is_returned:
            return "CuPy's pool did not return the block this time: it is freed, but still there"
        return "CuPy returned the block to the device (cudaFree): the graph's pointer leads to nothing at all"

    story.tell(emptied)
    shown = "the chapter on baked pointers shows it in a subprocess"
    story.tell(
        lambda: (
            "not run here, since it would kill this process's context: the replay fails with cudaErrorIllegalAddress, which "
            f"the next call that waits reports; {shown}"
        ),
        writes=True,
    )
    story.tell(
        lambda: (
            "not run here: from then on every call fails with the same error, whatever it does, until the process is started "
            f"again; {shown}"
        )
    )


SCENARIOS: dict[str, Callable[[Story], None]] = {
    SAME: lambda story: _pooled(story, SMALL),
    OTHER: lambda story: _pooled(story, LARGER),
    STATIC: _static,
    REAL: _returned,
}


def _run(scenario: str) -> tuple[tuple[MemoryMap, str], ...]:
    """Runs a scenario from its first step to its last on the current device: the map and the verdict after each step."""
    device = current()
    story = Story(device, device.cp.cuda.Stream(non_blocking=True), STEPS[scenario])
    with story.stream:
        try:
            device.cp.zeros(1, "float32").__iadd__(1)  # compiles what the capture will need
            story.stream.synchronize()
            story.pool.free_all_blocks(stream=story.stream)
            SCENARIOS[scenario](story)
        finally:
            story.close()
    return _laid_out(story.moments)


def _laid_out(moments: list[tuple[MemoryMap, str]]) -> tuple[tuple[MemoryMap, str], ...]:
    """The maps with a place for every block of the story from the first step on, by address."""
    sizes = {block.address: block.nbytes for view, _ in moments for block in view.blocks}
    out = []
    for view, verdict in moments:
        there = {block.address: block for block in view.blocks}
        blocks = tuple(there.get(address) or Block(address, sizes[address], UNUSED) for address in sorted(sizes))
        out.append((replace(view, blocks=blocks), verdict))
    return tuple(out)


class MemoryMapExplorer(Explorer):
    """A step and a scenario; see `memory_map`. `view` is what the picture shows."""

    name = "Memory map"

    def __init__(self, scenario: str, step: int):
        if scenario not in LABELS:
            raise ValueError(f"no scenario {scenario!r}; there are {', '.join(LABELS)}")
        self.scenario = widgets.Dropdown(
            options=[(label, name) for name, label in LABELS.items()], value=scenario, description="scenario",
            style={"description_width": "132px"}, layout=widgets.Layout(width="540px"),
        )  # fmt: skip
        self.step = Dial("step", step, 1, max(map(len, STEPS.values())))
        self._runs: dict[str, tuple[tuple[MemoryMap, str], ...]] = {}
        self._chart = MemoryMapChart()
        self.step.on_change(self.redraw)
        self.scenario.observe(lambda _: self.redraw(), "value")
        super().__init__([self.scenario, self.step.widget])

    def _moment(self) -> tuple[MemoryMap, str]:
        scenario = self.scenario.value
        if scenario not in self._runs:
            self._runs[scenario] = _run(scenario)
        return self._runs[scenario][self.step.value - 1]

    @property
    def view(self) -> MemoryMap:
        """The memory, its owners and the graph's pointer after the step, as they were read back."""
        return self._moment()[0]

    def settings(self) -> str:
        scenario, number = self.scenario.value, self.step.value
        step = STEPS[scenario][number - 1]
        text = f"{LABELS[scenario]}, step {number} of {len(STEPS[scenario])}: {step.name}, {step.code}"
        if scenario not in self._runs:
            return text
        view = self.view
        there = sorted((b for b in view.blocks if b.state != UNUSED), key=lambda b: b.was or b.owner)
        rows = [f"  {b.words}; {b.first}{'  ← the graph points here' if b is view.target else ''}" for b in there]
        return "\n".join([text, *rows])

    def draw(self) -> tuple[bytes, str, str]:
        view, verdict = self._moment()
        device = current()
        source = "run when the scenario was chosen; addresses and values as read back after each step"
        return self._chart.png(view), verdict, f"{device.kind} · {device.gpu} · {source}"


def memory_map(scenario: str = SAME, step: int = 1) -> MemoryMapExplorer:
    """Device memory, step by step, around a graph that has the address of an array baked into it.

    `scenario` is "same size" (a is freed, b gets its block, a replay corrupts b), "other size" (b gets another block), "static
    buffer" (a stays and inputs are copied in) or "freed for real" (the block goes back to the device); `step` is 1 to 7. A
    scenario is run from first step to last when it is chosen, on a stream of its own, and leaves nothing on the device; the
    stepper leafs through what was read back. Only the last two steps of "freed for real" are told, and not run: they would kill
    the context of this process. Raises ValueError for another scenario.
    """
    return MemoryMapExplorer(scenario, step)
