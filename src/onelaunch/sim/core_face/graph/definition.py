"""`cuda.core.graph`: definitions, conditions, and executable graphs."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from ... import gpu as _gpu
from ... import graph as _graph
from ...errors import CUDAError, CUDARuntimeError
from ...ops import Condition
from .._base import CoreObject, CUgraph, CUgraphExec, c_integer, driver_call, require
from ..streams import Stream

if TYPE_CHECKING:
    from .builder import GraphBuilder
    from .nodes import GraphNode

dead: weakref.WeakSet[_graph.Graph] = weakref.WeakSet()  # graphs inside nodes that have been destroyed


@dataclass
class GraphDebugPrintOptions:
    """What a DOT file shows. (The simulated device's shows the same in any case.)"""

    verbose: bool = False
    runtime_types: bool = False
    kernel_node_params: bool = False
    memcpy_node_params: bool = False
    memset_node_params: bool = False
    host_node_params: bool = False
    event_node_params: bool = False
    ext_semas_signal_node_params: bool = False
    ext_semas_wait_node_params: bool = False
    kernel_node_attributes: bool = False
    handles: bool = False
    mem_alloc_node_params: bool = False
    mem_free_node_params: bool = False
    batch_mem_op_node_params: bool = False
    extra_topo_info: bool = False
    conditional_node_params: bool = False

    def _to_flags(self) -> int:
        return sum(1 << i for i, field in enumerate(fields(self)) if getattr(self, field.name))


@dataclass
class GraphCompleteOptions:
    """How a graph is instantiated."""

    auto_free_on_launch: bool = False
    upload_stream: Stream | None = None
    device_launch: bool = False
    use_node_priority: bool = False


class GraphCondition(CoreObject):
    """A value that kernels set through `cudaGraphSetConditional`, and that conditional nodes ask."""

    _library, _compiled = "cuda.core.graph.GraphCondition", "cuda.core.graph._graph_definition.GraphCondition"

    def __init__(self):
        self._condition = None

    @classmethod
    def _of(cls, condition: Condition) -> GraphCondition:
        self = cls()
        self._condition = condition
        return self

    @property
    def handle(self) -> int:
        """The number that a kernel takes. (It counts the conditions of a graph: those of two graphs look alike.)"""
        return self._condition.number if self._condition else 0

    def __eq__(self, other) -> bool:
        return self.handle == other.handle if isinstance(other, GraphCondition) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.handle)

    def __repr__(self) -> str:
        return f"<GraphCondition handle={self.handle:#x}>"


