"""The course's kernels, found, run, compiled and run again: the three processes behind `test_kernels_compile.py`.

`record`    runs the course's code on the simulated device; notes each kernel, its arguments, and memory before and after.
`compile`   compiles those kernels to PTX with numba-cuda; needs no GPU.
`simulate`  runs them with the same arguments in Numba's own simulator.

Kernels travel between processes as text, with the values of the names that they use, so that `cuda` is each library's own.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import copy
import ctypes
import functools
import importlib
import inspect
import itertools
import json
import math
import pickle
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

MAX_THREADS = 1024  # Numba's simulator starts a Python thread for each thread: a larger grid is cut to this
POINTER_BYTES = 4096  # what a kernel can reach behind a pointer, which knows no length
COMPUTE_CAPABILITY = (9, 0)

# -- what travels -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Library:
    """A module, or an object in it, by name."""

    module: str
    name: str = ""

    def build(self) -> Any:
        module = importlib.import_module(self.module)
        return getattr(module, self.name) if self.name else module


@dataclass(frozen=True)
class Type:
    """A declared parameter: a scalar, or a pointer to it."""

    name: str
    is_pointer: bool = False

    @classmethod
    def of(cls, kind: Any) -> Type:
        """From a type of the simulated device."""
        return cls(kind.dtype.name, True) if hasattr(kind, "dtype") and not hasattr(kind, "name") else cls(kind.name)


@dataclass(frozen=True)
class Declared:
    """A device function of CUDA's own (`cuda.declare_device`)."""

    name: str
    returns: Type
    parameters: tuple[Type, ...]
    options: dict[str, Any]

    def build(self) -> Any:
        from numba import config, cuda

        if config.ENABLE_CUDASIM:  # Numba's simulator has none; those that the course uses touch no memory
            return lambda *arguments: None
        return cuda.declare_device(self.name, numba_type(self.returns)(*map(numba_type, self.parameters)), **self.options)


@dataclass(frozen=True)
class Uncarried:
    """A value that a kernel cannot take along, and that Numba would not compile either."""

    text: str

    def build(self) -> Any:
        raise TypeError(f"the kernel uses {self.text}")


@dataclass(frozen=True)
class Function:
    """A kernel, or a function that one calls: its text without decorators, and the values of the names in it."""

    where: str
    name: str
    source: str
    names: dict[str, Any]
    is_device: bool = False

    def all_functions(self) -> Iterator[Function]:
        """This one, and those that it calls."""
        yield self
        for value in self.names.values():
            if isinstance(value, Function):
                yield from value.all_functions()

    def build(self) -> Callable:
        """The function again, over the real libraries of this process. Raises TypeError for what it cannot take along."""
        namespace = {name: value.build() if hasattr(value, "build") else value for name, value in self.names.items()}
        exec(compile(self.source, self.where, "exec"), namespace)
        if self.is_device:
            from numba import cuda

            return cuda.jit(device=True)(namespace[self.name])
        return namespace[self.name]


