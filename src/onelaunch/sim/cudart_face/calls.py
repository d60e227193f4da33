"""What the runtime's calls have in common: how they answer, and what handles and pointers stand for."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from .. import gpu as _gpu
from ..errors import CUDARuntimeError
from ..graph import Node
from ..stream import LEGACY_HANDLE, Event
from . import types
from .types import handle_of, resolve

NOT_KEPT = ("cudaErrorNotReady",)  # an answer, which cudaGetLastError does not repeat


def call(outputs: int = 0) -> Callable:
    """Makes a runtime call of a function that returns its outputs or raises: `(error, output, …)`, each None if it failed."""

    def wrap(function: Callable) -> Callable:
        @functools.wraps(function)
        def answer(*args, **kwargs):
            try:
                if _gpu.current().in_host_function:
                    raise CUDARuntimeError("cudaErrorNotPermitted")
                values = function(*args, **kwargs)
            except CUDARuntimeError as error:
                code = types.cudaError_t[error.name]
                if error.name not in NOT_KEPT:
                    _gpu.current().thread.last_error = error.name
                return code, *[None] * outputs
            return (types.cudaError_t.cudaSuccess, *(values if outputs > 1 else [values][:outputs]))

        return answer

    return wrap


def stream_of(handle):
    return _gpu.current().stream(int(handle or LEGACY_HANDLE))


def event_of(handle) -> Event:
    thing = _gpu.current().objects.get(int(handle or 0))
    if not isinstance(thing, Event):
        raise CUDARuntimeError("cudaErrorInvalidResourceHandle")
    return thing


def nodes_of(handles, count: int | None = None) -> list[Node]:
    handles = list(handles or [])
    if count is not None and count > len(handles):
        raise RuntimeError(f"List is too small: {len(handles)} < {count}")
    return [resolve(h, Node) for h in handles[:count]]


def node_handle(node: Node) -> types.cudaGraphNode_t:
    return handle_of(node, types.cudaGraphNode_t)


def node_list(nodes: list[Node], count: int) -> list:
    """`count` handles, null where there are no more nodes."""
    return [node_handle(n) for n in nodes[:count]] + [types.cudaGraphNode_t() for _ in range(count - len(nodes))]


def edge_data(count: int) -> list:
    return [types.cudaGraphEdgeData() for _ in range(count)]


def address_of(pointer) -> int:
    """The address behind an int, a buffer (bytes, a NumPy array) or a ctypes object, as the bindings take them."""
    if isinstance(pointer, int):
        return pointer
    if hasattr(pointer, "__array_interface__"):
        return pointer.__array_interface__["data"][0]
    if isinstance(pointer, ctypes._SimpleCData | ctypes.Array):
        return ctypes.addressof(pointer)
    if isinstance(pointer, bytearray):
        return ctypes.addressof((ctypes.c_uint8 * len(pointer)).from_buffer(pointer))
    return int(pointer or 0)


def host_function(fn, data) -> Callable[[], object]:
    """A call of a `cudaHostFn_t`: a ctypes function pointer, or its address."""
    address = int(fn) if isinstance(fn, int | types.Handle) else ctypes.cast(fn, ctypes.c_void_p).value
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
    return functools.partial(function, address_of(data))
