"""Graphs: definitions that can be edited, and executable graphs that replay them."""

from __future__ import annotations

import heapq
import itertools
import math
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from .errors import CUDARuntimeError
from .kernel import KernelOp
from .ops import EMPTY, AllocOp, ChildOp, Condition, ConditionalOp, CopyOp, EmptyOp, FreeOp, MemsetOp, RecordNodeOp, WaitNodeOp
from .stream import NodeAt, Op

if TYPE_CHECKING:
    from .gpu import Gpu


@dataclass(eq=False)
class Node:
    """One operation of a graph, and the nodes that must end before it starts."""

    op: Op
    graph: Graph
    dependencies: list[Node] = field(default_factory=list)
    priority: int = 0  # of the stream that it was captured from

    @property
    def dependents(self) -> list[Node]:
        return [n for n in self.graph.nodes if self in n.dependencies]


class Graph:
    """A definition: its nodes in the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.conditions: list[Condition] = []
        self.twins: dict[Node, Node] = {}  # of a clone: the original's node → this graph's
        self.executable: weakref.ref[GraphExec] | None = None  # the last one, which may have to be the only one

    def add(self, op: Op, dependencies: Iterable[Node] = ()) -> Node:
        """Raises cudaErrorInvalidValue for a dependency of another graph, or the same one twice."""
        dependencies = list(dependencies)
        if any(d.graph is not self for d in dependencies) or len(set(dependencies)) < len(dependencies):
            raise CUDARuntimeError("cudaErrorInvalidValue")
        node = Node(op, self, dependencies)
        self.nodes.append(node)
        return node

    def add_condition(self, default: int | None) -> Condition:
        """A condition for one conditional node of this graph or of one inside."""
        condition = Condition(len(self.conditions) + 1, default)
        self.conditions.append(condition)
        return condition

    def conditional(self, number: int, form: str, count: int) -> ConditionalOp:
        """The operation of a conditional node with `count` empty bodies. Raises cudaErrorInvalidValue for a condition that this
        graph lacks or no body. That the condition has no node yet, the caller checks in the outermost graph."""
        if not 1 <= number <= len(self.conditions) or not count:
            raise CUDARuntimeError("cudaErrorInvalidValue")
        bodies = [Graph() for _ in range(count)]
        for body in bodies:
            body.conditions = self.conditions
        return ConditionalOp(self.conditions[number - 1], form, bodies)

    def edges(self) -> list[tuple[Node, Node]]:
        return [(d, n) for n in self.nodes for d in n.dependencies]

    def roots(self) -> list[Node]:
        return [n for n in self.nodes if not n.dependencies]

    def leaves(self) -> list[Node]:
        inner = {d for n in self.nodes for d in n.dependencies}
        return [n for n in self.nodes if n not in inner]

    def add_edges(self, pairs: list[tuple[Node, Node]]) -> None:
        """Raises cudaErrorInvalidValue at an edge that is there, leads to itself or to another graph; those before it stay."""
        for before, after in pairs:
            if before in after.dependencies or before is after or before.graph is not self or after.graph is not self:
                raise CUDARuntimeError("cudaErrorInvalidValue")
            after.dependencies.append(before)

    def remove_edges(self, pairs: list[tuple[Node, Node]]) -> None:
        """Raises cudaErrorInvalidValue at an edge that is not there; those before it are gone."""
        self._refuse_with_memory()
        for before, after in pairs:
            if before not in after.dependencies:
                raise CUDARuntimeError("cudaErrorInvalidValue")
            after.dependencies.remove(before)

    def _refuse_with_memory(self) -> None:
        """A graph that allocates or frees loses no node and no edge (CUDA Programming Guide, graph memory nodes)."""
        if any(isinstance(n.op, AllocOp | FreeOp) for n in self.nodes):
            raise CUDARuntimeError("cudaErrorNotSupported")

    def destroy_node(self, node: Node) -> None:
        """Takes a node out, with its edges."""
        self._refuse_with_memory()
        self.nodes.remove(node)
        for other in self.nodes:
            if node in other.dependencies:
                other.dependencies.remove(node)

    def clone(self) -> Graph:
        """The same nodes and edges; child graphs and bodies are cloned as well. `twins` says which node became which."""
        out = Graph()
        out.conditions = self.conditions
        for node in self.nodes:
            out.twins[node] = Node(_copied(node.op), out, priority=node.priority)
            out.nodes.append(out.twins[node])
        for node, twin in out.twins.items():
            twin.dependencies = [out.twins[d] for d in node.dependencies]
        return out

    def in_order(self) -> list[Node]:
        """The nodes, each after its dependencies. Raises cudaErrorInvalidValue where there is a cycle."""
        order: list[Node] = []
        placed: set[Node] = set()
        todo = self.nodes
        while todo:
            ready, blocked = [], []
            for node in todo:  # in one sweep, as far as it goes: nodes usually stand behind what they depend on
                if placed.issuperset(node.dependencies):
                    placed.add(node)
                    ready.append(node)
                else:
                    blocked.append(node)
            if not ready:
                raise CUDARuntimeError("cudaErrorInvalidValue")
            order += ready
            todo = blocked
        return order

    def everything(self) -> Iterable[Node]:
        """All nodes, those of child graphs and conditional bodies too."""
        for node in self.nodes:
            yield node
            for graph in inner_graphs(node.op):
                yield from graph.everything()

    def to_dot(self) -> str:
        """The graph in Graphviz's language, child graphs and bodies as clusters."""
        lines = ["digraph dot {"]

        def write(part: Graph, prefix: str) -> None:
            places = {node: f"{prefix}node_{i}" for i, node in enumerate(part.nodes)}
            lines.append(f'subgraph cluster_{prefix} {{ label="{prefix}" graph[style="dashed"];')
            for node, place in places.items():
                lines.append(
                    f'"{place}"[style="solid" shape="rectangle" label="{place}\\n{node.op.kind}\\n{node.op.name}\\n"];'
                )
            lines.extend(f'"{places[a]}" -> "{places[b]}";' for a, b in part.edges())
            for node, place in places.items():
                for k, inner in enumerate(inner_graphs(node.op)):
                    write(inner, f"{place}_{k}_")
            lines.append("}")

        write(self, "graph_")
        return "\n".join([*lines, "}", ""])


