"""`graph_view`: the nodes and edges of a graph of any library, its critical path, and a picture of it."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from onelaunch.device import Device, current
from onelaunch.device.facts import NodeFacts

from .handles import Source, read, source_of

if TYPE_CHECKING:
    import networkx
    from matplotlib.figure import Figure

    from onelaunch.charts.graph import Picture

LISTED = 24  # lines of nodes in the text
BODY_NAMES = {"IfNode": ("then",), "IfElseNode": ("then", "else"), "WhileNode": ("body",)}
FORMS = {"IfNode": "if", "IfElseNode": "if", "WhileNode": "while", "SwitchNode": "switch"}
BODIES_UNKNOWN = "bodies unknown: the driver tells them from CUDA 13.2 on, before that cuda.core does while you hold the node"


@dataclass(frozen=True)
class GraphNode:
    """One node of a view. `before` and `after` are the numbers of the nodes it waits for, and of those that wait for it."""

    index: int
    facts: NodeFacts
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    inner: tuple[tuple[str, GraphView], ...] = ()  # what is inside: ("child graph", view), ("body", view), …

    kind = property(lambda self: self.facts.kind)
    name = property(lambda self: self.facts.name)
    grid = property(lambda self: self.facts.grid)
    block = property(lambda self: self.facts.block)
    shared_bytes = property(lambda self: self.facts.shared_bytes)
    parameters = property(lambda self: self.facts.parameters)
    pointers = property(lambda self: self.facts.pointers)

    @property
    def detail(self) -> str:
        """What the node does beyond its name: a kernel's launch configuration, a copy's size and direction."""
        facts = self.facts
        if facts.grid and facts.block:
            shared = f", {facts.shared_bytes}" if facts.shared_bytes else ""
            return f"<<<{dims(facts.grid)}, {dims(facts.block)}{shared}>>>"
        if copy := facts.copy:
            source, target = ("device" if side else "host" for side in (copy.source_on_device, copy.target_on_device))
            return f"{copy.nbytes:,} B, {source} to {target}"
        if memset := facts.memset:
            return f"{memset.nbytes:,} B to {memset.value:#x}"
        if facts.memory_bytes is not None:
            return f"{facts.memory_bytes:,} B"
        if self.inner:
            return ", ".join(
                _count(len(v), "node") if label == self.name else f"{label}: {_count(len(v), 'node')}"
                for label, v in self.inner
            )
        return ""

    @property
    def label(self) -> str:
        """What the node is, in one line: a kernel's name and launch configuration, or what else it does."""
        prefix = {"kernel": "kernel "}.get(self.kind, "")
        return f"{prefix}{self.name} {self.detail}".rstrip()

    @property
    def hides_bodies(self) -> bool:
        """Whether this is a conditional node whose bodies are not known."""
        return self.kind == "conditional" and not self.inner

    def __repr__(self) -> str:
        waits = f", after {_numbers(self.before)}" if self.before else ""
        held = f", {_count(len(self.parameters), 'parameter')}" if self.parameters else ""
        return f"[{self.index}] {self.label}{held}{waits}"


