"""Generates `docs/simulated_device.md` from the faces: what the simulated device offers of each library.

`uv run python tools/list_simulated.py` writes; a test holds the file against the code.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType, SimpleNamespace

from onelaunch.sim import cupy_face, numba_face, time_face, types_face
from onelaunch.sim.cupy_face import cuda as cupy_cuda

TARGET = Path(__file__).parents[1] / "docs" / "simulated_device.md"

HEAD = """# What the simulated device offers

Without an NVIDIA GPU the course runs on a simulated one. Of each library it offers what the course uses, under the library's
own names; anything else raises `NotSimulatedError`, which names the call and points here. On a live GPU all of each library is
there. This page is generated from the code by `tools/list_simulated.py`.

Known differences from a GPU:

- Device code runs as plain Python, one thread after another. Arithmetic takes no virtual time: a kernel lasts as long as the
  shortest one recorded, plus what its slowest thread sleeps (`cuda.nanosleep`), for each wave of blocks. An elementwise CuPy
  kernel lasts as long as the recording says for its number of bytes.
- `cuda.nanosleep(ns)` sleeps for exactly `ns`; a GPU sleeps for anything from zero to twice as long (PTX ISA, nanosleep).
- `time` is the host's virtual clock: only CUDA calls and `time.sleep` move it, Python in between is free.
- The host's cost of a launch depends on the API and its arguments, not on what else the machine is doing.
- A kernel does all its writing at its end, in one piece; so does a copy. Kernels that run side by side do not slow each other.
- There is no compiler: what Numba would refuse when it compiles a kernel is raised by the next call that waits.
- `fill` and `zeros` are kernels (CuPy makes a memset of a zero), and a reduction is one kernel.
- Errors have the libraries' classes, names and numbers; the sentence behind a driver error is the runtime's.
"""


def page() -> str:
    """The whole page."""
    sections = [HEAD]
    for title, module in (
        ("cupy", cupy_face), ("cupy.cuda", cupy_cuda), ("numba.cuda", numba_face), ("numba.types", types_face),
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
    names = {n for n in dir(owner) if not n.startswith("_") and n not in dir(Exception)}
    names |= set(getattr(owner, "__slots__", ()))
    return sorted(names - {"ref", "on_device", "set", "reset"} if not inspect.isclass(value) else names - {"ref", "on_device"})


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page(), encoding="utf-8", newline="\n")
    print(f"written: {TARGET}")
