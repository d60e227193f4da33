"""CuPy arrays and elementwise functions of the simulated device: views of device memory, and kernels that fill them."""

from __future__ import annotations

import functools

import numpy as np

from .. import gpu as _gpu
from ..errors import CUDARuntimeError, CURANDError, NotSimulatedError, Partial
from ..kernel import ArrayRef, LibraryKernelOp
from .cuda import MemoryPointer, get_current_stream


class ndarray(Partial):
    """`cupy.ndarray`: `data.ptr` is its address; its bytes are read only through copies to the host."""

    _library = "cupy.ndarray"
    __array_priority__ = 100  # so that NumPy leaves mixed expressions to this class

    def __init__(self, shape=(), dtype=float, memptr=None):
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        gpu = _gpu.current()
        if memptr is None:
            memptr = MemoryPointer(gpu, gpu.allocate(nbytes, get_current_stream()._stream) if nbytes else None)
        self.data = memptr
        raw = memptr._gpu.memory.view(memptr.ptr, nbytes) if nbytes else np.empty(0, np.uint8)
        self._view = raw.view(dtype).reshape(shape)
        self.ref = ArrayRef.like(memptr.ptr, self._view)

    @classmethod
    def _of(cls, view: np.ndarray, base: ndarray) -> ndarray:
        """An array over a part of `base`'s memory."""
        array = cls.__new__(cls)
        offset = view.__array_interface__["data"][0] - base._view.__array_interface__["data"][0] if view.size else 0
        array.data, array._base = _Offset(base.data, base.data.ptr + offset), base  # a view keeps its array, as in CuPy
        array._view = view
        array.ref = ArrayRef.like(array.data.ptr, view)
        return array

    dtype = property(lambda self: self._view.dtype)
    shape = property(lambda self: self._view.shape)
    size = property(lambda self: self._view.size)
    ndim = property(lambda self: self._view.ndim)
    nbytes = property(lambda self: self._view.nbytes)
    itemsize = property(lambda self: self._view.itemsize)
    strides = property(lambda self: self._view.strides)
    T = property(lambda self: ndarray._of(self._view.T, self))

    @property
    def __cuda_array_interface__(self) -> dict:
        strides = None if self._view.flags.c_contiguous else self._view.strides
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "version": 3,
            "strides": strides, "stream": get_current_stream().ptr or 1,
        }  # fmt: skip

    # -- to and from the host -----------------------------------------------------------------------------------------

    def get(self, stream=None, order: str = "C", out: np.ndarray | None = None, blocking: bool = True) -> np.ndarray:
        """A copy on the host, after all earlier work of the stream. (It always waits, as with CuPy into pageable memory.)"""
        if order != "C":
            raise NotSimulatedError("cupy.ndarray.get(order=…)")
        gpu, stream = _gpu.current(), _copy_stream(stream, "D2H")
        if out is None:
            out = np.empty(self.shape, self.dtype)
        elif out.shape != self.shape or out.dtype != self.dtype:
            raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual shape: {out.shape}")
        cost = gpu.costs.copy_to_host(self.nbytes)
        gpu.copy("copy to host", stream, cost, lambda: np.copyto(out, self.ref.on_device(gpu)))
        return out

    def set(self, arr: np.ndarray, stream=None) -> None:
        """Copies a host array of the same shape and dtype into this one. Raises TypeError or ValueError for another."""
        arr = np.asarray(arr)
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        gpu, stream = _gpu.current(), _copy_stream(stream, "H2D")
        cost = gpu.costs.copy_to_device(self.nbytes)
        gpu.copy("copy to device", stream, cost, lambda: np.copyto(self.ref.on_device(gpu), arr))

    def item(self):
        return self.get().item()

    def tolist(self) -> list:
        return self.get().tolist()

    def __float__(self) -> float:
        return float(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __bool__(self) -> bool:
        return bool(self.get())

    def __len__(self) -> int:
        return len(self._view)

    def __array__(self, *args, **kwargs):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."
        )

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    # -- views --------------------------------------------------------------------------------------------------------

    def __getitem__(self, key) -> ndarray:
        if not _basic(key):
            raise NotSimulatedError("cupy.ndarray indexing with arrays or lists")
        keys = key if isinstance(key, tuple) else (key,)
        return ndarray._of(self._view[keys if Ellipsis in keys else (*keys, Ellipsis)], self)

    def __setitem__(self, key, value) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")  # as CuPy: `set` copies from the host
        target = self[key]
        if isinstance(value, ndarray) and value.dtype == target.dtype and value.shape == target.shape:
            if value._view.flags.c_contiguous and target._view.flags.c_contiguous:
                target._copy_from(value)
                return
        elif np.isscalar(value) and not value and target._view.flags.c_contiguous:
            target._clear()
            return
        _elementwise("copy", _same, (value,), target, casting="unsafe", broadcast=True)

    def _copy_from(self, other: ndarray) -> None:
        """A copy of contiguous memory, for which CuPy launches no kernel."""
        if self.nbytes:
            gpu, stream = _gpu.current(), get_current_stream()._stream
            gpu.memcpy_async(self.data.ptr, other.data.ptr, self.nbytes, _gpu.CopyKind.DEVICE_TO_DEVICE, stream)

    def _clear(self) -> None:
        """All bytes zero: a memset, as in CuPy."""
        _gpu.current().memset_async(self.data.ptr, 0, self.nbytes, get_current_stream()._stream)

    def reshape(self, *shape) -> ndarray:
        view = self._view.reshape(*shape)
        if not view.size or np.shares_memory(view, self._view):
            return ndarray._of(view, self)
        copy = self.copy()
        return ndarray._of(copy._view.reshape(*shape), copy)

    def ravel(self) -> ndarray:
        return self.reshape(-1)

    # -- kernels ------------------------------------------------------------------------------------------------------

    def fill(self, value) -> None:
        self[...] = value

    def copy(self) -> ndarray:
        return self.astype(self.dtype)

    def astype(self, dtype) -> ndarray:
        return _elementwise("copy", _same, (self,), ndarray(self.shape, dtype), casting="unsafe")

    def sum(self, axis=None, dtype=None) -> ndarray:
        return _reduction("sum", functools.partial(np.sum, dtype=dtype), self, axis)

    def max(self, axis=None) -> ndarray:
        return _reduction("max", np.max, self, axis)

    def min(self, axis=None) -> ndarray:
        return _reduction("min", np.min, self, axis)

    def __matmul__(self, other):
        return matmul(self, other)

    def __abs__(self):
        return _elementwise("absolute", np.absolute, (self,), None)

    def __neg__(self):
        return _elementwise("negative", np.negative, (self,), None)

    def __eq__(self, other):
        return _elementwise("equal", np.equal, (self, other), None)

    def __ne__(self, other):
        return _elementwise("not_equal", np.not_equal, (self, other), None)

    __hash__ = None


