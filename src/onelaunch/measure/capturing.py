"""Graphs captured from the yardstick's launches, on one stream or on several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onelaunch.device import Work


def captured(stream: Any, issue: Callable[[], object]) -> Any:
    """The executable graph of what `issue` launches, run once: its first launch is behind it."""
    stream.begin_capture()
    issue()
    graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    return graph


def prepare(work: Work, streams: Sequence[Any]) -> None:
    """What must not happen in a capture, for launches on all the streams in turns and on each alone."""
    for some in [streams] if len(streams) == 1 else [streams, *([stream] for stream in streams)]:
        work.prepare(some)


def fork(streams: Sequence[Any], mark: Any) -> None:
    """The other streams wait for the first one's work so far; in a capture of the first one they join it. `mark`: an event."""
    origin, *others = streams
    if others:
        mark.record(origin)
    for stream in others:
        stream.wait_event(mark)


def join(streams: Sequence[Any], marks: Sequence[Any]) -> None:
    """The first stream waits for the others' work so far. `marks`: an event for each of the others."""
    origin, *others = streams
    for stream, mark in zip(others, marks, strict=False):
        mark.record(stream)
        origin.wait_event(mark)
