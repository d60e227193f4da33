"""`numba.cuda` of the simulated device: kernels as Python functions, device arrays, streams of other libraries."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator

import numpy as np

from . import gpu as _gpu
from .cupy_face.arrays import ndarray as _CupyArray
from .cupy_face.cuda import MemoryPointer as _MemoryPointer
from .errors import CudaAPIError, CUDARuntimeError, NotSimulatedError, Partial, not_simulated
from .kernel import ArrayRef, DevicePointer, Dim, KernelOp, thread
from .stream import LEGACY_HANDLE
from .types_face import CPointer, Signature

__all__ = [
    "as_cuda_array",
    "atomic",
    "blockDim",
    "blockIdx",
    "default_stream",
    "defer_cleanup",
    "device_array",
    "device_array_like",
    "external_stream",
    "grid",
    "gridDim",
    "gridsize",
    "is_available",
    "is_cuda_array",
    "jit",
    "nanosleep",
    "stream",
    "synchronize",
    "threadIdx",
    "to_device",
]

MAX_THREADS_PER_BLOCK = 1024
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


class _Atomic:
    """Read-modify-write; threads of the simulated device run one after another, so each is atomic."""

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


atomic = _Atomic()

# -- arrays and streams -----------------------------------------------------------------------------------------------


class DeviceNDArray(Partial):
    """A Numba device array: an address, a shape and a dtype."""

    _library = "numba.cuda.DeviceNDArray"

    def __init__(self, ref: ArrayRef, owner):
        self.ref, self._owner = ref, owner
        self.shape, self.strides, self.dtype = ref.shape, ref.strides, ref.dtype
        self.ndim, self.size = len(ref.shape), math.prod(ref.shape)
        self.nbytes = self.size * self.dtype.itemsize

    def copy_to_host(self, ary: np.ndarray | None = None, stream=None) -> np.ndarray:
        """A copy on the host, after all earlier work of the stream (the legacy default stream by default)."""
        gpu, out = _gpu.current(), np.empty(self.shape, self.dtype) if ary is None else ary
        cost = gpu.costs.copy_to_host(self.nbytes)
        gpu.copy("copy to host", _stream_of(stream), cost, lambda: np.copyto(out, self.ref.on_device(gpu)))
        return out

    def copy_to_device(self, ary, stream=None) -> None:
        gpu, host = _gpu.current(), np.asarray(ary, dtype=self.dtype)
        cost = gpu.costs.copy_to_device(self.nbytes)
        gpu.copy("copy to device", _stream_of(stream), cost, lambda: np.copyto(self.ref.on_device(gpu), host))

    def __repr__(self) -> str:
        return f"<DeviceNDArray shape={self.shape} dtype={self.dtype} (simulated device)>"


def device_array(shape, dtype=np.float64) -> DeviceNDArray:
    gpu = _gpu.current()
    like = np.empty(shape, dtype)
    pointer = _MemoryPointer(gpu, gpu.allocate(like.nbytes, gpu.legacy))
    return DeviceNDArray(ArrayRef(pointer.ptr, like), pointer)


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
        _gpu.current().synchronize(_gpu.current().stream(obj.__cuda_array_interface__["stream"] & ~1))
    return DeviceNDArray(obj.ref, obj)


def is_cuda_array(obj) -> bool:
    return isinstance(obj, DeviceNDArray | _CupyArray)


class Stream(Partial):
    """A Numba stream: its own, or another library's by handle."""

    _library = "numba.cuda.Stream"

    def __init__(self, handle: int, gpu):
        self.handle, self._gpu = handle, gpu

    def __int__(self) -> int:
        return self.handle

    def synchronize(self) -> None:
        gpu = _gpu.current()
        try:
            gpu.synchronize(gpu.stream(self.handle))
        except CUDARuntimeError as error:
            raise _driver_error(error, "cuStreamSynchronize") from error

    def __repr__(self) -> str:
        return f"<CUDA stream {self.handle:#x} (simulated device)>"


def external_stream(ptr: int) -> Stream:
    """A Numba stream over another library's stream handle."""
    gpu = _gpu.current()
    gpu.stream(ptr)
    return Stream(int(ptr), gpu)


def stream() -> Stream:
    """A new blocking stream."""
    gpu = _gpu.current()
    return Stream(gpu.create_stream().handle, gpu)


def default_stream() -> Stream:
    return Stream(LEGACY_HANDLE, _gpu.current())


def synchronize() -> None:
    """The host waits for all work on the device."""
    try:
        _gpu.current().synchronize()
    except CUDARuntimeError as error:
        raise _driver_error(error, "cuCtxSynchronize") from error


@contextlib.contextmanager
def defer_cleanup() -> Iterator[None]:
    """Numba frees nothing inside; the simulated device frees into a pool, which is always legal."""
    yield


def is_available() -> bool:
    """True: the simulated device is always there."""
    return True


def _stream_of(stream):
    gpu = _gpu.current()
    if stream in (None, 0):
        return gpu.legacy
    return gpu.stream(getattr(stream, "handle", stream))


