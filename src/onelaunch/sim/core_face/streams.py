"""`cuda.core`: the device, its streams and events."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import namedtuple
from dataclasses import dataclass

from .. import gpu as _gpu
from .. import stream as _stream
from ..capture import Status
from ..errors import CUDAError, CUDARuntimeError, NotSimulatedError
from ..kernel import SM_COUNT
from ._base import CoreObject, CUevent, CUstream, driver_call, options_of, require

LEAST_PRIORITY, GREATEST_PRIORITY = 0, -5  # of an H200


@dataclass
class StreamOptions:
    """How a stream is made: not synchronising with the legacy stream (by default), and with which priority."""

    nonblocking: bool = True
    priority: int | None = None


@dataclass
class EventOptions:
    """How an event is made."""

    timing_enabled: bool | None = False
    blocking_sync: bool | None = False
    ipc_enabled: bool | None = False


class Event(CoreObject):
    """A mark in a stream."""

    _library, _compiled = "cuda.core.Event", "cuda.core._event.Event"
    _missing = frozenset({"context", "from_ipc_descriptor", "ipc_descriptor"})

    def __init__(self, *args, **kwargs):
        raise RuntimeError("Event objects cannot be instantiated directly. Please use Stream APIs (record).")

    @classmethod
    def _make(cls, options: EventOptions | dict | None) -> Event:
        options = options_of(EventOptions, options, "Event options")
        if options.ipc_enabled:
            raise NotSimulatedError("cuda.core.EventOptions(ipc_enabled=True)")
        return cls._of(_stream.Event(timed=bool(options.timing_enabled)), blocking=bool(options.blocking_sync))

    @classmethod
    def _of(cls, event: _stream.Event, *, blocking: bool = False) -> Event:
        self = cls.__new__(cls)
        self._held, self._blocking = event, blocking
        return self

    @property
    def _event(self) -> _stream.Event:
        if self._held is None:
            raise RuntimeError("Event has been closed")
        return self._held

    def close(self) -> None:
        """Lets go of the event."""
        self._held = None

    @property
    def is_closed(self) -> bool:
        return self._held is None

    def sync(self) -> None:
        """The host waits until the event has been reached."""
        event = self._event
        with driver_call():
            _gpu.current().wait_for(event)

    @property
    def is_done(self) -> bool:
        """Whether the event's last record has been reached, or there was none."""
        event = self._event
        with driver_call():
            try:
                _gpu.current().query_event(event)
            except CUDARuntimeError as error:
                if error.name != "cudaErrorNotReady":
                    raise
                return False
        return True

    def __sub__(self, other: Event) -> float:
        """Milliseconds from `other` to this one. Raises RuntimeError for events without a time."""
        require("other", other, Event)
        start, end = other._event, self._event
        try:
            return _gpu.current().elapsed_ms(start, end)
        except CUDARuntimeError as error:
            if error.name == "cudaErrorNotReady":
                text = (
                    "One or both events have not completed; use Event.sync(), Stream.sync(), or Device.sync() "
                    "to wait for the events to complete before subtracting them."
                )
            elif error.name != "cudaErrorInvalidResourceHandle":
                raise CUDAError(error.name) from error
            elif not (start.timed and end.timed):
                text = (
                    "Both Events must be created with timing enabled in order to subtract them; "
                    "use EventOptions(timing_enabled=True) when creating both events."
                )
            else:
                text = (
                    "Both Events must be recorded before they can be subtracted; "
                    "use Stream.record() to record both events to a stream."
                )
            raise RuntimeError(text) from None

    @property
    def is_timing_enabled(self) -> bool:
        return self._event.timed

    @property
    def is_blocking_sync(self) -> bool:
        return self._event is not None and self._blocking

    @property
    def is_ipc_enabled(self) -> bool:
        return self._event is None

    @property
    def handle(self) -> CUevent:
        return CUevent(_gpu.current().handle_of(self._held) if self._held else 0)

    @property
    def device(self) -> Device:
        return self._event and Device(0)

    def __eq__(self, other) -> bool:
        return self._held is other._held if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._held)

    def __repr__(self) -> str:
        return f"<Event handle={int(self.handle):#x}>"


class _Held:
    """A stream as several objects may hold it: destroyed with the last of them, if it is cuda.core's own."""

    def __init__(self, handle: int, owner: object = None):
        self.handle, self.owner = handle, owner

    @classmethod
    def create(cls, *, blocking: bool, priority: int) -> _Held:
        gpu = _gpu.current()
        queue = gpu.create_stream(blocking=blocking, priority=priority)
        self = cls(queue.handle)
        weakref.finalize(self, gpu.destroy_stream, queue).atexit = False
        return self


