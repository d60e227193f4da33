"""`cuda.core`: kernels, and how they are launched."""

from __future__ import annotations

import ctypes
import struct
from collections import namedtuple

import numpy as np

from .. import gpu as _gpu
from ..errors import CUDAError, NotSimulatedError, Partial
from ..kernel import KernelOp
from ..numba_face import kernel_operation
from ..types_face import CPointer
from ._base import CoreObject, CUkernel, checked, driver_call, require
from .memory import Buffer
from .streams import accept_stream


def three(label: str, value) -> tuple[int, int, int]:
    """Grid or block as three numbers. Raises ValueError for anything but an int, or a tuple of up to three, each above zero."""
    sizes = (value,) if isinstance(value, int) else value
    common = "must be an int, or a tuple with up to 3 ints"
    if not isinstance(sizes, tuple):
        raise ValueError(f"{label} {common} (got {type(value)})")
    if len(sizes) > 3:
        raise ValueError(f"{label} {common} (got tuple with length {len(sizes)})")
    if any(not isinstance(size, int) for size in sizes):
        raise ValueError(f"{label} {common} (got {sizes})")
    if any(size < 1 for size in sizes):
        raise ValueError(f"{label} value{'' if len(sizes) == 1 else 's'} must be >= 1 (got {value})")
    return sizes + (1,) * (3 - len(sizes))


class LaunchConfig(CoreObject):
    """How a kernel is launched: grid and block, each an int or a tuple of up to three, and dynamic shared memory in bytes."""

    _library, _compiled = "cuda.core.LaunchConfig", "cuda.core._launch_config.LaunchConfig"
    _fields = ("grid", "cluster", "block", "shmem_size", "is_cooperative", "programmatic_stream_serialization")
    __slots__ = _fields

    def __init__(
        self, grid=None, cluster=None, block=None, shmem_size: int | None = None,
        is_cooperative: bool = False, programmatic_stream_serialization: bool = False,
    ):  # fmt: skip
        require("shmem_size", shmem_size, int, optional=True)
        self.grid = three("LaunchConfig.grid", grid)
        self.block = three("LaunchConfig.block", block)
        self.cluster = None if cluster is None else three("LaunchConfig.cluster", cluster)
        self.shmem_size = shmem_size or 0
        self.is_cooperative = bool(is_cooperative)
        self.programmatic_stream_serialization = bool(programmatic_stream_serialization)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._fields:
            raise AttributeError(f"'{self._compiled}' object has no attribute {name!r}")
        if name in ("grid", "block") and not isinstance(value, tuple):
            raise TypeError(f"Expected tuple, got {type(value).__name__}")
        object.__setattr__(self, name, value)

    def _identity(self) -> tuple:
        return tuple(getattr(self, name) for name in self._fields)

    def __eq__(self, other) -> bool:
        return self._identity() == other._identity() if isinstance(other, LaunchConfig) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"LaunchConfig({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"


ParamInfo = namedtuple("ParamInfo", ("offset", "size"))


class Kernel(CoreObject):
    """A kernel that a graph node can hold: made from a Numba kernel by `onelaunch.as_kernel`, or from its handle."""

    _library, _compiled = "cuda.core.Kernel", "cuda.core._module.Kernel"
    _missing = frozenset({"attributes", "occupancy"})

    def __init__(self, *args, **kwargs):
        raise RuntimeError("Kernel objects cannot be instantiated directly. Please use ObjectCode APIs.")

    @classmethod
    def _of(cls, dispatcher) -> Kernel:
        """The kernel behind a Numba dispatcher."""
        return cls.from_handle(_gpu.current().handle_of(dispatcher))

    @staticmethod
    def from_handle(handle: int, mod=None) -> Kernel:
        if not isinstance(handle, int):
            raise TypeError(f"handle must be an integer, got {type(handle).__name__}")
        self = Kernel.__new__(Kernel)
        self._number = int(handle)
        return self

    @property
    def _dispatcher(self):
        dispatcher = _gpu.current().objects.get(self._number)
        if not hasattr(dispatcher, "py_func"):
            raise NotSimulatedError("a cuda.core.Kernel over a handle that stands for no kernel")
        return dispatcher

    @property
    def handle(self) -> CUkernel:
        return CUkernel(self._number)

    @property
    def num_arguments(self) -> int:
        return len(self._dispatcher.signature.args)

    @property
    def arguments_info(self) -> list[ParamInfo]:
        """Offset and size of each argument, in bytes."""
        out, offset = [], 0
        for kind in self._dispatcher.signature.args:
            size = _size(kind)
            offset = -(-offset // size) * size
            out.append(ParamInfo(offset, size))
            offset += size
        return out

    def __eq__(self, other) -> bool:
        return self._number == other._number if isinstance(other, Kernel) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._number)

    def __repr__(self) -> str:
        return f"<Kernel handle={self._number:#x}>"


