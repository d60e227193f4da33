"""Graphs: nodes with their dependencies, and the executable graph that replays them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .stream import Op

if TYPE_CHECKING:
    from .gpu import Gpu


@dataclass(eq=False)
class Node:
    """One operation of a graph, and the nodes that must end before it starts."""

    op: Op
    index: int
    dependencies: tuple[Node, ...] = ()


class Graph:
    """A definition: nodes in the order in which they were added (a topological order, since edges point backwards)."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, op: Op, dependencies: list[Node]) -> Node:
        node = Node(op, len(self.nodes), tuple(dependencies))
        self.nodes.append(node)
        return node

    @property
    def edges(self) -> list[tuple[Node, Node]]:
        return [(before, node) for node in self.nodes for before in node.dependencies]


class GraphExec(Op):
    """An executable graph; as an operation, one replay of it."""

    kind = "graph"

    def __init__(self, graph: Graph):
        self.nodes = list(graph.nodes)
        self.launches = 0
        self._is_chain = all(node.dependencies == ((self.nodes[i - 1],) if i else ()) for i, node in enumerate(self.nodes))
        self._chain = [node.op for node in self.nodes]
        self._dependencies = [tuple(d.index for d in node.dependencies) for node in self.nodes]

    def gap_us(self, gpu: Gpu) -> float:
        return gpu.costs.graph_gap_us

    def run(self, gpu: Gpu, start: float) -> float:
        trace = gpu.trace
        if self._is_chain and trace is None:
            gap, end = gpu.node_gap_us, start - gpu.node_gap_us
            for op in self._chain:
                end = op.run(gpu, end + gap)
            return max(end, start)
        ends: list[float] = []
        for op, dependencies in zip(self._chain, self._dependencies, strict=True):
            begin = max((ends[i] + gpu.node_gap_us for i in dependencies), default=start)
            ends.append(op.run(gpu, begin))
            if trace is not None:
                trace.on_device(op, begin, ends[-1])
        return max(ends, default=start)
