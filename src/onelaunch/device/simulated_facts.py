"""A node of a graph on the simulated device: the same facts that the driver tells of one on a GPU."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from onelaunch.sim import gpu as sim_gpu
from onelaunch.sim.errors import CUDARuntimeError
from onelaunch.sim.graph import Node
from onelaunch.sim.kernel import ArrayRef, DevicePointer, KernelOp, LibraryKernelOp
from onelaunch.sim.ops import AllocOp, ChildOp, CopyOp, FreeOp, MemsetOp
from onelaunch.sim.stream import Op

from .facts import CopyFacts, MemsetFacts, NodeFacts, words

_KINDS = {"graph": "child graph", "memory allocation": "allocation", "memory free": "free"}  # the engine's, where it differs


def node_facts(handle: Any) -> NodeFacts:
    gpu = sim_gpu.current()
    node = gpu.objects.get(int(handle))
    if not isinstance(node, Node):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    op = node.op
    kind = _KINDS.get(op.kind, op.kind)
    if isinstance(op, KernelOp):
        raw = parameters(op)
        pointers = tuple(word for word in words(raw) if _is_pointer(gpu.memory, word.address))
        return NodeFacts(kind, op.name, op.grid, op.block, op.shared, raw, pointers)
    return NodeFacts(kind, kind, **_more(gpu, op))


def _is_pointer(memory, address: int) -> bool:
    return memory.is_allocated(address, 1) or memory.is_pinned(address)


def _more(gpu, op: Op) -> dict[str, Any]:
    """What a node other than a kernel holds. (The bodies of a conditional node it does not tell, as CUDA before 13.2.)"""
    if isinstance(op, CopyOp):
        return {"copy": CopyFacts(op.target, op.source, op.nbytes, *op.sides)}
    if isinstance(op, MemsetOp):
        pitch = op.pitch if op.height > 1 else 0
        return {"memset": MemsetFacts(op.address, op.value, op.element_size, op.width, op.height, pitch)}
    if isinstance(op, ChildOp):
        return {"child": gpu.handle_of(op.graph)}
    if isinstance(op, AllocOp):
        return {"memory": op.address, "memory_bytes": op.nbytes}
    if isinstance(op, FreeOp):
        return {"memory": op.address}
    return {}


# -- parameters, byte for byte ----------------------------------------------------------------------------------------


def parameters(op: KernelOp) -> tuple[bytes, ...]:
    """What a kernel node would hold on a GPU."""
    if isinstance(op, LibraryKernelOp):
        return _of_cupy(op.arguments)
    return tuple(raw for argument in op.arguments for raw in _of_numba(argument))


def _of_numba(argument: Any) -> Iterable[bytes]:
    """An argument as Numba hands it over. An array becomes 5 + 2·ndim words: meminfo, parent, size, itemsize, address, shape,
    strides."""
    if isinstance(argument, ArrayRef):
        size = math.prod(argument.shape)
        yield from map(_word, (0, 0, size, argument.dtype.itemsize, argument.address, *argument.shape, *argument.strides))
    elif isinstance(argument, DevicePointer):
        yield _word(argument.address)
    elif isinstance(argument, complex | np.complexfloating):
        half = np.float32 if isinstance(argument, np.complex64) else np.float64
        yield from (half(argument.real).tobytes(), half(argument.imag).tobytes())
    else:
        yield _scalar(argument)


def _of_cupy(arguments: Iterable[Any]) -> tuple[bytes, ...]:
    """The arguments of one of CuPy's elementwise kernels: an array is one structure (address, size, shape, strides), one-
    dimensional if it is contiguous; behind them the indexer (size, shape, index), which on a GPU ends in arbitrary bytes."""
    out, size, arguments = [], 1, tuple(arguments)
    for argument in arguments:
        if isinstance(argument, ArrayRef):
            size = max(size, math.prod(argument.shape))
            shape, strides = _collapsed(argument)
            out.append(b"".join(map(_word, (argument.address, math.prod(argument.shape), *shape, *strides))))
        else:  # of the type that the kernel computes with
            out.append(arguments[-1].dtype.type(argument).tobytes())
    return (*out, b"".join(map(_word, (size, size, 0)))) if out else ()


def _collapsed(ref: ArrayRef) -> tuple[tuple[int, ...], tuple[int, ...]]:
    size, itemsize = math.prod(ref.shape), ref.dtype.itemsize
    packed = tuple(itemsize * math.prod(ref.shape[i + 1 :]) for i in range(len(ref.shape)))
    return ((size,), (itemsize,)) if packed == ref.strides else (ref.shape, ref.strides)


def _word(value: int) -> bytes:
    return struct.pack("<q", value) if value < 1 << 63 else struct.pack("<Q", value)


def _scalar(value: Any) -> bytes:
    """A number as Numba types it: bool one byte, int and float eight."""
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, bool):
        return bytes([value])
    return struct.pack("<d", value) if isinstance(value, float) else _word(int(value))