# -- arguments --------------------------------------------------------------------------------------------------------

_NUMPY = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, np.complex64, np.complex128,
)  # fmt: skip
_CTYPES = (
    ctypes.c_bool, ctypes.c_int8, ctypes.c_int16, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8, ctypes.c_uint16,
    ctypes.c_uint32, ctypes.c_uint64, ctypes.c_float, ctypes.c_double,
)  # fmt: skip


def _packed(value) -> bytes:
    """An argument as the bytes that cuda.core hands the driver: a Python int is a pointer, a Python float a double."""
    from .graph.definition import GraphCondition

    if isinstance(value, Buffer):
        value = value._open_address()
    elif isinstance(value, GraphCondition):
        value = value.handle
    if isinstance(value, bool):
        return struct.pack("?", value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise OverflowError("Python int too large to convert to C ssize_t")
        return struct.pack("q", value)
    if isinstance(value, float) and not isinstance(value, np.generic):
        return struct.pack("d", value)
    if isinstance(value, complex) and not isinstance(value, np.generic):
        return struct.pack("dd", value.real, value.imag)
    if isinstance(value, _NUMPY):
        return value.tobytes()
    if isinstance(value, _CTYPES):
        return bytes(value)
    kind = type(value)
    shown = f"<class '{kind._library}'>" if isinstance(value, Partial) else str(kind)
    raise TypeError(f"the argument is of unsupported type: {shown}")


def _size(kind) -> int:
    return 8 if isinstance(kind, CPointer) else kind.dtype.itemsize


def arguments_of(args) -> list[bytes]:
    """Packs the arguments. Raises TypeError for those that cuda.core does not take."""
    return [_packed(value) for value in args] if len(args) else []


def operation(kernel: Kernel, config: LaunchConfig, packed: list[bytes]) -> KernelOp:
    """One launch: the kernel reads each declared parameter from the bytes that were handed over."""
    dispatcher = kernel._dispatcher
    declared = dispatcher.signature.args
    if declared and not packed:
        raise CUDAError("cudaErrorInvalidValue")
    if len(packed) < len(declared):
        given = f"{len(packed)} arguments for {len(declared)} parameters"
        raise NotSimulatedError(f"a launch of {dispatcher.__name__} with {given}")
    values = []
    for kind, raw in zip(declared, packed, strict=False):
        size = _size(kind)
        raw = raw[:size].ljust(size, b"\0")
        values.append(int.from_bytes(raw, "little") if isinstance(kind, CPointer) else np.frombuffer(raw, kind.dtype)[0])
    with driver_call():
        return kernel_operation(dispatcher, config.grid, config.block, values, config.shmem_size)


@checked
def launch(stream, config: LaunchConfig, kernel: Kernel, *kernel_args) -> None:
    """Launches `kernel` on a stream, or into the graph that a builder captures."""
    require("config", config, LaunchConfig)
    require("kernel", kernel, Kernel)
    queue = accept_stream(stream, protocol=True)._queue
    packed = arguments_of(kernel_args)
    if config.cluster is not None:
        raise NotSimulatedError("cuda.core.LaunchConfig(cluster=…)")
    gpu = _gpu.current()
    try:
        op = operation(kernel, config, packed)
    except CUDAError:
        if queue.capture is not None:  # a launch that the driver refuses ends a capture too
            queue.capture.valid = False
        raise
    op.cooperative = config.is_cooperative
    with driver_call():
        gpu.charge_launch("core", queue)
        gpu.submit(queue, op)