@dataclass(frozen=True)
class View:
    """An array, or what a pointer reaches, in a run's buffers. Offset and strides in bytes; no layout: a pointer."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    layout: str

    def of(self, buffers: list[bytearray]) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, buffers[self.buffer], self.offset, self.strides)


@dataclass(frozen=True)
class Run:
    """One launch of a kernel on the simulated device, with all memory that its arguments reach."""

    function: Function
    declared: tuple[Type, ...] | None
    arguments: tuple[Any, ...]  # views and scalars
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int  # bytes of dynamic shared memory
    before: list[bytearray]
    after: list[bytearray]

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass
class Course:
    """What `record` hands on."""

    kernels: set[str] = field(default_factory=set)  # where each stands
    devices: set[str] = field(default_factory=set)  # functions that kernels may call
    compile_only: set[str] = field(default_factory=set)  # of both kinds, those that only a GPU can run
    runs: list[Run] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Compiled:
    """What became of a kernel with one signature: PTX, or an error."""

    where: str
    signature: str
    ptx: str = ""
    error: str = ""


# -- finding kernels --------------------------------------------------------------------------------------------------


def is_jit(node: ast.AST) -> bool:
    """Whether this is `cuda.jit`, or a call of it."""
    if isinstance(node, ast.Call):
        return is_jit(node.func)
    return isinstance(node, ast.Attribute) and ast.unparse(node).endswith("cuda.jit")


def is_for_device(node: ast.AST) -> bool:
    """Whether this `cuda.jit(…)` makes a function that only kernels call."""
    return isinstance(node, ast.Call) and (
        any(k.arg == "device" and ast.unparse(k.value) == "True" for k in node.keywords) or is_for_device(node.func)
    )


class Sources:
    """The functions in the course's code by where they stand, and which of them are kernels."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        self.course = Course()
        self.declared: dict[int, tuple[Any, Declared]] = {}  # by id; the object beside it keeps the id taken
        self._functions: dict[str, ast.FunctionDef] = {}

    def where(self, code: CodeType) -> str:
        """The file, the line of the first decorator, and the name."""
        file = Path(code.co_filename)
        if file.is_absolute() and file.is_relative_to(self.root):
            file = file.relative_to(self.root)
        return f"{file.as_posix()}:{code.co_firstlineno} {code.co_name}"

    def read(self, tree: ast.Module, file: str, *, mark: bool = True) -> None:
        """Notes the functions of a file or a cell; `mark` looks for kernels among them."""
        here: dict[str, list[str]] = {}
        inner: set[ast.AST] = set()  # `cuda.jit` as a decorator, or as the maker of one
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                where = f"{file}:{line} {node.name}"
                self._functions[where] = node
                here.setdefault(node.name, []).append(where)
                for decorator in filter(is_jit, node.decorator_list) if mark else ():
                    inner.add(decorator)
                    self._mark(where, is_for_device(decorator))
            if isinstance(node, ast.Call) and is_jit(node.func):
                inner.add(node.func)
        for node in ast.walk(tree) if mark else ():
            if isinstance(node, ast.Call) and is_jit(node) and node not in inner:
                name = node.args[0].id if node.args and isinstance(node.args[0], ast.Name) else ""
                for where in here.get(name, ()):
                    self._mark(where, is_for_device(node))
                if name not in here:
                    self.course.problems.append(f"{file}:{node.lineno}: which function is it? {ast.unparse(node)}")

    def _mark(self, where: str, is_device: bool) -> None:
        (self.course.devices if is_device else self.course.kernels).add(where)

    def carry(self, function: FunctionType, callers: tuple[str, ...] = ()) -> Function:
        """A function of the course, ready to travel. Raises KeyError for one that stands elsewhere."""
        where = self.where(function.__code__)
        node = copy.deepcopy(self._functions[where])
        node.decorator_list, node.returns = [], None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        values = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        names = {
            name: self._carry_value(name, values[name], (*callers, where))
            if name in values
            else Uncarried(f"`{name}`: undefined")
            for name in sorted(read - set(function.__code__.co_varnames))
            if name in values or not hasattr(builtins, name)
        }
        return Function(where, function.__name__, ast.unparse(node), names, where in self.course.devices)

    def _carry_value(self, name: str, value: Any, callers: tuple[str, ...]) -> Any:
        from onelaunch.sim import numba_face, types_face

        for face, library in ((numba_face, "numba.cuda"), (types_face, "numba.types")):
            if value is face:
                return Library(library)
            if any(value is getattr(face, known) for known in face.__all__):
                return Library(library, next(known for known in face.__all__ if value is getattr(face, known)))
        if id(value) in self.declared:
            return self.declared[id(value)][1]
        if isinstance(value, ModuleType):
            return Library(value.__name__)
        if isinstance(value, FunctionType):
            where = self.where(value.__code__)
            if where in self._functions and where not in callers:
                return self.carry(value, callers)
        simple = bool | int | float | str | np.generic | np.ndarray | type | np.ufunc | BuiltinFunctionType
        if isinstance(value, simple) or (isinstance(value, tuple) and all(isinstance(v, simple) for v in value)):
            return value
        return Uncarried(f"`{name}`, of type {type(value).__module__}.{type(value).__name__}")


# -- record -----------------------------------------------------------------------------------------------------------


