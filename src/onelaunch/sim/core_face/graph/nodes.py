"""`cuda.core.graph`: the nodes of a definition, and their views in an executable graph. Each wraps a node of the engine."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Iterable
from enum import IntEnum

from ... import gpu as _gpu
from ... import graph as _graph
from ...cudart_face.types import NODE_TYPES
from ...errors import CUDARuntimeError, NotSimulatedError
from ...kernel import KernelOp
from ...numba_face import check_launch
from ...ops import (
    AllocOp,
    ChildOp,
    ConditionalOp,
    CopyOp,
    EmptyOp,
    FreeOp,
    HostOp,
    MemsetOp,
    RecordNodeOp,
    WaitNodeOp,
)
from ...stream import Op
from .._base import CoreObject, CUgraphNode, c_integer, driver_call, require
from ..launch import Kernel, LaunchConfig, arguments_of, operation
from ..memory import Buffer, fill_pattern
from ..streams import Event
from ..typing import GraphConditionalType, GraphMemoryType
from .adjacency import AdjacencySetProxy
from .definition import GraphCondition, GraphDefinition, dead

_DRIVER_TYPES = {
    "kernel": "KERNEL", "memcpy": "MEMCPY", "memset": "MEMSET", "host": "HOST", "graph": "GRAPH", "empty": "EMPTY",
    "event wait": "WAIT_EVENT", "event record": "EVENT_RECORD", "memory allocation": "MEM_ALLOC",
    "memory free": "MEM_FREE", "conditional": "CONDITIONAL",
}  # fmt: skip


class _NodeType(IntEnum):
    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value}>"


CUgraphNodeType = _NodeType(
    "CUgraphNodeType", {f"CU_GRAPH_NODE_TYPE_{name}": int(NODE_TYPES[kind]) for kind, name in _DRIVER_TYPES.items()}
)

# -- what a node holds ------------------------------------------------------------------------------------------------


def host_function(fn, user_data) -> Callable[[], object]:
    """A callback as the engine calls it: a Python callable, or a C function with its data."""
    if isinstance(fn, ctypes._CFuncPtr):
        if fn.restype is not None or fn.argtypes is None or tuple(fn.argtypes) != (ctypes.c_void_p,):
            raise TypeError(
                f"host callback has prototype restype={fn.restype!r}, argtypes={fn.argtypes!r}; CUDA requires a callback "
                "matching CUhostFn (void (*)(void*)), declared as ctypes.CFUNCTYPE(None, ctypes.c_void_p). "
                "Alternatively, pass a Python callable."
            )
        if user_data is None or isinstance(user_data, int):
            return functools.partial(fn, user_data)
        raw = bytes(user_data)
        return functools.partial(fn, ctypes.create_string_buffer(raw, len(raw)) if raw else None)
    if not callable(fn):
        raise TypeError(f"callback must be callable, got {type(fn).__name__}")
    if user_data is not None:
        raise ValueError("user_data is only supported with ctypes function pointers")
    return fn


def _is_c(function) -> bool:
    return isinstance(function, functools.partial) and isinstance(function.func, ctypes._CFuncPtr)


def _address(operand, owner, side: str) -> int:
    """The address of a Buffer, or an address as it is."""
    if isinstance(operand, Buffer):
        if owner is not None:
            raise ValueError(f"{side}_owner cannot be used when {side} is a Buffer")
        return operand._open_address()
    address = c_integer(operand, 64)
    if isinstance(owner, Buffer):
        owner._open_address()
    return address


def memset_op(address: int, value: int, element: int, width: int, height: int, pitch: int) -> MemsetOp:
    """Raises cudaErrorInvalidValue where nothing is to be set, or for memory that the device does not know."""
    if not width or not height or (height > 1 and pitch < width * element):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    op = MemsetOp(address, value, element, width, height, pitch)
    _gpu.current().check_known(address, pitch * (height - 1) + width * element)
    return op


def copy_op(target: int, source: int, nbytes: int) -> CopyOp:
    if not nbytes:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    _gpu.current().check_copy(target, source, nbytes, _gpu.CopyKind.DEFAULT)
    return _gpu.current().copy_op(target, source, nbytes)


def conditional_op(graph: GraphDefinition, condition: GraphCondition, form: str, count: int) -> ConditionalOp:
    """Raises cudaErrorInvalidValue for a condition that the graph lacks, one that a node has already, or no body at all."""
    op = graph._drawn.conditional(condition.handle, form, count)
    outermost = graph._hierarchy()[-1]
    if any(isinstance(n.op, ConditionalOp) and n.op.condition is op.condition for n in outermost.everything()):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return op


# -- nodes ------------------------------------------------------------------------------------------------------------

_registry: weakref.WeakValueDictionary[_graph.Node, GraphNode] = weakref.WeakValueDictionary()


def node_of(node: _graph.Node, owner: GraphDefinition) -> GraphNode:
    """The object that stands for a node: the same one as long as somebody holds it."""
    found = _registry.get(node)
    if found is None:
        found = _registry[node] = _class_of(node)._make(node, owner)
    return found


class GraphNode(CoreObject):
    """A node of a definition, or its entry, which is before all nodes."""

    _library, _compiled = "cuda.core.graph.GraphNode", "cuda.core.graph._graph_node.GraphNode"

    def __init__(self):
        self._node = self._owner = None
        self._is_entry = False

    @classmethod
    def _make(cls, node: _graph.Node | None, owner: GraphDefinition) -> GraphNode:
        self = cls.__new__(cls)
        self._node, self._owner, self._is_entry = node, owner, node is None
        return self

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def _op(self) -> Op | None:
        return self._node.op if self._node else None

    @property
    def type(self) -> CUgraphNodeType | None:
        """The driver's name for its type; None for the entry."""
        return CUgraphNodeType[f"CU_GRAPH_NODE_TYPE_{_DRIVER_TYPES[self._op.kind]}"] if self._node else None

    @property
    def graph(self) -> GraphDefinition:
        """The definition that it belongs to."""
        return GraphDefinition._of(self._owner._drawn, self._owner._parent)

    @property
    def handle(self) -> CUgraphNode | None:
        return CUgraphNode(_gpu.current().handle_of(self._node)) if self._node else None

    @property
    def _number(self) -> int:
        return int(self.handle or 0)

    @property
    def is_valid(self) -> bool:
        """Whether node and definition are still there."""
        return self._owner is not None and self._owner.is_valid and (self._is_entry or self._node is not None)

    def _require_valid(self) -> _graph.Graph:
        if self._owner is None or not self._owner.is_valid:
            raise RuntimeError("GraphNode belongs to an invalid GraphDefinition")
        if self._node is None and not self._is_entry:
            raise RuntimeError("GraphNode has been destroyed")
        return self._owner._graph

    def _require_editable(self) -> None:
        """For an end of an edge."""
        if self._owner is None or not self._owner.is_valid:
            raise RuntimeError("GraphDefinition is no longer valid")
        if self._is_entry:
            raise ValueError("The virtual graph entry node cannot be used in an edge")
        if self._node is None:
            raise RuntimeError("GraphNode has been destroyed")

    def destroy(self) -> None:
        """Takes the node and its edges out of the definition."""
        if self._node is None:
            return
        for inner in _graph.inner_graphs(self._op):
            _bury(inner)
        with driver_call():
            _gpu.current().destroy_node(self._node)
        _gpu.current().forget(self._node)
        _registry.pop(self._node, None)
        self._node = None

    @property
    def pred(self) -> AdjacencySetProxy:
        """The nodes before it, as a set that can be changed."""
        return AdjacencySetProxy(self, False)

    @pred.setter
    def pred(self, value: Iterable[GraphNode]) -> None:
        _assign(AdjacencySetProxy(self, False), value)

    @property
    def succ(self) -> AdjacencySetProxy:
        """The nodes behind it, as a set that can be changed."""
        return AdjacencySetProxy(self, True)

    @succ.setter
    def succ(self, value: Iterable[GraphNode]) -> None:
        _assign(AdjacencySetProxy(self, True), value)

    # -- nodes behind it ----------------------------------------------------------------------------------------------

    def _add(self, op: Op | Callable[[], Op], others: Iterable[GraphNode] = ()) -> GraphNode:
        """Adds an operation behind this node and `others`; one that is made by a call may be refused as the driver does."""
        graph = self._require_valid()
        with driver_call():
            behind = [n._node for n in (self, *others) if n._node is not None]
            node = graph.add(op if isinstance(op, Op) else op(), behind)
        _gpu.current().charge_node("add", node.op.kind)
        return node_of(node, self._owner)

    def launch(self, config: LaunchConfig, kernel: Kernel, *args) -> KernelNode:
        """A kernel behind this node."""
        require("config", config, LaunchConfig)
        require("kernel", kernel, Kernel)
        self._require_valid()
        packed = arguments_of(args)
        if config.cluster is not None or config.is_cooperative:
            raise NotImplementedError("clustered or cooperative graph kernel nodes are not supported")
        return self._add(operation(kernel, config, packed))

    def join(self, *nodes: GraphNode) -> EmptyNode:
        """An empty node behind this one and `nodes`."""
        self._require_valid()
        for node in nodes:
            if not isinstance(node, GraphNode):
                raise TypeError(f"Cannot convert {type(node).__name__} to {GraphNode._compiled}")
            node._require_valid()
        return self._add(EmptyOp(), nodes)

    def allocate(self, size, *, device=None, memory_type="device", peer_access=None) -> AllocNode:
        """Memory that lives in the graph, allocated behind this node."""
        size = c_integer(size)
        graph = self._require_valid()
        number = 0 if device is None else getattr(device, "device_id", device)
        kind = "device" if memory_type is None else str(memory_type)
        if kind not in set(GraphMemoryType):
            valid = "'device', 'host' or 'managed'"
            raise ValueError(f"{kind!r} is not a valid GraphMemoryType. Must be {valid}")
        if kind != "device" or peer_access:
            raise NotSimulatedError("cuda.core.graph.GraphNode.allocate of other memory than the device's own")
        with driver_call():
            if number or not size:
                raise CUDARuntimeError("cudaErrorInvalidValue")
            node = _gpu.current().add_allocation(graph, [self._node] if self._node else [], size)
        return node_of(node, self._owner)

    def deallocate(self, dptr: int) -> FreeNode:
        """Frees memory of the graph behind this node."""
        require("dptr", dptr, int)
        self._require_valid()
        graph, address = self._require_valid(), c_integer(dptr)
        with driver_call():
            node = _gpu.current().add_free(graph, [self._node] if self._node else [], address)
        _gpu.current().charge_node("add", node.op.kind)
        return node_of(node, self._owner)

    def memset(self, dst, value, width, height=1, pitch=0, *, dst_owner=None) -> MemsetNode:
        """Sets `height` rows of `width` elements behind this node; the value's size is that of an element."""
        width, height, pitch = c_integer(width), c_integer(height), c_integer(pitch)
        self._require_valid()
        address = _address(dst, dst_owner, "dst")
        number, element = fill_pattern(value)
        return self._add(lambda: memset_op(address, number, element, width, height, pitch))

    def memcpy(self, dst, src, size, *, dst_owner=None, src_owner=None) -> MemcpyNode:
        """Copies `size` bytes behind this node."""
        size = c_integer(size)
        self._require_valid()
        target, source = _address(dst, dst_owner, "dst"), _address(src, src_owner, "src")
        return self._add(lambda: copy_op(target, source, size))

    def embed(self, child: GraphDefinition) -> ChildGraphNode:
        """A clone of another graph as one node behind this one."""
        require("child", child, GraphDefinition)
        self._require_valid()
        graph = child._graph
        return self._add(lambda: ChildOp(_gpu.current().clone(graph)))

    def record(self, event: Event) -> EventRecordNode:
        """Records an event behind this node."""
        require("event", event, Event)
        self._require_valid()
        return self._add(RecordNodeOp(event._event))

    def wait(self, event: Event) -> EventWaitNode:
        """Waits for an event behind this node."""
        require("event", event, Event)
        self._require_valid()
        return self._add(WaitNodeOp(event._event))

    def callback(self, fn, *, user_data=None) -> HostCallbackNode:
        """Calls a host function behind this node."""
        self._require_valid()
        return self._add(HostOp(host_function(fn, user_data)))

    def _conditional(self, condition: GraphCondition, form: str, count: int) -> ConditionalNode:
        require("condition", condition, GraphCondition)
        graph = self._require_valid()
        with driver_call():
            op = conditional_op(self._owner, condition, form, count)
            node = graph.add(op, [self._node] if self._node else [])
        _gpu.current().charge_node("add", op.kind)
        out = _FORMS[form if len(op.bodies) != 2 or form != "if" else "if else"]._make(node, self._owner)
        out._condition = condition
        _registry[node] = out
        return out

    def if_then(self, condition: GraphCondition) -> IfNode:
        """A conditional node behind this one: its body runs if the condition is not zero."""
        return self._conditional(condition, "if", 1)

    def if_else(self, condition: GraphCondition) -> IfElseNode:
        """A conditional node behind this one, with a second body for zero."""
        return self._conditional(condition, "if", 2)

    def while_loop(self, condition: GraphCondition) -> WhileNode:
        """A conditional node behind this one: its body runs again and again while the condition is not zero."""
        return self._conditional(condition, "while", 1)

    def switch(self, condition: GraphCondition, count: int) -> SwitchNode:
        """A conditional node behind this one: the condition says which of `count` bodies runs."""
        require("condition", condition, GraphCondition)
        return self._conditional(condition, "switch", c_integer(count, 32, "unsigned int"))

    # -- identity -----------------------------------------------------------------------------------------------------

    def _key(self) -> tuple:
        return self._node, self._owner

    def __eq__(self, other) -> bool:
        return self._key() == other._key() if isinstance(other, GraphNode) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        if self._node is not None:
            return f"<GraphNode handle={self._number:#x}>"
        return "<GraphNode entry>" if self._is_entry and self.is_valid else "<GraphNode destroyed>"

    def _shown(self, more: str = "") -> str:
        return f"<{type(self).__name__} handle={self._number:#x}{more}>"

    def _set(self, op: Op) -> None:
        """Replaces what the node does, in the definition."""
        self._node.op = op