class GraphDefinition(CoreObject):
    """A graph drawn by hand. Methods that add a node add one without dependencies; those of a node add one behind it."""

    _library, _compiled = "cuda.core.graph.GraphDefinition", "cuda.core.graph._graph_definition.GraphDefinition"

    def __init__(self):
        self._drawn, self._parent = _graph.Graph(), None

    @classmethod
    def _of(cls, graph: _graph.Graph, parent: GraphDefinition | None = None) -> GraphDefinition:
        self = cls.__new__(cls)
        self._drawn, self._parent = graph, parent
        return self

    @property
    def _graph(self) -> _graph.Graph:
        """The engine's graph. Raises RuntimeError for one that went with its node."""
        if not self.is_valid:
            raise RuntimeError("GraphDefinition is no longer valid")
        return self._drawn

    def _hierarchy(self) -> list[_graph.Graph]:
        """This graph and those around it."""
        return [self._drawn, *(self._parent._hierarchy() if self._parent else [])]

    @property
    def is_valid(self) -> bool:
        return self._drawn not in dead

    @property
    def handle(self) -> CUgraph:
        return CUgraph(_gpu.current().handle_of(self._drawn) if self.is_valid else 0)

    @property
    def _entry(self) -> GraphNode:
        from .nodes import GraphNode

        self._graph  # noqa: B018  refuses an invalid one
        return GraphNode._make(None, self)

    def allocate(self, size, *, device=None, memory_type="device", peer_access=None):
        """Memory that lives in the graph."""
        size = c_integer(size)
        return self._entry.allocate(size, device=device, memory_type=memory_type, peer_access=peer_access)

    def deallocate(self, dptr: int):
        require("dptr", dptr, int)
        return self._entry.deallocate(dptr)

    def memset(self, dst, value, width, height=1, pitch=0, *, dst_owner=None):
        width, height, pitch = c_integer(width), c_integer(height), c_integer(pitch)
        return self._entry.memset(dst, value, width, height, pitch, dst_owner=dst_owner)

    def memcpy(self, dst, src, size, *, dst_owner=None, src_owner=None):
        size = c_integer(size)
        return self._entry.memcpy(dst, src, size, dst_owner=dst_owner, src_owner=src_owner)

    def launch(self, config, kernel, *args):
        return self._entry.launch(config, kernel, *args)

    def empty(self):
        return self._entry.join()

    def join(self, *nodes):
        return self._entry.join(*nodes)

    def embed(self, child: GraphDefinition):
        require("child", child, GraphDefinition)
        return self._entry.embed(child)

    def record(self, event):
        return self._entry.record(event)

    def wait(self, event):
        return self._entry.wait(event)

    def callback(self, fn, *, user_data=None):
        return self._entry.callback(fn, user_data=user_data)

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """A condition for one conditional node of this graph, reset to `default_value` (if given) at each launch."""
        require("default_value", default_value, int, optional=True)
        return create_condition(self._graph, default_value)

    def if_then(self, condition: GraphCondition):
        require("condition", condition, GraphCondition)
        return self._entry.if_then(condition)

    def if_else(self, condition: GraphCondition):
        require("condition", condition, GraphCondition)
        return self._entry.if_else(condition)

    def while_loop(self, condition: GraphCondition):
        require("condition", condition, GraphCondition)
        return self._entry.while_loop(condition)

    def switch(self, condition: GraphCondition, count: int):
        require("condition", condition, GraphCondition)
        count = c_integer(count, 32, "unsigned int")
        return self._entry.switch(condition, count)

    def instantiate(self, options: GraphCompleteOptions | None = None) -> Graph:
        """An executable graph: a snapshot of this one."""
        return instantiate(self._graph, options)

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Writes the graph in Graphviz's language."""
        require("path", path, str)
        graph = self._graph
        if options is not None and not isinstance(options, GraphDebugPrintOptions):
            raise TypeError("options must be a GraphDebugPrintOptions instance")
        write_dot(graph, path)

    def nodes(self) -> set[GraphNode]:
        from .nodes import node_of

        return {node_of(node, self) for node in self._graph.nodes}

    def edges(self) -> set[tuple[GraphNode, GraphNode]]:
        """Pairs (from, to)."""
        from .nodes import node_of

        return {(node_of(a, self), node_of(b, self)) for a, b in self._graph.edges()}

    def __eq__(self, other) -> bool:
        return self._drawn is other._drawn if isinstance(other, GraphDefinition) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._drawn)

    def __repr__(self) -> str:
        return f"<GraphDefinition handle={int(self.handle):#x}>"


def create_condition(graph: _graph.Graph, default_value: int | None) -> GraphCondition:
    default = None if default_value is None else c_integer(default_value, 32, "unsigned int")
    return GraphCondition._of(graph.add_condition(default))


def write_dot(graph: _graph.Graph, path: str) -> None:
    try:
        Path(path).write_text(graph.to_dot(), encoding="utf-8")
    except OSError as error:
        raise CUDAError("cudaErrorOperatingSystem") from error


def instantiate(graph: _graph.Graph, options: GraphCompleteOptions | None) -> Graph:
    """An executable graph. Raises RuntimeError for what instantiation refuses."""
    flags, upload = {}, None
    if options:
        flags["auto_free"], upload = bool(options.auto_free_on_launch), options.upload_stream
        flags["device_launch"], flags["node_priority"] = bool(options.device_launch), bool(options.use_node_priority)
        if flags["auto_free"] and flags["device_launch"]:
            raise CUDAError("cudaErrorInvalidValue")
    try:
        executable = _gpu.current().instantiate(graph, **flags)
    except _graph.InstantiateError as error:
        if error.result not in INSTANTIATE_RESULTS:
            raise CUDAError(error.name) from error
        raise RuntimeError(INSTANTIATE_RESULTS[error.result]) from error
    except CUDARuntimeError as error:
        raise CUDAError(error.name) from error
    out = Graph._of(executable)
    if upload:
        out.upload(upload)
    return out


