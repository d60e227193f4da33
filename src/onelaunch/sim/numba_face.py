"""`numba.cuda` of the simulated device: kernels as Python functions, device arrays, streams of other libraries."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from . import gpu as _gpu
from .cupy_face.arrays import ndarray as _CupyArray
from .cupy_face.cuda import get_current_stream
from .errors import CudaAPIError, CUDAError, CUDARuntimeError, NotSimulatedError, Partial, driver_name, not_simulated
from .kernel import POISON, ArrayRef, DevicePointer, Dim, KernelOp, thread
from .ops import CopyOp
from .stream import LEGACY_HANDLE
from .stream import Event as _SimEvent
from .types_face import CPointer, Signature

__all__ = [
    "as_cuda_array",
    "atomic",
    "blockDim",
    "blockIdx",
    "declare_device",
    "default_stream",
    "defer_cleanup",
    "device_array",
    "device_array_like",
    "event",
    "external_stream",
    "grid",
    "gridDim",
    "gridsize",
    "is_available",
    "is_cuda_array",
    "jit",
    "local",
    "nanosleep",
    "shared",
    "stream",
    "synchronize",
    "syncthreads",
    "threadIdx",
    "to_device",
]

MAX_CONFIGURED = 128  # launch configurations that a kernel keeps (as Numba's own cache)
MAX_THREADS_PER_BLOCK = 1024
MAX_DYNAMIC_SHARED = 48 * 1024
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)

# -- inside a kernel --------------------------------------------------------------------------------------------------

threadIdx, blockIdx = thread.thread_idx, thread.block_idx
blockDim, gridDim = thread.block_dim, thread.grid_dim


def grid(ndim: int):
    """The absolute position of this thread: an int for 1 dimension, a tuple for 2 or 3."""
    t, b, d = thread.thread_idx, thread.block_idx, thread.block_dim
    if ndim == 1:
        return b.x * d.x + t.x
    if ndim == 2:
        return b.x * d.x + t.x, b.y * d.y + t.y
    if ndim == 3:
        return b.x * d.x + t.x, b.y * d.y + t.y, b.z * d.z + t.z
    raise ValueError("ndim can only be 1, 2 or 3")


def gridsize(ndim: int):
    """The size of the whole grid in threads."""
    g, d = thread.grid_dim, thread.block_dim
    if ndim == 1:
        return g.x * d.x
    if ndim == 2:
        return g.x * d.x, g.y * d.y
    if ndim == 3:
        return g.x * d.x, g.y * d.y, g.z * d.z
    raise ValueError("ndim can only be 1, 2 or 3")


def nanosleep(ns: int) -> None:
    """Suspends this thread for `ns` nanoseconds. (A real GPU sleeps for anything from zero to twice as long: PTX ISA,
    nanosleep. The simulated one sleeps for exactly as long.)"""
    thread.slept_us += ns * 1e-3


def syncthreads() -> None:
    """Waits until every thread of the block has come here. (Threads that have ended do not count.)"""
    if thread.wait_for_block is not None:
        thread.wait_for_block()
    elif thread.block_dim.x * thread.block_dim.y * thread.block_dim.z > 1:
        raise NotSimulatedError("numba.cuda.syncthreads in a function that the kernel reaches by a way that is not in its code")


def _shape(shape) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)


class _Shared(Partial):
    """Memory of a block."""

    _library = "numba.cuda.shared"

    @staticmethod
    def array(shape, dtype) -> np.ndarray:
        """The block's array of this declaration, uninitialised; shape 0 is the dynamic shared memory of the launch."""
        frame = sys._getframe(1)
        place = frame.f_code, frame.f_lasti
        return thread.shared_array(place, _shape(shape), np.dtype(getattr(dtype, "dtype", dtype)))


class _Local(Partial):
    """Memory of a thread."""

    _library = "numba.cuda.local"

    @staticmethod
    def array(shape, dtype) -> np.ndarray:
        """An array of this thread's own, uninitialised."""
        dtype, shape = np.dtype(getattr(dtype, "dtype", dtype)), _shape(shape)
        return np.full(math.prod(shape) * dtype.itemsize, POISON, np.uint8).view(dtype).reshape(shape)


