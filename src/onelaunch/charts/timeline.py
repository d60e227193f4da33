"""A timeline: the host's calls above, the GPU's work below, idle time hatched. Readable for a few spans and for hundreds."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .style import (
    DEVICE,
    FONT,
    GRAPH,
    HOST,
    INK,
    QUIET,
    Lane,
    idle_background,
    lane_axes,
    new_figure,
    nice_ceiling,
    png,
    row_name,
    title,
)  # fmt: skip

WIDTH, LEFT, RIGHT = 960, 0.085, 0.975  # px, and the axes' edges as parts of it
HOST_PX, GPU_PX, ROW_PX, GAP_PX = 46, 46, 24, 10  # heights: of the host's lane, of one GPU lane, of one of several
HEAD_PX, AXIS_PX, NOTE_PX = 52, 44, 20  # above the first panel, below each panel, above each for a note
MAX_ROWS = 8
CROWDED = 160  # spans of a lane: more are shown as shares of the time, with the beginning in detail below
DETAIL = 24  # spans of a lane in detail
UPRIGHT = 14  # blocks of a lane: more have no labels from bottom to top
BIN_PX = 4
LETTER_PX = 6.2
WAITS = ("synchronize",)
COLOURS = {"graph launch": GRAPH}  # of the host's blocks, by kind


@dataclass(frozen=True)
class Block:
    """A span to draw, in µs from the first call. `label` is written inside where it fits, else `short`."""

    start: float
    end: float
    kind: str
    label: str = ""
    short: str = ""

    @property
    def waits(self) -> bool:
        return self.kind in WAITS

    @property
    def host_colour(self) -> str:
        return COLOURS.get(self.kind, HOST)


@dataclass(frozen=True)
class Row:
    """One lane of the GPU, with its name."""

    name: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class View:
    """What the picture shows: the host's blocks, the GPU's lanes, and what to say where nobody saw the GPU."""

    heading: str
    host: Sequence[Block]
    gpu: Sequence[Row]
    unseen: str = ""


def draw(view: View) -> Figure:
    """The whole timeline; where it holds too many spans to be told apart, its beginning in detail below."""
    rows = _rows(view.gpu)
    blocks = [*view.host, *(b for row in rows for b in row.blocks)]
    end = max((b.end for b in blocks), default=1.0)
    crowded = any(len(row) > CROWDED for row in (view.host, *(r.blocks for r in rows)))
    windows = [end]
    if crowded and (part := _beginning(view.host, rows)) < end / 2:
        windows.append(part)
    gpu_px = GPU_PX if len(rows) == 1 else ROW_PX * len(rows)
    panel = HOST_PX + GAP_PX + gpu_px
    height = HEAD_PX + len(windows) * (NOTE_PX * crowded + panel + AXIS_PX)
    figure = new_figure(WIDTH, height)
    title(figure, 1 - 24 / height).set_text(view.heading)
    top = HEAD_PX
    for k, window in enumerate(windows):
        top += NOTE_PX * crowded
        place = (LEFT, 1 - (top + panel) / height, RIGHT - LEFT, panel / height)
        label = "µs from the first call"
        axes = lane_axes(figure, place, label, 0, panel)
        axes.set_xlim(0, window)
        _host(axes, panel - HOST_PX, view.host, detailed=k > 0)
        _gpu(axes, rows, gpu_px, view.unseen, detailed=k > 0)
        note = f"the first {window:g} µs" if k else "height: share of the time" if crowded else ""
        axes.text(1, 1.02, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=FONT - 1.5, color=QUIET)
        if k == 0 and len(windows) > 1:
            _mark(axes, windows[1], panel)
        top += panel + AXIS_PX
    return figure


# -- what goes where --------------------------------------------------------------------------------------------------


def _rows(lanes: Sequence[Row]) -> list[Row]:
    """The GPU's lanes; one whose blocks overlap (branches of a graph) is several rows, and of too many rows the last ones are
    one."""
    rows: list[Row] = []
    for lane in lanes or [Row("GPU", ())]:
        spans = [(b.start, b.end) for b in lane.blocks]
        parts = [[lane.blocks[i] for i in part] for part in side_by_side(spans)]
        rows += [Row("" if i else lane.name, part) for i, part in enumerate(parts or [[]])]
    if len(rows) > MAX_ROWS:
        rest = rows[MAX_ROWS - 1 :]
        merged = [Block(a, b, "kernel") for a, b in union([(x.start, x.end) for row in rest for x in row.blocks])]
        rows = [*rows[: MAX_ROWS - 1], Row(f"{len(rest)} more", merged)]
    return rows


def side_by_side(spans: Sequence[tuple[float, float]]) -> list[list[int]]:
    """The spans' numbers in as few rows as it takes for none to overlap another of its row."""
    rows: list[list[int]] = []
    ends: list[float] = []
    for i in sorted(range(len(spans)), key=lambda i: spans[i]):
        start, end = spans[i]
        k = next((k for k, until in enumerate(ends) if until <= start + 1e-6), len(ends))
        if k == len(ends):
            rows.append([])
            ends.append(0.0)
        rows[k].append(i)
        ends[k] = end
    return rows