INSTANTIATE_RESULTS = {
    _graph.InstantiateResult.INVALID_STRUCTURE: "Instantiation failed due to invalid structure, such as cycles.",
    _graph.InstantiateResult.NODE_OPERATION_NOT_SUPPORTED: (
        "Instantiation for device launch failed because the graph contained an unsupported operation."
    ),
    _graph.InstantiateResult.CONDITIONAL_HANDLE_UNUSED: (
        "One or more conditional handles are not associated with conditional builders."
    ),
}

# What CUDA says of a refused update (CUgraphExecUpdateResult), with the line breaks of cuda.bindings.
UPDATE_RESULTS = {
    "Error": (
        "ERROR",
        "The update failed for an unexpected reason which is described in the return\nvalue of the function",
    ),
    "ErrorTopologyChanged": ("ERROR_TOPOLOGY_CHANGED", "The update failed because the topology changed"),
    "ErrorNodeTypeChanged": ("ERROR_NODE_TYPE_CHANGED", "The update failed because a node type changed"),
    "ErrorFunctionChanged": (
        "ERROR_FUNCTION_CHANGED",
        "The update failed because the function of a kernel node changed (CUDA\ndriver < 11.2)",
    ),
    "ErrorParametersChanged": (
        "ERROR_PARAMETERS_CHANGED",
        "The update failed because the parameters changed in a way that is not\nsupported",
    ),
    "ErrorNotSupported": ("ERROR_NOT_SUPPORTED", "The update failed because something about the node is not supported"),
    "ErrorUnsupportedFunctionChange": (
        "ERROR_UNSUPPORTED_FUNCTION_CHANGE",
        "The update failed because the function of a kernel node changed in an\nunsupported way",
    ),
    "ErrorAttributesChanged": (
        "ERROR_ATTRIBUTES_CHANGED",
        "The update failed because the node attributes changed in a way that is not\nsupported",
    ),
}


class Graph(CoreObject):
    """An executable graph."""

    _library, _compiled = "cuda.core.graph.Graph", "cuda.core.graph._graph_builder.Graph"

    def __init__(self):
        raise RuntimeError("directly constructing a Graph instance is not supported")

    @classmethod
    def _of(cls, executable: _graph.GraphExec) -> Graph:
        self = cls.__new__(cls)
        self._held = executable
        return self

    @property
    def _executable(self) -> _graph.GraphExec:
        if self._held is None:
            raise RuntimeError("Graph has been closed")
        return self._held

    def close(self) -> None:
        """Lets go of the executable graph; launches that are queued still run."""
        if self._held is not None:
            self._held.closed = True
        self._held = None

    def __del__(self):
        if self.__dict__.get("_held") is not None:
            self._held.closed = True

    @property
    def is_closed(self) -> bool:
        return self._held is None

    @property
    def handle(self) -> CUgraphExec:
        return CUgraphExec(_gpu.current().handle_of(self._held) if self._held else 0)

    def launch(self, stream: Stream) -> None:
        """Replays the graph on `stream`."""
        require("stream", stream, Stream)
        executable, queue = self._executable, stream._queue
        with driver_call():
            _gpu.current().launch_graph(executable, queue, "runtime")

    def upload(self, stream: Stream) -> None:
        """Does the first launch's upload ahead of it."""
        require("stream", stream, Stream)
        executable, queue = self._executable, stream._queue
        with driver_call():
            _gpu.current().upload(executable, queue)

    def update(self, source: GraphBuilder | GraphDefinition) -> None:
        """Takes over the parameters of a graph with the same topology. Raises CUDAError, with the reason, for another one."""
        from .builder import GraphBuilder

        executable = self._executable
        if isinstance(source, GraphBuilder):
            graph = source._finished(ValueError)
        elif isinstance(source, GraphDefinition):
            graph = source._graph
        else:
            raise TypeError(f"expected GraphBuilder or GraphDefinition, got {type(source).__name__}")
        with driver_call():
            result, _ = _gpu.current().update(executable, graph)
        if result != "Success":
            name, text = UPDATE_RESULTS[result]
            raise CUDAError("", f"Graph update failed: {text} (CU_GRAPH_EXEC_UPDATE_{name})")

    def __getitem__(self, node: GraphNode):
        """A view of this graph's node for a node of the definition, to change it in this graph alone."""
        from .nodes import GraphNode, view

        require("node", node, GraphNode)
        return view(self._executable, node)

    def __repr__(self) -> str:
        return f"<{self._compiled} object at {id(self):#x}>"