def _assign(proxy: AdjacencySetProxy, value: Iterable[GraphNode]) -> None:
    """cuda.core clears the set before it looks at `value`: `node.succ |= other`, which assigns the set to itself, loses all."""
    proxy.clear()
    proxy.update(value)


def _bury(graph: _graph.Graph) -> None:
    dead.add(graph)
    for node in graph.nodes:
        for inner in _graph.inner_graphs(node.op):
            _bury(inner)


class EmptyNode(GraphNode):
    """Nothing: a point where branches join."""

    _compiled = "cuda.core.graph._subclasses.EmptyNode"

    def __repr__(self) -> str:
        return self._shown()


class KernelNode(GraphNode):
    """A kernel launch."""

    _compiled = "cuda.core.graph._subclasses.KernelNode"

    grid = property(lambda self: self._op.grid)
    block = property(lambda self: self._op.block)
    shmem_size = property(lambda self: self._op.shared)

    @property
    def kernel(self) -> Kernel:
        return Kernel._of(self._op.kernel)

    @property
    def config(self) -> LaunchConfig:
        return LaunchConfig(grid=self.grid, block=self.block, shmem_size=self.shmem_size)

    def update(self, *, config: LaunchConfig | None = None, kernel: Kernel | None = None, args=None) -> None:
        """Replaces what is given; another kernel needs its arguments too."""
        require("config", config, LaunchConfig, optional=True)
        require("kernel", kernel, Kernel, optional=True)
        self._require_valid()
        if config is not None and (config.cluster is not None or config.is_cooperative):
            raise NotImplementedError("updating clustered or cooperative kernel nodes is not supported")
        if kernel is not None and args is None:
            raise ValueError("changing kernel requires args")
        if args is not None:
            packed = arguments_of(args)
            self._set(operation(kernel or self.kernel, config or self.config, packed))
        elif config is not None:
            op = self._op
            with driver_call():
                check_launch(config.grid, config.block)
            self._set(KernelOp(op.kernel, config.grid, config.block, op.arguments, config.shmem_size, op.values))

    def __repr__(self) -> str:
        return self._shown(f" kernel={int(self.kernel.handle) if self._node else 0:#x}")