def _driver_error(error: CUDARuntimeError, call: str) -> CudaAPIError:
    name = {
        "cudaErrorStreamCaptureUnsupported": "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "cudaErrorIllegalAddress": "CUDA_ERROR_ILLEGAL_ADDRESS",
        "cudaErrorInvalidResourceHandle": "CUDA_ERROR_INVALID_HANDLE",
    }.get(error.name, error.name)
    return CudaAPIError(f"[<CUresult.{name}: {error.status}>] Call to {call} results in {name}")


# -- kernels ----------------------------------------------------------------------------------------------------------


class Dispatcher:
    """A kernel: `kernel[grid, block, stream, shared](arguments)` launches it."""

    def __init__(self, function: Callable, signature: Signature | None):
        functools.update_wrapper(self, function)
        self.py_func = function
        self.signature = signature
        self._configured: dict[tuple, _Configured] = {}

    def __getitem__(self, launch) -> _Configured:
        try:
            return self._configured[launch]
        except (KeyError, TypeError):
            if not isinstance(launch, tuple) or not 2 <= len(launch) <= 4:
                raise ValueError("must specify at least the griddim and blockdim") from None
        configured = _Configured(self, *launch)
        with contextlib.suppress(TypeError):  # an unhashable grid, such as a list, is configured anew each time
            self._configured[launch] = configured
        return configured

    def __call__(self, *args):
        raise ValueError(f"Kernel {self.__name__} needs a launch configuration: kernel[grid, block](...)")

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.__name__} (simulated device)>"


class _Configured:
    """A kernel with its launch configuration."""

    def __init__(self, kernel: Dispatcher, griddim, blockdim, stream=0, shared: int = 0):
        self.kernel = kernel
        self.grid, self.block = _dim(griddim), _dim(blockdim)
        self.handle = int(getattr(stream, "handle", getattr(stream, "ptr", stream)) or LEGACY_HANDLE)
        self.shared = shared
        self._refs: list | None = None  # of the last launch, whose operation serves again for the same arrays
        self._op: KernelOp | None = None
        self._api, self._extra_us = "numba", 0.0

    def __call__(self, *args) -> None:
        gpu = _gpu.current()
        stream = gpu.stream(self.handle)
        refs = [a.ref if type(a) is DeviceNDArray else None for a in args]
        back = ()
        if refs != self._refs or None in refs:
            back = self._prepare(gpu, args)
            self._refs = refs
        gpu.charge_launch(self._api, stream, self._extra_us)
        gpu.submit(stream, self._op)
        for host, device in back:
            device.copy_to_host(host, self.handle)

    def _prepare(self, gpu, args: tuple) -> list:
        """Makes the operation for these arguments; returns the host arrays to copy back, with their device copies."""
        kernel = self.kernel
        _check_launch(self.grid, self.block)
        expected = kernel.py_func.__code__.co_argcount
        if len(args) != expected:
            raise TypeError(f"kernel {kernel.__name__} takes {expected} arguments, {len(args)} given")
        arguments, self._extra_us, self._api, back = _prepare(gpu, args, kernel.signature)
        self._op = KernelOp(kernel.py_func, self.grid, self.block, arguments)
        return back


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
        elif isinstance(arg, int | float | bool | np.number | np.bool_):
            extra += costs.numba_scalar_us
            arguments.append(kind.dtype.type(arg) if kind is not None else arg)
        else:
            raise NotSimulatedError(f"numba.cuda kernel argument of type {type(arg).__name__}")
    api = "numba_ptr" if pointers and not arrays else "numba"
    extra += costs.numba_array_us * max(0, arrays - 1)
    return tuple(arguments), extra, api, back


def _dim(value) -> Dim:
    values = (value,) if isinstance(value, int | np.integer) else tuple(value)
    if not 1 <= len(values) <= 3 or not all(isinstance(v, int | np.integer) for v in values):
        raise TypeError(f"a grid or block is an int or a tuple of up to three ints, not {value!r}")
    return (*(int(v) for v in values), *(1,) * (3 - len(values)))


def _check_launch(grid: Dim, block: Dim) -> None:
    """Raises what the driver gives for a configuration beyond the limits of compute capability 9.0."""
    threads = block[0] * block[1] * block[2]
    if (
        min(*grid, *block) < 1
        or threads > MAX_THREADS_PER_BLOCK
        or any(g > most for g, most in zip(grid, MAX_GRID, strict=True))
        or any(b > most for b, most in zip(block, MAX_BLOCK, strict=True))
    ):
        raise CudaAPIError(
            "[<CUresult.CUDA_ERROR_INVALID_VALUE: 1>] Call to cuLaunchKernel results in CUDA_ERROR_INVALID_VALUE"
        )


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
    if name in ("shared", "syncthreads", "local", "managed_array", "pinned"):
        raise NotSimulatedError(f"numba.cuda.{name}")
    raise not_simulated("numba.cuda", name)
