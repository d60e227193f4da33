"""The memory map: a strip of device memory, the names that own its blocks, and a graph with an address baked into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Text

from .style import DEVICE, FONT, GRAPH, HOST, IDLE_EDGE, IDLE_FACE, INK, QUIET, Canvas, new_figure

WIDTH, HEIGHT = 960, 430
STRIP_LOW, STRIP_HIGH = 176, 268
LEFT, RIGHT = 336, 944  # of the strip
MOST_BLOCKS = 2
ROW, FIRST_ROW = 46, 362  # of the list of steps
GRAPH_BOX = (LEFT + 74, 26, RIGHT - LEFT - 148, 58)  # x, y, width, height

UNUSED, LIVE, FREED, REUSED, RETURNED = "unused", "live", "freed", "reused", "returned"
# state → (fill, edge, line style, hatch)
LOOKS = {
    UNUSED: (IDLE_FACE, IDLE_EDGE, "-", "////"),
    LIVE: ("#d8f0e7", DEVICE, "-", ""),
    FREED: ("white", HOST, (0, (5, 3)), ""),
    REUSED: ("#fbe3d5", HOST, "-", ""),
    RETURNED: ("white", HOST, (0, (1, 2)), "xx"),
}


@dataclass(frozen=True)
class Step:
    """One step of the story: what it is called, its line of code, and whether it was run."""

    name: str
    code: str
    is_run: bool = True


@dataclass(frozen=True)
class Block:
    """A block of device memory after a step: whose it is, in which of the five states, and its first values."""

    address: int
    nbytes: int
    state: str
    owner: str | None = None
    values: tuple[float, ...] = ()
    was: str | None = None  # who owned it before

    @property
    def words(self) -> str:
        return {
            UNUSED: "other memory",
            LIVE: f"live: it is {self.owner}'s",
            FREED: f"freed: it was {self.was}'s",
            REUSED: f"reused: it was {self.was}'s, now {self.owner}'s",
            RETURNED: "freed: returned to the device",
        }[self.state]

    @property
    def first(self) -> str:
        """The first values in words."""
        if self.values:
            return "  ".join(f"{value:.1f}" for value in self.values) + "  …"
        return "nothing is mapped here" if self.state == RETURNED else ""


@dataclass(frozen=True)
class MemoryMap:
    """What the map shows after one step: all blocks of the story by address, and the graph's pointer (None: no graph yet)."""

    steps: tuple[Step, ...]
    step: int  # from 1 on
    blocks: tuple[Block, ...]
    baked: int | None = None
    writes: bool = False  # whether this step is a replay

    @property
    def now(self) -> Step:
        return self.steps[self.step - 1]

    @property
    def target(self) -> Block | None:
        """The block that the graph's pointer leads to."""
        return next((b for b in self.blocks if self.baked is not None and b.address == self.baked), None)


def shortened(addresses: Sequence[int]) -> dict[int, str]:
    """Each address by its last hexadecimal digits: six, or as many as tell them apart."""
    distinct = set(addresses)
    digits = next(n for n in range(6, 17) if len({a % 16**n for a in distinct}) == len(distinct))
    return {a: f"…{a % 16**digits:0{digits}x}" for a in distinct}


