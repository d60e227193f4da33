"""Conformance: one set of cases, run on the H200 and on the simulated device; what each observes must be the same.

A case is a function `case(lab)` that calls the real APIs (`lab.cp`, `lab.cuda`, `lab.core`, `lab.cudart`, …) and logs what it
sees: results, error classes, names and messages, node counts, memory contents. Addresses and times are logged only as
comparisons. `tools/record_conformance.py` runs every case on a GPU, each in a process of its own (so each is cold, and may
kill its context), and writes the transcripts; `test_transcripts.py` holds the simulated device against them.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
TRANSCRIPTS = HERE / "transcripts" / "nvidia_h200.json"

CASES: dict[str, Callable[[Lab], None]] = {}


def case(name: str, **parameters: Any) -> Callable:
    """Registers a function as the case `name` ("area/what"), called with the lab and `parameters`."""

    def register(function: Callable) -> Callable:
        if name in CASES:
            raise ValueError(f"two cases are named {name!r}")
        CASES[name] = lambda lab: function(lab, **parameters)
        return function

    return register


def load_cases() -> dict[str, Callable[[Lab], None]]:
    """All cases by name."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    for module in pkgutil.iter_modules([str(HERE / "cases")]):
        importlib.import_module(f"cases.{module.name}")
    return dict(CASES)


class Lab:
    """What a case works with: the libraries of the device under test, a few kernels, and the log that is compared."""

    def __init__(self, device: Any):
        self.device = device
        self.cp, self.cuda, self.types = device.cp, device.cuda, device.types
        self.core, self.cudart, self.as_kernel = device.core, device.cudart, device.as_kernel
        self.records: list[list] = []
        self._kernels: dict[str, Any] = {}
        self._keep: list[Any] = []

    # -- the log ------------------------------------------------------------------------------------------------------

    def log(self, label: str, value: Any = "ok") -> Any:
        """Notes `value` under `label`; returns it."""
        self.records.append([label, plain(value)])
        return value

    def attempt(self, label: str, function: Callable, *args: Any, show: bool = False, **kwargs: Any) -> Any:
        """Calls `function`; notes "ok" (or the value, with `show`), or the class and the message of what it raises.

        Returns the value, None after an error.
        """
        try:
            value = function(*args, **kwargs)
        except Exception as error:
            self.records.append([label, describe(error)])
            return None
        self.records.append([label, plain(value) if show else "ok"])
        return value

    def rt(self, name: str, *args: Any, label: str = "") -> Any:
        """Calls `cudart.<name>`, notes the error's name ("cudaSuccess" too); returns its value, its values, or None."""
        error, *values = getattr(self.cudart, name)(*args)
        self.records.append([label or name, error.name])
        return values[0] if len(values) == 1 else (values or None)

    # -- things to work with ------------------------------------------------------------------------------------------

    def stream(self, *, blocking: bool = False) -> Any:
        """A CuPy stream (non-blocking by default), kept alive until the case ends."""
        stream = self.cp.cuda.Stream(non_blocking=not blocking)
        self._keep.append(stream)
        return stream

    def numba_stream(self, stream: Any) -> Any:
        """Numba's stream over a CuPy stream, or over a cudart stream handle."""
        return self.cuda.external_stream(int(getattr(stream, "ptr", stream)))

    def zeros(self, n: int = 4, dtype: str = "float32") -> Any:
        """A CuPy array of zeros on the legacy stream, ready."""
        array = self.cp.zeros(n, dtype=getattr(self.cp, dtype))
        self.cp.cuda.Device().synchronize()
        return array

    def kernel(self, name: str) -> Any:
        """A Numba kernel over pointers, compiled once a case: see `KERNELS`. `self.core_kernel(name)` is its cuda.core form."""
        if name not in self._kernels:
            function, *args = KERNELS[name](self.cuda)
            types = self.types
            kinds = {"p": types.CPointer(types.float32), "f": types.float32, "i": types.int32, "q": types.CPointer(types.int32)}
            self._kernels[name] = self.cuda.jit(types.void(*(kinds[a] for a in args)))(function)
        return self._kernels[name]

    def core_kernel(self, name: str) -> Any:
        """The same kernel as a `cuda.core.Kernel`, for graphs built by hand."""
        return self.as_kernel(self.kernel(name))

    def launch(self, name: str, stream: Any, *args: Any, grid: Any = 1, block: Any = 1) -> None:
        """Launches a kernel on a CuPy stream or a cudart stream handle; arrays are passed as their pointers."""
        pointers = [a.data.ptr if hasattr(a, "data") else a for a in args]
        self.kernel(name)[grid, block, self.numba_stream(stream)](*pointers)

    def warm(self, *names: str) -> None:
        """Launches each kernel once, on memory of its own: compiled and loaded afterwards."""
        scratch, ints = self.zeros(4), self.zeros(4, "int32")
        for name in names:
            args = [scratch.data.ptr if a == "p" else ints.data.ptr if a == "q" else 1 for a in KERNELS[name](self.cuda)[1:]]
            self.kernel(name)[1, 1](*args)
        self.cp.cuda.Device().synchronize()


def _add(cuda):
    def add(p, value):
        p[0] += value

    return add, "p", "f"


def _affine(cuda):
    def affine(p, a, b):  # does not commute: its order shows
        p[0] = p[0] * a + b

    return affine, "p", "f", "f"


def _copy(cuda):
    def copy(target, source):
        target[0] = source[0]

    return copy, "p", "p"


def _nap(cuda):
    def nap(p, value):
        cuda.nanosleep(900_000)
        p[0] += value

    return nap, "p", "f"


def _index(cuda):
    def index(p, n):
        i = cuda.grid(1)
        if i < n:
            p[i] = 100 * cuda.blockIdx.x + cuda.threadIdx.x

    return index, "p", "i"


KERNELS: dict[str, Callable] = {"add": _add, "affine": _affine, "copy": _copy, "nap": _nap, "index": _index}
"""name → factory(cuda) → (function, a letter for each argument: p = float32*, q = int32*, f = float32, i = int32)"""


# -- making observations comparable --------------------------------------------------------------------------------------


def describe(error: BaseException) -> str:
    """ "Class: message", the first line; without the addresses."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def plain(value: Any) -> Any:
    """`value` as JSON holds it: enums by name, arrays and tuples as lists."""
    if hasattr(type(value), "__members__"):  # an enum, or the bindings' faster kind of one
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    raise TypeError(f"log a number, a string, a bool or a list of them, not {type(value).__name__}")


def observe(name: str, device: Any) -> list[list]:
    """What the case `name` observes on `device`. An error that it does not catch is its last record."""
    lab = Lab(device)
    try:
        load_cases()[name](lab)
    except Exception as error:
        lab.records.append(["raised out of the case", describe(error)])
    return lab.records