@dataclass(frozen=True, eq=False, repr=False)
class GraphView:
    """A snapshot of a graph: `nodes`, numbered so that each stands behind those it waits for, and `edges` between the numbers.

    Displayed in a notebook it is a picture, in a shell text.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]
    durations_us: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self):
        return iter(self.nodes)

    def __getitem__(self, index: int) -> GraphNode:
        return self.nodes[index]

    # -- measures -----------------------------------------------------------------------------------------------------

    @cached_property
    def kinds(self) -> dict[str, int]:
        """How many nodes of each kind, the most frequent first."""
        return dict(Counter(node.kind for node in self.nodes).most_common())

    @cached_property
    def total_nodes(self) -> int:
        """All nodes, those inside child graphs and bodies too."""
        return len(self) + sum(view.total_nodes for node in self.nodes for _, view in node.inner)

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The nodes by how many must have run before them in the longest chain that leads to them."""
        depth = [0] * len(self)
        for node in self.nodes:
            depth[node.index] = 1 + max((depth[b] for b in node.before), default=-1)
        out: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
        for i, d in enumerate(depth):
            out[d].append(i)
        return tuple(map(tuple, out))

    @property
    def widest_level(self) -> tuple[int, ...]:
        """The most nodes that wait for nothing of each other at one depth: how far the graph is parallel."""
        return max(self.levels, key=len, default=())

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """The longest chain of nodes, by their number."""
        return self._longest([1.0] * len(self))

    @cached_property
    def slowest_path(self) -> tuple[int, ...] | None:
        """The chain that takes longest, given `durations_us`; None without them."""
        return None if self.durations_us is None else self._longest(self.durations_us)

    @property
    def slowest_us(self) -> float | None:
        """How long the slowest path takes, gaps between nodes not counted; None without `durations_us`."""
        return None if self.durations_us is None else sum(self.durations_us[i] for i in self.slowest_path)

    def _longest(self, weights: Sequence[float]) -> tuple[int, ...]:
        reach, come_from = [0.0] * len(self), [-1] * len(self)
        for node in self.nodes:
            best = max(node.before, key=lambda b: (reach[b], -b), default=-1)
            come_from[node.index] = best
            reach[node.index] = weights[node.index] + (reach[best] if best >= 0 else 0.0)
        at = max(range(len(self)), key=lambda i: (reach[i], -i), default=-1)
        path = []
        while at >= 0:
            path.append(at)
            at = come_from[at]
        return tuple(reversed(path))

    # -- text ---------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """The graph's shape in one line."""
        if not self.nodes:
            return "An empty graph."
        if len(self.levels) == len(self) > 1:
            shape = "one chain"
        else:
            shape = f"longest chain {_count(len(self.critical_path), 'node')}, widest level {len(self.widest_level)}"
        if self.slowest_us is not None:
            shape += f"; slowest path {_count(len(self.slowest_path), 'node')}, {self.slowest_us:.1f} µs"
        inside = self.total_nodes - len(self)
        more = f" and {inside:,} inside" if inside else ""
        return f"{_count(len(self), 'node')}{more}, {_count(len(self.edges), 'edge')}: {shape}."

    def __repr__(self) -> str:
        return "\n".join([f"Graph of {self.verdict}" if self.nodes else self.verdict, *self._lines()])

    def _lines(self) -> list[str]:
        out = []
        runs = self._runs()
        shown = runs if len(runs) <= LISTED else [*runs[: LISTED // 2], None, *runs[-LISTED // 2 + 1 :]]
        for run in shown:
            if run is None:
                hidden = sum(len(r) for r in runs[LISTED // 2 : -LISTED // 2 + 1])
                out.append(f"  … {_count(hidden, 'node')} more")
            elif len(run) == 1:
                out.append(f"  {run[0]!r}")
            else:
                waits = f", the first after {_numbers(run[0].before)}" if run[0].before else ""
                out.append(f"  [{run[0].index} … {run[-1].index}] chain of {len(run)}: {run[0].label}{waits}")
            for node in run or ():
                for label, view in node.inner:
                    out.append(f"    {label} of [{node.index}]: {view.verdict}")
                    out += [f"    {line}" for line in view._lines()]
                if node.hides_bodies:
                    out.append(f"    {BODIES_UNKNOWN}")
        return out

    def _runs(self) -> list[list[GraphNode]]:
        """The nodes in order; three and more in a row that do the same and only wait for each other are one run."""
        runs: list[list[GraphNode]] = []
        for node in self.nodes:
            last = runs[-1][-1] if runs else None
            alone = last is not None and node.before == (last.index,) and last.after == (node.index,) and not node.inner
            if alone and last.label == node.label:
                runs[-1].append(node)
                continue
            runs.append([node])
        return [part for run in runs for part in ([run] if len(run) > 2 else [[node] for node in run])]

    # -- pictures and other forms -------------------------------------------------------------------------------------

    def figure(self) -> Figure:
        """The graph drawn from left to right, as a matplotlib figure; long chains and wide levels are folded."""
        from onelaunch.charts.graph import draw

        return draw(self.picture(), self.verdict)

    def picture(self) -> Picture:
        """What `charts.graph` draws."""
        from onelaunch.charts.graph import Box, Picture

        inside = [(f"{label} of [{node.index}]", view.picture()) for node in self.nodes for label, view in node.inner]
        path = self.slowest_path if self.slowest_path is not None else self.critical_path
        boxes = [Box(node.kind, node.name, node.detail) for node in self.nodes]
        return Picture(boxes, list(self.edges), set(path), inside)

    def png(self) -> bytes:
        """The figure as a PNG."""
        from onelaunch.charts.graph import png

        return png(self.figure())

    def to_networkx(self) -> networkx.DiGraph:
        """A `networkx.DiGraph`: nodes by number, with kind, name, grid, block, shared_bytes, parameters, and the graphs inside
        (`inner`: label → DiGraph) as attributes."""
        import networkx

        out = networkx.DiGraph()
        for node in self.nodes:
            out.add_node(
                node.index,
                kind=node.kind, name=node.name, grid=node.grid, block=node.block, shared_bytes=node.shared_bytes,
                parameters=node.parameters, inner={label: view.to_networkx() for label, view in node.inner},
            )  # fmt: skip
        out.add_edges_from(self.edges)
        return out

    def to_dot(self) -> str:
        """The graph in Graphviz's language; child graphs and bodies as clusters."""
        lines = ["digraph graph_view {", "  rankdir=LR;", '  node [shape=box, style=rounded, fontname="Helvetica"];']
        self._write_dot(lines, "", "  ")
        return "\n".join([*lines, "}", ""])

    def _write_dot(self, lines: list[str], prefix: str, indent: str) -> None:
        for node in self.nodes:
            label = "\\n".join(map(_quoted, filter(None, (f"[{node.index}] {node.name}", node.detail))))
            lines.append(f'{indent}n{prefix}{node.index} [label="{label}"];')
        lines += [f"{indent}n{prefix}{a} -> n{prefix}{b};" for a, b in self.edges]
        for node in self.nodes:
            for k, (label, view) in enumerate(node.inner):
                inner = f"{prefix}{node.index}_{k}_"
                lines.append(f"{indent}subgraph cluster_{inner.rstrip('_')} {{")
                lines.append(f'{indent}  label="{_quoted(label)} of [{node.index}]"; style=dashed;')
                view._write_dot(lines, inner, indent + "  ")
                lines.append(f"{indent}}}")
                if view.nodes:
                    lines.append(f"{indent}n{prefix}{node.index} -> n{inner}0 [style=dashed, arrowhead=none];")

    def _repr_mimebundle_(self, include=None, exclude=None, **_: Any) -> dict[str, Any]:
        return {"image/png": base64.b64encode(self.png()).decode("ascii"), "text/plain": repr(self)}


# -- making one -------------------------------------------------------------------------------------------------------


def graph_view(graph: Any, *, durations_us: Sequence[float] | Mapping[int, float] | None = None) -> GraphView:
    """Looks into a graph: nodes, edges, launch configurations, parameters, and the graphs inside.

    Takes a cupy.cuda.Graph, a cuda.core GraphDefinition or (finished) GraphBuilder, a torch.cuda.CUDAGraph made with
    `keep_graph=True`, a `cudaGraph_t`, or its number. `durations_us`: how long each node takes, by its number (a sequence, or a
    mapping that leaves out those of 0 µs), for the slowest path. Raises TypeError for what is no graph, ValueError for a graph
    that is gone and for durations that do not fit.
    """
    view = _view(current(), source_of(graph))
    if durations_us is None:
        return view
    return GraphView(view.nodes, view.edges, _durations(durations_us, len(view)))


def _durations(given: Sequence[float] | Mapping[int, float], count: int) -> tuple[float, ...]:
    if isinstance(given, Mapping):
        if unknown := [i for i in given if i not in range(count)]:
            raise ValueError(f"durations_us names nodes that there are not: {unknown}; the graph has {count}")
        given = [given.get(i, 0.0) for i in range(count)]
    out = tuple(map(float, given))
    if len(out) != count:
        raise ValueError(f"durations_us has {len(out)} values for {count} nodes")
    if any(us < 0 for us in out):
        raise ValueError("a node cannot take less than 0 µs")
    return out


def _view(device: Device, source: Source) -> GraphView:
    raw = read(device, source.handle)
    before: list[list[int]] = [[] for _ in raw.nodes]
    after: list[list[int]] = [[] for _ in raw.nodes]
    for a, b in raw.edges:
        before[b].append(a)
        after[a].append(b)
    known = {int(n.handle): n for n in source.definition.nodes()} if source.definition is not None else {}
    nodes = []
    for i, handle in enumerate(raw.nodes):
        facts, core_node = device.node_facts(handle), known.get(int(handle))
        inside = tuple((label, _view(device, inner)) for label, inner in _inside(facts, core_node))
        if form := FORMS.get(type(core_node).__name__):
            facts = replace(facts, name=f"conditional {form}")
        nodes.append(GraphNode(i, facts, tuple(before[i]), tuple(after[i]), inside))
    return GraphView(tuple(nodes), raw.edges)


def _inside(facts: NodeFacts, core_node: Any) -> list[tuple[str, Source]]:
    """The graphs inside a node, by what they are called."""
    if facts.child is not None:
        definition = core_node.child_graph if core_node is not None else None
        return [("child graph", Source(facts.child, definition))]
    branches = tuple(core_node.branches) if type(core_node).__name__ in FORMS else ()
    handles = [int(branch.handle) for branch in branches] or list(facts.bodies or ())
    names = BODY_NAMES.get(type(core_node).__name__) or _body_names(facts, len(handles))
    definitions = branches or (None,) * len(handles)
    return [(name, Source(h, d)) for name, h, d in zip(names, handles, definitions, strict=True)]


def _body_names(facts: NodeFacts, count: int) -> tuple[str, ...]:
    if facts.name.endswith("while"):
        return ("body",)
    return ("then", "else")[:count] if facts.name.endswith("if") else tuple(f"case {i}" for i in range(count))


# -- words ------------------------------------------------------------------------------------------------------------


def dims(sizes: Sequence[int]) -> str:
    """(4, 2, 1) as in a launch: 4x2."""
    last = max((i for i, n in enumerate(sizes) if n != 1), default=0)
    return "x".join(map(str, sizes[: last + 1]))


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _numbers(numbers: Sequence[int], most: int = 6) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown} and {len(numbers) - most} more" if len(numbers) > most else shown


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