shared, local = _Shared(), _Local()


class _Atomic(Partial):
    """Read-modify-write; threads of the simulated device run one after another, so each is atomic."""

    _library = "numba.cuda.atomic"

    @staticmethod
    def add(array, index, value):
        old = array[index]
        array[index] += value
        return old

    @staticmethod
    def max(array, index, value):
        old = array[index]
        array[index] = max(old, value)
        return old

    @staticmethod
    def min(array, index, value):
        old = array[index]
        array[index] = min(old, value)
        return old

    @staticmethod
    def sub(array, index, value):
        old = array[index]
        array[index] -= value
        return old

    @staticmethod
    def exch(array, index, value):
        old = array[index]
        array[index] = value
        return old

    @staticmethod
    def cas(array, index, old, value):
        found = array[index]
        if found == old:
            array[index] = value
        return found


atomic = _Atomic()

# -- arrays and streams -----------------------------------------------------------------------------------------------

MAX_PENDING_FREES = 10  # what Numba lets pile up before it frees (NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT)


@contextlib.contextmanager
def _driver_call(call: str) -> Iterator[None]:
    """What fails inside is raised as Numba's error for the driver's function `call`."""
    try:
        yield
    except CUDARuntimeError as error:
        name = driver_name(error.name)
        raise CudaAPIError(f"[<CUresult.{name}: {error.status}>] Call to {call} results in {name}") from error


class _Allocation:
    """Memory of Numba's own, straight from `cudaMalloc`. Freed in batches, none while a capture or `defer_cleanup` lasts."""

    pending: ClassVar[list[_Allocation]] = []
    deferred: ClassVar[int] = 0

    def __init__(self, gpu, nbytes: int):
        with _driver_call("cuMemAlloc"):
            self.ptr = gpu.malloc(nbytes)
        self.memory, self.gpu = gpu.memory, gpu

    def release(self) -> None:
        """Frees this, and what waits to be freed, once there is enough of it."""
        cls = type(self)
        cls.pending.append(self)
        if len(cls.pending) > MAX_PENDING_FREES and not cls.deferred and not self.gpu.captures:
            self.gpu.wait_for_device()  # cuMemFree waits
            for allocation in cls.pending:
                allocation.memory.free(allocation.ptr)
            cls.pending.clear()


class DeviceNDArray(Partial):
    """A Numba device array: an address, a shape and a dtype."""

    _library = "numba.cuda.DeviceNDArray"

    def __init__(self, ref: ArrayRef, owner):
        self.ref, self._owner = ref, owner
        self.shape, self.strides, self.dtype = ref.shape, ref.strides, ref.dtype
        self.ndim, self.size = len(ref.shape), math.prod(ref.shape)
        self.nbytes = self.size * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.ref.address, False), "version": 3,
            "strides": self.strides, "stream": None,
        }  # fmt: skip

    def copy_to_host(self, ary: np.ndarray | None = None, stream=None) -> np.ndarray:
        """A copy on the host, after all earlier work of the stream (the legacy default stream by default).

        On a capturing stream the copy becomes a node, and what comes back is not filled yet.
        """
        gpu, out = _gpu.current(), np.empty(self.shape, self.dtype) if ary is None else ary
        self._require_like(out)
        cost = gpu.costs.copy_to_host(self.nbytes)
        with _driver_call("cuMemcpyDtoH"):
            queue = _stream_of(stream)
            if queue.capture is None:
                gpu.copy("copy to host", queue, cost, lambda: np.copyto(out, self.ref.on_device(gpu)))
            else:
                gpu.submit(queue, CopyOp(out.ctypes.data, self._contiguous(out), self.nbytes, keep=out))
        return out

    def copy_to_device(self, ary, stream=None) -> None:
        """Copies a host array of the same shape into this one."""
        gpu, host = _gpu.current(), np.asarray(ary, dtype=self.dtype)
        self._require_like(host)
        cost = gpu.costs.copy_to_device(self.nbytes)
        with _driver_call("cuMemcpyHtoD"):
            queue = _stream_of(stream)
            if queue.capture is None:
                gpu.copy("copy to device", queue, cost, lambda: np.copyto(self.ref.on_device(gpu), host))
            else:
                gpu.submit(queue, CopyOp(self._contiguous(host), host.ctypes.data, self.nbytes, keep=host))

    def _contiguous(self, host: np.ndarray) -> int:
        """The address, for a copy in a capture, which must be one piece on both sides."""
        if not host.flags.c_contiguous or self.ref.high - self.ref.low != self.nbytes:
            raise NotSimulatedError("a copy of a strided numba.cuda.DeviceNDArray in a capture")
        return self.ref.address

    def _require_like(self, host: np.ndarray) -> None:
        if host.shape != self.shape or host.dtype != self.dtype:
            raise ValueError(
                f"incompatible shape or dtype: {host.shape} {host.dtype} on the host, {self.shape} {self.dtype} on the device"
            )

    def __repr__(self) -> str:
        return f"<DeviceNDArray shape={self.shape} dtype={self.dtype} (simulated device)>"


