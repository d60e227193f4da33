"""`cupy.cuda` of the simulated device."""

from __future__ import annotations

import ctypes
import functools
import weakref

from .. import gpu as _gpu
from ..capture import Mode, Status
from ..errors import CUDARuntimeError, NotSimulatedError, Partial, not_simulated
from ..errors import OutOfMemoryError as _OutOfMemoryError
from ..stream import LEGACY_HANDLE, PER_THREAD_HANDLE
from ..stream import Event as _SimEvent

__all__ = [
    "Device",
    "Event",
    "ExternalStream",
    "Graph",
    "MemoryPointer",
    "MemoryPool",
    "PinnedMemoryPointer",
    "Stream",
    "alloc_pinned_memory",
    "get_current_stream",
    "get_elapsed_time",
    "is_available",
    "memory",
    "runtime",
]


def is_available() -> bool:
    """True: the simulated device is always there."""
    return True


def _answers(query) -> bool:
    """Whether a query says yes; CuPy takes every error for a no."""
    try:
        query(_gpu.current())
    except CUDARuntimeError:
        return False
    return True


class Graph(Partial):
    """An executable graph, as `Stream.end_capture` returns it."""

    _library = "cupy.cuda.Graph"

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("currently this class cannot be initiated by the user and must be created via stream capture")

    @classmethod
    def _of(cls, graph, executable) -> Graph:
        made = cls.__new__(cls)
        made._graph, made._executable = graph, executable
        return made

    def launch(self, stream: Stream | None = None) -> None:
        """Replays the graph on `stream` (the current one by default)."""
        gpu = _gpu.current()
        gpu.launch_graph(self._executable, gpu.stream((get_current_stream() if stream is None else stream).ptr))

    def upload(self, stream: Stream | None = None) -> None:
        """Does the first launch's upload ahead of it."""
        _gpu.current().upload(self._executable, (stream or get_current_stream())._stream)

    @property
    def graph(self) -> int:
        """The definition's handle (`cudaGraph_t`)."""
        return _gpu.current().handle_of(self._graph)

    @property
    def graphExec(self) -> int:
        """The executable graph's handle (`cudaGraphExec_t`)."""
        return _gpu.current().handle_of(self._executable)

    def debug_dot_str(self, flags: int = 0) -> str:
        """The graph in Graphviz's language."""
        return self._graph.to_dot()

    def __repr__(self) -> str:
        return f"<cupy.cuda.Graph: {len(self._graph.nodes)} nodes>"


class Stream(Partial):
    """`cupy.cuda.Stream`: an in-order queue of device work.

    `null` and no arguments behave as CuPy's: a plain Stream() is a *blocking* one, `non_blocking=True` ignores the legacy
    default stream.
    """

    _library = "cupy.cuda.Stream"
    null: Stream
    ptds: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None):
        self._owned = not (null or ptds)
        self._gpu = _gpu.current() if self._owned else None
        self._handle: int | None = None
        self._foreign = None  # the stream of another library that this one stands for
        if self._owned:
            self._handle = self._gpu.create_stream(blocking=not non_blocking, priority=_priority(priority)).handle
        else:
            self._handle = LEGACY_HANDLE if null else PER_THREAD_HANDLE
        self.is_non_blocking = self._owned and non_blocking

    @classmethod
    def from_external(cls, obj) -> Stream:
        """A CuPy stream over another library's stream object (its `__cuda_stream__`), which it keeps alive."""
        if not hasattr(obj, "__cuda_stream__"):
            raise TypeError(f"{type(obj)} object does not support the CUDA stream protocol")
        stream = cls(null=True)
        stream._handle, stream._foreign = int(obj.__cuda_stream__()[1]), obj
        return stream

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream as other libraries take it: (version of the protocol, handle)."""
        return 0, self._handle

    @property
    def priority(self) -> int:
        return self._stream.priority

    def __del__(self):
        if self._owned and self._gpu is not None and self._handle is not None:
            self._gpu.destroy_stream(self._gpu.stream(self._handle))

    @property
    def _stream(self):
        return (self._gpu or _gpu.current()).stream(self._handle)

    @property
    def ptr(self) -> int:
        """The handle (`cudaStream_t`), to hand to another library."""
        return self._handle

    @property
    def done(self) -> bool:
        """Whether all work has finished: a query, which raises nothing. In a capture it says False, and invalidates it."""
        return _answers(lambda gpu: gpu.query(self._stream))

    def synchronize(self) -> None:
        """The host waits until all work in this stream is done."""
        _gpu.current().synchronize(self._stream)

    def use(self) -> Stream:
        """Makes this the current stream of this thread."""
        _gpu.current().thread.streams[-1:] = [self]
        return self

    def __enter__(self) -> Stream:
        _gpu.current().thread.streams.append(self)
        return self

    def __exit__(self, *exc) -> None:
        _gpu.current().thread.streams.pop()

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Later work in this stream waits for `event`."""
        _gpu.current().wait_event(self._stream, event._event)

    def launch_host_func(self, callback, arg) -> None:
        """Calls `callback(arg)` once all work so far is done; in a capture, at every replay."""
        self.is_capturing()  # raises what CuPy does for a capture that has failed
        _gpu.current().launch_host_function(self._stream, lambda: callback(arg))

    def add_callback(self, callback, arg) -> None:
        """Calls `callback(stream, 0, arg)` once all work so far is done. Not in a capture."""
        gpu, stream = _gpu.current(), self._stream
        gpu.forbid_in_capture(stream)
        gpu.launch_host_function(stream, lambda: callback(self, 0, arg))

    def begin_capture(self, mode: int | None = None) -> None:
        """Starts a capture; CuPy's default mode is *relaxed*. Raises RuntimeError on the default stream."""
        if self._stream is _gpu.current().legacy:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        _gpu.current().begin_capture(self._stream, Mode(runtime.streamCaptureModeRelaxed if mode is None else mode))

    def end_capture(self) -> Graph:
        """Ends the capture and instantiates the graph, as CuPy does at once."""
        return Graph._of(*_gpu.current().end_and_instantiate(self._stream))

    def is_capturing(self) -> bool:
        """Whether a capture is under way. Raises RuntimeError once it has been invalidated, as CuPy does."""
        status = _gpu.current().capture_status(self._stream)
        if status is Status.INVALIDATED:
            raise RuntimeError("the stream was capturing, but an error has invalidated the capture sequence")
        return status is Status.ACTIVE

    def __eq__(self, other) -> bool:
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return hash(self.ptr)

    def __repr__(self) -> str:
        return f"<Stream {self.ptr:#x} (simulated device)>"


