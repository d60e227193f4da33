"""`cuda.core`: buffers of device memory, and where they come from."""

from __future__ import annotations

import weakref

from .. import gpu as _gpu
from ..ops import MemsetOp
from ._base import CoreObject, c_integer, driver_call, require
from .streams import Stream, accept_stream, is_capturing


def fill_pattern(value) -> tuple[int, int]:
    """A fill value as a number and its size in bytes: an int is one byte; else whatever shows 1, 2 or 4 bytes."""
    if isinstance(value, int):
        return c_integer(value, 8, "uint8_t"), 1
    try:
        raw = memoryview(value).tobytes()
    except TypeError:
        raise TypeError(f"a bytes-like object is required, not {type(value).__name__!r}") from None
    if len(raw) not in (1, 2, 4):
        raise ValueError(f"value must be 1, 2, or 4 bytes, got {len(raw)}")
    return int.from_bytes(raw, "little"), len(raw)


class _Allocation:
    """Bytes that are freed in the order of `stream` when nobody holds them any more."""

    def __init__(self, address: int, stream: Stream):
        self.address, self.stream = address, stream
        self.freed = weakref.finalize(self, _free, _gpu.current(), address, stream._open())
        self.freed.atexit = False


def _free(gpu, address: int, stream) -> None:
    """In the order of the stream, which the allocation keeps alive."""
    if gpu.fault is None:
        gpu.free_async(address, gpu.stream(stream.handle))


class Buffer(CoreObject):
    """Device memory: `int(buffer.handle)` is its address."""

    _library, _compiled = "cuda.core.Buffer", "cuda.core._memory._buffer.Buffer"
    _missing = frozenset(
        {"from_ipc_descriptor", "ipc_descriptor", "is_mapped", "owner", "set_deallocation_stream"}
    )  # fmt: skip

    def __init__(self, *args, **kwargs):
        raise RuntimeError("Buffer objects cannot be instantiated directly. Please use MemoryResource APIs.")

    @classmethod
    def _of(cls, allocation: _Allocation | None, address: int, size: int, resource=None) -> Buffer:
        self = cls.__new__(cls)
        self._allocation, self._address, self._bytes, self._resource = allocation, address, size, resource
        self._closed = False
        return self

    @staticmethod
    def from_handle(ptr, size: int, mr=None, owner: object | None = None, *, stream=None) -> Buffer:
        """A buffer over memory of others."""
        if mr is not None:
            from ..errors import NotSimulatedError

            raise NotSimulatedError("cuda.core.Buffer.from_handle(mr=…)")
        buffer = Buffer._of(None, int(ptr), size)
        buffer._owner = owner
        return buffer

    def _open_address(self) -> int:
        if self._closed:
            raise RuntimeError("Buffer has been closed")
        return self._address

    def close(self, stream=None) -> None:
        """Frees the memory in the order of `stream` (by default of the one that it was allocated on)."""
        if self._closed:
            return
        self._closed = True
        if self._allocation is not None:
            if stream is not None:
                self._allocation.freed.detach()
                with driver_call():
                    _free(_gpu.current(), self._address, accept_stream(stream))
            self._allocation = None

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def handle(self) -> int:
        return 0 if self._closed else self._address

    @property
    def size(self) -> int:
        return 0 if self._closed else self._bytes

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def device_id(self) -> int:
        return 0

    @property
    def memory_resource(self):
        return self._resource

    is_device_accessible = property(lambda self: True)
    is_host_accessible = property(lambda self: False)
    is_managed = property(lambda self: False)

    def copy_to(self, dst: Buffer | None = None, *, stream, options=None) -> Buffer:
        """Copies all of this buffer in stream order, to a new one unless given."""
        source, stream = self._open_address(), accept_stream(stream)
        require("dst", dst, Buffer, optional=True)
        if dst is None:
            if self._resource is None:
                raise ValueError("a destination buffer must be provided (this buffer does not have a memory_resource)")
            dst = self._resource.allocate(self._bytes, stream=stream)
        _copy(dst._open_address(), source, dst._bytes, self._bytes, stream)
        return dst

    def copy_from(self, src: Buffer, *, stream, options=None) -> None:
        """Copies all of another buffer here, in stream order."""
        target, stream = self._open_address(), accept_stream(stream)
        require("src", src, Buffer)
        _copy(target, src._open_address(), self._bytes, src._bytes, stream)

    def fill(self, value, *, stream) -> None:
        """Fills the buffer with a pattern of 1, 2 or 4 bytes, in stream order."""
        address, queue = self._open_address(), accept_stream(stream)._queue
        number, width = fill_pattern(value)
        if self._bytes % width:
            raise ValueError(f"buffer size ({self._bytes}) must be divisible by {width}")
        gpu = _gpu.current()
        with driver_call():
            gpu.charge_call("cudaMemsetAsync")
            gpu.submit(queue, MemsetOp(address, number, width, self._bytes // width))

    def __eq__(self, other) -> bool:
        return self.handle == other.handle and self.size == other.size if isinstance(other, Buffer) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.handle, self.size))

    def __repr__(self) -> str:
        return f"<Buffer ptr={self.handle:#x} size={self.size}>"


def _copy(target: int, source: int, target_size: int, source_size: int, stream: Stream) -> None:
    if target_size != source_size:
        raise ValueError(f"buffer sizes mismatch between src and dst (sizes are: src={source_size}, dst={target_size})")
    with driver_call():
        _gpu.current().memcpy_async(target, source, source_size, _gpu.CopyKind.DEFAULT, stream._queue)


class MemoryResource(CoreObject):
    """Where buffers come from."""

    _library, _compiled = "cuda.core.MemoryResource", "cuda.core._memory._buffer.MemoryResource"
    is_device_accessible, is_host_accessible, is_managed = True, False, False

    def __init__(self, device_id=0, options=None):
        self._options = options

    @property
    def device_id(self) -> int:
        return 0

    def allocate(self, size: int, *, stream) -> Buffer:
        """`size` bytes, in stream order."""
        stream = accept_stream(stream)
        self._check(stream)
        size = c_integer(size)
        with driver_call():
            address = _gpu.current().malloc_async(size, stream._queue)
        return Buffer._of(_Allocation(address, stream), address, size, self)

    def _check(self, stream: Stream) -> None:
        """Raises RuntimeError where this resource does not allocate."""


class DeviceMemoryResource(MemoryResource):
    """The device's memory pool (cudaMallocAsync)."""

    _library = "cuda.core.DeviceMemoryResource"
    _compiled = "DeviceMemoryResource"

    def _check(self, stream: Stream) -> None:
        if is_capturing(stream):
            raise RuntimeError(
                "_MemPool cannot perform memory operations on a capturing stream (consider using GraphMemoryResource)."
            )


class GraphMemoryResource(MemoryResource):
    """Memory of a graph: an allocation is a node of the graph that the stream captures."""

    _library = "cuda.core.GraphMemoryResource"
    _compiled = "GraphMemoryResource"

    def _check(self, stream: Stream) -> None:
        if not is_capturing(stream):
            raise RuntimeError("GraphMemoryResource cannot perform memory operations on a non-capturing stream.")
