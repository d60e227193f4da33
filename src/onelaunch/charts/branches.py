"""Branches against one chain: two bars, and the graph below them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import graph
from .style import (
    DEVICE,
    FONT,
    GRAPH,
    INK,
    QUIET,
    Canvas,
    Lane,
    encode,
    lane_axes,
    microseconds,
    new_figure,
    nice_ceiling,
    row_name,
    title,
)

KEPT = 32  # pictures of graphs


@dataclass(frozen=True)
class BranchesView:
    """Total times of one replay, in µs. `least_us`: the chain's time for as many nodes as the critical path has."""

    heading: str
    chain_us: float
    branches_us: float
    least_us: float
    shape: tuple[int, int]  # width and depth: what the graph looks like
    picture: graph.Picture
    graph_heading: str


class BranchesChart:
    """The two bars stay where they are while the graph below grows."""

    def __init__(self) -> None:
        figure = new_figure(graph.WIDTH, 216)
        self._title = title(figure, 0.9)
        axes = self._axes = lane_axes(figure, (0.1, 0.23, 0.865, 0.55), "total time of one replay, µs", -0.2, 2.1)
        self._bars, self._texts = [], []
        for y, text, colour in ((1.15, "one chain", DEVICE), (0.05, "branches", GRAPH)):
            row_name(axes, y + 0.35, text, color=colour)
            self._bars.append(Lane(axes, y, 0.7, colour))
            self._texts.append(axes.text(0, y + 0.35, "", va="center", fontsize=FONT + 1, weight="bold", color=INK))
        (self._least,) = axes.plot([0, 0], [-0.1, 0.9], color=INK, linewidth=1.2, linestyle=(0, (2, 2)))
        look = {"ha": "right", "fontsize": FONT - 1.5, "color": QUIET, "transform": axes.transAxes}
        axes.text(1, 1.03, "dotted: the critical path alone", **look)
        moving = [self._title, *(b.artist for b in self._bars), *self._texts, self._least]
        self._canvas = Canvas(figure, [axes.xaxis], moving)
        self._graphs: dict[tuple[int, int], np.ndarray] = {}

    def png(self, view: BranchesView) -> bytes:
        """The picture of it."""
        self._title.set_text(view.heading)
        limit = nice_ceiling(max(view.chain_us, view.branches_us) * 1.18)
        self._axes.set_xlim(0, limit)
        for bar, text, us in zip(self._bars, self._texts, (view.chain_us, view.branches_us), strict=True):
            bar.set([(0, us)])
            text.set_text(f" {microseconds(us)}")
            text.set_x(us)
        self._least.set_xdata([view.least_us] * 2)
        return encode(np.concatenate([self._canvas.rgba(limit), self._graph(view)]))

    def _graph(self, view: BranchesView) -> np.ndarray:
        if view.shape not in self._graphs:
            if len(self._graphs) >= KEPT:
                self._graphs.pop(next(iter(self._graphs)))
            self._graphs[view.shape] = graph.rgba(graph.draw(view.picture, view.graph_heading))
        return self._graphs[view.shape]