class AllocNode(GraphNode):
    """Memory of the graph."""

    _compiled = "cuda.core.graph._subclasses.AllocNode"

    dptr = property(lambda self: self._op.address)
    bytesize = property(lambda self: self._op.nbytes)
    device_id = property(lambda self: 0)
    memory_type = property(lambda self: "device")
    peer_access = property(lambda self: ())

    def __repr__(self) -> str:
        return self._shown(f" dptr={self.dptr:#x} size={self.bytesize}" if self._node else " dptr=0x0 size=0")


class FreeNode(GraphNode):
    """Frees memory of the graph."""

    _compiled = "cuda.core.graph._subclasses.FreeNode"

    dptr = property(lambda self: self._op.address)

    def __repr__(self) -> str:
        return self._shown(f" dptr={self.dptr if self._node else 0:#x}")


class MemsetNode(GraphNode):
    """Sets memory."""

    _compiled = "cuda.core.graph._subclasses.MemsetNode"

    dptr = property(lambda self: self._op.address)
    value = property(lambda self: self._op.value)
    element_size = property(lambda self: self._op.element_size)
    width = property(lambda self: self._op.width)
    height = property(lambda self: self._op.height)
    pitch = property(lambda self: self._op.pitch)

    def update(self, *, dst=None, value=None, width=None, height=None, pitch=None, dst_owner=None) -> None:
        """Replaces what is given."""
        self._require_valid()
        if dst is None and dst_owner is not None:
            raise ValueError("dst_owner requires dst")
        if dst is value is width is height is pitch is None:
            return
        op = self._op
        address = op.address if dst is None else _address(dst, dst_owner, "dst")
        number, element = (op.value, op.element_size) if value is None else fill_pattern(value)
        sizes = [
            old if new is None else c_integer(new) for new, old in ((width, op.width), (height, op.height), (pitch, op.pitch))
        ]
        with driver_call():
            self._set(memset_op(address, number, element, *sizes))

    def __repr__(self) -> str:
        return self._shown(f" dptr={self.dptr:#x} value={self.value}" if self._node else " dptr=0x0 value=0")


