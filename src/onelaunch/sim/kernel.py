"""Device code: a Python function run once for each thread."""

from __future__ import annotations

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

    def __init__(self, address: int, like: np.ndarray):
        self.address, self.shape, self.strides, self.dtype = address, like.shape, like.strides, like.dtype
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        self.low = sum(min(0, r) for r in reach)
        self.high = sum(max(0, r) for r in reach) + like.itemsize if like.size else 0

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


def waves(grid: Dim, block: Dim) -> int:
    """How many rounds the grid takes when every SM is full."""
    blocks, threads = grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]
    resident = SM_COUNT * min(BLOCKS_PER_SM, max(1, THREADS_PER_SM // threads))
    return -(-blocks // resident)


class KernelOp(Op):
    """One launch of `function` over a grid. `arguments` are resolved to views of device memory at the first run.

    The virtual duration is the device's overhead plus, for each wave of blocks, what the slowest thread slept. (Arithmetic
    is not modelled: a body without `nanosleep` counts as the shortest body that was measured.)
    """

    kind = "kernel"

    def __init__(self, function: Callable, grid: Dim, block: Dim, arguments: Sequence, body_us: float | None = None):
        self.function, self.grid, self.block, self.arguments = function, grid, block, arguments
        self.name = function.__name__
        self.body_us = body_us  # known in advance, else found by running
        self._single = grid == block == (1, 1, 1)
        self._sleeps = "nanosleep" in function.__code__.co_names
        self._waves = waves(grid, block)
        self._views: tuple | None = None
        self._epoch = -1
        self._base_us = 0.0

    def gap_us(self, gpu: Gpu) -> float:
        return gpu.costs.stream_gap_us

    def run(self, gpu: Gpu, start: float) -> float:
        if self._epoch != gpu.memory.epoch:
            self._resolve(gpu)
        try:
            if self._single and not self._sleeps:
                self.function(*self._views)
                return start + self._base_us
            body_us = self._run_threads()
        except IndexError as error:
            raise CUDARuntimeError("cudaErrorIllegalAddress") from error
        return start + gpu.costs.kernel_us(body_us * self._waves)

    def _resolve(self, gpu: Gpu) -> None:
        self._views = tuple(a.on_device(gpu) if type(a) is ArrayRef else a for a in self.arguments)
        self._base_us = gpu.costs.kernel_us(self.body_us or 0.0)
        self._epoch = gpu.memory.epoch

    def _run_threads(self) -> float:
        function, views, slowest = self.function, self._views, 0.0
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