def _operator(name: str, function: np.ufunc) -> None:
    def forward(self, other):
        return _elementwise(function.__name__, function, (self, other), None)

    def backward(self, other):
        return _elementwise(function.__name__, function, (other, self), None)

    def in_place(self, other):
        return _elementwise(function.__name__, function, (self, other), self)

    setattr(ndarray, f"__{name}__", forward)
    setattr(ndarray, f"__r{name}__", backward)
    setattr(ndarray, f"__i{name}__", in_place)


for _name, _function in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power,
}.items():  # fmt: skip
    _operator(_name, _function)
for _name, _function in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    setattr(ndarray, f"__{_name}__", lambda self, other, f=_function: _elementwise(f.__name__, f, (self, other), None))


class _Offset:
    """A pointer into another pointer's chunk; keeps it alive."""

    def __init__(self, base, ptr: int):
        self._base, self._gpu, self.ptr = base, base._gpu, ptr


def _basic(key) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return all(k is None or k is Ellipsis or isinstance(k, int | slice | np.integer) for k in keys)


def _copy_stream(stream, direction: str):
    """The stream that a synchronous copy goes through. Raises RuntimeError while it captures.

    CuPy copies to the host asynchronously and then synchronises, which is unsafe while another stream captures.
    """
    stream = get_current_stream() if stream is None else stream
    if stream.is_capturing():
        raise RuntimeError(f"the current stream is capturing, so {direction} transfers are disallowed")
    if direction == "D2H":
        _gpu.current().forbid_unsafe()
    return stream._stream


def _elementwise(
    name: str, function, inputs: tuple, out: ndarray | None, *, casting: str = "same_kind", broadcast: bool = False
) -> ndarray:
    """Launches one kernel on the current stream that computes `function` of `inputs` into `out` (a new array by default).

    Raises ValueError and TypeError, as CuPy, when the shape or the type of `out` does not fit.
    """
    for x in inputs:
        if isinstance(x, np.ndarray) and x.ndim:
            raise TypeError(f"Unsupported type {type(x)}")  # as CuPy: host arrays do not mix with device arrays
    dtype = _dtype_of(function, inputs)
    shape = np.broadcast_shapes(*(x.shape for x in inputs if isinstance(x, ndarray)))
    if out is None:
        out = ndarray(shape, dtype)
    if broadcast:
        np.broadcast_shapes(shape, out.shape)
    elif out.shape != shape:
        raise ValueError("Out shape is mismatched")
    if not np.can_cast(dtype, out.dtype, casting):
        raise TypeError(f"Cannot cast output operand from {dtype!r} to {out.dtype!r} with casting rule {casting!r}")
    return _launch(name, function, inputs, out)


