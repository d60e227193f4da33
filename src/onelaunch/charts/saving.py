"""What a graph saves: the replays that repay making it, and the speed-up with where each microsecond goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from .style import (
    DEVICE,
    FONT,
    GRAPH,
    HOST,
    INK,
    QUIET,
    Canvas,
    Lane,
    decade,
    idle_background,
    lane_axes,
    new_figure,
    nice_ceiling,
    row_name,
    style_axes,
    title,
)

_LABEL = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}


def _tint(colour: str, share: float) -> str:
    """That share of a colour, the rest white."""
    return to_hex([1 - share * (1 - c) for c in to_rgb(colour)])


# -- break-even -------------------------------------------------------------------------------------------------------

PHASES = (("capture", 0.3), ("instantiation", 0.5), ("first launch", 0.75), ("later replays", 1.0))  # and tints of the graph's
MOST_REPLAYS = 100_000
_COUNTS = np.geomspace(1, MOST_REPLAYS, 121)
_LOOP_X, _GRAPH_X, _WIDTH = 0.0, 1.1, 0.85
_RIGHT = _GRAPH_X + _WIDTH + 0.2  # the right edge of the axes
_GAP = 0.065  # between two labels, in heights of the axes


@dataclass(frozen=True)
class BreakEvenView:
    """What the chart shows. Times in µs; `break_even` is the first replay with which the graph is ahead, None for never."""

    launches: int
    api: str
    replays: int
    capture_us: float
    instantiate_us: float
    first_us: float
    replay_us: float
    loop_us: float
    break_even: int | None

    @property
    def parts_us(self) -> tuple[float, float, float, float]:
        """Capture, instantiation, first launch, and the replays after that."""
        return self.capture_us, self.instantiate_us, self.first_us, (self.replays - 1) * self.replay_us

    @property
    def loop_total_us(self) -> float:
        return self.replays * self.loop_us


class BreakEvenChart:
    """One figure: the graph's phases stacked beside the loop, and both totals against the number of replays."""

    def __init__(self) -> None:
        self.figure = figure = new_figure(960, 430)
        self._title = title(figure, 0.955)
        self._columns()
        self._curves()
        self._canvas = Canvas(figure, [self._stack.yaxis, self._cross.yaxis], self._moving)

    def _columns(self) -> None:
        axes = self._stack = style_axes(self.figure.add_axes((0.085, 0.125, 0.235, 0.70)))
        axes.set_xlim(-0.25, _RIGHT)
        axes.set_xticks([_LOOP_X + _WIDTH / 2, _GRAPH_X + _WIDTH / 2], ["launch loop", "graph"])
        axes.tick_params(axis="x", labelsize=FONT, length=0, pad=6)
        for name, colour in zip(axes.get_xticklabels(), (HOST, GRAPH), strict=True):
            name.set(color=colour, weight="bold")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.10g}"))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        self._heading = axes.text(-0.3, 1.065, "", transform=axes.transAxes, fontsize=FONT, color=INK)
        self._loop_bar = Rectangle((_LOOP_X, 0), _WIDTH, 0, facecolor=HOST)
        self._parts = [Rectangle((_GRAPH_X, 0), _WIDTH, 0, facecolor=_tint(GRAPH, tint)) for _, tint in PHASES]
        for bar in (self._loop_bar, *self._parts):
            axes.add_patch(bar)
        total = {"ha": "center", "va": "bottom", "fontsize": FONT - 0.5, "weight": "bold", "color": INK}
        self._totals = [axes.text(x + _WIDTH / 2, 0, "", **total) for x in (_LOOP_X, _GRAPH_X)]
        beside = {"transform": axes.transAxes, "va": "center", "fontsize": FONT - 1, "color": INK}
        self._names = [axes.text(1.09, 0, "", **beside) for _ in PHASES]
        leader = {"color": QUIET, "linewidth": 0.8, "transform": axes.transAxes, "clip_on": False}
        self._leaders = [axes.plot([], [], **leader)[0] for _ in PHASES]

    def _curves(self) -> None:
        axes = self._cross = style_axes(self.figure.add_axes((0.64, 0.125, 0.325, 0.70)), x="number of replays", grid=True)
        axes.text(-0.14, 1.065, "total time against the number of replays", transform=axes.transAxes, fontsize=FONT, color=INK)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(1, MOST_REPLAYS)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: decade(v)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())
        (self._loop_line,) = axes.plot([], [], color=HOST, linewidth=2.4)
        (self._graph_line,) = axes.plot([], [], color=GRAPH, linewidth=2.4, linestyle=(0, (5, 1.5)))
        (self._crossing,) = axes.plot([], [], color=INK, linewidth=1.2, linestyle=":")
        look = {"mec": "white", "clip_on": False, "zorder": 5}
        (self._here_loop,) = axes.plot([], [], "o", ms=9, color=HOST, **look)
        (self._here_graph,) = axes.plot([], [], "s", ms=8, color=GRAPH, **look)
        place = {"transform": axes.transAxes, "fontsize": FONT - 0.5, "weight": "bold", "bbox": _LABEL}
        self._keys = [
            axes.text(0.03, 0.95, "● launch loop", color=HOST, va="top", **place),
            axes.text(0.03, 0.88, "■ graph", color=GRAPH, va="top", **place),
        ]
        beside = {"color": INK, "transform": axes.transAxes, "fontsize": FONT - 0.5, "bbox": _LABEL}
        self._mark = axes.text(0.98, 0.035, "", ha="right", va="bottom", **beside)

    @property
    def _moving(self) -> list:
        return [
            self._title, self._heading, self._loop_bar, *self._parts, *self._totals, *self._leaders, *self._names,
            self._crossing, self._loop_line, self._graph_line, *self._keys, self._mark, self._here_loop, self._here_graph,
        ]  # fmt: skip

    def png(self, view: BreakEvenView) -> bytes:
        """The picture of `view`."""
        kernels = f"{view.launches:,} launch{'' if view.launches == 1 else 'es'} of the shortest kernel through {view.api}"
        self._title.set_text(f"{kernels}, {_replays(view.replays)}")
        return self._canvas.png((self._draw_columns(view), self._draw_curves(view)))

    def _draw_columns(self, view: BreakEvenView) -> float:
        parts = [us / 1000 for us in view.parts_us]
        ends = np.cumsum(parts)
        loop, graph = view.loop_total_us / 1000, float(ends[-1])
        limit = nice_ceiling(max(loop, graph) * 1.1)
        self._stack.set_ylim(0, limit)
        self._heading.set_text(f"total time for {_replays(view.replays)}, ms")
        self._loop_bar.set_height(loop)
        per_px = limit / self._stack.bbox.height
        for bar, part, end in zip(self._parts, parts, ends, strict=True):
            bar.set(y=end - part, height=max(part, 1.2 * per_px) if part else 0)
        for text, x, value in zip(self._totals, (_LOOP_X, _GRAPH_X), (loop, graph), strict=True):
            text.set_text(_ms(value))
            text.set_position((x + _WIDTH / 2, value + 4 * per_px))
        wanted = [(end - part / 2) / limit for part, end in zip(parts, ends, strict=True)]
        edge = (_GRAPH_X + _WIDTH + 0.25) / (_RIGHT + 0.25)
        texts = [f"{name} {_ms(part)}" for (name, _), part in zip(PHASES, parts, strict=True)]
        later = f"{view.replays - 1:,} later replay{'' if view.replays == 2 else 's'}"
        texts[3] = f"{later} {_ms(parts[3])}" if view.replays > 1 else "no later replays"
        for name, leader, text, at, y in zip(
            self._names, self._leaders, texts, wanted, _apart(wanted, _GAP, 0.03, 0.95), strict=True
        ):
            name.set_text(text)
            name.set_y(y)
            leader.set_data([edge + 0.01, 1.0, 1.05, 1.075], [at, at, y, y])
        return limit

    def _draw_curves(self, view: BreakEvenView) -> tuple[float, float]:
        once = view.capture_us + view.instantiate_us + view.first_us
        loop, graph = _COUNTS * view.loop_us, once + (_COUNTS - 1) * view.replay_us
        self._loop_line.set_data(_COUNTS, loop)
        self._graph_line.set_data(_COUNTS, graph)
        self._here_loop.set_data([view.replays], [view.loop_total_us])
        self._here_graph.set_data([view.replays], [sum(view.parts_us)])
        low, high = min(loop[0], graph[0]), max(loop[-1], graph[-1])
        limits = 10.0 ** np.floor(np.log10(low * 0.2)), 10.0 ** np.ceil(np.log10(high * 1.05))  # room for the words below
        self._cross.set_ylim(*limits)
        at = view.break_even
        shown = at is not None and at <= MOST_REPLAYS
        self._crossing.set_data(*(([at, at], limits) if shown else ([], [])))
        if at is None:
            text = "never pays: a replay is no faster"
        elif shown:
            text = f"break-even: the {ordinal(at)} replay"
        else:
            text = f"break-even beyond the axis: the {ordinal(at)} replay"
        self._mark.set_text(text)
        return float(limits[0]), float(limits[1])


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st, 1,000th."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def _replays(n: int) -> str:
    return f"{n:,} replay{'' if n == 1 else 's'}"


