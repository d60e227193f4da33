"""Stream capture: what is issued between begin and end becomes nodes instead of running."""

from __future__ import annotations

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


class Capture:
    """One capture: the stream that began it, the streams that joined it through events, and the graph so far."""

    def __init__(self, origin: Stream, mode: Mode):
        self.origin = origin
        self.mode = mode
        self.graph = Graph()
        self.streams = [origin]
        self.valid = True
        self.ended = False
        origin.capture, origin.capture_tail = self, []

    def add(self, stream: Stream, op: Op) -> Node:
        """Records `op`, issued on a capturing stream. Raises cudaErrorStreamCaptureInvalidated once invalid."""
        self.require_valid()
        node = self.graph.add(op, stream.capture_tail)
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
            raise CUDARuntimeError("cudaErrorStreamCaptureIsolation")
        _, nodes = event.captured
        stream.capture_tail = list(dict.fromkeys([*stream.capture_tail, *nodes]))

    def end(self) -> Graph:
        """The graph; every stream leaves the capture, whatever its state. Raises the error that cudaStreamEndCapture gives."""
        unjoined = not self._covers(self.origin.capture_tail)
        self.leave()
        self.require_valid()
        if unjoined:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnjoined")
        return self.graph

    def leave(self) -> None:
        """Every stream leaves the capture."""
        self.ended = True
        for stream in self.streams:
            stream.capture, stream.capture_tail = None, []

    def _covers(self, tail: Iterable[Node]) -> bool:
        seen: set[int] = set()
        todo = list(tail)
        while todo:
            node = todo.pop()
            if node.index not in seen:
                seen.add(node.index)
                todo.extend(node.dependencies)
        return len(seen) == len(self.graph.nodes)
