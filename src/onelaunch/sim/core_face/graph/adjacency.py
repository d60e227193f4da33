"""The neighbours of a node as a set: changing it changes the graph."""

from __future__ import annotations

from collections.abc import Iterator, MutableSet
from typing import TYPE_CHECKING

from .._base import driver_call, require

if TYPE_CHECKING:
    from .nodes import GraphNode


class AdjacencySetProxy(MutableSet):
    """A node's successors (`forward`) or predecessors."""

    __slots__ = ("_forward", "_node")

    def __init__(self, node: GraphNode, forward: bool):
        self._node, self._forward = node, forward

    @classmethod
    def _from_iterable(cls, it) -> set:
        return set(it)

    def _members(self) -> list:
        """The neighbours as the engine's nodes."""
        node = self._node._node
        if node is None:
            return []
        return list(node.dependents if self._forward else node.dependencies)

    def __contains__(self, x: object) -> bool:
        from .nodes import GraphNode

        return isinstance(x, GraphNode) and x._node is not None and x._node in self._members()

    def __iter__(self) -> Iterator[GraphNode]:
        from .nodes import node_of

        return iter([node_of(node, self._node._owner) for node in self._members()])

    def __len__(self) -> int:
        return len(self._members())

    def _pairs(self, others: list[GraphNode]) -> list[tuple]:
        me = self._node
        me._require_editable()
        for other in others:
            other._require_editable()
            if other._owner != me._owner:
                raise ValueError("Graph nodes must belong to the same GraphDefinition")
        pairs = [(me._node, other._node) for other in others]
        return pairs if self._forward else [(b, a) for a, b in pairs]

    def _link(self, others: list[GraphNode]) -> None:
        pairs = self._pairs(others)
        with driver_call():
            self._node._owner._graph.add_edges(pairs)

    def _unlink(self, others: list[GraphNode]) -> None:
        pairs = self._pairs(others)
        with driver_call():
            self._node._owner._graph.remove_edges(pairs)

    def add(self, value: GraphNode) -> None:
        from .nodes import GraphNode

        require("value", value, GraphNode)
        self._node._require_editable()
        if value not in self:
            self._link([value])

    def discard(self, value: GraphNode) -> None:
        from .nodes import GraphNode

        require("value", value, GraphNode)
        self._node._require_editable()
        if value in self:
            self._unlink([value])

    def clear(self) -> None:
        self._node._require_editable()
        if members := list(self):
            self._unlink(members)

    def update(self, *others) -> None:
        """Adds an edge to each node, and to those of each iterable."""
        from .nodes import GraphNode

        self._node._require_editable()
        nodes = []
        for other in others:
            for node in [other] if isinstance(other, GraphNode) else other:
                if not isinstance(node, GraphNode):
                    raise TypeError(f"expected GraphNode, got {type(node).__name__}")
                nodes.append(node)
        if new := [node for node in dict.fromkeys(nodes) if node not in self]:
            self._link(new)

    def __ior__(self, it):
        self.update(it)
        return self

    def __isub__(self, it):
        if it is self:
            self.clear()
        elif gone := [node for node in it if node in self]:
            self._unlink(gone)
        return self

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self)) + "}"
