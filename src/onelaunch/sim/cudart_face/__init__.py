"""`cuda.bindings.runtime` of the simulated device: functions that return `(error, value, …)` as those of the bindings do."""

from __future__ import annotations

from ..errors import not_simulated
from . import device, executables, graphs, streams, types

_PUBLIC = {
    name: value
    for module in (types, device, streams, graphs, executables)
    for name, value in vars(module).items()
    if name.startswith("cuda") or name == "dim3"
}
globals().update(_PUBLIC)

__all__ = sorted(_PUBLIC)


def __getattr__(name: str):
    raise not_simulated("cuda.bindings.runtime", name)
