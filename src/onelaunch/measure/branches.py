"""A graph whose kernels stand side by side against the same number of kernels in one chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onelaunch.device import HostTimes, Provenance

from .comparison import Comparison

MOST = 8  # branches; of more, the driver runs only some side by side


@dataclass(frozen=True)
class Branches:
    """One kernel, `width` branches of `depth` kernels that all wait for it, and one kernel that waits for all of them: the
    replay, beside that of one chain of as many kernels. `graph` is the executable graph with the branches."""

    width: int
    depth: int
    kernel_us: float
    branches: HostTimes
    chain: HostTimes
    graph: Any
    provenance: Provenance

    @property
    def nodes(self) -> int:
        return self.width * self.depth + 2

    @property
    def critical_path(self) -> int:
        """How many nodes the longest chain has: the root, one branch, the join."""
        return self.depth + 2

    @property
    def ceiling(self) -> float:
        """How many times as fast as the chain the branches can be at the most: all nodes over those of the critical path."""
        return self.nodes / self.critical_path

    @property
    def speed_up(self) -> float:
        return self.chain.total_us / self.branches.total_us


def branches_of(comparison: Comparison, width: int, depth: int, kernel_us: float) -> Branches:
    """Captures both graphs and times a replay of each. Raises ValueError for a width outside 1 to `MOST`, a depth below 1 or a
    negative duration."""
    if not 1 <= width <= MOST or depth < 1 or kernel_us < 0:
        raise ValueError(f"{width} branches of {depth} kernels of {kernel_us} µs cannot be measured")
    graph, branches = comparison.replay_branches(width, depth, kernel_us)
    chain = comparison.replay("rawkernel", width * depth + 2, kernel_us)
    return Branches(width, depth, kernel_us, branches, chain, graph, comparison.device.provenance)