class MemcpyNode(GraphNode):
    """Copies memory."""

    _compiled = "cuda.core.graph._subclasses.MemcpyNode"

    dst = property(lambda self: self._op.target)
    src = property(lambda self: self._op.source)
    size = property(lambda self: self._op.nbytes)

    def update(self, *, dst=None, src=None, size=None, dst_owner=None, src_owner=None) -> None:
        """Replaces what is given."""
        self._require_valid()
        if dst is None and dst_owner is not None:
            raise ValueError("dst_owner requires dst")
        if src is None and src_owner is not None:
            raise ValueError("src_owner requires src")
        if dst is src is size is None:
            return
        op = self._op
        target = op.target if dst is None else _address(dst, dst_owner, "dst")
        source = op.source if src is None else _address(src, src_owner, "src")
        nbytes = op.nbytes if size is None else c_integer(size)
        with driver_call():
            self._set(copy_op(target, source, nbytes))

    def __repr__(self) -> str:
        if self._node is None:
            return self._shown(" dst=0x0(D) src=0x0(D) size=0")
        sides = ["D" if on_device else "H" for on_device in self._op.sides]
        return self._shown(f" dst={self.dst:#x}({sides[0]}) src={self.src:#x}({sides[1]}) size={self.size}")


class ChildGraphNode(GraphNode):
    """A whole graph as one node."""

    _compiled = "cuda.core.graph._subclasses.ChildGraphNode"

    @property
    def child_graph(self) -> GraphDefinition:
        """The graph inside, which can be drawn on."""
        return GraphDefinition._of(self._op.graph, self._owner)

    def update(self, child: GraphDefinition) -> None:
        """Replaces the graph inside by a clone of another one."""
        require("child", child, GraphDefinition)
        self._require_valid()
        graph = child._graph
        with driver_call():
            if child._hierarchy()[-1] is self._owner._hierarchy()[-1]:
                raise CUDARuntimeError("cudaErrorInvalidValue")
            op = ChildOp(_gpu.current().clone(graph))
        _bury(self._op.graph)
        self._set(op)

    def __repr__(self) -> str:
        return self._shown(f" child={int(self.child_graph.handle) if self._node else 0:#x}")