def device_array(shape, dtype=np.float64) -> DeviceNDArray:
    """Uninitialised memory."""
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    strides = tuple(dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    allocation = _Allocation(_gpu.current(), dtype.itemsize * math.prod(shape))
    array = DeviceNDArray(ArrayRef(allocation.ptr, shape, strides, dtype), allocation)
    weakref.finalize(array, allocation.release).atexit = False
    return array


def device_array_like(ary) -> DeviceNDArray:
    return device_array(ary.shape, ary.dtype)


def to_device(obj, stream=None) -> DeviceNDArray:
    """A device copy of a host array."""
    host = np.asarray(obj)
    out = device_array_like(host)
    out.copy_to_device(host, stream)
    return out


def as_cuda_array(obj, sync: bool = True) -> DeviceNDArray:
    """The same memory as a Numba device array; `sync` waits for the stream that the array names."""
    if isinstance(obj, DeviceNDArray):
        return obj
    if not isinstance(obj, _CupyArray):
        raise TypeError("*obj* doesn't implement the cuda array interface.")
    if sync:
        gpu = _gpu.current()
        with _driver_call("cuStreamSynchronize"):
            gpu.synchronize(gpu.stream(obj.__cuda_array_interface__["stream"] & ~1))
    return DeviceNDArray(obj.ref, obj)


def is_cuda_array(obj) -> bool:
    return isinstance(obj, DeviceNDArray | _CupyArray)


class Stream(Partial):
    """A Numba stream: its own, or another library's by handle."""

    _library = "numba.cuda.Stream"

    def __init__(self, handle: int):
        self.handle = handle

    def __int__(self) -> int:
        return self.handle

    def synchronize(self) -> None:
        """The host waits until all work in this stream is done."""
        gpu = _gpu.current()
        with _driver_call("cuStreamSynchronize"):
            gpu.synchronize(gpu.stream(self.handle))

    def __repr__(self) -> str:
        return f"<CUDA stream {self.handle:#x} (simulated device)>"


def external_stream(ptr: int) -> Stream:
    """A Numba stream over another library's stream handle."""
    if not isinstance(ptr, int):
        raise TypeError("ptr for external stream must be an int")
    return Stream(ptr)


def stream() -> Stream:
    """A new blocking stream, destroyed when the last reference to it goes."""
    gpu = _gpu.current()
    with _driver_call("cuStreamCreate"):
        queue = gpu.create_stream()
    own = Stream(queue.handle)
    weakref.finalize(own, gpu.destroy_stream, queue).atexit = False
    return own


def default_stream() -> Stream:
    return Stream(LEGACY_HANDLE)


class Event(Partial):
    """A mark in a stream."""

    _library = "numba.cuda.Event"

    def __init__(self, timing: bool = True):
        with _driver_call("cuEventCreate"):
            self._event = _gpu.current().create_event(timed=timing)

    def record(self, stream=0) -> None:
        with _driver_call("cuEventRecord"):
            _gpu.current().record(self._event, _stream_of(stream))

    def wait(self, stream=0) -> None:
        """Later work in `stream` waits for this event."""
        with _driver_call("cuStreamWaitEvent"):
            _gpu.current().wait_event(_stream_of(stream), self._event)

    def query(self) -> bool:
        """Whether the event has been reached."""
        with _driver_call("cuEventQuery"):
            try:
                _gpu.current().query_event(self._event)
            except CUDARuntimeError as error:
                if error.name != "cudaErrorNotReady":
                    raise
                return False
        return True

    def synchronize(self) -> None:
        """The host waits until the event has been reached."""
        with _driver_call("cuEventSynchronize"):
            _gpu.current().wait_for(self._event)

    def elapsed_time(self, evtend: Event) -> float:
        """Milliseconds from this event to the other."""
        with _driver_call("cuEventElapsedTime"):
            return _gpu.current().elapsed_ms(self._event, evtend._event)


def event(timing: bool = True) -> Event:
    return Event(timing)


def synchronize() -> None:
    """The host waits for all work on the device."""
    with _driver_call("cuCtxSynchronize"):
        _gpu.current().synchronize()


@contextlib.contextmanager
def defer_cleanup() -> Iterator[None]:
    """Numba frees no memory inside."""
    _Allocation.deferred += 1
    try:
        yield
    finally:
        _Allocation.deferred -= 1


def is_available() -> bool:
    """True: the simulated device is always there."""
    return True


def _stream_of(stream):
    """The device's stream behind a Numba stream, or the legacy default stream behind 0 or None."""
    _require_stream(stream)
    if not stream:
        return _gpu.current().legacy
    return _gpu.current().stream(stream.handle if isinstance(stream, Stream) else stream.__cuda_stream__()[1])


def _require_stream(stream) -> None:
    """Numba takes its own streams, and those and the graph builders of cuda.core."""
    if stream and not isinstance(stream, Stream) and getattr(stream, "_library", "") not in CORE_STREAMS:
        raise TypeError(
            f"Expected a Stream object, ExperimentalStream, GraphBuilder, or 0, got {type(stream).__name__}\n"
            "(cuda.external_stream(s.ptr) makes a Numba stream over another library's)"
        )


CORE_STREAMS = ("cuda.core.Stream", "cuda.core.graph.GraphBuilder")


# -- kernels ----------------------------------------------------------------------------------------------------------


class Dispatcher:
    """A kernel: `kernel[grid, block, stream, shared](arguments)` launches it."""

    _type_name = "CUDADispatcher"  # in the messages of cuda.core

    def __init__(self, function: Callable, signature: Signature | None):
        functools.update_wrapper(self, function)
        self.py_func = function
        self.signature = signature
        self._configured: dict[tuple, _Configured] = {}

    def __getitem__(self, launch) -> _Configured:
        try:
            return self._configured[launch]
        except (KeyError, TypeError):  # TypeError: an unhashable grid, such as a list, is configured anew each time
            if not 2 <= len(launch) <= 4:
                raise ValueError("must specify at least the griddim and blockdim") from None
        configured = _Configured(self, *launch)
        with contextlib.suppress(TypeError):
            self._configured[launch] = configured
            if len(self._configured) > MAX_CONFIGURED:
                del self._configured[next(iter(self._configured))]
        return configured

    def __call__(self, *args):
        raise ValueError(
            f"Kernel launch configuration was not specified. Use the syntax:\n\n{self.__name__}[blocks, threads](…)"
        )

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.__name__} (simulated device)>"


