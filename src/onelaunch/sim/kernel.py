"""Device code: a Python function run once for each thread."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .errors import CUDARuntimeError
from .stream import Op

if TYPE_CHECKING:
    from .gpu import Gpu

Dim = tuple[int, int, int]

# One SM of an H200 holds 2,048 threads and 32 blocks; the GPU has 132 SMs (CUDA Programming Guide, compute capability 9.0).
SM_COUNT, THREADS_PER_SM, BLOCKS_PER_SM = 132, 2048, 32
POISON = 0xFF  # what uninitialised shared memory holds: NaN, or -1


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
        self.reset()

    def reset(self) -> None:
        self.block_idx.set((0, 0, 0))
        self.block_dim.set((1, 1, 1))
        self.grid_dim.set((1, 1, 1))
        self.begin_block(0)
        self.begin((0, 0, 0))

    def begin_block(self, dynamic: int) -> None:
        """A block starts: its shared memory is new, `dynamic` bytes of it without a declared size."""
        self.shared: dict[object, np.ndarray] = {}
        self.dynamic = np.full(dynamic, POISON, np.uint8)
        self.wait_for_block: Callable[[], None] | None = None  # what syncthreads does here

    def begin(self, index: Dim) -> None:
        """A thread starts."""
        self.thread_idx.set(index)
        self.slept_us = 0.0

    def shared_array(self, place: object, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """The block's shared array of the declaration at `place` in the code."""
        if shape == (0,):
            return self.dynamic[: self.dynamic.size // dtype.itemsize * dtype.itemsize].view(dtype)
        if place not in self.shared:
            raw = np.full(int(np.prod(shape)) * dtype.itemsize, POISON, np.uint8)
            self.shared[place] = raw.view(dtype).reshape(shape)
        return self.shared[place]


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

    address = property(lambda self: self._address)

    def _at(self, i: int) -> np.ndarray:
        size = self._dtype.itemsize
        address = self._address + int(i) * size
        if address % size:
            raise CUDARuntimeError("cudaErrorMisalignedAddress")
        return self._memory.view(address, size).view(self._dtype)

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


def mentions(function: Callable, name: str, seen: frozenset = frozenset()) -> bool:
    """Whether a kernel, or a device function that it calls, uses `name` of numba.cuda, whatever it calls it."""
    code = function.__code__
    if name in code.co_names:
        return True
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    used = [known.get(n) for n in code.co_names + code.co_freevars]
    used += [getattr(m, n, None) for m in used if inspect.ismodule(m) for n in code.co_names]
    for value in filter(inspect.isfunction, used):
        if value.__module__.startswith(__package__):
            if value.__name__ == name:
                return True
        elif value.__code__ not in seen and mentions(value, name, seen | {code, value.__code__}):
            return True
    return False


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

    def __init__(self, kernel, grid: Dim, block: Dim, arguments: Sequence, shared: int = 0, values: Sequence = ()):
        function = getattr(kernel, "py_func", kernel)
        self.kernel, self.function, self.grid, self.block, self.arguments = kernel, function, grid, block, arguments
        self.shared, self.values = shared, values  # bytes of dynamic shared memory; the arguments as they were given
        self.name = function.__name__
        self.cooperative = False
        self._single = grid == block == (1, 1, 1) and not mentions(function, "shared")
        self._sleeps = mentions(function, "nanosleep")
        self._waits = mentions(function, "syncthreads")
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
        slowest = 0.0
        thread.grid_dim.set(self.grid)
        thread.block_dim.set(self.block)
        run_block = self._run_together if self._waits else self._run_in_turn
        try:
            for block in itertools.product(*map(range, reversed(self.grid))):
                thread.block_idx.set(block[::-1])
                thread.begin_block(self.shared)
                slowest = max(slowest, run_block(views))
        finally:
            thread.reset()
        return slowest

    def _indices(self) -> Iterator[Dim]:
        return (index[::-1] for index in itertools.product(*map(range, reversed(self.block))))

    def _run_in_turn(self, views: tuple) -> float:
        """The threads of a block that never wait for each other, one after another."""
        function, slowest = self.function, 0.0
        for index in self._indices():
            thread.begin(index)
            function(*views)
            if thread.slept_us > slowest:
                slowest = thread.slept_us
        return slowest

    def _run_together(self, views: tuple) -> float:
        """The threads of a block with barriers: each runs up to its next barrier, then the next one's turn comes."""
        workers = [_Worker(self.function, views, index) for index in self._indices()]
        try:
            while running := [w for w in workers if not w.done]:
                for worker in running:
                    worker.resume()
        finally:
            for worker in workers:
                worker.abandon()
        return max(w.slept_us for w in workers)


class _Abandoned(BaseException):
    """Ends a thread whose block has failed."""


class _Worker:
    """One thread of a block with barriers: a Python thread that runs only while `resume` waits for it."""

    def __init__(self, function: Callable, views: tuple, index: Dim):
        self.index, self.done, self.slept_us = index, False, 0.0
        self._error: BaseException | None = None
        self._abandoned = False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._python = threading.Thread(target=self._run, args=(function, views), daemon=True)
        self._python.start()

    def _run(self, function: Callable, views: tuple) -> None:
        self._go.acquire()
        try:
            if not self._abandoned:
                function(*views)
        except _Abandoned:
            pass
        except BaseException as error:
            self._error = error
        self._leave(done=True)

    def _leave(self, done: bool) -> None:
        self.slept_us, self.done = thread.slept_us, done
        self._back.release()

    def _wait(self) -> None:
        """syncthreads: this thread stops here until its next turn."""
        self._leave(done=False)
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned

    def resume(self) -> None:
        """Runs the thread up to its next barrier, or to its end. Raises what it raises."""
        thread.thread_idx.set(self.index)
        thread.slept_us, thread.wait_for_block = self.slept_us, self._wait
        self._go.release()
        self._back.acquire()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        if not self.done:
            self._abandoned = True
            self._go.release()
        self._python.join()


class LibraryKernel:
    """A kernel that a library brought along."""

    def __init__(self, name: str):
        self.__name__ = name


_library_kernels: dict[str, LibraryKernel] = {}


class LibraryKernelOp(KernelOp):
    """One launch of a library's kernel: what it computes is given, and how long it takes beyond the shortest kernel."""

    def __init__(self, name: str, threads: int, body_us: float, effect: Callable[[], object], operands: Sequence[object] = ()):
        self.kernel = _library_kernels.setdefault(name, LibraryKernel(name))
        self.grid, self.block, self.shared = (max(1, -(-threads // 128)), 1, 1), (128, 1, 1), 0  # as CuPy launches
        self.name, self.arguments, self.values = name, operands, ()  # what it reads and writes, to be looked at
        self._body_us, self._effect = body_us, effect

    def duration_us(self, gpu: Gpu) -> float:
        return gpu.costs.kernel_us(self._body_us)

    def run(self, gpu: Gpu, start: float) -> float:
        self._effect()
        return start + self.duration_us(gpu)


def _rehearsal(view: object) -> object:
    if isinstance(view, np.ndarray):
        return view.copy()
    return _RehearsedPointer(view) if isinstance(view, DevicePointer) else view
