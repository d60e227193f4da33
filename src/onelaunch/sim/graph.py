"""Graphs: nodes with their dependencies, and the executable graph that replays them."""

from __future__ import annotations

from collections.abc import Callable
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


class GraphExec(Op):
    """An executable graph; as an operation, one replay of it. Only one replay of it runs at a time (CUDA Programming Guide)."""

    kind = "graph"

    def __init__(self, graph: Graph):
        self.nodes = list(graph.nodes)
        self.launches = 0
        self.running = False
        self.free_at = 0.0
        self._is_chain = all(node.dependencies == ((self.nodes[i - 1],) if i else ()) for i, node in enumerate(self.nodes))
        self._ops = [node.op for node in self.nodes]
        self._dependencies = [tuple(d.index for d in node.dependencies) for node in self.nodes]
        self._successors: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for before in node.dependencies:
                self._successors[before.index].append(node.index)

    def gap_us(self, gpu: Gpu) -> float:
        return gpu.costs.graph_gap_us

    def run(self, gpu: Gpu, start: float) -> float:
        """One replay with nothing beside it."""
        gap = gpu.node_gap_us
        if self._is_chain:
            end = start - gap
            for op in self._ops:
                end = op.run(gpu, end + gap)
            self.free_at = max(end, start)
            return self.free_at
        ends: list[float] = []
        for op, dependencies in zip(self._ops, self._dependencies, strict=True):
            begin = max((ends[i] + gap for i in dependencies), default=start)
            ends.append(op.run(gpu, begin))
        self.free_at = max(ends, default=start)
        return self.free_at

    def begin(self, gpu: Gpu, start: float, done: Callable[[float], None]) -> None:
        """One replay beside other work: each node starts when its dependencies have ended. Calls `done` with the end."""
        self.running = True
        left = [len(d) for d in self._dependencies]
        ready = [start] * len(self.nodes)
        unfinished = len(self.nodes)

        def finish(end: float) -> None:
            self.running, self.free_at = False, end
            done(end)

        def begin_node(i: int) -> None:
            op = self._ops[i]
            gpu.at(ready[i] + op.duration_us(gpu), lambda end: end_node(i, end))

        def end_node(i: int, end: float) -> None:
            nonlocal unfinished
            gpu.perform(self._ops[i], ready[i], end)
            for j in self._successors[i]:
                left[j] -= 1
                ready[j] = max(ready[j], end + gpu.node_gap_us)
                if not left[j]:
                    begin_node(j)
            unfinished -= 1
            if not unfinished:
                finish(end)

        if not self.nodes:
            finish(start)
        for i, count in enumerate(left[:]):
            if not count:
                begin_node(i)