def _foreign(obj) -> _Held:
    """The stream behind the stream protocol, `__cuda_stream__`."""
    try:
        protocol = obj.__cuda_stream__
    except AttributeError:
        raise TypeError(f"{type(obj)} object does not have a '__cuda_stream__' attribute") from None
    info = protocol() if callable(protocol) else protocol
    try:
        count = len(info)
    except TypeError as error:
        raise RuntimeError(f"obj.__cuda_stream__ must return a sequence with 2 elements, got {type(info)}") from error
    if count != 2:
        raise RuntimeError(f"obj.__cuda_stream__ must return a sequence with 2 elements, got {count} elements")
    if info[0] != 0:
        raise RuntimeError(f"The first element of the sequence returned by obj.__cuda_stream__ must be 0, got {info[0]!r}")
    if not hasattr(type(info[1]), "__index__"):
        raise TypeError("an integer is required")
    return _Held(int(info[1]), obj)


class Stream(CoreObject):
    """An in-order queue of device work."""

    _library, _compiled = "cuda.core.Stream", "cuda.core._stream.Stream"
    _missing = frozenset({"context", "resources"})

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            "Stream objects cannot be instantiated directly. Please use Device APIs (create_stream) or other Stream APIs "
            "(from_handle)."
        )

    @classmethod
    def _of(cls, held: _Held) -> Stream:
        self = cls.__new__(cls)
        self._held = held
        return self

    @staticmethod
    def from_handle(handle: int) -> Stream:
        """A stream over another library's handle, which stays that library's."""
        if not hasattr(type(handle), "__index__") and not isinstance(handle, CUstream):
            raise TypeError("an integer is required")
        return Stream._of(_Held(int(handle)))

    def _open(self) -> _Held:
        if self._held is None:
            raise RuntimeError("Stream has been closed")
        return self._held

    @property
    def _queue(self) -> _stream.Stream:
        """The engine's stream."""
        held = self._open()
        with driver_call():
            return _gpu.current().stream(held.handle)

    def close(self) -> None:
        """Lets go of the stream; the last to do so destroys it, if it is cuda.core's own."""
        self._held = None

    @property
    def is_closed(self) -> bool:
        return self._held is None

    @property
    def handle(self) -> CUstream:
        return CUstream(self._held.handle if self._held else 0)

    @property
    def is_nonblocking(self) -> bool:
        return not self._queue.blocking

    @property
    def priority(self) -> int:
        return self._queue.priority

    def sync(self) -> None:
        """The host waits until all work in this stream is done."""
        queue = self._queue
        with driver_call():
            _gpu.current().synchronize(queue)

    def record(self, event: Event | None = None, options: EventOptions | None = None) -> Event:
        """Marks this place in the stream with an event, a new one unless given."""
        queue = self._queue
        if event is None:
            event = Event._make(options)
        elif not isinstance(event, Event):
            raise TypeError(f"Event expected, got {type(event).__name__}")
        with driver_call():
            _gpu.current().record(event._event, queue)
        return event

    def wait(self, event_or_stream) -> None:
        """Later work in this stream waits for an event, or for what is in another stream now."""
        queue = self._queue
        if isinstance(event_or_stream, Event):
            event = event_or_stream._event
        else:
            other = event_or_stream
            if not isinstance(other, Stream):
                try:
                    other = Stream._of(_foreign(other))
                except Exception as error:
                    raise ValueError(
                        "only an Event, Stream, or object supporting __cuda_stream__ can be waited,"
                        f" got {type(event_or_stream)}"
                    ) from error
            event = _stream.Event(timed=False)
            source = other._queue
            with driver_call():
                _gpu.current().record(event, source)
        with driver_call():
            _gpu.current().wait_event(queue, event)

    @property
    def device(self) -> Device:
        return self._open() and Device(0)

    def create_graph_builder(self):
        """A builder that captures this stream."""
        from .graph.builder import GraphBuilder

        return GraphBuilder._primary(self)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._open().handle

    def __eq__(self, other) -> bool:
        return self.handle == other.handle if isinstance(other, Stream) else NotImplemented

    def __hash__(self) -> int:
        return hash(int(self.handle))

    def __repr__(self) -> str:
        if self._held is None:
            return "<Stream handle=0x0 context=0x0>"
        return f"<Stream handle={self._held.handle:#x} context={CONTEXT:#x}>"


CONTEXT = 0x55_0000_0100  # the handle of the one context
LEGACY_DEFAULT_STREAM = Stream._of(_Held(1))
PER_THREAD_DEFAULT_STREAM = Stream._of(_Held(_stream.PER_THREAD_HANDLE))


def accept_stream(stream, *, protocol: bool = False) -> Stream:
    """The stream behind a Stream or a GraphBuilder (or, deprecated, another library's stream)."""
    from .graph.builder import GraphBuilder

    if isinstance(stream, Stream):
        stream._open()
        return stream
    if isinstance(stream, GraphBuilder):
        return stream.stream
    if stream is None:
        raise TypeError(
            "stream is required and must not be None; pass device.default_stream explicitly to use the default stream."
        )
    if protocol and hasattr(stream, "__cuda_stream__"):
        warnings.warn(
            "Passing foreign stream objects to this function via the stream protocol is deprecated. "
            "Convert the object explicitly using Stream(obj) instead.",
            stacklevel=3,
            category=DeprecationWarning,
        )
        return Stream._of(_foreign(stream))
    raise TypeError(f"Stream or GraphBuilder expected, got {type(stream).__name__}")


