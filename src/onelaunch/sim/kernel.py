"""Device code: a Python function run once for each thread."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .errors import CUDARuntimeError
from .stream import Op

if TYPE_CHECKING:
    from .gpu import Gpu

Dim = tuple[int, int, int]

# One SM of an H200 holds 2,048 threads and 32 blocks; the GPU has 132 SMs (CUDA Programming Guide, compute capability 9.0).
SM_COUNT, THREADS_PER_SM, BLOCKS_PER_SM = 132, 2048, 32


class Dim3:
    """`threadIdx` and its like: the x, y and z of the thread that is running."""

    __slots__ = ("x", "y", "z")

    def __init__(self, x: int = 0, y: int = 0, z: int = 0):
        self.x, self.y, self.z = x, y, z

    def set(self, xyz: Dim) -> None:
        self.x, self.y, self.z = xyz

    def __repr__(self) -> str:
        return f"({self.x}, {self.y}, {self.z})"


class Thread:
    """The state of the one thread that runs at a time. Outside a launch it stands at a 1 × 1 launch's only thread."""

    def __init__(self) -> None:
        self.thread_idx, self.block_idx = Dim3(), Dim3()
        self.block_dim, self.grid_dim = Dim3(1, 1, 1), Dim3(1, 1, 1)
        self.slept_us = 0.0

    def reset(self) -> None:
        self.thread_idx.set((0, 0, 0))
        self.block_idx.set((0, 0, 0))
        self.block_dim.set((1, 1, 1))
        self.grid_dim.set((1, 1, 1))
        self.slept_us = 0.0


thread = Thread()


class ArrayRef:
    """An array as a kernel parameter: an address and a layout. It owns nothing: what it points to may be freed and reused."""

    __slots__ = ("address", "dtype", "high", "low", "shape", "strides")

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype):
        self.address, self.shape, self.strides, self.dtype = address, shape, strides, dtype
        reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        self.low = sum(min(0, r) for r in reach)  # bytes from the address to the first and behind the last element
        self.high = sum(max(0, r) for r in reach) + dtype.itemsize if all(shape) else 0

    @classmethod
    def like(cls, address: int, view: np.ndarray) -> ArrayRef:
        """An array at `address` with the layout of `view`."""
        return cls(address, view.shape, view.strides, view.dtype)

    def on_device(self, gpu: Gpu) -> np.ndarray:
        """The bytes at this address now, as an array. Raises cudaErrorIllegalAddress where nothing is mapped."""
        if self.high == 0:
            return np.empty(self.shape, self.dtype)
        raw = gpu.memory.view(self.address + self.low, self.high - self.low)
        return np.ndarray(self.shape, self.dtype, buffer=raw.data, offset=-self.low, strides=self.strides)


class DevicePointer:
    """A typed pointer argument (`CPointer`): index it like an array; it knows no length."""

    def __init__(self, gpu: Gpu, address: int, dtype: np.dtype):
        self._memory, self._address, self._dtype = gpu.memory, address, dtype

    def _at(self, i: int) -> np.ndarray:
        return self._memory.view(self._address + int(i) * self._dtype.itemsize, self._dtype.itemsize).view(self._dtype)

    def __getitem__(self, i: int):
        return self._at(i)[0]

    def __setitem__(self, i: int, value) -> None:
        self._at(i)[0] = value


class _RehearsedPointer(DevicePointer):
    """A pointer whose writes stay with it."""

    def __init__(self, pointer: DevicePointer):
        self._memory, self._address, self._dtype = pointer._memory, pointer._address, pointer._dtype
        self._written: dict[int, object] = {}

    def __getitem__(self, i: int):
        return self._written[int(i)] if int(i) in self._written else super().__getitem__(i)

    def __setitem__(self, i: int, value) -> None:
        self._written[int(i)] = self._dtype.type(value)


def may_sleep(function: Callable, seen: frozenset = frozenset()) -> bool:
    """Whether a kernel, or a device function that it calls, names `nanosleep`: then its duration must be found by running."""
    code = function.__code__
    if "nanosleep" in code.co_names:
        return True
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    called = [known.get(name) for name in code.co_names + code.co_freevars]
    return any(inspect.isfunction(f) and f.__code__ not in seen and may_sleep(f, seen | {code, f.__code__}) for f in called)


def waves(grid: Dim, block: Dim) -> int:
    """How many rounds the grid takes when every SM is full."""
    blocks, threads = grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]
    resident = SM_COUNT * min(BLOCKS_PER_SM, max(1, THREADS_PER_SM // threads))
    return -(-blocks // resident)


class KernelOp(Op):
    """One launch of `function` over a grid. `arguments` are resolved to views of device memory at the first run.

    The virtual duration is the device's overhead plus, for each wave of blocks, what the slowest thread slept. (Arithmetic
    is not modelled: a body without `nanosleep` counts as the shortest that was measured.) A kernel that may sleep is
    rehearsed on copies when it starts, since its duration must be known then, and does its work when it ends.
    """

    kind = "kernel"

    def __init__(self, function: Callable, grid: Dim, block: Dim, arguments: Sequence):
        self.function, self.grid, self.block, self.arguments = function, grid, block, arguments
        self.name = function.__name__
        self._single = grid == block == (1, 1, 1)
        self._sleeps = may_sleep(function)
        self._waves = waves(grid, block)
        self._views: tuple = ()
        self._epoch = -1
        self._shortest_us = 0.0

    def gap_us(self, gpu: Gpu) -> float:
        return gpu.costs.stream_gap_us

    def duration_us(self, gpu: Gpu) -> float:
        if not self._sleeps:
            return gpu.costs.kernel_us()
        try:
            self._resolve(gpu)
            copies = tuple(_rehearsal(v) for v in self._views)
            return gpu.costs.kernel_us(self._run_threads(copies) * self._waves)
        except Exception:  # the performance will raise it
            return gpu.costs.kernel_us()

    def effect(self, gpu: Gpu) -> None:
        self.run(gpu, 0.0)

    def run(self, gpu: Gpu, start: float) -> float:
        if self._epoch != gpu.memory.epoch:
            self._resolve(gpu)
        try:
            if self._single and not self._sleeps:
                self.function(*self._views)
                return start + self._shortest_us
            return start + gpu.costs.kernel_us(self._run_threads(self._views) * self._waves)
        except IndexError as error:
            raise CUDARuntimeError("cudaErrorIllegalAddress") from error

    def _resolve(self, gpu: Gpu) -> None:
        self._views = tuple(a.on_device(gpu) if type(a) is ArrayRef else a for a in self.arguments)
        self._shortest_us = gpu.costs.kernel_us()
        self._epoch = gpu.memory.epoch

    def _run_threads(self, views: tuple) -> float:
        """Runs every thread; returns what the slowest one slept, in µs."""
        function, slowest = self.function, 0.0
        thread.grid_dim.set(self.grid)
        thread.block_dim.set(self.block)
        try:
            for block in itertools.product(*map(range, reversed(self.grid))):
                thread.block_idx.set(block[::-1])
                for index in itertools.product(*map(range, reversed(self.block))):
                    thread.thread_idx.set(index[::-1])
                    thread.slept_us = 0.0
                    function(*views)
                    if thread.slept_us > slowest:
                        slowest = thread.slept_us
        finally:
            thread.reset()
        return slowest


def _rehearsal(view: object) -> object:
    if isinstance(view, np.ndarray):
        return view.copy()
    return _RehearsedPointer(view) if isinstance(view, DevicePointer) else view
