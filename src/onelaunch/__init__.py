"""One Launch: an interactive course on CUDA Graphs, live on an NVIDIA GPU or on a simulated one.

The first cell of every notebook is

    import onelaunch as ol
    from onelaunch import cp, cuda, time

and `cp`, `cuda`, `types`, `core`, `cudart` and `time` are then CuPy, numba.cuda, numba.types, cuda.core, cuda.bindings.runtime
and the standard library's time on a live GPU, or their stand-ins on the simulated one. `as_kernel` is the one bridge that the
libraries lack: a Numba kernel as a `cuda.core.Kernel`.
"""

from __future__ import annotations

import importlib
from typing import Any

from onelaunch.device import current as _current_device
from onelaunch.measure import Recording, Stat, Timing, measure

__version__ = "0.1.0"
__all__ = [
    "Recording",
    "Stat",
    "Timing",
    "addresses",
    "as_kernel",
    "check",
    "core",
    "cp",
    "cuda",
    "cudart",
    "device",
    "explain",
    "explore",
    "graph_view",
    "measure",
    "predict",
    "should_i_graph",
    "time",
    "timeline",
    "trace_capture",
    "types",
]

# Two names of the face are also names of subpackages, which importing has just bound here. `measure` now stands for the
# function; `device` must stand for the device itself, which is chosen at the first use (see __getattr__).
del device  # noqa: F821

_LIBRARIES = ("as_kernel", "core", "cp", "cuda", "cudart", "time", "types")
_LATER = {
    "addresses": "onelaunch.instruments.addresses",
    "check": "onelaunch.check",
    "explain": "onelaunch.instruments.explain",
    "explore": "onelaunch.explore",
    "graph_view": "onelaunch.instruments.view",
    "predict": "onelaunch.explore",
    "should_i_graph": "onelaunch.instruments.advice",
    "timeline": "onelaunch.instruments.timeline",
    "trace_capture": "onelaunch.instruments.trace",
}


def __getattr__(name: str) -> Any:
    """Resolves a name at its first use: a shell command needs no device, a kernel no widgets."""
    if name == "device":
        value = _current_device()
    elif name in _LIBRARIES:
        value = getattr(__getattr__("device"), name)
    elif name in _LATER:
        module = importlib.import_module(_LATER[name])
        value = module if name in ("check", "explore") else getattr(module, name)
    else:
        raise AttributeError(f"module 'onelaunch' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
