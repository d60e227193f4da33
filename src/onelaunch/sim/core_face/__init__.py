"""`cuda.core` of the simulated device: streams, launches, and graphs drawn by hand or built by capture."""

from __future__ import annotations

from ..errors import not_simulated
from . import graph, typing
from .launch import Kernel, LaunchConfig, launch
from .memory import Buffer, DeviceMemoryResource, GraphMemoryResource, MemoryResource
from .streams import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Device,
    Event,
    EventOptions,
    Stream,
    StreamOptions,
)

__all__ = [
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "Buffer",
    "Device",
    "DeviceMemoryResource",
    "Event",
    "EventOptions",
    "GraphMemoryResource",
    "Kernel",
    "LaunchConfig",
    "MemoryResource",
    "Stream",
    "StreamOptions",
    "graph",
    "launch",
    "typing",
]


def __getattr__(name: str):
    raise not_simulated("cuda.core", name)