class MemoryMapChart:
    """The steps on the left; names, memory and graph on the right."""

    def __init__(self) -> None:
        self.figure = figure = new_figure(WIDTH, HEIGHT)
        axes = self._axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
        axes.axis("off")
        self._moving: list = []
        self._title = self._text(16, HEIGHT - 22, size=FONT + 2, weight="bold")
        self._mark = self._add(Rectangle((8, 0), 304, ROW - 2, facecolor="#eaf2f8", edgecolor=GRAPH, linewidth=1.2))
        self._names = [self._text(44, 0) for _ in range(7)]
        self._numbers = [self._text(28, 0, ha="center") for _ in range(7)]
        self._codes = [self._text(44, 0, size=FONT - 1.5, family="monospace") for _ in range(7)]
        self._fixed()
        self._slots = [_Slot(self) for _ in range(MOST_BLOCKS)]
        x, y, width, height = GRAPH_BOX
        self._box = self._add(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=8", linewidth=1.8))
        self._graph = self._text(x + width / 2, y + 39, ha="center", weight="bold")
        self._pointer = self._text(x + width / 2, y + 17, ha="center", size=FONT - 0.5)
        self._arrow = self._add(_arrow())
        self._arrow_name = self._text(0, 0, size=FONT - 0.5, weight="bold")
        self._canvas = Canvas(figure, [], self._moving)

    def _add(self, artist):
        self._axes.add_artist(artist)
        self._moving.append(artist)
        return artist

    def _text(self, x: float, y: float, *, size: float = FONT, ha: str = "left", **look) -> Text:
        text = self._axes.text(x, y, "", fontsize=size, ha=ha, va="center", color=INK, **look)
        self._moving.append(text)
        return text

    def _fixed(self) -> None:
        """What no step changes."""
        axes, small = self._axes, {"fontsize": FONT - 1, "color": QUIET, "va": "center"}
        axes.plot([322, 322], [16, HEIGHT - 46], color=IDLE_EDGE, linewidth=0.8)
        axes.add_artist(
            Rectangle(
                (LEFT, STRIP_LOW), RIGHT - LEFT, STRIP_HIGH - STRIP_LOW,
                facecolor=IDLE_FACE, edgecolor=IDLE_EDGE, hatch="////", linewidth=0,
            )
        )  # fmt: skip
        axes.text(LEFT, HEIGHT - 58, "names in Python", **small)
        axes.text(LEFT, STRIP_HIGH + 12, "device memory", **small)
        axes.text(RIGHT, STRIP_HIGH + 12, "hatched: others", ha="right", **small)
        axes.text(LEFT, STRIP_LOW - 14, "low addresses", **small)
        axes.text(RIGHT, STRIP_LOW - 14, "high addresses", ha="right", **small)
        axes.text(LEFT, GRAPH_BOX[1] + GRAPH_BOX[3] / 2, "the graph", **small)

    def png(self, view: MemoryMap) -> bytes:
        """The picture of the memory after one step. Raises ValueError for more blocks than it has room for."""
        if len(view.blocks) > MOST_BLOCKS:
            raise ValueError(f"the map has room for {MOST_BLOCKS} blocks, not {len(view.blocks)}")
        self._list(view)
        known = [b.address for b in view.blocks if b.state != UNUSED]
        short = shortened([*known, *([view.baked] if view.baked is not None else [])])
        places = _places(view.blocks)
        for i, slot in enumerate(self._slots):
            if i < len(view.blocks):
                slot.set(view.blocks[i], *places[i], short)
            else:
                slot.hide()
        self._show_graph(view, places, short)
        return self._canvas.png()

    def _list(self, view: MemoryMap) -> None:
        now = view.now
        self._title.set_text(f"Step {view.step} of {len(view.steps)}: {now.name}" + ("" if now.is_run else " (not run here)"))
        for i, (name, number, code) in enumerate(zip(self._names, self._numbers, self._codes, strict=True)):
            step, y = view.steps[i], FIRST_ROW - ROW * i
            done, here = i + 1 <= view.step, i + 1 == view.step
            colour = INK if done else "#8a8a8a"
            mark = ("✓" if step.is_run else "–") if done else f"{i + 1}"
            number.set(text="▶" if here else mark, y=y, color=GRAPH if here else colour)
            text = step.name + ("" if step.is_run else ", not run here")
            name.set(text=text, y=y + 9, color=colour, weight="bold" if here else "normal")
            code.set(text=step.code, y=y - 10, color=colour)
        self._mark.set_y(FIRST_ROW - ROW * (view.step - 1) - ROW / 2 + 1)

    def _show_graph(self, view: MemoryMap, places: list[tuple[float, float]], short: dict[int, str]) -> None:
        target = view.target
        for artist in (self._arrow, self._arrow_name):
            artist.set_visible(target is not None)
        if view.baked is None:
            self._box.set(facecolor="white", edgecolor=IDLE_EDGE, linestyle=(0, (4, 3)))
            self._graph.set(text="no graph yet", color=QUIET)
            self._pointer.set_text("")
            return
        self._box.set(facecolor="#e3eff8", edgecolor=GRAPH, linestyle="-")
        self._graph.set(text="node: add 1 to the element at", color=GRAPH)
        self._pointer.set_text(f"{short[view.baked]}  (baked in at capture)")
        if target is None:
            return
        good, writes = target.state == LIVE, view.writes and view.now.is_run
        x = places[view.blocks.index(target)][0]
        foot = min(max(x, GRAPH_BOX[0] + 60), GRAPH_BOX[0] + GRAPH_BOX[2] - 60)
        self._arrow.set_positions((foot, GRAPH_BOX[1] + GRAPH_BOX[3]), (x, STRIP_LOW - 26))
        self._arrow.set(color=GRAPH if good else HOST, linestyle="-" if good or writes else (0, (4, 2)))
        self._arrow.set_linewidth(4.0 if writes else 1.8)
        where = {FREED: "freed memory", RETURNED: "unmapped memory"}.get(target.state, target.owner)
        if view.writes:
            text = f"{'writes into' if writes else 'would write to'} {where}"
        else:
            text = f"{'points' if good else 'stale: points'} to {where}"
        ha = "left" if x < 720 else "right"
        self._arrow_name.set(text=text, color=GRAPH if good else HOST, ha=ha)
        self._arrow_name.set_position(((x + foot) / 2 + (12 if ha == "left" else -12), 116))


class _Slot:
    """One block of the strip with its address, values and the name that owns it."""

    def __init__(self, chart: MemoryMapChart):
        middle = (STRIP_LOW + STRIP_HIGH) / 2
        self._patch = chart._add(Rectangle((0, STRIP_LOW), 1, STRIP_HIGH - STRIP_LOW, linewidth=2))
        self._state = chart._text(0, middle + 17, ha="center", weight="bold", size=FONT - 0.5)
        self._values = chart._text(0, middle - 18, ha="center", family="monospace", size=FONT)
        self._address = chart._text(0, STRIP_LOW - 14, ha="center", family="monospace", size=FONT - 0.5)
        self._arrow = chart._add(_arrow())
        self._name = chart._text(0, HEIGHT - 92, ha="center", family="monospace", size=FONT + 3, weight="bold")
        for text in (self._state, self._values):
            text.set_bbox({"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85})

    def hide(self) -> None:
        for artist in (self._patch, self._state, self._values, self._address, self._arrow, self._name):
            artist.set_visible(False)

    def set(self, block: Block, x: float, width: float, short: dict[int, str]) -> None:
        face, edge, line, hatch = LOOKS[block.state]
        self._patch.set(x=x - width / 2, width=width, facecolor=face, edgecolor=edge, linestyle=line, hatch=hatch)
        self._state.set(text=block.words, x=x, color={LIVE: "#00694c", UNUSED: QUIET}.get(block.state, "#a84500"))
        self._values.set(text=block.first, x=x)
        self._address.set(text=short.get(block.address, ""), x=x)
        gone = f"{block.was} is gone" if block.was and not block.owner else ""
        self._name.set(text=block.owner or gone, x=x, color=QUIET if gone else INK, fontsize=FONT if gone else FONT + 3)
        self._arrow.set_positions((x, HEIGHT - 106), (x, STRIP_HIGH + 2))
        self._arrow.set(color=INK)
        for artist in (self._patch, self._state, self._values, self._address, self._name):
            artist.set_visible(block.state != UNUSED)
        self._arrow.set_visible(block.owner is not None)


def _arrow() -> FancyArrowPatch:
    return FancyArrowPatch((0, 0), (1, 1), arrowstyle="-|>", mutation_scale=16, shrinkA=0, shrinkB=0, linewidth=1.8)


def _places(blocks: Sequence[Block]) -> list[tuple[float, float]]:
    """(middle, width) of each block in the strip, by address; a larger block is wider."""
    if len(blocks) == 1:
        return [((LEFT + RIGHT) / 2, 270)]
    least = min(block.nbytes for block in blocks)
    widths = [300 if block.nbytes > least else 250 for block in blocks]  # in pixels
    gap = (RIGHT - LEFT - sum(widths)) / (len(blocks) + 1)
    out, x = [], LEFT + gap
    for width in widths:
        out.append((x + width / 2, width))
        x += width + gap
    return out