def inner_graphs(op: Op) -> list[Graph]:
    """The graphs inside an operation: a child, or the bodies of a conditional."""
    if isinstance(op, ChildOp):
        return [op.graph]
    return op.bodies if isinstance(op, ConditionalOp) else []


def _copied(op: Op) -> Op:
    """An operation of its own for a cloned node, where it holds a graph or a state."""
    if isinstance(op, ChildOp):
        return ChildOp(op.graph.clone())
    if isinstance(op, ConditionalOp):
        return ConditionalOp(op.condition, op.form, [b.clone() for b in op.bodies])
    if isinstance(op, RecordNodeOp | WaitNodeOp):
        return type(op)(op.event)
    return op


class _Deciding(Op):
    """A kernel of a graph with conditions, which it may set."""

    def __init__(self, op: KernelOp, conditions: dict[int, Condition]):
        self.op, self.conditions, self.kind, self.name = op, conditions, op.kind, op.name

    def gap_us(self, gpu: Gpu) -> float:
        return self.op.gap_us(gpu)

    def duration_us(self, gpu: Gpu) -> float:
        return self.op.duration_us(gpu)

    def effect(self, gpu: Gpu) -> None:
        self.run(gpu, 0.0)

    def run(self, gpu: Gpu, start: float) -> float:
        gpu.conditions = self.conditions
        try:
            return self.op.run(gpu, start)
        finally:
            gpu.conditions = {}


QUEUES = 8  # branches that a node waits for one by one: a join of 16 or 32 was measured to take no longer than one of 8