class _EventNode(GraphNode):
    _make_op: type

    @property
    def event(self) -> Event:
        return Event._of(self._op.event)

    def update(self, event: Event) -> None:
        """Replaces the event."""
        require("event", event, Event)
        self._require_valid()
        self._set(self._make_op(event._event))

    def __repr__(self) -> str:
        return self._shown(f" event={int(self.event.handle) if self._node else 0:#x}")


class EventRecordNode(_EventNode):
    """Records an event."""

    _compiled, _make_op = "cuda.core.graph._subclasses.EventRecordNode", RecordNodeOp


class EventWaitNode(_EventNode):
    """Waits for an event."""

    _compiled, _make_op = "cuda.core.graph._subclasses.EventWaitNode", WaitNodeOp


class HostCallbackNode(GraphNode):
    """Calls a host function."""

    _compiled = "cuda.core.graph._subclasses.HostCallbackNode"

    @property
    def callback(self):
        """The Python function; None for a C function."""
        return None if self._node is None or _is_c(self._op.function) else self._op.function

    def update(self, fn, *, user_data=None) -> None:
        """Replaces the function."""
        self._require_valid()
        self._set(HostOp(host_function(fn, user_data)))

    def __repr__(self) -> str:
        if self.callback is not None:
            return self._shown(f" callback={getattr(self.callback, '__name__', '?')}")
        address = ctypes.cast(self._op.function.func, ctypes.c_void_p).value if self._node else 0
        return self._shown(f" cfunc={address:#x}")