class Recorder:
    """Looks over the simulated device's shoulder: the first launch of each kernel with each kind of arguments."""

    def __init__(self, sources: Sources):
        self.sources = sources
        self._dispatchers: dict[CodeType, Any] = {}
        self._runs: dict[tuple, Run] = {}
        self._done: weakref.WeakSet[Any] = weakref.WeakSet()  # operations, to pass over quickly

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """For code that runs inside, on a fresh package with a device of its own. Launches at the end what it did not."""
        for name in [n for n in sys.modules if n.partition(".")[0] in ("onelaunch", "harness")]:
            del sys.modules[name]
        from onelaunch.sim import kernel, numba_face

        create, self._perform = numba_face.Dispatcher.__init__, kernel.KernelOp.run
        declare = getattr(numba_face, "declare_device", None)
        self._dispatchers, self._done = {}, weakref.WeakSet()

        def created(dispatcher, function, signature) -> None:
            create(dispatcher, function, signature)
            self._dispatchers[function.__code__] = dispatcher

        def run(op, gpu, start):
            return self._perform(op, gpu, start) if op in self._done else self._observe(op, gpu, start)

        def declare_device(name, signature, **options):
            made = declare(name, signature, **options)
            parameters = tuple(map(Type.of, signature.args))
            self.sources.declared[id(made)] = made, Declared(name, Type.of(signature.return_type), parameters, options)
            return made

        numba_face.Dispatcher.__init__, kernel.KernelOp.run = created, run
        if declare is not None:
            numba_face.declare_device = declare_device
        try:
            yield
            self._launch_declared()
        finally:  # the package goes, but streams of its device may yet be drained
            numba_face.Dispatcher.__init__, kernel.KernelOp.run = create, self._perform

    def runs(self) -> list[Run]:
        return [self._runs[key] for key in sorted(self._runs, key=repr)]

    def _observe(self, op, gpu, start: float) -> float:
        """Performs an operation, and notes what it does if that is new."""
        where = self.sources.where(op.function.__code__)
        self._done.add(op)
        if where not in self.sources.course.kernels:
            return self._perform(op, gpu, start)
        memory = [_reached(a, gpu) for a in op.arguments]
        kinds = tuple(
            type(v).__name__ if a is None else (a.dtype.str, a.ndim, _layout(a))
            for v, a in zip(op.arguments, memory, strict=True)
        )
        if (where, kinds) in self._runs:
            return self._perform(op, gpu, start)
        end, self._runs[where, kinds] = self._note(op, gpu, start, memory)
        return end

    def _note(self, op, gpu, start: float, memory: list[np.ndarray | None]) -> tuple[float, Run]:
        """Performs an operation; returns its end, and what it did to the memory that its arguments reach."""
        arrays = [a for a in memory if a is not None]
        blocks = _merged([_bounds(a) for a in arrays])
        grid = _cut(op.grid, op.block)
        if grid == op.grid:
            before = _read(blocks)
            end = self._perform(op, gpu, start)
            after = _read(blocks)
        else:
            before, after = self._try(op, gpu, grid, blocks)
            end = self._perform(op, gpu, start)
        if before == after:  # sums of zeros show nothing: once more, on numbers that differ
            with contextlib.suppress(Exception):
                before, after = self._try(op, gpu, grid, blocks, fill=arrays)
        dispatcher = self._dispatchers.get(op.function.__code__)
        declared = tuple(map(Type.of, dispatcher.signature.args)) if dispatcher and dispatcher.signature else None
        arguments = tuple(
            v if a is None else _view(a, blocks, _layout(a) if hasattr(v, "shape") else "")
            for v, a in zip(op.arguments, memory, strict=True)
        )
        return end, Run(self.sources.carry(op.function), declared, arguments, grid, op.block, op.shared, before, after)

    def _try(self, op, gpu, grid, blocks, fill=()) -> tuple[list[bytearray], list[bytearray]]:
        """Memory before and after the operation on another grid or on other numbers; then memory is as it was."""
        kept = _read(blocks)
        try:
            for k, array in enumerate(fill):
                array[...] = np.arange(100 * k + 1, 100 * k + 1 + array.size).reshape(array.shape).astype(array.dtype)
            before = _read(blocks)
            self._perform(type(op)(op.kernel, grid, op.block, op.arguments, op.shared, op.values), gpu, 0.0)
            return before, _read(blocks)
        finally:
            for (low, _), data in zip(blocks, kept, strict=True):
                ctypes.memmove(low, bytes(data), len(data))

    def _launch_declared(self) -> None:
        """Launches the kernels that nobody did and that declare what they take."""
        launched = {where for where, _ in self._runs}
        for code, kernel in list(self._dispatchers.items()):
            where = self.sources.where(code)
            if where not in self.sources.course.kernels:
                self.sources.course.problems.append(f"{where}: a kernel that was not found in the text")
            elif kernel.signature is not None and where not in launched:
                self._launch(kernel, where)

    def _launch(self, kernel, where: str) -> None:
        """On numbers that differ, and 3 for a scalar; more than one thread where they tell themselves apart."""
        from onelaunch.sim import gpu, numba_face, types_face

        gpu.swap(None)  # what the code left broken stays behind
        arrays, arguments = [], []
        for i, kind in enumerate(kernel.signature.args):
            if isinstance(kind, types_face.CPointer):
                arrays.append(numba_face.to_device(np.arange(100 * i + 1, 100 * i + 65).astype(kind.dtype.dtype)))
            arguments.append(arrays[-1].ref.address if isinstance(kind, types_face.CPointer) else 3)
        wide = {"grid", "threadIdx", "blockIdx"} & set(kernel.py_func.__code__.co_names)
        try:
            kernel[(2, 4) if wide else (1, 1)](*arguments)
            numba_face.synchronize()
        except Exception:
            self.sources.course.problems.append(f"{where}: {traceback.format_exc()}")