class Plan:
    """A graph ready to run: operations, child graphs laid out flat, and who waits for whom.

    Empty nodes take no time, so they are left out: what waits for one waits for what it waits for.
    """

    def __init__(self, graph: Graph, disabled: set[Node] = frozenset(), conditions: dict[int, Condition] | None = None):
        self.ops: list[Op] = []
        self.conditions = conditions or {}
        self.dependencies: list[tuple[int, ...]] = []
        self._lay_out(graph, (), disabled)
        self.successors: list[list[int]] = [[] for _ in self.ops]
        for i, before in enumerate(self.dependencies):
            for j in before:
                self.successors[j].append(i)
        self.is_chain = all(d == ((i - 1,) if i else ()) for i, d in enumerate(self.dependencies))
        self.roots = [i for i, before in enumerate(self.dependencies) if not before]
        self.joined = self._joined()
        self.kinds = Counter(op.kind for op in self.ops)

    def _lay_out(self, graph: Graph, entry: tuple[int, ...], disabled: set[Node]) -> tuple[int, ...]:
        """Adds the nodes of `graph` behind the operations `entry`; returns the operations that end it."""
        ends: dict[Node, tuple[int, ...]] = {}
        for node in graph.in_order():
            behind = tuple(dict.fromkeys(i for d in node.dependencies for i in ends[d])) if node.dependencies else entry
            if isinstance(node.op, ChildOp):
                ends[node] = self._lay_out(node.op.graph, behind, disabled)
                continue
            op = EMPTY if node in disabled else node.op
            if isinstance(op, EmptyOp):
                ends[node] = behind
                continue
            if isinstance(op, ConditionalOp):
                op = copy(op)
                op.plans = [Plan(body, disabled, self.conditions) for body in op.bodies]
            elif self.conditions and isinstance(op, KernelOp):
                op = _Deciding(op, self.conditions)
            self.ops.append(op)
            self.dependencies.append(behind)
            ends[node] = (len(self.ops) - 1,)
        leaves = [ends[n] for n in graph.leaves()]
        return tuple(dict.fromkeys(i for end in leaves for i in end)) or entry

    def _joined(self) -> list[int]:
        """How many branches each operation waits for: what another of its dependencies has waited for does not count, such as
        what a stream did last before it waited for a stream that had waited for that."""
        if all(len(before) < 2 for before in self.dependencies):
            return [len(before) for before in self.dependencies]
        joined, above = [], [0] * len(self.ops)  # `above`: of each operation, all that it waits for, as bits
        for i, before in enumerate(self.dependencies):
            implied = 0
            for j in before:
                implied |= above[j]
            joined.append(sum(not implied >> j & 1 for j in before))
            above[i] = implied
            for j in before:
                above[i] |= 1 << j
                if self.successors[j][-1] == i:
                    above[j] = 0  # nobody asks any more
        return joined

    def run(self, gpu: Gpu, start: float, root_us: float = 0.0) -> float:
        """Everything at once, where nothing else can look in between; returns the end. `root_us` lies between two roots."""
        if self.is_chain:
            gap, begin, end = gpu.node_gap_us, start, start
            for op in self.ops:
                try:
                    end = op.run(gpu, begin)
                except Exception as error:
                    end = begin
                    gpu.went_wrong(error, op)
                    if gpu.fault is not None:
                        return end
                begin = end + gap
            return end
        alone, ends = _Alone(gpu), []
        self.begin(alone, start, ends.append, root_us)
        return alone.run(ends, start)

    def begin(
        self, gpu: Gpu, start: float, done: Callable[[float], None], root_us: float = 0.0, place: int | NodeAt = 0
    ) -> None:
        """The same beside other work: each operation does its work when the device's time has come to its end. `place` is for
        traces: of the node that this is the body of, or for a whole graph without a node yet."""
        if gpu.trace is None or not isinstance(place, NodeAt):
            launch = lambda i, us, finish: self.ops[i].start(gpu, us, finish)  # noqa: E731
        else:
            stream, graph, within = place
            launch = lambda i, us, finish: self.ops[i].start(gpu, us, finish, NodeAt(stream, graph, (*within, i)))  # noqa: E731
        self._schedule(gpu, start, root_us, gpu.at, launch, done)

    def _schedule(
        self,
        gpu: Gpu,
        start: float,
        root_us: float,
        at: Callable[[float, Callable[[float], None]], None],
        launch: Callable[[int, float, Callable[[float], None]], None],
        done: Callable[[float], None],
    ) -> None:
        """Starts each node once its dependencies have ended: `launch(number, start, finish)`. Calls `done` with the last end.

        In a graph with branches, a node that waits for several starts `join_us` later for each further one. All nodes pass one
        dispatcher, in the order in which they become ready, and start `dispatch_us` apart. It has each in hand for longer, for
        `contention_us`: a node of another branch that comes meanwhile waits for half of that, on average. How likely that is,
        the starts in other branches say, from the start of the node before this one to its end.
        """
        costs, gap, chain = gpu.costs, gpu.node_gap_us, self.is_chain
        left = [len(before) for before in self.dependencies]
        started, number = [start] * len(self.ops), [0] * len(self.ops)
        free, dispatched, unfinished = -math.inf, 0, len(self.ops)

        def begin_node(i: int, us: float, behind: int | None = None, others: int = 0) -> None:
            nonlocal free, dispatched
            begin = us if behind is None else us + gap
            if not chain:
                begin += costs.join_us * (min(max(self.joined[i], 1), QUEUES) - 1)
                if others:
                    period = max(us - started[behind] + gap, costs.dispatch_us)
                    begin += costs.contention_us / 2 * min(1.0, costs.contention_us * others / period)
                begin = max(begin, free)
                free = begin + costs.dispatch_us
            started[i], number[i] = begin, dispatched
            dispatched += 1
            launch(i, begin, lambda end: end_node(i, end))

        def end_node(i: int, end: float) -> None:
            nonlocal unfinished
            others = dispatched - number[i] - 1
            for j in self.successors[i]:
                left[j] -= 1
                if not left[j]:
                    begin_node(j, end, i, others)
            unfinished -= 1
            if not unfinished:
                done(end)

        if not self.ops:
            done(start)
        for k, i in enumerate(self.roots):
            if k:
                at(start + k * root_us, lambda us, i=i: begin_node(i, us))
            else:
                begin_node(i, start)


