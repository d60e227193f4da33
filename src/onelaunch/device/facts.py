"""What a node of a graph holds, as either device tells it: plain values that outlive the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Dim = tuple[int, int, int]


class Pointer(NamedTuple):
    """A pointer inside a kernel's parameters: in which parameter, how many bytes into it, and where it points."""

    parameter: int
    offset: int
    address: int


@dataclass(frozen=True)
class CopyFacts:
    """A copy of `nbytes`; addresses are None for CUDA arrays, which have none."""

    target: int | None
    source: int | None
    nbytes: int
    target_on_device: bool
    source_on_device: bool


@dataclass(frozen=True)
class MemsetFacts:
    """`height` rows of `width` elements of `element_size` bytes, `pitch` bytes apart, set to `value`."""

    target: int
    value: int
    element_size: int
    width: int
    height: int = 1
    pitch: int = 0

    @property
    def nbytes(self) -> int:
        return self.width * self.element_size * self.height


@dataclass(frozen=True)
class NodeFacts:
    """One node. What does not belong to its kind is empty.

    `parameters` are a kernel's parameters, byte for byte; `pointers` the device addresses among them. `shared_bytes` is the
    dynamic shared memory of a block. `child` and `bodies` are handles of the graphs inside: `bodies` is None where the driver
    does not tell them (it does from CUDA 13.2 on). `memory` is the address that an allocation or a free node names,
    `memory_bytes` how much an allocation node asks for.
    """

    kind: str
    name: str
    grid: Dim | None = None
    block: Dim | None = None
    shared_bytes: int = 0
    parameters: tuple[bytes, ...] = ()
    pointers: tuple[Pointer, ...] = ()
    copy: CopyFacts | None = None
    memset: MemsetFacts | None = None
    child: int | None = None
    bodies: tuple[int, ...] | None = None
    memory: int | None = None
    memory_bytes: int | None = None


def kernel_name(symbol: str) -> str:
    """A kernel's name as its author wrote it: without the types that C++, Numba and CuPy append to the symbol.

    A C++ or Numba symbol is mangled (Itanium C++ ABI): "_ZN" and the parts of a qualified name, each with its length in front.
    """
    if symbol.startswith("cupy_"):
        return symbol.split("__", 1)[0]
    if not symbol.startswith("_Z"):
        return symbol
    at = 2
    nested = symbol.startswith("N", at)
    at += nested
    parts: list[str] = []
    while at < len(symbol):
        end = at
        while end < len(symbol) and symbol[end].isdigit():
            end += 1
        if end > at:
            at = end + int(symbol[at:end])
            parts.append(symbol[end:at])
            if not nested:
                break
        elif nested and not parts and symbol[at] in "KVrL":
            at += 1  # qualifiers
        elif symbol[at] == "B":  # a tag of the ABI behind a name: not part of it
            at += 1
            while end < len(symbol) and not symbol[end].isdigit():
                end += 1
            start = end
            while end < len(symbol) and symbol[end].isdigit():
                end += 1
            at = end + int(symbol[start:end] or 0)
        else:
            break
    return parts[-1] if parts else symbol


def words(parameters: tuple[bytes, ...]) -> list[Pointer]:
    """Every aligned 8-byte word of every parameter, as if it were a pointer: CuPy passes an array as a structure, which begins
    with its address, so looking at whole parameters alone would miss it."""
    return [
        Pointer(i, offset, int.from_bytes(raw[offset : offset + 8], "little"))
        for i, raw in enumerate(parameters)
        for offset in range(0, len(raw) - 7, 8)
    ]