def _reached(argument: Any, gpu) -> np.ndarray | None:
    """The device memory behind an argument; None for a scalar."""
    from onelaunch.sim.kernel import ArrayRef, DevicePointer

    if isinstance(argument, ArrayRef):
        return argument.on_device(gpu)
    if isinstance(argument, DevicePointer):
        nbytes = POINTER_BYTES
        while nbytes > argument._dtype.itemsize and not gpu.memory.is_allocated(argument._address, nbytes):
            nbytes //= 2
        return gpu.memory.view(argument._address, nbytes).view(argument._dtype)
    return None


def _read(blocks: list[tuple[int, int]]) -> list[bytearray]:
    return [bytearray(ctypes.string_at(low, high - low)) for low, high in blocks]


def _bounds(array: np.ndarray) -> tuple[int, int]:
    return np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data, array.ctypes.data)


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that overlap made one, so that arguments share memory where they did on the device."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged


def _view(array: np.ndarray, blocks: list[tuple[int, int]], layout: str) -> View:
    first, last = _bounds(array)
    k = next(i for i, (low, high) in enumerate(blocks) if low <= first and last <= high)
    return View(k, array.ctypes.data - blocks[k][0], array.shape, array.strides, array.dtype.str, layout)


def _layout(array: np.ndarray) -> str:
    return "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "A"


def _cut(grid: tuple[int, int, int], block: tuple[int, int, int]) -> tuple[int, int, int]:
    """A grid of no more than `MAX_THREADS` threads (or of one block)."""
    dims = list(grid)
    while max(dims) > 1 and math.prod(dims) * math.prod(block) > MAX_THREADS:
        k = dims.index(max(dims))
        dims[k] = (dims[k] + 1) // 2
    return tuple(dims)


def notebooks(root: Path) -> list[Path]:
    return sorted(root.glob("notebooks/*.ipynb")) + sorted(root.glob("solutions/*.ipynb"))


def cells(path: Path, root: Path) -> Iterator[tuple[str, ast.Module, bool]]:
    """(name, code, whether an error is expected) of each code cell; magics become calls, as in Jupyter."""
    from IPython.core.inputtransformer2 import TransformerManager

    for i, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            text = TransformerManager().transform_cell("".join(cell["source"]))
            name = f"{path.relative_to(root).as_posix()} cell {i}"
            yield name, ast.parse(text), "raises-exception" in cell["metadata"].get("tags", ())


def run_notebook(path: Path, sources: Sources) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    namespace: dict[str, Any] = {"__name__": "__main__", "get_ipython": InteractiveShell.instance}
    for name, tree, may_raise in cells(path, sources.root):
        sources.read(tree, name)
        try:
            exec(compile(tree, name, "exec"), namespace)
        except Exception:
            if not may_raise:
                raise


def run_sweeps() -> None:
    """The sweeps that have kernels of their own."""
    from onelaunch.device import current
    from onelaunch.measure.sweeps import Sweeps

    sweeps = Sweeps(current())
    for case in itertools.chain(sweeps.arguments(), sweeps.calls()):
        case.sample()


def run_benchmark() -> None:
    """How fast the simulated device is."""
    from onelaunch.bench import speed

    speed.simulated()


def make_harness_kernels(sources: Sources) -> None:
    """The kernels of the conformance harness: declared, so that the recorder launches them."""
    folder = sources.root / "tests" / "conformance"
    sys.path.insert(0, str(folder))
    import harness

    from onelaunch.device import current

    sources.read(ast.parse((folder / "harness.py").read_text(encoding="utf-8")), "tests/conformance/harness.py", mark=False)
    lab = harness.Lab(current())
    sources.course.kernels |= {sources.where(lab.kernel(name).py_func.__code__) for name in harness.KERNELS}


