"""Stream capture: what is issued between begin and end becomes nodes instead of running."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from .errors import CUDARuntimeError
from .graph import Graph, Node

if TYPE_CHECKING:
    from .stream import Event, Op, Stream


class Mode(IntEnum):
    """cudaStreamCaptureMode."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class Status(IntEnum):
    """cudaStreamCaptureStatus."""

    NONE = 0
    ACTIVE = 1
    INVALIDATED = 2


_ids = itertools.count(1)


class Capture:
    """One capture: the stream that began it, the streams that joined it through events, and the graph so far."""

    def __init__(
        self, origin: Stream, mode: Mode, thread: object, graph: Graph | None = None, dependencies: Iterable[Node] = ()
    ):
        self.id = next(_ids)
        self.origin = origin
        self.mode = mode
        self.thread = thread
        self.graph = Graph() if graph is None else graph
        self.streams = [origin]
        self.added: list[Node] = []
        self.given_up: set[Node] = set()  # nodes that a stream was told to depend on no more
        self.valid = True
        self.ended = False
        origin.capture, origin.capture_tail = self, list(dependencies)

    @property
    def status(self) -> Status:
        return Status.ACTIVE if self.valid else Status.INVALIDATED

    def add(self, stream: Stream, op: Op) -> Node:
        """Records `op`, issued on a capturing stream. Raises cudaErrorStreamCaptureInvalidated once invalid."""
        self.require_valid()
        node = self.graph.add(op, stream.capture_tail)
        node.priority = stream.priority
        self.added.append(node)
        stream.capture_tail = [node]
        return node

    def require_valid(self) -> None:
        if not self.valid:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated")

    def join(self, stream: Stream, event: Event) -> None:
        """`stream` waits for an event recorded in this capture: it becomes part of it, after the event's nodes."""
        self.require_valid()
        if stream.capture is None:
            stream.capture, stream.capture_tail = self, []
            self.streams.append(stream)
        elif stream.capture is not self:
            self.valid = stream.capture.valid = False
            raise CUDARuntimeError("cudaErrorStreamCaptureMerge")
        _, nodes = event.captured
        stream.capture_tail = list(dict.fromkeys([*stream.capture_tail, *nodes]))

    def end(self) -> Graph:
        """The graph; every stream leaves the capture, whatever its state. Raises the error that cudaStreamEndCapture gives."""
        unjoined = not self._covers([*self.origin.capture_tail, *self.given_up])
        self.leave()
        self.require_valid()
        if unjoined:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnjoined")
        return self.graph

    def give_up(self, nodes: set[Node]) -> None:
        """These nodes need not come before the end of the capture."""
        self.given_up |= nodes

    def leave(self) -> None:
        """Every stream leaves the capture."""
        self.ended = True
        for stream in self.streams:
            stream.capture, stream.capture_tail = None, []

    def _covers(self, tail: Iterable[Node]) -> bool:
        """Whether every node of this capture comes before `tail`."""
        seen: set[Node] = set()
        todo = list(tail)
        while todo:
            node = todo.pop()
            if node not in seen:
                seen.add(node)
                todo.extend(node.dependencies)
        return seen.issuperset(self.added)
