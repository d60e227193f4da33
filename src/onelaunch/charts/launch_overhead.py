"""The chart of the launch overhead explorer: two timelines, the two curves that cross, and how busy the GPU is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.ticker import FuncFormatter, NullLocator

from .style import (
    DEVICE,
    FONT,
    GRAPH,
    HOST,
    INK,
    QUIET,
    RECORDED,
    Canvas,
    Lane,
    decade,
    idle_background,
    lane_axes,
    microseconds,
    new_figure,
    nice_ceiling,
    row_name,
    style_axes,
    title,
)

Spans = Sequence[tuple[float, float]]
LOOP_HOST, LOOP_GPU, GRAPH_HOST, GRAPH_GPU = 3.3, 2.3, 0.9, -0.1  # heights of the lanes
LANE_HEIGHT = 0.72


@dataclass(frozen=True)
class Timeline:
    """Blocks of the host and of the GPU, (start, end) in µs from the first call; the host's last wait apart."""

    host: Spans = ()
    gpu: Spans = ()


@dataclass(frozen=True)
class LaunchOverhead:
    """What the chart shows. Times in µs; `curves_x` are kernel durations, the curves total times for all launches."""

    launches: int
    kernel_us: float
    api: str
    loop: Timeline = field(default_factory=Timeline)
    replay: Timeline = field(default_factory=Timeline)
    loop_total_us: float = 0.0
    replay_total_us: float = 0.0
    busy_us: float = 0.0  # the GPU's own time for all the kernels, back to back
    curves_x: Sequence[float] = ()
    loop_curve: Sequence[float] = ()
    replay_curve: Sequence[float] = ()
    crossover_us: float | None = None
    recorded_loop: Spans = ()  # (kernel µs, total µs)
    recorded_replay: Spans = ()

    def idle_share(self, total_us: float) -> float:
        """Which part of `total_us` the GPU has nothing to do, 0 to 1."""
        return min(1.0, max(0.0, 1 - self.busy_us / total_us)) if total_us > 0 else 0.0