def record(root: Path) -> Course:
    """The kernels of the repository `root`, and what each did. Of another folder, only its notebooks and solutions."""
    sources = Sources(root)
    recorder, course, package = Recorder(sources), sources.course, sources.root / "src" / "onelaunch"
    for path in sorted(package.rglob("*.py")):
        if not path.is_relative_to(package / "sim"):
            known = course.kernels | course.devices
            sources.read(ast.parse(path.read_text(encoding="utf-8")), path.relative_to(sources.root).as_posix())
            if path == package / "device" / "numba_kernels.py":
                course.compile_only |= (course.kernels | course.devices) - known
    code: list[Callable[[], None]] = [functools.partial(run_notebook, path, sources) for path in notebooks(sources.root)]
    if package.exists():
        code += [run_sweeps, run_benchmark, functools.partial(make_harness_kernels, sources)]
    for run in code:
        try:
            with recorder.watching():
                run()
        except Exception:
            course.problems.append(traceback.format_exc())
    course.runs = recorder.runs()
    return course


# -- compile ----------------------------------------------------------------------------------------------------------


def numba_type(argument: Any) -> Any:
    """Numba's type of an argument: of a device array, a pointer, a declared parameter or a number."""
    from numba import types
    from numba.np.numpy_support import from_dtype

    if isinstance(argument, Type):
        scalar = getattr(types, argument.name)
        return types.CPointer(scalar) if argument.is_pointer else scalar
    if not isinstance(argument, View):
        return from_dtype(np.asarray(argument).dtype)
    scalar = from_dtype(np.dtype(argument.dtype))
    return types.Array(scalar, len(argument.shape), argument.layout) if argument.layout else types.CPointer(scalar)


def compile_kernel(where: str, make: Callable[[], Callable], parameters: tuple) -> Compiled:
    from numba import cuda, types

    signature = types.void(*map(numba_type, parameters))
    try:
        ptx, _ = cuda.compile_ptx(make(), signature, cc=COMPUTE_CAPABILITY)
    except Exception as error:
        return Compiled(where, str(signature), error=f"{type(error).__name__}: {error}")
    return Compiled(where, str(signature), ptx)


def yardstick(sources: Sources) -> Iterator[tuple[str, Callable, tuple]]:
    """(where, function, parameters) of the kernels in device/numba_kernels.py, as the live device makes them."""
    from numba import cuda

    from onelaunch.device import numba_kernels

    made: list[tuple[Callable, tuple]] = []
    array = View(0, 0, (8,), (8,), "<i8", "C")  # what `NumbaWork` hands to the kernels that declare nothing

    def jit(first):
        if inspect.isfunction(first):
            return made.append((first, (array,)))
        return lambda function: made.append((function, tuple(Type(str(a.dtype), True) for a in first.args)))

    real, cuda.jit = cuda.jit, jit
    try:
        numba_kernels.array_kernels(), numba_kernels.pointer_kernels()
    finally:
        cuda.jit = real
    for function, parameters in made:
        yield sources.where(function.__code__), function, parameters


def compile_course(course: Course, root: Path) -> list[Compiled]:
    from numba.cuda import dispatcher

    # For a device function numba-cuda 0.30 asks the GPU which one it is; there is none here.
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=COMPUTE_CAPABILITY)
    results = [compile_kernel(run.function.where, run.function.build, run.declared or run.arguments) for run in course.runs]
    if course.compile_only:
        results += [compile_kernel(where, lambda f=f: f, kinds) for where, f, kinds in yardstick(Sources(root))]
    return results


# -- simulate ---------------------------------------------------------------------------------------------------------


def simulate(run: Run) -> list[bytearray] | str:
    """The buffers after the same launch in Numba's simulator, or the error."""
    from numba import cuda
    from numba.cuda.cudadrv.devicearray import FakeCUDAArray

    buffers = [bytearray(b) for b in run.before]
    arguments = [FakeCUDAArray(a.of(buffers)) if isinstance(a, View) else a for a in run.arguments]
    # One thread of a block after another, so that a race comes out the same each time; at barriers they must take turns.
    sys.setswitchinterval(0.005 if any("syncthreads" in f.source for f in run.function.all_functions()) else 60)
    try:
        cuda.jit(run.function.build())[run.grid, run.block, 0, run.shared](*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return buffers


def simulate_course(course: Course) -> list[list[bytearray] | str]:
    from numba.cuda.simulator.kernelapi import FakeCUDAModule

    if not hasattr(FakeCUDAModule, "nanosleep"):  # Numba's simulator lacks it; it touches no memory
        FakeCUDAModule.nanosleep = lambda self, ns: None
    return [simulate(run) for run in course.runs]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["record", "compile", "simulate"])
    parser.add_argument("root", type=Path)
    parser.add_argument("course", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    if args.what == "record":
        result: Any = record(args.root)
    else:
        course = pickle.loads(args.course.read_bytes())
        result = compile_course(course, args.root) if args.what == "compile" else simulate_course(course)
    args.out.write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    import kernel_runs  # so that what is pickled belongs to this module, not to __main__

    kernel_runs.main()