def union(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times in which at least one of the spans is on, as spans that do not touch."""
    out: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


def _beginning(host: Sequence[Block], rows: Sequence[Row]) -> float:
    """Until when the first blocks go, on a round number."""
    crowded = [row for row in (host, *(r.blocks for r in rows)) if len(row) > CROWDED]
    return nice_ceiling(min(sorted(b.end for b in row)[DETAIL - 1] for row in crowded))


# -- drawing ----------------------------------------------------------------------------------------------------------


def _host(axes: Axes, y: float, blocks: Sequence[Block], detailed: bool) -> None:
    row_name(axes, y + HOST_PX / 2, "host")
    working = [b for b in blocks if not b.waits]
    for wait in (b for b in blocks if b.waits):
        look = {"facecolor": "white", "edgecolor": HOST, "linewidth": 0.9, "linestyle": (0, (3, 2))}
        axes.add_patch(Rectangle((wait.start, y + 1), wait.end - wait.start, HOST_PX - 2, **look))
        _label(axes, Block(wait.start, wait.end, wait.kind, "waits"), y, HOST_PX, HOST, upright=True)
    for colour in (HOST, GRAPH):
        _blocks(axes, y, HOST_PX, [b for b in working if b.host_colour == colour], colour, detailed)


def _gpu(axes: Axes, rows: Sequence[Row], height: float, unseen: str, detailed: bool) -> None:
    each = height / len(rows)
    gap = 4 if len(rows) > 1 else 0
    if unseen:
        row_name(axes, height / 2, "GPU")
        axes.text(
            0.5, height / 2, unseen, transform=axes.get_yaxis_transform(), ha="center", va="center", color=QUIET, fontsize=FONT,
        )  # fmt: skip
        return
    for k, row in enumerate(rows):
        y = height - (k + 1) * each
        row_name(axes, y + (each - gap) / 2, row.name, fontsize=FONT if each > 30 else FONT - 1)
        idle_background(axes, y, each - gap)
        _blocks(axes, y, each - gap, row.blocks, DEVICE, detailed)


def _blocks(axes: Axes, y: float, height: float, blocks: Sequence[Block], colour: str, detailed: bool) -> None:
    if len(blocks) > CROWDED and not detailed:
        _shares(axes, y, height, [(b.start, b.end) for b in blocks], colour)
        return
    window = axes.get_xlim()[1]
    shown = [b for b in blocks if b.start < window]
    Lane(axes, y, height, colour).set([(b.start, min(b.end, window)) for b in shown])
    for b in shown:
        _label(axes, b, y, height, "white", upright=len(shown) <= UPRIGHT)


def _shares(axes: Axes, y: float, height: float, spans: Sequence[tuple[float, float]], colour: str) -> None:
    """Bars as high as the share of their time in which something is on."""
    window = axes.get_xlim()[1]
    count = int(axes.bbox.width / BIN_PX)
    edges = np.linspace(0, window, count + 1)
    busy = np.zeros(count)
    for start, end in union(spans):
        first, last = bisect.bisect_right(edges, start) - 1, bisect.bisect_left(edges, end)
        for i in range(max(first, 0), min(last, count)):
            busy[i] += min(end, edges[i + 1]) - max(start, edges[i])
    tops = y + height * busy / (window / count)
    corners = [[(edges[i], y), (edges[i + 1], y), (edges[i + 1], tops[i]), (edges[i], tops[i])] for i in np.flatnonzero(busy)]
    axes.add_collection(PolyCollection(corners, facecolors=colour, edgecolors=colour, linewidths=0.3), autolim=False)


def _label(axes: Axes, block: Block, y: float, height: float, colour: str, *, upright: bool) -> None:
    """Text inside a block: its label, from bottom to top if it only fits so and may be; else the short one; else none."""
    window = axes.get_xlim()[1]
    end = min(block.end, window)
    wide = (end - block.start) / window * axes.bbox.width - 6
    for text, turn in ((block.label, 0), (block.label, 90), (block.short, 0)):
        needs = LETTER_PX * len(text)
        fits = needs <= height - 4 and wide > 9 and upright if turn else needs <= wide
        if text and fits:
            look = {"ha": "center", "va": "center", "fontsize": FONT - 1.5, "color": colour, "rotation": turn}
            axes.text((block.start + end) / 2, y + height / 2, text, **look)
            return


def _mark(axes: Axes, until: float, height: float) -> None:
    """Says which part the panel below shows."""
    axes.axvline(until, color=INK, linewidth=0.8, linestyle=":")
    axes.annotate(
        " shown below",
        (until, height),
        textcoords="offset points",
        xytext=(0, 2),
        fontsize=FONT - 1.5,
        color=QUIET,
        va="bottom",
    )


__all__ = ["Block", "Row", "View", "draw", "png", "side_by_side", "union"]