class _Configured:
    """A kernel with its launch configuration."""

    def __init__(self, kernel: Dispatcher, griddim, blockdim, stream=0, shared: int = 0):
        self.kernel = kernel
        self.grid, self.block = _dim(griddim), _dim(blockdim, "blockdim")
        _require_stream(stream)
        self._stream = stream
        self._handle = stream.handle if isinstance(stream, Stream) else -1 if stream else LEGACY_HANDLE
        self.shared = shared
        self._refs: list | None = None  # of the last launch, whose operation serves again for the same arrays
        self._op: KernelOp | None = None
        self._api, self._extra_us = "numba", 0.0

    def __call__(self, *args) -> None:
        gpu = _gpu.current()
        refs = [a.ref if type(a) is DeviceNDArray else None for a in args]
        back = ()
        if refs != self._refs or None in refs:
            back = self._prepare(gpu, args)
            self._refs = refs
        try:
            stream = gpu.streams.get(self._handle)
            if stream is None or stream.closed:  # or one with a handle of another kind
                stream = _stream_of(self._stream)
            gpu.charge_launch(self._api, stream, self._extra_us)
            gpu.submit(stream, self._op)
        except CUDARuntimeError as error:
            raise CUDAError(error.name) from error
        for host, device in back:
            device.copy_to_host(host, self._stream)

    def _prepare(self, gpu, args: tuple) -> list:
        """Makes the operation for these arguments; returns the host arrays to copy back, with their device copies."""
        kernel = self.kernel
        for name, sizes in (("grid", self.grid), ("block", self.block)):
            if min(sizes) < 1:
                raise ValueError(f"LaunchConfig.{name} values must be >= 1 (got {sizes})")
        expected = kernel.py_func.__code__.co_argcount
        stream = None
        try:
            stream = _stream_of(self._stream)
            check_launch(self.grid, self.block, self.shared)
            if kernel.signature and len(args) < expected:  # Numba leaves it to the driver to miss them
                raise CUDARuntimeError("cudaErrorInvalidValue")
        except CUDARuntimeError as error:
            if stream is not None and stream.capture is not None:
                stream.capture.valid = False
            raise CUDAError(error.name) from error
        if kernel.signature:
            args = args[:expected]
        elif len(args) != expected:
            raise TypeError(f"kernel {kernel.__name__} takes {expected} arguments, {len(args)} given")
        if any(isinstance(a, np.ndarray) for a in args):
            _refuse_in_capture(gpu, stream)
            if self._stream:
                raise RuntimeError("NumPy only supports stream=None.")
        if self._stream and any(isinstance(a, _CupyArray) for a in args):
            _follow_cupy(gpu, stream)
        arguments, self._extra_us, self._api, back = _prepare(gpu, args, kernel.signature)
        self._op = KernelOp(kernel, self.grid, self.block, arguments, self.shared, args if kernel.signature else arguments)
        return back


