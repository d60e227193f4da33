"""The explorer of chapter 03: a graph's branches, their critical path, and their time against one chain of the same kernels."""

from __future__ import annotations

from onelaunch.charts.branches import BranchesChart, BranchesView
from onelaunch.charts.style import microseconds
from onelaunch.device import current
from onelaunch.instruments.view import graph_view
from onelaunch.measure.branches import MOST, Branches, branches_of
from onelaunch.measure.comparison import comparison_on

from .base import Dial, Explorer

DEEPEST = 64
ALIKE = 1.05  # up to this ratio the two are said to take the same time


class BranchesExplorer(Explorer):
    """Width, depth and kernel duration; see `branches`. `measured` is what the picture shows."""

    name = "Branches"

    def __init__(self, width: int, depth: int, kernel_us: float):
        device = current()
        self._comparison = comparison_on(device)
        instant = device.is_instant
        self.width = Dial("width (branches)", width, 1, MOST, continuous=instant)
        self.depth = Dial("depth (kernels each)", depth, 1, DEEPEST, scale="log2", continuous=instant)
        self.kernel_us = Dial(
            "kernel duration", kernel_us, 0.5, 100, unit="µs", scale="log10", step=0.5, whole=False, continuous=instant
        )
        self._chart = BranchesChart()
        dials = (self.width, self.depth, self.kernel_us)
        for dial in dials:
            dial.on_change(self.redraw)
        super().__init__([dial.widget for dial in dials])

    def settings(self) -> str:
        width, depth = self.width.value, self.depth.value
        branches = f"{width} branch{'' if width == 1 else 'es'} of {depth} kernel{'' if depth == 1 else 's'}"
        return f"{branches} of {self.kernel_us.value:g} µs, between a first and a last one"

    def draw(self) -> tuple[bytes, str, str]:
        found = self.measured = branches_of(self._comparison, self.width.value, self.depth.value, self.kernel_us.value)
        seen = graph_view(found.graph)
        view = BranchesView(
            self.settings(), found.chain.total_us, found.branches.total_us,
            self._comparison.replay("rawkernel", found.critical_path, found.kernel_us).total_us,
            (found.width, found.depth), seen.picture(), f"The graph: {seen.verdict}",
        )  # fmt: skip
        return self._chart.png(view), _gain(found), str(found.provenance)


def _gain(found: Branches) -> str:
    path = f"the critical path has {found.critical_path} of {found.nodes} nodes"
    chain, branches = microseconds(found.chain.total_us), microseconds(found.branches.total_us)
    if found.width == 1:
        return f"no gain: {path}; a single branch is a chain, and takes {branches}"
    times = f"one chain of them takes {chain}, the branches {branches}"
    ratio = found.speed_up
    most = f"{found.ceiling:.2f}× at the most"
    if ratio < 1 / ALIKE:
        return f"a loss: {path}; {times}: {1 / ratio:.2f}× as long, where the critical path promised {most}"
    if ratio < ALIKE:
        return f"no gain: {path}; {times}, where the critical path promised {most}"
    return f"{ratio:.2f}× as fast: {path}; {times}; {most} by the critical path"


def branches(width: int = 4, depth: int = 8, kernel_us: float = 5.0) -> BranchesExplorer:
    """A graph of `width` branches (1 to 8) of `depth` kernels (1 to 64) between a first and a last kernel: its picture, its
    critical path, and the time of one replay against that of one chain of as many kernels.

    The kernels have one thread each, so that any number of them fits on the GPU side by side; `kernel_us`, 0.5 to 100 µs, is
    how long each is busy. On a live GPU each released slider captures and measures again.
    """
    return BranchesExplorer(width, depth, kernel_us)