class LaunchOverheadChart:
    """One figure, redrawn for each `LaunchOverhead`."""

    def __init__(self) -> None:
        self.figure = figure = new_figure(960, 560)
        self._title = title(figure, 0.965)
        self._timeline()
        self._curves()
        self._idle()
        self._canvas = Canvas(figure, [self._time.xaxis, self._cross.yaxis], self._moving)

    # -- the parts ----------------------------------------------------------------------------------------------------

    def _timeline(self) -> None:
        axes = self._time = lane_axes(self.figure, (0.135, 0.575, 0.85, 0.335), "µs from the first call", -0.35, 4.25)
        for y, text in ((LOOP_HOST, "host"), (LOOP_GPU, "GPU"), (GRAPH_HOST, "host"), (GRAPH_GPU, "GPU")):
            row_name(axes, y + LANE_HEIGHT / 2, text)
        for y, text, colour in ((LOOP_GPU, "launch\nloop", HOST), (GRAPH_GPU, "graph\nreplay", GRAPH)):
            row_name(axes, y + 0.86, text, x=-0.145, ha="left", weight="bold", color=colour, linespacing=1.1)
        for y in (LOOP_GPU, GRAPH_GPU):
            idle_background(axes, y, LANE_HEIGHT)
        self._loop_host = Lane(axes, LOOP_HOST, LANE_HEIGHT, HOST)
        self._loop_gpu = Lane(axes, LOOP_GPU, LANE_HEIGHT, DEVICE)
        self._graph_host = Lane(axes, GRAPH_HOST, LANE_HEIGHT, GRAPH)
        self._graph_gpu = Lane(axes, GRAPH_GPU, LANE_HEIGHT, DEVICE)
        self._more = axes.text(0.998, 1.01, "", transform=axes.transAxes, ha="right", fontsize=FONT - 1.5, color=QUIET)

    def _curves(self) -> None:
        axes = self._cross = style_axes(
            self.figure.add_axes((0.085, 0.095, 0.50, 0.34)), x="kernel duration, µs", y="total time", grid=True
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(0.5, 500)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: decade(v)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())
        (self._loop_line,) = axes.plot([], [], color=HOST, linewidth=2.4)
        (self._graph_line,) = axes.plot([], [], color=GRAPH, linewidth=2.4, linestyle=(0, (5, 1.5)))
        (self._loop_dots,) = axes.plot([], [], "o", ms=5, mfc="white", mec=RECORDED, mew=1.2)
        (self._graph_dots,) = axes.plot([], [], "s", ms=4.5, mfc="white", mec=RECORDED, mew=1.2)
        (self._crossing,) = axes.plot([], [], color=QUIET, linewidth=1, linestyle=":")
        (self._here_loop,) = axes.plot([], [], "o", ms=9, color=HOST, mec="white")
        (self._here_graph,) = axes.plot([], [], "s", ms=8, color=GRAPH, mec="white")
        text = {"fontsize": FONT - 1}
        self._loop_name = axes.text(0.55, 1, "launch loop", color=HOST, va="bottom", **text)
        self._graph_name = axes.text(0.55, 1, "graph replay", color=GRAPH, va="top", **text)
        beside = {"color": QUIET, "transform": axes.get_xaxis_transform(), **text}
        self._left_name = axes.text(1, 0.04, "host-bound", ha="right", **beside)
        self._right_name = axes.text(1, 0.04, "GPU-bound", ha="left", **beside)
        self._recorded_name = axes.text(0.985, 0.16, "", ha="right", color=QUIET, transform=axes.transAxes, fontsize=FONT - 2)

    def _idle(self) -> None:
        axes = self._share = lane_axes(self.figure, (0.70, 0.095, 0.285, 0.34), "share of the total time, %", -0.2, 2.1)
        axes.set_xlim(0, 100)
        axes.set_title("How busy is the GPU?", fontsize=FONT, loc="left", color=INK, pad=4)
        self._busy = []
        self._busy_text = []
        for y, text in ((1.2, "launch loop"), (0.1, "graph replay")):
            row_name(axes, y + 0.35, text, x=-0.02, fontsize=FONT - 0.5)
            idle_background(axes, y, 0.7)
            self._busy.append(Lane(axes, y, 0.7, DEVICE))
            self._busy_text.append(
                axes.text(0, y + 0.35, "", va="center", fontsize=FONT, weight="bold", color=INK, bbox=_LABEL)
            )

    @property
    def _moving(self) -> list:
        lanes = (self._loop_host, self._loop_gpu, self._graph_host, self._graph_gpu, *self._busy)
        return [
            self._title, *(lane.artist for lane in lanes), self._more, self._crossing, self._loop_line, self._graph_line,
            self._loop_dots, self._graph_dots, self._here_loop, self._here_graph, self._loop_name, self._graph_name,
            self._left_name, self._right_name, self._recorded_name, *self._busy_text,
        ]  # fmt: skip

    # -- drawing ------------------------------------------------------------------------------------------------------

    def png(self, view: LaunchOverhead) -> bytes:
        """The picture of `view`."""
        return self._canvas.png(self.prepare(view))

    def prepare(self, view: LaunchOverhead) -> tuple:
        """Sets the figure to show `view`, without drawing it; returns the limits of its axes."""
        plural = "" if view.launches == 1 else "es"
        kernel = f"a {view.kernel_us:g} µs kernel" if view.kernel_us else "the shortest kernel"
        self._title.set_text(f"{view.launches:,} launch{plural} of {kernel} through {view.api}")
        limits = self._draw_timelines(view), self._draw_curves(view)
        for lane, text, total in zip(self._busy, self._busy_text, (view.loop_total_us, view.replay_total_us), strict=True):
            busy = 100 * (1 - view.idle_share(total)) if total else 0.0
            lane.set([(0, busy)] if busy else [])
            text.set_text(f"busy {busy:.0f} % of {microseconds(total)}" if total else "nothing to do")
            inside = busy > 55
            text.set_x(2 if inside else min(busy + 2, 34))  # the label takes up to 65 % of the width
        return limits

    def _draw_timelines(self, view: LaunchOverhead) -> float:
        ends = [end for lane in (view.loop.host, view.loop.gpu) for _, end in lane]
        window = nice_ceiling(max(ends, default=10.0))
        self._time.set_xlim(0, window)
        self._loop_host.set(view.loop.host)
        self._loop_gpu.set(view.loop.gpu)
        self._graph_host.set(view.replay.host)
        self._graph_gpu.set(view.replay.gpu)
        shown = len(view.loop.gpu)
        self._more.set_text(f"the first {shown} of {view.launches:,} launches" if shown < view.launches else "")
        return window

    def _draw_curves(self, view: LaunchOverhead) -> tuple[float, float]:
        loop, replay = np.asarray(view.loop_curve), np.asarray(view.replay_curve)
        self._loop_line.set_data(view.curves_x, loop)
        self._graph_line.set_data(view.curves_x, replay)
        self._loop_dots.set_data(*_columns(view.recorded_loop))
        self._graph_dots.set_data(*_columns(view.recorded_replay))
        known = loop.size and view.launches
        here = min(max(view.kernel_us, 0.5), 500)
        self._here_loop.set_data([here], [view.loop_total_us]) if known else self._here_loop.set_data([], [])
        self._here_graph.set_data([here], [view.replay_total_us]) if known else self._here_graph.set_data([], [])
        for name in (self._loop_name, self._graph_name):
            name.set_visible(bool(known))
        if not known:
            limits = (1.0, 1000.0)
        else:
            low = min(replay.min(), loop.min(), view.replay_total_us, view.loop_total_us)
            high = max(loop.max(), replay.max(), view.loop_total_us, view.replay_total_us)
            limits = 10.0 ** np.floor(np.log10(low * 0.8)), 10.0 ** np.ceil(np.log10(high * 1.05))
            self._loop_name.set_position((0.55, loop[0] * 1.12))
            self._graph_name.set_position((0.55, replay[0] * 0.88))
        self._cross.set_ylim(*limits)
        crossing = view.crossover_us if known else None
        shown = crossing is not None and 0.5 < crossing < 500
        self._crossing.set_data(*(([crossing, crossing], limits) if shown else ([], [])))
        self._left_name.set_text("host-bound " if shown and crossing > 1.6 else "")
        self._right_name.set_text(f" GPU-bound from {crossing:.1f} µs" if shown else "")
        for name in (self._left_name, self._right_name):
            name.set_x(crossing if shown else 1)
        self._recorded_name.set_text("grey marks: recorded on an H200" if known and len(view.recorded_loop) else "")
        return float(limits[0]), float(limits[1])


_LABEL = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}


def _columns(points: Spans) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