def kernel_operation(kernel: Dispatcher, griddim, blockdim, args, shared: int = 0) -> KernelOp:
    """One launch of a kernel with a declared signature, as a graph node holds it."""
    grid, block = _dim(griddim), _dim(blockdim)
    check_launch(grid, block, shared)
    values = tuple(getattr(a, "value", a) for a in args)  # ctypes scalars
    arguments, *_ = _prepare(_gpu.current(), values, kernel.signature)
    return KernelOp(kernel, grid, block, arguments, shared, values)


def _follow_cupy(gpu, stream) -> None:
    """An array that CuPy hands over to a launch in `stream` is safe there: that stream waits for CuPy's current one.

    Raises cudaErrorStreamCaptureIsolation where `stream` captures and the other does not.
    """
    current = get_current_stream()._stream
    if current is not stream and (stream.capture or current.capture or current.has_work(gpu.now_us)):
        handed_over, now_us = _SimEvent(timed=False), gpu.now_us
        gpu.record(handed_over, current)
        gpu.wait_event(stream, handed_over)
        gpu.now_us = now_us  # what it costs is part of what a foreign array costs


def _refuse_in_capture(gpu, stream) -> None:
    """For a host array as an argument, which needs device memory: what Numba raises while a stream captures."""
    if "Numba's memory pool" not in gpu.loaded:  # the first such argument sets it up
        try:
            gpu.forbid_unsafe()
        except CUDARuntimeError as error:
            raise CUDAError(error.name) from error
        gpu.loaded.add("Numba's memory pool")
    if stream.capture is not None:
        raise RuntimeError(
            "_MemPool cannot perform memory operations on a capturing stream (consider using GraphMemoryResource)."
        )