class ExternalStream(Stream):
    """A stream of another library, by its handle. Whoever made it must keep it alive."""

    _library = "cupy.cuda.ExternalStream"

    def __init__(self, ptr: int, device_id: int = -1):
        super().__init__(null=True)
        self._handle = int(ptr)


class Event(Partial):
    """`cupy.cuda.Event`: a mark in a stream, with a time unless `disable_timing`."""

    _library = "cupy.cuda.Event"

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False):
        if interprocess:
            raise NotSimulatedError("cupy.cuda.Event(interprocess=True)")
        self._event = _SimEvent(timed=not disable_timing)

    def record(self, stream: Stream | None = None) -> None:
        _gpu.current().record(self._event, (stream or get_current_stream())._stream)

    @property
    def done(self) -> bool:
        """Whether the event has been reached: a query, which raises nothing."""
        return _answers(lambda gpu: gpu.query_event(self._event))

    def synchronize(self) -> None:
        """The host waits until the event has been reached."""
        _gpu.current().wait_for(self._event)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two reached events. Raises cudaErrorNotReady, or cudaErrorInvalidResourceHandle if unrecorded."""
    return _gpu.current().elapsed_ms(start_event._event, end_event._event)


def get_current_stream() -> Stream:
    """The current stream of this thread: the innermost `with stream:`, else the legacy default stream."""
    streams = _gpu.current().thread.streams
    return streams[-1] if streams else Stream.null


class Device:
    """The one simulated device."""

    def __init__(self, device: int = 0):
        if device != 0:
            raise CUDARuntimeError("cudaErrorInvalidValue")
        self.id = device

    def synchronize(self) -> None:
        """The host waits for all work on the device."""
        _gpu.current().synchronize()

    @property
    def compute_capability(self) -> str:
        return "90"

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


def _priority(priority: int | None) -> int:
    """As the driver clamps it to what an H200 has."""
    return max(-5, min(0, priority or 0))


class MemoryPointer:
    """Where an array's bytes are: `ptr`, in a chunk of the pool that lives as long as this does; 0 for no bytes at all."""

    def __init__(self, gpu, chunk):
        self._gpu, self._chunk = gpu, chunk
        self.ptr = chunk.address if chunk is not None else 0

    def __del__(self):
        if getattr(self, "_chunk", None) is not None:
            self._gpu.pool.release(self._chunk)


