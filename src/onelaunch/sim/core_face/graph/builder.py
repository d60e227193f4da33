"""`cuda.core.graph.GraphBuilder`: a graph made by capturing a stream."""

from __future__ import annotations

from enum import Enum, auto

from ... import gpu as _gpu
from ... import graph as _graph
from ...capture import Mode, Status
from ...ops import ChildOp
from .._base import CoreObject, driver_call, require
from ..streams import Stream
from .definition import (
    Graph,
    GraphCompleteOptions,
    GraphCondition,
    GraphDebugPrintOptions,
    GraphDefinition,
    create_condition,
    instantiate,
    write_dot,
)
from .nodes import conditional_op, host_function

MODES = {"global": Mode.GLOBAL, "thread_local": Mode.THREAD_LOCAL, "relaxed": Mode.RELAXED}


class Kind(Enum):
    PRIMARY = auto()  # owns its graph
    FORKED = auto()  # made by split: captures into the primary one's graph
    BODY = auto()  # of a conditional node


class State(Enum):
    NEW = auto()
    BUILDING = auto()
    ENDED = auto()


class GraphBuilder(CoreObject):
    """A graph under construction by stream capture."""

    _library, _compiled = "cuda.core.graph.GraphBuilder", "cuda.core.graph._graph_builder.GraphBuilder"

    def __init__(self):
        raise NotImplementedError(
            "directly creating a GraphBuilder object can be ambiguous. Please either call Device.create_graph_builder() or "
            "stream.create_graph_builder()"
        )

    @classmethod
    def _make(cls, stream: Stream, kind: Kind, state: State, definition: GraphDefinition | None = None) -> GraphBuilder:
        self = cls.__new__(cls)
        self._held, self._kind, self._state, self._definition = Stream._of(stream._open()), kind, state, definition
        self._source = stream
        return self

    @classmethod
    def _primary(cls, stream: Stream) -> GraphBuilder:
        return cls._make(stream, Kind.PRIMARY, State.NEW)

    def __del__(self):
        held = self.__dict__.get("_held")
        if held is not None and self._state is State.BUILDING and self._kind is not Kind.FORKED:
            queue = _gpu.current().streams.get(held._held.handle)
            if queue is not None and queue.capture is not None:
                _gpu.current().abandon(queue.capture)

    def _open(self) -> Stream:
        if self._held is None:
            raise RuntimeError("GraphBuilder has been closed")
        return self._held

    def _finished(self, error: type[Exception] = RuntimeError, text: str = "Graph has not finished building.") -> _graph.Graph:
        """The graph, once building has ended."""
        self._open()
        if self._state is not State.ENDED:
            raise error(text)
        return self._definition._graph

    def close(self) -> None:
        """Lets go of stream and graph; what is being built is lost."""
        if self._held is not None and self._state is State.BUILDING and self._kind is not Kind.FORKED:
            with driver_call():
                _gpu.current().end_capture(self._held._queue)
        self._held = self._definition = self._source = None
        self._state = State.ENDED

    @property
    def is_closed(self) -> bool:
        return self._held is None

    @property
    def stream(self) -> Stream:
        """The stream that is captured."""
        self._open()
        return self._source

    @property
    def is_join_required(self) -> bool:
        return self._kind is Kind.FORKED

    def _status(self) -> Status:
        queue = self._open()._queue
        with driver_call():
            return _gpu.current().capture_status(queue)

    @property
    def is_building(self) -> bool:
        """Whether the capture is under way. Raises RuntimeError once it has been invalidated."""
        status = self._status()
        if status is Status.INVALIDATED:
            raise RuntimeError("Build process encountered an error and has been invalidated. Build process must now be ended.")
        return status is Status.ACTIVE

    @property
    def graph_definition(self) -> GraphDefinition:
        """The graph as a definition, to look at or to draw on; it outlives the builder."""
        self._open()
        if self._kind is Kind.FORKED:
            raise RuntimeError(
                "graph_definition is unavailable on forked graph builders; access it through the primary builder instead."
            )
        if self._state is State.BUILDING:
            raise RuntimeError("graph_definition is unavailable while capture is in progress; call end_building() first.")
        if self._definition is None:
            raise RuntimeError(
                "graph_definition is unavailable before begin_building() on a primary builder; no graph has been created yet."
            )
        return GraphDefinition._of(self._definition._graph, self._definition._parent)

    def begin_building(self, mode: str | None = "relaxed") -> GraphBuilder:
        """Begins to capture the stream."""
        require("mode", mode, str, optional=True)
        queue = self._open()._queue
        if self._state is State.BUILDING:
            raise RuntimeError("Graph builder is already building.")
        if self._state is State.ENDED:
            raise RuntimeError("Cannot resume building after building has ended.")
        if mode not in MODES:
            raise ValueError(f"Unsupported build mode: {mode}")
        with driver_call():
            _gpu.current().begin_capture(queue, MODES[mode], self._definition and self._definition._graph)
        if self._kind is Kind.PRIMARY:
            self._definition = GraphDefinition._of(queue.capture.graph)
        self._state = State.BUILDING
        return self

    def end_building(self) -> GraphBuilder:
        """Ends the capture."""
        if not self.is_building:
            raise RuntimeError("Graph builder is not building.")
        with driver_call():
            _gpu.current().end_capture(self._held._queue)
        self._state = State.ENDED
        return self

    def complete(self, options: GraphCompleteOptions | None = None) -> Graph:
        """An executable graph of what has been built."""
        return instantiate(self._finished(), options)

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Writes the graph in Graphviz's language."""
        require("path", path, str)
        graph = self._finished()
        if options:
            options._to_flags()
        write_dot(graph, path)

    def split(self, count: int) -> tuple[GraphBuilder, ...]:
        """This builder and `count` - 1 others, on streams of their own, that go on from here."""
        require("count", count, int)
        if count < 2:
            raise ValueError(f"Invalid split count: expecting >= 2, got {count}")
        stream = self._open()
        if self._state is not State.BUILDING:
            raise RuntimeError("Graph builder must be building before it can be split.")
        event = stream.record()
        out = [self]
        for _ in range(count - 1):
            other = _new_stream()
            other.wait(event)
            out.append(GraphBuilder._make(other, Kind.FORKED, State.BUILDING))
        return tuple(out)

    @staticmethod
    def join(*graph_builders: GraphBuilder) -> GraphBuilder:
        """The builder that need not be joined (or the first), which goes on from where all of them are; closes the others."""
        if any(not isinstance(builder, GraphBuilder) for builder in graph_builders):
            raise TypeError("All arguments must be GraphBuilder instances")
        if len(graph_builders) < 2:
            raise ValueError("Must join with at least two graph builders")
        root = next((b for b in graph_builders if not b.is_join_required), graph_builders[0])
        for builder in graph_builders:
            if builder is not root:
                root.stream.wait(builder.stream)
                builder.close()
        return root

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.stream.__cuda_stream__()

    # -- what a capture does not issue on a stream --------------------------------------------------------------------

    def _append(self, op) -> _graph.Node:
        """Adds a node behind what has been captured, and lets the capture go on from it."""
        gpu, queue = _gpu.current(), self._held._queue
        with driver_call():
            node = queue.capture.graph.add(op, queue.capture_tail)
            gpu.set_capture_tail(queue, [node], replace=True)
        gpu.charge_node("add", op.kind)
        return node

    def embed(self, child: GraphBuilder) -> None:
        """Adds a clone of a finished builder's graph as one node."""
        require("child", child, GraphBuilder)
        graph = child._finished(ValueError, "Child graph has not finished building.")
        if not self.is_building:
            raise ValueError("Parent graph is not being built.")
        with driver_call():
            op = ChildOp(_gpu.current().clone(graph))
        self._append(op)

    def callback(self, fn, *, user_data=None) -> None:
        """Adds a call of a host function."""
        if self._status() is not Status.ACTIVE:
            raise RuntimeError("Cannot add callback when graph is not being built")
        function = host_function(fn, user_data)
        with driver_call():
            _gpu.current().launch_host_function(self._held._queue, function)

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """A condition for one conditional node, reset to `default_value` (if given) at each launch."""
        require("default_value", default_value, int, optional=True)
        if self._status() is not Status.ACTIVE:
            raise RuntimeError("Cannot create a condition when graph is not being built")
        return create_condition(self._held._queue.capture.graph, default_value)

    def _conditional(self, condition: GraphCondition, form: str, count: int) -> tuple[GraphBuilder, ...]:
        require("condition", condition, GraphCondition)
        if self._status() is not Status.ACTIVE:
            raise RuntimeError("Cannot add conditional node when not actively capturing")
        graph = self._held._queue.capture.graph
        parent = self._definition or GraphDefinition._of(graph)
        with driver_call():
            op = conditional_op(parent, condition, form, count)
        self._append(op)
        return tuple(
            GraphBuilder._make(_new_stream(), Kind.BODY, State.NEW, GraphDefinition._of(body, parent)) for body in op.bodies
        )

    def if_then(self, condition: GraphCondition) -> GraphBuilder:
        """A conditional node; returns the builder of its body."""
        return self._conditional(condition, "if", 1)[0]

    def if_else(self, condition: GraphCondition) -> tuple[GraphBuilder, GraphBuilder]:
        """A conditional node; returns the builders of its two bodies."""
        return self._conditional(condition, "if", 2)

    def while_loop(self, condition: GraphCondition) -> GraphBuilder:
        """A loop; returns the builder of its body."""
        return self._conditional(condition, "while", 1)[0]

    def switch(self, condition: GraphCondition, count: int) -> tuple[GraphBuilder, ...]:
        """A choice among `count` bodies; returns their builders."""
        require("condition", condition, GraphCondition)
        require("count", count, int)
        return self._conditional(condition, "switch", count)

    def __repr__(self) -> str:
        return f"<{self._compiled} object at {id(self):#x}>"


def _new_stream() -> Stream:
    from ..streams import _Held

    with driver_call():
        return Stream._of(_Held.create(blocking=False, priority=0))
