"""Bar charts: two ways against each other, the decode budget, and what each API asks of the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from .style import (
    DEVICE,
    FONT,
    GRAPH,
    HOST,
    INK,
    QUIET,
    Canvas,
    Lane,
    idle_background,
    lane_axes,
    microseconds,
    new_figure,
    nice_ceiling,
    row_name,
    title,
)


class TwoBars:
    """Two times against each other, in axes made for them (0 to 1.9 upwards), each with its name and its value."""

    def __init__(self, axes: Axes, *names: tuple[str, str]):
        """`names`: (name, colour) of the upper and of the lower bar."""
        self._axes, self._bars, self._texts = axes, [], []
        for y, (text, colour) in zip((1.15, 0.05), names, strict=True):
            row_name(axes, y + 0.35, text, color=colour)
            self._bars.append(Lane(axes, y, 0.7, colour))
            self._texts.append(axes.text(0, y + 0.35, "", va="center", fontsize=FONT + 1, weight="bold", color=INK))
        self.artists = [*(bar.artist for bar in self._bars), *self._texts]

    def set(self, *times_us: float) -> float:
        """Shows the two times; returns where the axis ends, which is the canvas's key."""
        limit = nice_ceiling(max(*times_us, 1.0) * 1.18)
        self._axes.set_xlim(0, limit)
        for bar, text, us in zip(self._bars, self._texts, times_us, strict=True):
            bar.set([(0, us)] if us else [])
            text.set_text(f" {microseconds(us)}" if us else " nothing to do")
            text.set_x(us)
        return limit


class LoopOrGraphChart:
    """Two bars: the total time of a launch loop, and of one replay of a graph of the same launches."""

    def __init__(self) -> None:
        self.figure = figure = new_figure(860, 230)
        self._title = title(figure, 0.9)
        axes = lane_axes(figure, (0.13, 0.22, 0.84, 0.56), "total time, µs", -0.2, 2.1)
        self._bars = TwoBars(axes, ("launch loop", HOST), ("graph replay", GRAPH))
        self._canvas = Canvas(figure, [axes.xaxis], [self._title, *self._bars.artists])

    def png(self, launches: int, loop_us: float, replay_us: float) -> bytes:
        """The picture of the two total times, in µs."""
        plural = "" if launches == 1 else "es"
        self._title.set_text(f"{launches:,} launch{plural} of the shortest kernel there is")
        return self._canvas.png(self._bars.set(loop_us, replay_us))


class DecodeBudgetChart:
    """One bar: the time that a token may take, and how much of it the host spends on launching."""

    def __init__(self) -> None:
        self.figure = figure = new_figure(860, 210)
        self._title = title(figure, 0.89)
        axes = self._axes = lane_axes(figure, (0.03, 0.24, 0.94, 0.42), "milliseconds of one decode step", 0, 1)
        self._left = idle_background(axes, 0.1, 0.8)
        self._left.set_transform(axes.transData)
        self._bar = Lane(axes, 0.1, 0.8, HOST)
        (self._target,) = axes.plot([], [], color=INK, linewidth=2)
        label = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}
        self._spent = axes.text(0, 0.5, "", va="center", fontsize=FONT, weight="bold", color=INK, bbox=label)
        self._rest = axes.text(0, 0.5, "", va="center", ha="right", fontsize=FONT, color=QUIET, bbox=label)
        self._target_name = axes.text(0, 1.02, "", ha="right", fontsize=FONT - 1, color=INK)
        moving = [
            axes.xaxis,
            self._left,
            self._title,
            self._bar.artist,
            self._target,
            self._spent,
            self._rest,
            self._target_name,
        ]
        self._canvas = Canvas(figure, [axes.xaxis, self._left], moving)

    def png(self, launches: int, launch_us: float, target_ms: float) -> bytes:
        """The picture of `launches` launches of `launch_us` each against a target of `target_ms` a token."""
        spent_ms = launches * launch_us / 1000
        self._title.set_text(f"{launches:,} launches × {launch_us:g} µs = {spent_ms:.2f} ms of launching for each token")
        limit = nice_ceiling(max(target_ms, spent_ms) * 1.02)
        self._axes.set_xlim(0, limit)
        self._left.set_width(target_ms)
        self._bar.set([(0, spent_ms)] if spent_ms else [])
        self._target.set_data([target_ms, target_ms], [0, 1])
        self._target_name.set_text(f" target {target_ms:g} ms ")
        self._target_name.set(x=target_ms, ha="right" if target_ms > 0.3 * limit else "left")
        share = spent_ms / target_ms
        self._spent.set_text(f"launching: {100 * share:.0f} %")
        self._spent.set_position((limit * 0.01, 0.5))
        self._rest.set_text(f"not spent on launching: {max(0.0, target_ms - spent_ms):.2f} ms" if share < 0.6 else "")
        self._rest.set_x(target_ms - limit * 0.01)
        return self._canvas.png((limit, target_ms))


@dataclass(frozen=True)
class ApiCost:
    """What one launch through `label` costs the host, in µs."""

    label: str
    launch_us: float


class WhoPaysChart:
    """One bar an API: the host's time for one launch; beside it the GPU's time for the kernel."""

    def __init__(self, labels: Sequence[str]):
        height = 90 + 38 * (len(labels) + 1)
        self.figure = figure = new_figure(860, height)
        self._title = title(figure, 1 - 22 / height)
        place, x = (0.215, 50 / height, 0.755, 1 - 95 / height), "host time for each launch, µs"
        axes = self._axes = lane_axes(figure, place, x, len(labels) + 0.5, -0.5, grid=True)
        self._bars, self._texts = [], []
        for i, label in enumerate([*labels, "the kernel, on the GPU"]):
            colour = HOST if i < len(labels) else DEVICE
            row_name(axes, i, label)
            self._bars.append(Lane(axes, i - 0.34, 0.68, colour))
            self._texts.append(axes.text(0, i, "", va="center", fontsize=FONT, weight="bold", color=INK))
        self._canvas = Canvas(figure, [axes.xaxis], [self._title, *(b.artist for b in self._bars), *self._texts])

    def png(self, launches: int, costs: Sequence[ApiCost], kernel_us: float) -> bytes:
        """The picture of the APIs' launch costs, in the order of the labels."""
        plural = "" if launches == 1 else "es"
        self._title.set_text(f"The same tiny kernel, {launches:,} launch{plural} back to back")
        values = [*(c.launch_us for c in costs), kernel_us]
        limit = nice_ceiling(max(values) * 1.12)
        self._axes.set_xlim(0, limit)
        for bar, text, value in zip(self._bars, self._texts, values, strict=True):
            bar.set([(0, value)])
            text.set_text(f" {value:.1f} µs")
            text.set_x(value)
        return self._canvas.png(limit)