class ConditionalNode(GraphNode):
    """A conditional node. One that nobody held any more comes back as this class, without what it was made of: the driver
    says that from CUDA 13.2 on."""

    _compiled = "cuda.core.graph._subclasses.ConditionalNode"

    @property
    def condition(self) -> GraphCondition | None:
        return self.__dict__.get("_condition")

    @property
    def cond_type(self) -> GraphConditionalType | None:
        return GraphConditionalType(self._op.form) if self.condition is not None and self._node else None

    @property
    def branches(self) -> tuple[GraphDefinition, ...]:
        """The bodies, to be drawn on."""
        if self.condition is None or self._node is None:
            return ()
        return tuple(GraphDefinition._of(body, self._owner) for body in self._op.bodies)

    def __repr__(self) -> str:
        return self._shown() if type(self) is ConditionalNode else self._shown(f" condition={self.condition.handle:#x}")


class IfNode(ConditionalNode):
    """Runs its body if the condition is not zero."""

    _compiled = "cuda.core.graph._subclasses.IfNode"

    then = property(lambda self: self.branches[0])


class IfElseNode(ConditionalNode):
    """Runs one of two bodies."""

    _compiled = "cuda.core.graph._subclasses.IfElseNode"

    then = property(lambda self: self.branches[0])
    else_ = property(lambda self: self.branches[1])


class WhileNode(ConditionalNode):
    """Runs its body while the condition is not zero."""

    _compiled = "cuda.core.graph._subclasses.WhileNode"

    body = property(lambda self: self.branches[0])


class SwitchNode(ConditionalNode):
    """Runs the body that the condition names, if there is one."""

    _compiled = "cuda.core.graph._subclasses.SwitchNode"


def _class_of(node: _graph.Node) -> type[GraphNode]:
    return next(_CLASSES[kind] for kind in type(node.op).__mro__ if kind in _CLASSES)


_FORMS = {"if": IfNode, "if else": IfElseNode, "while": WhileNode, "switch": SwitchNode}
_CLASSES: dict[type, type[GraphNode]] = {
    EmptyOp: EmptyNode, KernelOp: KernelNode, AllocOp: AllocNode, FreeOp: FreeNode, MemsetOp: MemsetNode, CopyOp: MemcpyNode,
    ChildOp: ChildGraphNode, RecordNodeOp: EventRecordNode, WaitNodeOp: EventWaitNode, HostOp: HostCallbackNode,
    ConditionalOp: ConditionalNode,
}  # fmt: skip

# -- views ------------------------------------------------------------------------------------------------------------


class ExecutableGraphNode(CoreObject):
    """A node of an executable graph, found by the definition's node."""

    _library = "cuda.core.graph.ExecutableGraphNode"
    _compiled = "cuda.core.graph._subclasses.ExecutableGraphNode"

    def __init__(self):
        raise RuntimeError("directly constructing an executable graph node is not supported")

    @classmethod
    def _make(cls, executable: _graph.GraphExec, source: GraphNode) -> ExecutableGraphNode:
        self = cls.__new__(cls)
        self._executable, self._source = executable, source
        return self

    @property
    def _node(self) -> _graph.Node:
        if self._source._node is None:
            raise RuntimeError("GraphNode has been destroyed")
        return self._source._node

    def _set(self, op: Op) -> None:
        node = self._node
        with driver_call():
            self._executable.set_op(node, op)
        _gpu.current().charge_node("update", op.kind)

    def __repr__(self) -> str:
        graph = _gpu.current().handle_of(self._executable)
        return f"<{type(self).__name__} graph={graph:#x} node={self._source._number:#x}>"


