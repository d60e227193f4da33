"""`cupy` of the simulated device: arrays in its memory, elementwise kernels, streams, events and captured graphs."""

from __future__ import annotations

import numpy as np

from ..errors import NotSimulatedError, not_simulated
from ..errors import Partial as _Partial
from . import cuda
from .arrays import _launch, matmul, ndarray, sort, ufunc
from .arrays import fft as _fft
from .arrays import random as _random
from .cuda import MemoryPool as _MemoryPool

UFUNCS = (
    "absolute", "add", "cos", "divide", "equal", "exp", "floor_divide", "log", "maximum", "minimum", "multiply", "negative",
    "power", "remainder", "sin", "sqrt", "square", "subtract", "tanh", "true_divide",
)  # fmt: skip
DTYPES = (
    "bool_",
    "complex64",
    "complex128",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint32",
    "uint64",
)

__all__ = [
    "arange", "array", "asarray", "asnumpy", "copyto", "cuda", "empty", "empty_like", "full", "full_like",
    "fft", "get_default_memory_pool", "matmul", "ndarray", "ones", "ones_like", "random", "sort", "sum", "zeros", "zeros_like",
    *UFUNCS, *DTYPES,
]  # fmt: skip

globals().update({name: ufunc(getattr(np, name)) for name in UFUNCS})
globals().update({name: getattr(np, name) for name in DTYPES})


class _Fft(_Partial):
    """`cupy.fft`: the transform alone."""

    _library = "cupy.fft"
    fft = staticmethod(_fft)


class _RandomModule(_Partial):
    """`cupy.random`: uniform numbers alone."""

    _library = "cupy.random"
    random = staticmethod(_random)


fft, random = _Fft(), _RandomModule()


def empty(shape, dtype=float) -> ndarray:
    """Uninitialised memory from the pool: whatever was there before."""
    return ndarray(shape, dtype)


def full(shape, fill_value, dtype=None) -> ndarray:
    out = ndarray(shape, np.asarray(fill_value).dtype if dtype is None else dtype)
    out.fill(fill_value)
    return out


def zeros(shape, dtype=float) -> ndarray:
    return full(shape, 0, dtype)


def ones(shape, dtype=float) -> ndarray:
    return full(shape, 1, dtype)


def empty_like(a: ndarray, dtype=None) -> ndarray:
    return empty(a.shape, dtype or a.dtype)


def zeros_like(a: ndarray, dtype=None) -> ndarray:
    return zeros(a.shape, dtype or a.dtype)


def ones_like(a: ndarray, dtype=None) -> ndarray:
    return ones(a.shape, dtype or a.dtype)


def full_like(a: ndarray, fill_value, dtype=None) -> ndarray:
    return full(a.shape, fill_value, dtype or a.dtype)


def asarray(a, dtype=None) -> ndarray:
    """Copies a host array (or list) to the device; a device array comes back as it is."""
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    return array(a, dtype)


def array(obj, dtype=None) -> ndarray:
    """A new device array from a host array, a list or a device array."""
    if isinstance(obj, ndarray):
        return obj.copy() if dtype is None else obj.astype(dtype)
    host = np.ascontiguousarray(np.asarray(obj, dtype=dtype)) if np.ndim(obj) else np.asarray(obj, dtype=dtype)
    out = ndarray(host.shape, host.dtype)
    out.set(host)
    return out


def arange(start, stop=None, step=1, dtype=None) -> ndarray:
    host = np.arange(start, stop, step, dtype=dtype) if stop is not None else np.arange(0, start, step, dtype=dtype)
    out = ndarray(host.shape, host.dtype)
    return _launch("arange", lambda: host, (), out)


def asnumpy(a, stream=None) -> np.ndarray:
    """A copy on the host, after all earlier work of the stream."""
    return a.get(stream) if isinstance(a, ndarray) else np.asarray(a)


def copyto(dst: ndarray, src) -> None:
    """Copies `src` (a device array or a scalar) into `dst`, on the current stream."""
    dst[...] = src


def sum(a: ndarray, axis=None, dtype=None) -> ndarray:
    return a.sum(axis, dtype)


def get_default_memory_pool() -> _MemoryPool:
    return _MemoryPool()


def __getattr__(name: str):
    if name in ("RawKernel", "RawModule", "ElementwiseKernel", "ReductionKernel"):
        raise NotSimulatedError(f"cupy.{name}", "It compiles CUDA C++; write the kernel in Python with numba's cuda.jit.")
    raise not_simulated("cupy", name)