def _ms(ms: float) -> str:
    digits = 0 if ms >= 99.95 else 1 if ms >= 9.995 else 2 if ms >= 0.9995 else 3
    return f"{ms:,.{digits}f} ms"


def _apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Ascending heights near those wanted, each at least `gap` above the one before, between `low` and `high`."""
    out: list[float] = []
    for y in wanted:
        out.append(max(y, low if not out else out[-1] + gap))
    ceiling = high
    for i in reversed(range(len(out))):
        out[i] = min(out[i], ceiling)
        ceiling = out[i] - gap
    return out


# -- speed-up ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One lane of one launch: what happens in it, (name, µs) each, and how long and with what name nothing does."""

    parts: Sequence[tuple[str, float]]
    rest: tuple[str, float]

    @property
    def text(self) -> str:
        """The row in words: "CUDA 3.5 + Python 1.1 µs, waits 0.1"."""
        parts = " + ".join(f"{name} {_us(us)}" for name, us in self.parts)
        return f"{parts} µs, {self.rest[0]} {_us(round(self.rest[1], 1))}"


@dataclass(frozen=True)
class SpeedUpView:
    """What the chart shows. `durations_us` are kernel durations; `speed_up` (for this many launches) and `ceiling` are
    factors against them; `here` is the point as measured. `rows`: the loop's host and GPU, the replay's host and GPU."""

    launches: int
    kernel_us: float
    api: str
    durations_us: Sequence[float]
    speed_up: Sequence[float]
    ceiling: Sequence[float]
    here: float
    crossover_us: float | None
    totals_us: tuple[float, float]  # of loop and replay, for each launch
    note: str  # what the parts of the rows are
    rows: Sequence[Row]