class _Switchable(ExecutableGraphNode):
    @property
    def is_enabled(self) -> bool:
        node = self._node
        with driver_call():
            return self._executable.is_enabled(node)

    def enable(self) -> None:
        """Lets the node work again."""
        self._switch(True)

    def disable(self) -> None:
        """The node does nothing, in this graph, until it is enabled."""
        self._switch(False)

    def _switch(self, on: bool) -> None:
        node = self._node
        with driver_call():
            self._executable.set_enabled(node, on)
        _gpu.current().charge_call("disable node")


class ExecutableKernelNode(_Switchable):
    """A kernel."""

    _compiled = "cuda.core.graph._subclasses.ExecutableKernelNode"

    def update(self, *, config: LaunchConfig, kernel: Kernel, args) -> None:
        """Replaces all parameters from the next launch on."""
        require("config", config, LaunchConfig)
        require("kernel", kernel, Kernel)
        if config.cluster is not None or config.is_cooperative:
            raise NotImplementedError("updating clustered or cooperative kernel nodes is not supported")
        packed = arguments_of(args)
        self._node  # noqa: B018  refuses a destroyed one
        self._set(operation(kernel, config, packed))


class ExecutableMemsetNode(_Switchable):
    """A memset."""

    _compiled = "cuda.core.graph._subclasses.ExecutableMemsetNode"

    def update(self, *, dst, value, width, height=1, pitch=0) -> None:
        """Replaces all parameters from the next launch on."""
        sizes = c_integer(width), c_integer(height), c_integer(pitch)
        address = _address(dst, None, "dst")
        number, element = fill_pattern(value)
        self._node  # noqa: B018
        with driver_call():
            op = memset_op(address, number, element, *sizes)
        self._set(op)


class ExecutableMemcpyNode(_Switchable):
    """A copy."""

    _compiled = "cuda.core.graph._subclasses.ExecutableMemcpyNode"

    def update(self, *, dst, src, size) -> None:
        """Replaces all parameters from the next launch on."""
        size = c_integer(size)
        target, source = _address(dst, None, "dst"), _address(src, None, "src")
        self._node  # noqa: B018
        with driver_call():
            op = copy_op(target, source, size)
        self._set(op)


class ExecutableChildGraphNode(ExecutableGraphNode):
    """A child graph."""

    _compiled = "cuda.core.graph._subclasses.ExecutableChildGraphNode"

    def update(self, child: GraphDefinition) -> None:
        """Takes over the parameters of a graph with the same topology from the next launch on."""
        require("child", child, GraphDefinition)
        self._set(ChildOp(child._graph))


class ExecutableEventRecordNode(ExecutableGraphNode):
    """Records an event."""

    _compiled = "cuda.core.graph._subclasses.ExecutableEventRecordNode"

    def update(self, event: Event) -> None:
        """Replaces the event from the next launch on."""
        require("event", event, Event)
        self._set(RecordNodeOp(event._event))


class ExecutableEventWaitNode(ExecutableGraphNode):
    """Waits for an event."""

    _compiled = "cuda.core.graph._subclasses.ExecutableEventWaitNode"

    def update(self, event: Event) -> None:
        """Replaces the event from the next launch on."""
        require("event", event, Event)
        self._set(WaitNodeOp(event._event))


class ExecutableHostCallbackNode(ExecutableGraphNode):
    """Calls a host function."""

    _compiled = "cuda.core.graph._subclasses.ExecutableHostCallbackNode"

    def update(self, fn, *, user_data=None) -> None:
        """Replaces the function from the next launch on."""
        self._set(HostOp(host_function(fn, user_data)))


_VIEWS = {
    KernelNode: ExecutableKernelNode, MemsetNode: ExecutableMemsetNode, MemcpyNode: ExecutableMemcpyNode,
    ChildGraphNode: ExecutableChildGraphNode, EventRecordNode: ExecutableEventRecordNode,
    EventWaitNode: ExecutableEventWaitNode, HostCallbackNode: ExecutableHostCallbackNode,
}  # fmt: skip


def view(executable: _graph.GraphExec, node: GraphNode) -> ExecutableGraphNode:
    """The view of a node in an executable graph. Raises TypeError for a type whose nodes cannot be changed there."""
    node._require_valid()
    if type(node) not in _VIEWS:
        raise TypeError(f"{type(node).__name__} does not support executable updates")
    return _VIEWS[type(node)]._make(executable, node)