def _prepare(gpu, args: tuple, signature: Signature | None):
    """The kernel's arguments, their extra host cost (µs), the API that prices the launch, and host arrays to copy back."""
    costs = gpu.costs
    declared = signature.args if signature else (None,) * len(args)
    arguments, back, arrays, pointers, extra = [], [], 0, 0, 0.0
    for arg, kind in zip(args, declared, strict=True):
        if isinstance(kind, CPointer):
            pointers += 1
            arguments.append(DevicePointer(gpu, int(arg), kind.dtype.dtype))
        elif isinstance(arg, DeviceNDArray):
            arrays += 1
            arguments.append(arg.ref)
        elif isinstance(arg, _CupyArray):
            arrays += 1
            extra += costs.numba_foreign_us
            arguments.append(arg.ref)
        elif isinstance(arg, np.ndarray):
            arrays += 1
            device = to_device(arg)
            back.append((arg, device))
            arguments.append(device.ref)
        elif kind is not None and (arg is None or isinstance(arg, str)):
            raise TypeError(f"must be real number, not {type(arg).__name__}")
        elif isinstance(arg, int | float | bool | np.number | np.bool_):
            extra += costs.numba_scalar_us
            arguments.append(kind.dtype.type(arg) if kind is not None else arg)
        else:
            raise NotSimulatedError(f"numba.cuda kernel argument of type {type(arg).__name__}")
    api = "numba_ptr" if pointers and not arrays else "numba"
    extra += costs.numba_array_us * max(0, arrays - 1)
    return tuple(arguments), extra, api, back


def _dim(value, name: str = "griddim") -> Dim:
    """Three sizes. Raises ValueError and TypeError as Numba does, for more of them and for other things than integers."""
    values = list(value) if isinstance(value, tuple | list) else [value]
    if len(values) > 3:
        raise ValueError(f"{name} must be a sequence of 1, 2 or 3 integers, got {values!r}")
    if not all(isinstance(v, int | np.integer) for v in values):
        raise TypeError(f"{name} must be a sequence of integers, got {values!r}")
    return (*(int(v) for v in values), *(1,) * (3 - len(values)))


def check_launch(grid: Dim, block: Dim, shared: int = 0) -> None:
    """Raises cudaErrorInvalidValue for a configuration beyond the limits of compute capability 9.0, dynamic shared memory as it
    is without opting in for more."""
    threads = block[0] * block[1] * block[2]
    if (
        min(*grid, *block) < 1
        or shared > MAX_DYNAMIC_SHARED
        or threads > MAX_THREADS_PER_BLOCK
        or any(g > most for g, most in zip(grid, MAX_GRID, strict=True))
        or any(b > most for b, most in zip(block, MAX_BLOCK, strict=True))
    ):
        raise CUDARuntimeError("cudaErrorInvalidValue")


def declare_device(name: str, sig: Signature, link=None, use_cooperative: bool = False, abi: str = "numba") -> Callable:
    """A device function of CUDA itself, for kernels to call: `cudaGraphSetConditional`, which sets a graph's condition."""
    if name != "cudaGraphSetConditional" or abi != "c":
        raise NotSimulatedError(f"numba.cuda.declare_device({name!r}, abi={abi!r})")

    def set_conditional(handle: int, value: int) -> None:
        condition = _gpu.current().conditions.get(int(handle))
        if condition is not None:
            condition.value = int(value) & 0xFFFFFFFF

    return set_conditional


def jit(func_or_sig=None, device: bool = False, **options):
    """`cuda.jit`, bare or with a signature. `device=True` gives a function that kernels may call."""
    unknown = set(options) - {"fastmath", "opt", "debug", "lineinfo", "inline"}
    if unknown:
        raise NotSimulatedError(f"numba.cuda.jit({', '.join(sorted(unknown))}=…)")
    signature = func_or_sig if isinstance(func_or_sig, Signature) else None

    def decorate(function: Callable):
        return function if device else Dispatcher(function, signature)

    if callable(func_or_sig) and signature is None:
        return decorate(func_or_sig)
    if func_or_sig is not None and signature is None:
        raise NotSimulatedError(f"numba.cuda.jit({func_or_sig!r})")
    return decorate


def __getattr__(name: str):
    if name in ("managed_array", "pinned"):
        raise NotSimulatedError(f"numba.cuda.{name}")
    raise not_simulated("numba.cuda", name)
