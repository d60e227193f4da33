"""Graphs of every library, as handles of the CUDA runtime."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from onelaunch.device import Device

ACCEPTED = (
    "a cupy.cuda.Graph, a cuda.core GraphDefinition or GraphBuilder, a torch.cuda.CUDAGraph made with keep_graph=True, "
    "a cudaGraph_t, or its number"
)
EXECUTABLE = (
    "an executable graph cannot be looked into: CUDA lists the nodes of a definition only. Pass what it was made from: "
    "the GraphDefinition, the GraphBuilder, or the cudaGraph_t"
)


@dataclass(frozen=True)
class Source:
    """A graph to be read: its handle, and cuda.core's definition where there is one, which knows more than the handle."""

    handle: int
    definition: Any = None
    owner: Any = None  # kept alive while it is read


class CapturedGraph:
    """The handle of a graph that an instrument captured, destroyed with the last reference to it."""

    def __init__(self, cudart: Any, graph: Any):
        self._graph = graph
        weakref.finalize(self, cudart.cudaGraphDestroy, graph).atexit = False

    def __int__(self) -> int:
        return int(self._graph)

    __index__ = __int__

    def __repr__(self) -> str:
        return "<captured cudaGraph_t>"


@dataclass(frozen=True)
class Raw:
    """The nodes of a graph as handles, each behind those it depends on, and the edges as pairs of places in that list."""

    nodes: tuple[Any, ...]
    edges: tuple[tuple[int, int], ...]


def source_of(graph: Any) -> Source:
    """The handle behind any library's graph. Raises TypeError for what is none, and for an executable graph; ValueError for a
    torch graph that has not been kept."""
    kind = type(graph).__name__
    if isinstance(graph, bool):
        raise TypeError(f"not a graph: {graph!r}. It takes {ACCEPTED}")
    if kind in ("cudaGraphExec_t", "CUgraphExec"):
        raise TypeError(EXECUTABLE)
    if isinstance(graph, int | CapturedGraph) or kind in ("cudaGraph_t", "CUgraph"):
        return Source(_not_null(int(graph)), owner=graph)
    if hasattr(graph, "raw_cuda_graph"):
        return Source(_of_torch(graph), owner=graph)
    if kind == "GraphDefinition":
        return Source(_not_null(int(graph.handle)), graph, graph)
    if kind == "GraphBuilder":
        definition = graph.graph_definition
        return Source(_not_null(int(definition.handle)), definition, graph)
    if kind == "Graph" and _has(graph, "graphExec"):
        return Source(_not_null(int(graph.graph)), owner=graph)
    if kind == "Graph" and _has(graph, "upload"):
        raise TypeError(EXECUTABLE)
    raise TypeError(f"not a graph: {kind}. It takes {ACCEPTED}")


def _has(thing: Any, name: str) -> bool:
    try:
        return hasattr(thing, name)
    except NotImplementedError:  # what the simulated device lacks, it says loudly
        return False


def _of_torch(graph: Any) -> int:
    try:
        return _not_null(int(graph.raw_cuda_graph()))
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            "torch has given this graph away. Keep it: g = torch.cuda.CUDAGraph(keep_graph=True); capture into it; look at it; "
            f"then g.instantiate() (raw_cuda_graph says: {error})"
        ) from error


def _not_null(handle: int) -> int:
    if handle <= 0:
        raise ValueError(f"no graph: its handle is {handle}")
    return handle


def read(device: Device, handle: int) -> Raw:
    """Lists a graph. Raises ValueError where the runtime knows no such graph."""
    cudart = device.cudart
    graph = cudart.cudaGraph_t(handle)
    count = _ask(cudart.cudaGraphGetNodes(graph), handle)[-1]
    nodes = list(_ask(cudart.cudaGraphGetNodes(graph, count), handle)[0])[:count] if count else []
    count = _ask(cudart.cudaGraphGetEdges(graph), handle)[-1]
    before, after = _ask(cudart.cudaGraphGetEdges(graph, count), handle)[:2] if count else ((), ())
    place = {int(node): i for i, node in enumerate(nodes)}
    edges = [(place[int(a)], place[int(b)]) for a, b in zip(before[:count], after[:count], strict=True)]
    return _in_order(nodes, edges)


def _ask(answer: tuple, handle: int) -> tuple:
    error, *values = answer
    if int(error):
        raise ValueError(f"{handle:#x} is not a graph, or not any more ({error.name})")
    return tuple(values)


def _in_order(nodes: list, edges: list[tuple[int, int]]) -> Raw:
    """The nodes in the order in which they were added, but each behind those it depends on; so the numbers mean the same on
    every device. Raises ValueError for a graph with a cycle."""
    import heapq

    left, after = [0] * len(nodes), [[] for _ in nodes]
    for a, b in edges:
        left[b] += 1
        after[a].append(b)
    ready = [i for i, n in enumerate(left) if not n]
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for j in after[i]:
            left[j] -= 1
            if not left[j]:
                heapq.heappush(ready, j)
    if len(order) < len(nodes):
        raise ValueError("this graph has a cycle, so no executable graph can be made of it")
    number = {old: new for new, old in enumerate(order)}
    return Raw(tuple(nodes[i] for i in order), tuple(sorted((number[a], number[b]) for a, b in edges)))