class SpeedUpChart:
    """One figure: the speed-up against the kernel's duration under its ceiling, and below it the time of one launch."""

    def __init__(self) -> None:
        self.figure = figure = new_figure(960, 620)
        self._title = title(figure, 0.968)
        self._curves()
        self._lanes()
        self._canvas = Canvas(figure, [self._curve.yaxis, self._lane.xaxis], self._moving)

    def _curves(self) -> None:
        axes = self._curve = style_axes(self.figure.add_axes((0.075, 0.50, 0.91, 0.425)), x="kernel duration, µs", grid=True)
        axes.set_ylabel("times as fast as the loop", fontsize=FONT - 0.5, color=INK)
        axes.set_xscale("log")
        axes.set_xlim(0.5, 500)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}×"))
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        right = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "top"}
        none = axes.text(0.995, 1, "no gain", fontsize=FONT - 2, color=QUIET, **right)
        self._none = [axes.axhline(1, color=QUIET, linewidth=1), none]
        (self._ceiling,) = axes.plot([], [], color=INK, linewidth=1.6, linestyle=(0, (2, 1.2)))
        (self._line,) = axes.plot([], [], color=GRAPH, linewidth=2.6)
        (self._crossing,) = axes.plot([], [], color=QUIET, linewidth=1, linestyle=":")
        (self._here,) = axes.plot([], [], "s", ms=9, color=GRAPH, mec="white", clip_on=False, zorder=5)
        place = {"transform": axes.transAxes, "ha": "right", "va": "top", "fontsize": FONT}
        self._keys = [
            axes.text(0.985, 0.84, "- - -  ceiling: max(host, device) / device", color=INK, **place),
            axes.text(0.985, 0.75, "", color=GRAPH, weight="bold", **place),
        ]
        self._here_name = axes.text(0, 0, "", fontsize=FONT, weight="bold", color=GRAPH, bbox=_LABEL)
        beside = {"color": QUIET, "transform": axes.get_xaxis_transform(), "fontsize": FONT - 1, "va": "top"}
        self._sides = [axes.text(1, 0.985, "", ha=ha, **beside) for ha in ("right", "left")]

    def _lanes(self) -> None:
        axes = self._lane = lane_axes(self.figure, (0.135, 0.108, 0.475, 0.258), "µs for each launch, on average", -0.1, 4.35)
        heading = {"transform": axes.transAxes, "va": "bottom", "fontsize": FONT, "weight": "bold", "color": INK}
        axes.text(-0.2525, 1.06, "Where the time of one launch goes", **heading)
        note = {"va": "top", "fontsize": FONT - 2, "color": QUIET, "linespacing": 1.25}
        self._note = axes.text(1.05, -0.09, "", transform=axes.transAxes, **note)
        self._rests, self._bars, self._inside, self._words = [], [], [], []
        lanes = (
            (3.45, "host", (HOST, _tint(HOST, 0.5))), (2.6, "GPU", (DEVICE, _tint(DEVICE, 0.5))),
            (0.95, "host", (GRAPH,)), (0.1, "GPU", (DEVICE, _tint(DEVICE, 0.5))),
        )  # fmt: skip
        for y, text, colour in ((3.4, "launch\nloop", HOST), (0.9, "graph\nreplay", GRAPH)):
            row_name(axes, y, text, x=-0.2525, ha="left", weight="bold", color=colour, linespacing=1.1)
        for y, name, colours in lanes:
            row_name(axes, y + 0.36, name, x=-0.015)
            rest = idle_background(axes, y, 0.72)
            rest.set_transform(axes.transData)
            self._rests.append(rest)
            self._bars.append([Lane(axes, y, 0.72, colour) for colour in colours])
            inside = {"va": "center", "ha": "center", "fontsize": FONT - 1.5, "color": INK, "bbox": _LABEL}
            self._inside.append([axes.text(0, y + 0.36, "", **inside) for _ in range(3)])
            self._words.append(
                axes.text(1.05, y + 0.36, "", transform=axes.get_yaxis_transform(), va="center", fontsize=FONT - 0.5, color=INK)
            )

    @property
    def _moving(self) -> list:
        return [
            self._title, *self._none, self._crossing, self._line, self._ceiling, *self._keys, *self._sides, self._here,
            self._here_name, self._note, *self._rests, *(lane.artist for lanes in self._bars for lane in lanes),
            *(text for texts in self._inside for text in texts), *self._words,
        ]  # fmt: skip

    def png(self, view: SpeedUpView) -> bytes:
        """The picture of `view`."""
        count = f"{view.launches:,} launch{'' if view.launches == 1 else 'es'}"
        self._title.set_text(f"{count} of a {view.kernel_us:g} µs kernel through {view.api}: what a graph gains")
        return self._canvas.png((self._draw_curves(view, count), self._draw_lanes(view)))

    def _draw_curves(self, view: SpeedUpView, count: str) -> float:
        limit = nice_ceiling(1.2 * max(*view.ceiling, *view.speed_up, view.here, 1.2))
        self._curve.set_ylim(0, limit)
        self._none[1].set_y(1 - 0.015 * limit)
        self._ceiling.set_data(view.durations_us, view.ceiling)
        self._line.set_data(view.durations_us, view.speed_up)
        self._here.set_data([view.kernel_us], [view.here])
        self._keys[1].set_text(f"■ graph, {count}")
        right = view.kernel_us > 250
        self._here_name.set_text(f"{view.here:.2f}×")
        self._here_name.set(ha="right" if right else "left", va="bottom")
        self._here_name.set_position((view.kernel_us * (0.96 if right else 1.05), view.here + 0.045 * limit))
        crossing = view.crossover_us
        shown = crossing is not None and 0.5 < crossing < 500
        self._crossing.set_data(*(([crossing, crossing], [0, limit]) if shown else ([], [])))
        for side, text in zip(self._sides, ("the host sets the floor ", " the GPU sets the floor"), strict=True):
            side.set_text(text if shown else "")
            side.set_x(crossing if shown else 1)
        return limit

    def _draw_lanes(self, view: SpeedUpView) -> float:
        limit = nice_ceiling(max(view.totals_us) * 1.02)
        self._lane.set_xlim(0, limit)
        self._note.set_text(view.note)
        per_px = limit / self._lane.bbox.width
        totals = (view.totals_us[0], view.totals_us[0], view.totals_us[1], view.totals_us[1])
        for row, total, rest, bars, inside, words in zip(
            view.rows, totals, self._rests, self._bars, self._inside, self._words, strict=True
        ):
            rest.set_width(total)
            start, spans = 0.0, []
            for bar, (_, us) in zip(bars, [*row.parts, ("", 0.0)][: len(bars)], strict=True):
                bar.set([(start, start + us)] if us else [])
                spans.append((start, start + us))
                start += us
            names = [*(name for name, _ in row.parts), row.rest[0]]
            for text, name, (a, b) in zip(inside, names, [*spans[: len(row.parts)], (start, total)], strict=False):
                fits = (b - a) / per_px > 6.5 * len(name) + 10
                text.set_text(name if fits else "")
                text.set_x((a + b) / 2)
            for text in inside[len(names) :]:
                text.set_text("")
            words.set_text(row.text)
        return limit


def _us(us: float) -> str:
    if us >= 99.95:
        return f"{us:,.0f}"
    return f"{us:.1f}" if us >= 0.095 or us == 0 else f"{us:.3f}"