class _Alone:
    """The device for one replay with nothing beside it: a clock of its own, all else the device's."""

    def __init__(self, gpu: Gpu):
        self._gpu = gpu
        self._coming: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gpu, name)

    def at(self, us: float, callback: Callable[[float], None]) -> None:
        heapq.heappush(self._coming, (us, next(self._order), callback))

    def run(self, ends: list[float], start: float) -> float:
        """Until `ends` has the end, or the context dies; returns when that was."""
        us = start
        while self._coming and not ends and self._gpu.fault is None:
            us, _, callback = heapq.heappop(self._coming)
            callback(us)
        return ends[0] if ends else us


class InstantiateResult(IntEnum):
    """cudaGraphInstantiateResult."""

    SUCCESS = 0
    ERROR = 1
    INVALID_STRUCTURE = 2
    NODE_OPERATION_NOT_SUPPORTED = 3
    MULTIPLE_DEVICES_NOT_SUPPORTED = 4
    CONDITIONAL_HANDLE_UNUSED = 5


class InstantiateError(CUDARuntimeError):
    """A graph that cannot be instantiated, with the `result` that says why."""

    def __init__(self, result: InstantiateResult):
        super().__init__("cudaErrorInvalidValue")
        self.result = result

    def __reduce__(self):
        return type(self), (self.result,)


IN_BODIES = KernelOp, EmptyOp, MemsetOp, CopyOp, ChildOp, ConditionalOp  # what a conditional body may hold
IN_DEVICE_LAUNCHES = KernelOp, MemsetOp, CopyOp, ChildOp  # what a graph that kernels launch may hold


def check_instantiable(graph: Graph, *, device_launch: bool = False) -> None:
    """Raises InstantiateError, with the reason, or cudaErrorNotSupported for a second executable graph of one with memory or
    conditional nodes (CUDA Programming Guide, graph memory nodes)."""
    try:
        graph.in_order()
    except CUDARuntimeError:
        raise InstantiateError(InstantiateResult.INVALID_STRUCTURE) from None
    every = list(graph.everything())
    conditionals = [n.op for n in every if isinstance(n.op, ConditionalOp)]
    if {op.condition for op in conditionals} != set(graph.conditions):
        raise InstantiateError(InstantiateResult.CONDITIONAL_HANDLE_UNUSED)
    bodies = [n.op for op in conditionals for body in op.bodies for n in body.everything()]
    if not all(isinstance(op, IN_BODIES) for op in bodies):
        raise InstantiateError(InstantiateResult.NODE_OPERATION_NOT_SUPPORTED)
    if device_launch and not every:
        raise InstantiateError(InstantiateResult.ERROR)
    if device_launch and not all(isinstance(n.op, IN_DEVICE_LAUNCHES) for n in every):
        raise InstantiateError(InstantiateResult.NODE_OPERATION_NOT_SUPPORTED)
    if any(isinstance(n.op, AllocOp | FreeOp | ConditionalOp) for n in every):
        last = graph.executable and graph.executable()
        if last is not None and not last.closed:
            raise CUDARuntimeError("cudaErrorNotSupported")


