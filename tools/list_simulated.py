"""Generates `docs/simulated_device.md` from the faces: what the simulated device offers of each library.

`uv run python tools/list_simulated.py` writes; a test holds the file against the code.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType, SimpleNamespace

from onelaunch.sim import core_face, cudart_face, cupy_face, numba_face, time_face, types_face
from onelaunch.sim.cupy_face import cuda as cupy_cuda

TARGET = Path(__file__).parents[1] / "docs" / "simulated_device.md"

HEAD = """# What the simulated device offers

Without an NVIDIA GPU the course runs on a simulated one. Of each library it offers what the course uses, under the library's
own names; anything else raises `NotSimulatedError`, which names the call and points here. On a live GPU all of each library is
there. This page is generated from the code by `tools/list_simulated.py`.

What it does is held against an NVIDIA H200: `tests/conformance` has more than a thousand cases and 60,000 random programs that
ran there (driver, versions and date are in the transcripts); the simulated device must do the same.

Known differences from a GPU:

- Device code runs as plain Python, one thread after another (in turns, where a kernel has barriers). Arithmetic takes no
  virtual time: a kernel lasts as long as the shortest one recorded, plus what its slowest thread sleeps (`cuda.nanosleep`), for
  each wave of blocks. An elementwise CuPy kernel lasts as long as the recording says for its number of bytes.
- `cuda.nanosleep(ns)` sleeps for exactly `ns`; a GPU sleeps for anything from zero to twice as long (PTX ISA, nanosleep).
- `time` is the host's virtual clock: only CUDA calls and `time.sleep` move it, Python in between is free.
- The host's cost of a launch depends on the API and its arguments, not on what else the machine is doing.
- A kernel does all its writing at its end, in one piece; so does a copy. So a data race has one outcome here, and any on a GPU.
- There is no compiler: what Numba would refuse when it compiles a kernel is raised by the next call that waits.
- `cupy.sort`, `fft` and reductions have as many kernels as on the H200; the last one does the work. `cupy.random` draws other
  numbers than cuRAND.
- Device addresses are above what a host process can have, so an address belongs to one side alone. Memory freed in a graph
  or by `cudaFreeAsync` is unmapped, or kept, by simpler rules than the driver's: reading it is undefined on both devices.
- On the H200 (driver 580) work queued behind a replay whose last node is a disabled memset did not wait for the nodes before
  it. Here it waits.
- Stream priorities are given back and change nothing. No kernel launches kernels or graphs.
- The host side of the simulated device is not thread-safe: captures may span threads, but one thread at a time should call it.
"""


def page() -> str:
    """The whole page."""
    sections = [HEAD]
    for title, module in (
        ("cupy", cupy_face), ("cupy.cuda", cupy_cuda), ("numba.cuda", numba_face), ("numba.types", types_face),
        ("cuda.core", core_face), ("cuda.core.graph", core_face.graph), ("cuda.bindings.runtime", cudart_face),
        ("time", time_face),
    ):  # fmt: skip
        sections.append(f"## `{title}`\n\n{_section(title, module)}")
    return "\n".join(sections)


def _section(title: str, module: ModuleType) -> str:
    """Plain names in one paragraph, and a table of those that have members."""
    plain, rows = [], []
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue
        if members := _members(value):
            rows.append(f"| `{title}.{name}` | {', '.join(f'`{m}`' for m in members)} |")
        else:
            plain.append(f"`{name}`")
    text = ", ".join(plain) + "\n" if plain else ""
    return text + ("\n| with members | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else "")


def _members(value: object) -> list[str]:
    """The public members of what has its own: a class of the simulated device, or a namespace of functions."""
    ours = getattr(value, "__module__", "").startswith("onelaunch.sim") or isinstance(value, SimpleNamespace)
    if isinstance(value, SimpleNamespace):
        return sorted(vars(value))
    if not ours or inspect.isfunction(value):
        return []
    owner = value if inspect.isclass(value) else type(value)
    inherited = {n for base in owner.__mro__ if not base.__module__.startswith("onelaunch.") for n in vars(base)}
    names = {n for n in dir(owner) if not n.startswith("_") and n not in inherited}
    names |= set(getattr(owner, "__slots__", ()))
    return sorted(names - {"ref", "on_device", "set", "reset"} if not inspect.isclass(value) else names - {"ref", "on_device"})


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page(), encoding="utf-8", newline="\n")
    print(f"written: {TARGET}")
