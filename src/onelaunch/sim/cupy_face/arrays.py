"""CuPy arrays and elementwise functions of the simulated device: views of device memory, and kernels that fill them."""

from __future__ import annotations

import numpy as np

from .. import gpu as _gpu
from ..errors import NotSimulatedError, Partial
from ..kernel import ArrayRef
from ..stream import Effect
from .cuda import MemoryPointer, get_current_stream


class ndarray(Partial):
    """`cupy.ndarray`: `data.ptr` is its address; its bytes are read only through copies to the host."""

    _library = "cupy.ndarray"
    __array_priority__ = 100  # so that NumPy leaves mixed expressions to this class

    def __init__(self, shape=(), dtype=float, memptr=None):
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if memptr is None:
            gpu = _gpu.current()
            stream = get_current_stream()._stream
            memptr = MemoryPointer(gpu, gpu.allocate(nbytes, stream))
        self.data = memptr
        self._view = memptr._gpu.memory.view(memptr.ptr, nbytes).view(dtype).reshape(shape)
        self.ref = ArrayRef(memptr.ptr, self._view)

    @classmethod
    def _of(cls, view: np.ndarray, base: ndarray) -> ndarray:
        """An array over a part of `base`'s memory."""
        array = cls.__new__(cls)
        offset = view.__array_interface__["data"][0] - base._view.__array_interface__["data"][0]
        array.data = _Offset(base.data, base.data.ptr + offset)
        array._view = view
        array.ref = ArrayRef(array.data.ptr, view)
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

    def get(self, stream=None) -> np.ndarray:
        """A copy on the host, after all earlier work of the stream."""
        gpu, out = _gpu.current(), np.empty(self.shape, self.dtype)
        if (stream or get_current_stream())._stream.capture is not None:
            raise RuntimeError("the current stream is capturing, so D2H transfers are disallowed")
        cost = gpu.costs.copy_to_host(self.nbytes)
        gpu.copy(
            "copy to host",
            (stream or get_current_stream())._stream,
            cost,
            lambda: np.copyto(out, self.ref.on_device(gpu)),
        )
        return out

    def set(self, arr: np.ndarray, stream=None) -> None:
        """Copies a host array of the same shape and dtype into this one."""
        arr = np.asarray(arr)
        if arr.dtype != self.dtype or arr.shape != self.shape:
            raise ValueError(f"shape or dtype mismatch: {arr.shape} {arr.dtype} into {self.shape} {self.dtype}")
        gpu = _gpu.current()
        cost = gpu.costs.copy_to_device(self.nbytes)
        gpu.copy(
            "copy to device",
            (stream or get_current_stream())._stream,
            cost,
            lambda: np.copyto(self.ref.on_device(gpu), arr),
        )

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
        view = self._view[key if isinstance(key, tuple) else (key,)]
        if not isinstance(view, np.ndarray):  # one element: a 0-d view, as in CuPy
            index = key if isinstance(key, tuple) else (key,)
            flat = np.ravel_multi_index([i % n for i, n in zip(index, self.shape, strict=True)], self.shape)
            view = self._view.reshape(-1)[flat : flat + 1].reshape(())
        return ndarray._of(view, self)

    def __setitem__(self, key, value) -> None:
        target = self[key]
        if isinstance(value, np.ndarray):
            target.set(np.broadcast_to(value, target.shape).astype(target.dtype))
        else:
            _elementwise("copy", lambda x: x, (value,), target)

    def reshape(self, *shape) -> ndarray:
        view = self._view.reshape(*shape)
        return ndarray._of(view, self) if np.shares_memory(view, self._view) else self.copy().reshape(*shape)

    def ravel(self) -> ndarray:
        return self.reshape(-1)

    # -- kernels ------------------------------------------------------------------------------------------------------

    def fill(self, value) -> None:
        _elementwise("fill", lambda x: x, (value,), self)

    def copy(self) -> ndarray:
        return _elementwise("copy", lambda x: x, (self,), None)

    def astype(self, dtype) -> ndarray:
        return _elementwise("astype", lambda x: x, (self,), ndarray(self.shape, dtype))

    def sum(self, dtype=None) -> ndarray:
        return _elementwise("sum", lambda x: np.sum(x, dtype=dtype), (self,), None)

    def max(self) -> ndarray:
        return _elementwise("max", np.max, (self,), None)

    def min(self) -> ndarray:
        return _elementwise("min", np.min, (self,), None)

    def __neg__(self):
        return _elementwise("negative", np.negative, (self,), None)

    def __eq__(self, other):
        return _elementwise("equal", np.equal, (self, other), None)

    def __ne__(self, other):
        return _elementwise("not_equal", np.not_equal, (self, other), None)

    __hash__ = None


def _operator(name: str, function: np.ufunc) -> None:
    def forward(self, other):
        return _elementwise(name, function, (self, other), None)

    def backward(self, other):
        return _elementwise(name, function, (other, self), None)

    def in_place(self, other):
        return _elementwise(name, function, (self, other), self)

    setattr(ndarray, f"__{name}__", forward)
    setattr(ndarray, f"__r{name}__", backward)
    setattr(ndarray, f"__i{name}__", in_place)


for _name, _function in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "pow": np.power,
}.items():  # fmt: skip
    _operator(_name, _function)
for _name, _function in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    setattr(ndarray, f"__{_name}__", lambda self, other, n=_name, f=_function: _elementwise(n, f, (self, other), None))


class _Offset:
    """A pointer into another pointer's chunk; keeps it alive."""

    def __init__(self, base, ptr: int):
        self._base, self._gpu, self.ptr = base, base._gpu, ptr


def _basic(key) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return all(k is None or k is Ellipsis or isinstance(k, int | slice | np.integer) for k in keys)


def _elementwise(name: str, function, inputs: tuple, out: ndarray | None) -> ndarray:
    """Launches one kernel on the current stream that computes `function` of `inputs` into `out` (a new array by default)."""
    gpu, stream = _gpu.current(), get_current_stream()._stream
    for x in inputs:
        if isinstance(x, np.ndarray) and x.ndim:
            raise TypeError(f"Unsupported type {type(x)}")  # as CuPy: host arrays do not mix with device arrays
    if out is None:
        like = function(*[np.zeros(x.shape, x.dtype) if isinstance(x, ndarray) else x for x in inputs])
        out = ndarray(np.shape(like), np.asarray(like).dtype)
    moved = out.nbytes + sum(x.nbytes for x in inputs if isinstance(x, ndarray))
    target, operands = out.ref, [x.ref if isinstance(x, ndarray) else x for x in inputs]

    def effect() -> None:  # holds addresses, not arrays: a graph keeps nothing alive
        views = [x.on_device(gpu) if isinstance(x, ArrayRef) else x for x in operands]
        target.on_device(gpu)[...] = function(*views)

    gpu.charge_launch("ufunc", stream)
    body_us = gpu.costs.elementwise_body(moved)
    gpu.submit(stream, Effect("kernel", f"cupy_{name}", gpu.costs.kernel_us(body_us), effect, gpu.costs.stream_gap_us))
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