class GraphExec:
    """An executable graph: a snapshot of a definition, whose parameters can be changed but not its shape."""

    def __init__(self, graph: Graph, *, auto_free: bool = False, node_priority: bool = False):
        graph.executable = weakref.ref(self)
        self.closed = False
        self.graph = graph.clone()
        self.conditions = {c.number: copy(c) for c in graph.conditions}
        for node in self.graph.everything():
            if isinstance(node.op, ConditionalOp):
                node.op.condition = self.conditions[node.op.condition.number]
        self.source = graph
        self.auto_free, self.node_priority = auto_free, node_priority
        self.launches = 0
        self.uploaded = False
        self.running = False
        self.queue: deque[int] = deque()  # the streams of the replays to come: they run in the order of their launches
        self.free_at = 0.0
        self.disabled: set[Node] = set()
        self._twins: dict[Node, Node] = {}
        self._map(graph, self.graph)
        self._replay: Replay | None = None

    def _map(self, graph: Graph, snapshot: Graph) -> None:
        for node, twin in zip(graph.nodes, snapshot.nodes, strict=True):
            self._twins[node] = twin
            for inner, copied in zip(inner_graphs(node.op), inner_graphs(twin.op), strict=True):
                self._map(inner, copied)

    @property
    def nodes(self) -> list[Node]:
        return self.graph.nodes

    @property
    def replay(self) -> Replay:
        """The operation that replays this graph as it stands now."""
        if self._replay is None:
            self._replay = Replay(self, Plan(self.graph, self.disabled, self.conditions))
        return self._replay

    def twin(self, node: Node) -> Node:
        """This graph's node for a node of the definition. Raises cudaErrorInvalidValue for another graph's."""
        try:
            return self._twins[node]
        except KeyError:
            raise CUDARuntimeError("cudaErrorInvalidValue") from None

    def set_op(self, node: Node, op: Op) -> None:
        """Replaces what a node does, from the next launch on. Raises cudaErrorInvalidValue where the change is not allowed."""
        twin = self.twin(node)
        if difference(twin.op, op) is not None:
            inner = isinstance(twin.op, ChildOp) and isinstance(op, ChildOp)
            raise CUDARuntimeError("cudaErrorGraphExecUpdateFailure" if inner else "cudaErrorInvalidValue")
        if isinstance(op, ChildOp):  # in place, so that the nodes inside stay known
            _take_over(twin.op.graph, op.graph, {})
        else:
            twin.op = _copied(op)
        self._replay = None

    def set_enabled(self, node: Node, enabled: bool) -> None:
        """A disabled node does nothing. Raises cudaErrorInvalidValue for a type that cannot be disabled."""
        twin = self.twin(node)
        if twin.op.kind not in ("kernel", "memcpy", "memset"):
            raise CUDARuntimeError("cudaErrorInvalidValue")
        (self.disabled.discard if enabled else self.disabled.add)(twin)
        self._replay = None

    def is_enabled(self, node: Node) -> bool:
        twin = self.twin(node)
        if twin.op.kind not in ("kernel", "memcpy", "memset"):
            raise CUDARuntimeError("cudaErrorInvalidValue")
        return twin not in self.disabled

    def update(self, graph: Graph) -> tuple[str, Node | None]:
        """Takes over the parameters of `graph`, or changes nothing: what cudaGraphExecUpdateResult says, the node at fault."""
        result, node = compare(self.graph, graph, priorities=self.node_priority)
        if result == "Success":
            self.conditions = {}
            _take_over(self.graph, graph, self.conditions)
            self._replay = None
        return result, node

    def on_launch(self, gpu: Gpu) -> None:
        """What a launch settles: events, and memory. Raises cudaErrorInvalidValue for memory that is still allocated, and
        cudaErrorMemoryAllocation where there is no room for it."""
        held = gpu.memory.graph_memory
        if not self.auto_free and not held.isdisjoint(self.replay.allocated):
            raise CUDARuntimeError("cudaErrorInvalidValue")
        gpu.memory.require_room(self.replay.allocated)
        held.update(self.replay.allocated)
        held.difference_update(self.replay.freed)
        for settle in self.replay.settles:
            settle.on_launch()