def _reduction(name: str, function, a: ndarray, axis) -> ndarray:
    """Reduces all of `a` to one element, with two kernels as on an H200: one for each part, one for the parts' results."""
    if axis is not None:
        raise NotSimulatedError(f"cupy.ndarray.{name}(axis=…)")
    out = ndarray((), _dtype_of(function, (a,)))
    parts = ndarray((), out.dtype)
    _launch(f"{name}_parts", function, (a,), parts)
    return _launch(name, _same, (parts,), out)


def _in_steps(names: tuple[str, ...], function, a: ndarray, out: ndarray) -> ndarray:
    """`function(a)` in as many kernels as a library needs for it; the last one does the work."""
    for name in names[:-1]:
        _launch(name, lambda _: 0, (a,), out)
    return _launch(names[-1], function, (a,), out)


def sort(a: ndarray) -> ndarray:
    """A sorted copy along the last axis."""
    return _in_steps(("sort_copy", "sort_histogram", "sort"), np.sort, a, ndarray(a.shape, a.dtype))


def fft(a: ndarray) -> ndarray:
    """The discrete Fourier transform along the last axis."""
    dtype = np.result_type(a.dtype, np.complex64)
    return _in_steps(("fft_copy", "fft"), lambda x: np.fft.fft(x).astype(dtype), a, ndarray(a.shape, dtype))


def matmul(a: ndarray, b: ndarray) -> ndarray:
    """The matrix product, by cuBLAS on a GPU: CuPy refuses it in a capture."""
    _library_call("cuBLAS", CUDARuntimeError, "cudaErrorStreamCaptureUnsupported")
    out = np.zeros(a.shape, a.dtype) @ np.zeros(b.shape, b.dtype)
    return _launch("matmul", np.matmul, (a, b), ndarray(out.shape, out.dtype))


def random(size=None) -> ndarray:
    """Uniform numbers in [0, 1), by cuRAND on a GPU: CuPy refuses it in a capture. (Other numbers than cuRAND's.)"""
    _library_call("cuRAND", CURANDError, "CURAND_STATUS_INITIALIZATION_FAILED")
    host = np.random.default_rng().random(size)
    return _launch("random", lambda: host, (), ndarray(np.shape(host), np.float64))


def _library_call(library: str, error: type[Exception], name: str) -> None:
    """Before a call of another NVIDIA library: the first sets it up, which is unsafe in a capture; CuPy refuses later ones."""
    gpu = _gpu.current()
    if library not in gpu.loaded:
        try:
            gpu.forbid_unsafe()
        except CUDARuntimeError:
            raise error(name) from None
        gpu.loaded.add(library)
    if get_current_stream()._stream.capture is not None:
        raise NotImplementedError(f"calling {library} API during stream capture is currently unsupported")


def _same(x):
    return x


def _dtype_of(function, inputs: tuple) -> np.dtype:
    """The dtype of `function(*inputs)`, by NumPy's rules."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*(np.ones(1, x.dtype) if isinstance(x, ndarray) else x for x in inputs))).dtype


def _launch(name: str, function, inputs: tuple, out: ndarray) -> ndarray:
    gpu, stream = _gpu.current(), get_current_stream()._stream
    moved = out.nbytes + sum(x.nbytes for x in inputs if isinstance(x, ndarray))
    target, operands = out.ref, [x.ref if isinstance(x, ndarray) else x for x in inputs]

    def effect() -> None:  # holds addresses, not arrays: a graph keeps nothing alive
        views = [x.on_device(gpu) if isinstance(x, ArrayRef) else x for x in operands]
        with np.errstate(all="ignore"):
            target.on_device(gpu)[...] = function(*views)

    gpu.charge_launch("ufunc", stream)
    body_us = gpu.costs.elementwise_body(moved)
    gpu.submit(stream, LibraryKernelOp(f"cupy_{name}", out.size, body_us, effect, (*operands, target)))
    return out


class ufunc:
    """An elementwise function of CuPy: called on device arrays and scalars, with an optional `out=`."""

    def __init__(self, function: np.ufunc):
        self._function = function
        self.name = f"cupy_{function.__name__}"

    def __call__(self, *args, out: ndarray | None = None, **kwargs) -> ndarray:
        if kwargs:
            raise NotSimulatedError(f"{self.name.replace('_', '.', 1)}({', '.join(kwargs)}=…)")
        return _elementwise(self._function.__name__, self._function, args, out)

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"
