"""Branches against one chain: two bars, and the graph below them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import graph
from .bars import TwoBars
from .style import DEVICE, FONT, GRAPH, INK, QUIET, Canvas, encode, lane_axes, new_figure, rgba, title

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
        axes = lane_axes(figure, (0.1, 0.23, 0.865, 0.55), "total time of one replay, µs", -0.2, 2.1)
        self._bars = TwoBars(axes, ("one chain", DEVICE), ("branches", GRAPH))
        (self._least,) = axes.plot([0, 0], [-0.1, 0.9], color=INK, linewidth=1.2, linestyle=(0, (2, 2)))
        look = {"ha": "right", "fontsize": FONT - 1.5, "color": QUIET, "transform": axes.transAxes}
        axes.text(1, 1.03, "dotted: the critical path alone", **look)
        self._canvas = Canvas(figure, [axes.xaxis], [self._title, *self._bars.artists, self._least])
        self._graphs: dict[tuple[int, int], np.ndarray] = {}

    def png(self, view: BranchesView) -> bytes:
        """The picture of it."""
        self._title.set_text(view.heading)
        limit = self._bars.set(view.chain_us, view.branches_us)
        self._least.set_xdata([view.least_us] * 2)
        return encode(np.concatenate([self._canvas.rgba(limit), self._graph(view)]))

    def _graph(self, view: BranchesView) -> np.ndarray:
        if view.shape not in self._graphs:
            if len(self._graphs) >= KEPT:
                self._graphs.pop(next(iter(self._graphs)))
            self._graphs[view.shape] = rgba(graph.draw(view.picture, view.graph_heading))
        return self._graphs[view.shape]