class Replay(Op):
    """One replay of an executable graph, as work in a stream. Only one of it runs at a time (CUDA Programming Guide)."""

    kind = "graph"

    def __init__(self, executable: GraphExec, plan: Plan):
        self.executable, self.plan = executable, plan
        every = list(executable.graph.everything())
        self.allocated = {n.op.address for n in every if isinstance(n.op, AllocOp)}
        self.freed = {n.op.address for n in every if isinstance(n.op, FreeOp)}
        self.conditions = list(dict.fromkeys(n.op.condition for n in every if isinstance(n.op, ConditionalOp)))
        # A wait means the event as it was before this replay: the waits are settled before the records.
        self.settles = [n.op for kind in (WaitNodeOp, RecordNodeOp) for n in every if isinstance(n.op, kind)]

    def gap_us(self, gpu: Gpu) -> float:
        return gpu.costs.graph_gap_us

    def host_us(self, gpu: Gpu) -> float:
        """What a launch costs the host beyond what the longest branch does: further roots, and nodes that the host issues."""
        costs, plan = gpu.costs, self.plan
        issued = sum(costs.node_host.get(kind, 0.0) * count for kind, count in plan.kinds.items())
        return costs.root_us * (len(plan.roots) - 1) + issued

    def _take_turn(self) -> None:
        self.executable.queue.popleft()
        for condition in self.conditions:
            condition.begin_replay()

    def run(self, gpu: Gpu, start: float) -> float:
        executable = self.executable
        self._take_turn()
        executable.free_at = self.plan.run(gpu, start, gpu.costs.root_us)
        return executable.free_at

    def start(self, gpu: Gpu, start: float, finish: Callable[[float], None], stream: int = 0) -> None:
        executable = self.executable
        executable.running = True
        self._take_turn()

        def done(end: float) -> None:
            executable.running, executable.free_at = False, end
            finish(end)

        self.plan.begin(gpu, start, done, gpu.costs.root_us, place=NodeAt(stream, executable, ()))


# -- updating an executable graph -------------------------------------------------------------------------------------


def compare(old: Graph, new: Graph, *, priorities: bool = False) -> tuple[str, Node | None]:
    """Whether `new` differs from `old` in parameters only: "Success", or the refusal (cudaGraphExecUpdateResult, without its
    prefix), with the node of `new` at fault. Nodes are paired in the order in which they could run."""
    if len(old.nodes) != len(new.nodes):
        return "ErrorTopologyChanged", None
    pairs = list(zip(old.in_order(), new.in_order(), strict=True))
    pair_of = dict(pairs)
    for a, b in pairs:
        if {pair_of[d] for d in a.dependencies} != set(b.dependencies):
            return "ErrorTopologyChanged", b
        if a.op.kind != b.op.kind:
            return "ErrorNodeTypeChanged", b
    for a, b in pairs:
        if (why := difference(a.op, b.op)) is not None:
            return why, b
        if priorities and a.priority != b.priority:
            return "ErrorAttributesChanged", b
    return "Success", None


def difference(old: Op, new: Op) -> str | None:
    """Why a node's operation may not become `new` in an executable graph; None where it may."""
    if old.kind != new.kind:
        return "ErrorNodeTypeChanged"
    if isinstance(old, ChildOp):
        return _first_difference([(old.graph, new.graph)])
    if isinstance(old, ConditionalOp):
        if old.form != new.form or len(old.bodies) != len(new.bodies):
            return "ErrorNotSupported"
        return _first_difference(zip(old.bodies, new.bodies, strict=True))
    if isinstance(old, KernelOp):
        return "ErrorAttributesChanged" if old.cooperative != getattr(new, "cooperative", False) else None
    if isinstance(old, MemsetOp) and (old.height > 1 or new.height > 1):
        return None if (old.width, old.height) == (new.width, new.height) else "ErrorParametersChanged"
    if isinstance(old, CopyOp):
        return None if old.sides == new.sides else "ErrorParametersChanged"
    if isinstance(old, AllocOp | FreeOp):
        return "Error"
    return None


def _first_difference(graphs: Iterable[tuple[Graph, Graph]]) -> str | None:
    results = (compare(a, b)[0] for a, b in graphs)
    return next((result for result in results if result != "Success"), None)


def _take_over(old: Graph, new: Graph, conditions: dict[int, Condition]) -> None:
    """The parameters of `new`, the defaults of its conditions too, which get their numbers in `new`."""
    for a, b in zip(old.in_order(), new.in_order(), strict=True):
        if isinstance(a.op, ConditionalOp):
            a.op.condition.number, a.op.condition.default = b.op.condition.number, b.op.condition.default
            conditions[a.op.condition.number] = a.op.condition
        inner = list(zip(inner_graphs(a.op), inner_graphs(b.op), strict=True))
        for x, y in inner:
            _take_over(x, y, conditions)
        if not inner:
            a.op = _copied(b.op)


__all__ = ["CopyOp", "EmptyOp", "Graph", "GraphExec", "KernelOp", "Node", "Plan", "Replay", "compare", "difference"]