def is_capturing(stream: Stream) -> bool:
    """Whether a capture is active. Raises CUDAError where the question itself is refused."""
    queue = stream._queue
    with driver_call():
        return _gpu.current().capture_status(queue) is Status.ACTIVE


# -- the device -------------------------------------------------------------------------------------------------------

ComputeCapability = namedtuple("ComputeCapability", ("major", "minor"))


class DeviceProperties(CoreObject):
    """A few numbers of an H200."""

    _library, _compiled = "cuda.core.DeviceProperties", "cuda.core._device.DeviceProperties"
    compute_capability_major, compute_capability_minor = 9, 0
    multiprocessor_count = SM_COUNT
    warp_size = 32
    max_threads_per_block = 1024
    cooperative_launch = True

    def __getattr__(self, name: str):
        raise NotSimulatedError(f"{self._library}.{name}") if not name.startswith("_") else AttributeError(name)


class _Singletons(threading.local):
    def __init__(self) -> None:
        self.devices: weakref.WeakKeyDictionary[_gpu.Gpu, Device] = weakref.WeakKeyDictionary()


_singletons = _Singletons()


class Device(CoreObject):
    """The one simulated device: one object for each thread."""

    _library, _compiled = "cuda.core.Device", "Device"
    _missing = frozenset(
        {
            "can_access_peer", "context", "create_context", "create_mipmapped_array", "create_opaque_array",
            "create_surface_object", "create_texture_object", "pci_bus_id", "resources", "to_system_device", "uuid",
        }
    )  # fmt: skip

    def __new__(cls, device_id: Device | int | None = None) -> Device:
        if isinstance(device_id, Device):
            return device_id
        number = 0 if device_id is None else device_id
        if number < 0:
            raise ValueError(f"device_id must be >= 0, got {number}")
        if number > 0:
            raise ValueError(f"device_id must be within [0, 1), got {number}")
        devices, gpu = _singletons.devices, _gpu.current()
        if gpu not in devices:
            devices[gpu] = object.__new__(cls)
            devices[gpu]._current = False
        return devices[gpu]

    def _require_current(self) -> None:
        if not self._current:
            hint = "perhaps you forgot to call .set_current() first?"
            raise CUDAError("", f"Device {self.device_id} is not yet initialized, {hint}")

    @staticmethod
    def get_all_devices() -> tuple[Device, ...]:
        return (Device(0),)

    @property
    def device_id(self) -> int:
        return 0

    @property
    def name(self) -> str:
        return _gpu.current().costs.gpu

    @property
    def compute_capability(self) -> ComputeCapability:
        return ComputeCapability(9, 0)

    @property
    def arch(self) -> str:
        return "90"

    @property
    def properties(self) -> DeviceProperties:
        return DeviceProperties()

    @property
    def default_stream(self) -> Stream:
        return LEGACY_DEFAULT_STREAM

    @property
    def memory_resource(self):
        from .memory import DeviceMemoryResource

        return DeviceMemoryResource(0)

    def set_current(self, ctx=None) -> None:
        """Makes this the calling thread's device."""
        if ctx is not None:
            raise NotSimulatedError("cuda.core.Device.set_current(ctx)")
        self._current = True

    def create_stream(self, obj=None, options: StreamOptions | None = None) -> Stream:
        """A new stream, non-blocking by default; or another library's stream, `obj`, as one of cuda.core."""
        self._require_current()
        if obj is not None:
            if options is not None:
                raise ValueError("obj and options cannot be both specified")
            return Stream._of(_foreign(obj))
        options = options_of(StreamOptions, options, "Stream options")
        priority = LEAST_PRIORITY if options.priority is None else options.priority
        if not GREATEST_PRIORITY <= priority <= LEAST_PRIORITY:
            raise ValueError(f"{priority=} is out of range {[GREATEST_PRIORITY, LEAST_PRIORITY]}")
        with driver_call():
            return Stream._of(_Held.create(blocking=not options.nonblocking, priority=priority))

    def create_event(self, options: EventOptions | None = None) -> Event:
        self._require_current()
        return Event._make(options)

    def create_graph_builder(self):
        """A builder that captures a stream of its own."""
        from .graph.builder import GraphBuilder

        self._require_current()
        return GraphBuilder._primary(self.create_stream())

    def allocate(self, size: int, *, stream):
        """`size` bytes of device memory, in stream order."""
        self._require_current()
        return self.memory_resource.allocate(size, stream=stream)

    def sync(self) -> None:
        """The host waits for all work on the device."""
        self._require_current()
        with driver_call():
            _gpu.current().synchronize()

    def __int__(self) -> int:
        return 0

    def __eq__(self, other) -> bool:
        return self.device_id == other.device_id if isinstance(other, Device) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<Device {self.device_id} ({self.name})>"