class MemoryPool(Partial):
    """The default memory pool."""

    _library = "cupy.cuda.MemoryPool"

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        """Returns every unused block to the device; with a stream, only those of that stream."""
        gpu = _gpu.current()
        if gpu.pool.free_blocks():
            gpu.forbid_unsafe()
            gpu.wait_for_device()
            gpu.pool.free_all_blocks(None if stream is None else stream._stream.handle)

    def n_free_blocks(self) -> int:
        return len(_gpu.current().pool.free_blocks())

    def used_bytes(self) -> int:
        """Bytes of the blocks in use."""
        return _gpu.current().pool.used

    def free_bytes(self) -> int:
        """Bytes of the blocks that wait for the next allocation."""
        return sum(c.size for c in _gpu.current().pool.free_blocks())

    def total_bytes(self) -> int:
        """Bytes that the pool has from the device, used or free."""
        return _gpu.current().pool.total

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """The most bytes that the pool may have: as such, or as a fraction of the device's; 0 for no limit."""
        gpu = _gpu.current()
        gpu.pool.limit = int(fraction * gpu.memory.capacity) if fraction is not None else size or 0

    def get_limit(self) -> int:
        return _gpu.current().pool.limit


class PinnedMemoryPointer:
    """Page-locked host memory, as a buffer and as an address (`ptr`); freed with the last reference to it."""

    def __init__(self) -> None:
        gpu = _gpu.current()
        self.ptr = gpu.register_host(self)
        weakref.finalize(self, gpu.memory.unpin, self.ptr).atexit = False

    def size(self) -> int:
        return len(self)


@functools.cache
def _pinned_type(nbytes: int) -> type[PinnedMemoryPointer]:
    """For so many bytes: a ctypes array gives the buffer."""
    return type("PinnedMemoryPointer", (PinnedMemoryPointer, ctypes.c_uint8 * nbytes), {})


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    """Page-locked host memory of `size` bytes. `numpy.asarray(p)` sees its bytes."""
    return _pinned_type(size)()


class _Runtime(Partial):
    """`cupy.cuda.runtime`: the few calls of the CUDA runtime that the course makes."""

    _library = "cupy.cuda.runtime"

    CUDARuntimeError = CUDARuntimeError
    streamCaptureModeGlobal = int(Mode.GLOBAL)
    streamCaptureModeThreadLocal = int(Mode.THREAD_LOCAL)
    streamCaptureModeRelaxed = int(Mode.RELAXED)

    @staticmethod
    def deviceSynchronize() -> None:
        """cudaDeviceSynchronize."""
        _gpu.current().synchronize()

    streamCaptureStatusNone, streamCaptureStatusActive, streamCaptureStatusInvalidated = map(int, Status)
    memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice, memcpyDefault = map(int, _gpu.CopyKind)

    @staticmethod
    def mallocAsync(size: int, stream: int) -> int:
        """cudaMallocAsync: in a capture, an allocation node."""
        return _gpu.current().malloc_async(size, _gpu.current().stream(stream))

    @staticmethod
    def freeAsync(ptr: int, stream: int) -> None:
        """cudaFreeAsync: in a capture, a free node."""
        _gpu.current().free_async(ptr, _gpu.current().stream(stream))

    @staticmethod
    def hostAlloc(size: int, flags: int = 0) -> int:
        """cudaHostAlloc: page-locked host memory."""
        return _gpu.current().malloc_host(size)

    @staticmethod
    def freeHost(ptr: int) -> None:
        _gpu.current().free_host(ptr)

    @staticmethod
    def memcpy(dst: int, src: int, size: int, kind: int) -> None:
        _gpu.current().memcpy(dst, src, size, _gpu.CopyKind(kind))

    @staticmethod
    def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
        _gpu.current().memcpy_async(dst, src, size, _gpu.CopyKind(kind), _gpu.current().stream(stream))

    @staticmethod
    def memset(ptr: int, value: int, size: int) -> None:
        _gpu.current().memset(ptr, value, size)

    @staticmethod
    def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
        _gpu.current().memset_async(ptr, value, size, _gpu.current().stream(stream))

    @staticmethod
    def streamSynchronize(stream: int) -> None:
        _gpu.current().synchronize(_gpu.current().stream(stream))

    @staticmethod
    def malloc(size: int) -> int:
        """cudaMalloc: the address of `size` fresh bytes. Raises CUDARuntimeError (cudaErrorMemoryAllocation)."""
        return _gpu.current().malloc(size)

    @staticmethod
    def free(ptr: int) -> None:
        """cudaFree; freeing 0 does nothing."""
        _gpu.current().free(ptr)


runtime = _Runtime()


class _MemoryModule(Partial):
    """`cupy.cuda.memory`, for its error."""

    _library = "cupy.cuda.memory"
    OutOfMemoryError = _OutOfMemoryError


memory = _MemoryModule()

Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)


def __getattr__(name: str):
    raise not_simulated("cupy.cuda", name)
