"""`cupy.cuda` of the simulated device."""

from __future__ import annotations

import threading

from .. import gpu as _gpu
from ..capture import Mode
from ..errors import CUDARuntimeError, NotSimulatedError, Partial, not_simulated
from ..errors import OutOfMemoryError as _OutOfMemoryError
from ..stream import LEGACY_HANDLE
from ..stream import Event as _SimEvent

__all__ = [
    "Device",
    "Event",
    "Graph",
    "MemoryPointer",
    "MemoryPool",
    "Stream",
    "get_current_stream",
    "get_elapsed_time",
    "is_available",
    "memory",
    "runtime",
]


def is_available() -> bool:
    """True: the simulated device is always there."""
    return True


class _Current(threading.local):
    def __init__(self) -> None:
        self.stack: list[Stream] = []


_current = _Current()


class Graph(Partial):
    """An executable graph, as `Stream.end_capture` returns it."""

    _library = "cupy.cuda.Graph"

    def __init__(self, graph, executable):
        self._graph, self._executable = graph, executable

    def launch(self, stream: Stream | None = None) -> None:
        """Replays the graph on `stream` (the current one by default)."""
        gpu = _gpu.current()
        gpu.launch_graph(self._executable, (stream or get_current_stream())._stream)

    def __repr__(self) -> str:
        return f"<cupy.cuda.Graph: {len(self._graph.nodes)} nodes>"


class Stream(Partial):
    """`cupy.cuda.Stream`: an in-order queue of device work.

    `null` and no arguments behave as CuPy's: a plain Stream() is a *blocking* one, `non_blocking=True` ignores the legacy
    default stream.
    """

    _library = "cupy.cuda.Stream"
    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None):
        self._owned = False
        if ptds:
            raise NotSimulatedError("cupy.cuda.Stream(ptds=True)")
        if priority is not None:
            raise NotSimulatedError("cupy.cuda.Stream(priority=…)")
        self._owned = not null
        self._gpu = _gpu.current() if self._owned else None
        self._handle = self._gpu.create_stream(blocking=not non_blocking).handle if self._owned else LEGACY_HANDLE

    def __del__(self):
        if self._owned and self._gpu is not None:
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
        stream, gpu = self._stream, _gpu.current()
        if stream.capture is not None:
            stream.capture.valid = False
            return False
        gpu.poll()
        return gpu.fault is None and not stream.has_work(gpu.now_us)

    def synchronize(self) -> None:
        """The host waits until all work in this stream is done."""
        _gpu.current().synchronize(self._stream)

    def use(self) -> Stream:
        """Makes this the current stream of this thread."""
        _current.stack[-1:] = [self]
        return self

    def __enter__(self) -> Stream:
        _current.stack.append(self)
        return self

    def __exit__(self, *exc) -> None:
        _current.stack.pop()

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Later work in this stream waits for `event`."""
        _gpu.current().wait_event(self._stream, event._event)

    def begin_capture(self, mode: int | None = None) -> None:
        """Starts a capture; CuPy's default mode is *relaxed*. Raises RuntimeError on the default stream."""
        if self._stream is _gpu.current().legacy:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        _gpu.current().begin_capture(self._stream, Mode(runtime.streamCaptureModeRelaxed if mode is None else mode))

    def end_capture(self) -> Graph:
        """Ends the capture and instantiates the graph, as CuPy does at once."""
        gpu = _gpu.current()
        graph = gpu.end_capture(self._stream)
        return Graph(graph, gpu.instantiate(graph))

    def is_capturing(self) -> bool:
        """Whether a capture is under way. Raises RuntimeError once it has been invalidated, as CuPy does."""
        capture = self._stream.capture
        if capture is not None and not capture.valid:
            raise RuntimeError("the stream was capturing, but an error has invalidated the capture sequence")
        return capture is not None

    def __eq__(self, other) -> bool:
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return hash(self.ptr)

    def __repr__(self) -> str:
        return f"<Stream {self.ptr:#x} (simulated device)>"


class Event(Partial):
    """`cupy.cuda.Event`: a mark in a stream, with a time unless `disable_timing`."""

    _library = "cupy.cuda.Event"

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False):
        if interprocess:
            raise NotSimulatedError("cupy.cuda.Event(interprocess=True)")
        self._event = _SimEvent()
        self._timed = not disable_timing

    def record(self, stream: Stream | None = None) -> None:
        _gpu.current().record(self._event, (stream or get_current_stream())._stream)

    @property
    def done(self) -> bool:
        """Whether the event has been reached: a query, which raises nothing."""
        return _gpu.current().is_done(self._event)

    def synchronize(self) -> None:
        """The host waits until the event has been reached."""
        _gpu.current().wait_for(self._event)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two reached events. Raises cudaErrorNotReady, or cudaErrorInvalidResourceHandle if unrecorded."""
    _gpu.current().raise_fault()
    for event in (start_event, end_event):
        if event._event.record is None or not event._timed:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle")
        if not event.done:
            raise CUDARuntimeError("cudaErrorNotReady")
    return (end_event._event.record.time_us - start_event._event.record.time_us) * 1e-3


def get_current_stream() -> Stream:
    """The current stream of this thread: the innermost `with stream:`, else the legacy default stream."""
    return _current.stack[-1] if _current.stack else Stream.null


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


class MemoryPointer:
    """Where an array's bytes are: `ptr`, in a chunk of the pool that lives as long as this does; 0 for no bytes at all."""

    def __init__(self, gpu, chunk):
        self._gpu, self._chunk = gpu, chunk
        self.ptr = chunk.address if chunk is not None else 0

    def __del__(self):
        if getattr(self, "_chunk", None) is not None:
            self._gpu.pool.release(self._chunk)


class MemoryPool:
    """The default memory pool."""

    def free_all_blocks(self) -> None:
        """Returns every unused block to the device."""
        gpu = _gpu.current()
        gpu.synchronize()
        gpu.pool.free_all_blocks()


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

    @staticmethod
    def malloc(size: int) -> int:
        """cudaMalloc: the address of `size` fresh bytes. Raises CUDARuntimeError (cudaErrorMemoryAllocation)."""
        gpu = _gpu.current()
        gpu.forbid_unsafe()
        gpu.charge(gpu.costs.cuda_malloc_us)
        return gpu.memory.allocate(size)

    @staticmethod
    def free(ptr: int) -> None:
        """cudaFree; freeing 0 does nothing."""
        gpu = _gpu.current()
        if ptr:
            gpu.synchronize()
            gpu.memory.free(ptr)


runtime = _Runtime()


class _MemoryModule(Partial):
    """`cupy.cuda.memory`, for its error."""

    _library = "cupy.cuda.memory"
    OutOfMemoryError = _OutOfMemoryError


memory = _MemoryModule()

Stream.null = Stream(null=True)


def __getattr__(name: str):
    raise not_simulated("cupy.cuda", name)
