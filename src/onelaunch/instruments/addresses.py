"""`addresses`: the pointers baked into a graph's nodes, who owned them when the book was made, and who owns them now."""

from __future__ import annotations

import html
import itertools
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .view import GraphNode, GraphView, graph_view

UNKNOWN, FREED = "unknown", "freed"
LISTED = 40  # rows of the table
COLOURS = {"live": "#009E73", "freed": "#D55E00", "reused": "#D55E00"}  # Okabe and Ito's, beside the words
TAKES = "a CuPy array, a Numba device array, a torch CUDA tensor or a cuda.core Buffer"


@dataclass(frozen=True)
class Extent:
    """Where an array's bytes are: from `start` up to `end`, which is not its own; `address` is its first element's."""

    address: int
    start: int
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.start

    def covers(self, address: int) -> bool:
        return self.start <= address < self.end


def extent(array: Any) -> Extent:
    """The memory that an array spans. Raises TypeError for what is not in device memory."""
    if hasattr(array, "data_ptr") and hasattr(array, "element_size"):  # torch
        if not array.is_cuda:
            raise TypeError(f"this tensor is on the {array.device}, and not on the GPU")
        itemsize = array.element_size()
        return _span(int(array.data_ptr()), tuple(array.shape), tuple(n * itemsize for n in array.stride()), itemsize)
    if hasattr(type(array), "__cuda_array_interface__"):
        told = array.__cuda_array_interface__
        dtype, shape = np.dtype(told["typestr"]), tuple(told["shape"])
        strides = told.get("strides") or _packed(shape, dtype.itemsize)
        return _span(int(told["data"][0]), shape, tuple(strides), dtype.itemsize)
    if type(array).__name__ == "Buffer" and hasattr(array, "handle"):
        start = int(array.handle)
        return Extent(start, start, start + int(array.size))
    raise TypeError(f"{type(array).__name__} is not an array in device memory. Name {TAKES}")


def _packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * n)
    return tuple(reversed(strides))[-len(shape) :] if shape else ()


def _span(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Extent:
    if not all(shape) or not address:
        return Extent(address, address, address)
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return Extent(address, address + sum(min(0, r) for r in reach), address + sum(max(0, r) for r in reach) + itemsize)


def _torch_storage(array: Any) -> Any:
    """A weak reference to the memory of a torch tensor, which its views share; None for other arrays, whose views hold them."""
    if not hasattr(array, "untyped_storage"):
        return None
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef(array.untyped_storage())


class Owner:
    """An array that the book was told of. It is not kept alive."""

    def __init__(self, name: str, array: Any):
        self.name, self.extent = name, extent(array)
        self._array = weakref.ref(array)
        self._storage = _torch_storage(array)

    def owns_memory(self) -> bool:
        """Whether the array is there, and still where it was. (A torch tensor's memory lives as long as any view of it.)"""
        if self._storage is not None:
            return not self._storage.expired()
        array = self._array()
        try:
            return array is not None and extent(array) == self.extent
        except Exception:  # closed, or moved to the host: whatever it says, it owns this memory no more
            return False

    def is_(self, array: Any) -> bool:
        return self._array() is array


@dataclass(frozen=True)
class BakedPointer:
    """One pointer in one node: which node (`[3]`; `[3].body[0]` inside), what it is there, where it points, whose memory that
    was at capture (None: nobody's that the book knows), and whose it is now: "live", "freed", "reused by NAME", "live as NAME"
    (another array at the same place, known at capture, is alive), "in NAME" or "unknown"."""

    node: str
    name: str
    role: str
    address: int
    owner: str | None
    offset: int  # of the address from that owner's first element, in bytes
    now: str

    @property
    def at_capture(self) -> str:
        """The owner at capture, with the distance from its first element."""
        return UNKNOWN if self.owner is None else self.owner + (f" + {self.offset} B" if self.offset else "")

    @property
    def is_stale(self) -> bool:
        """Whether a replay works on memory that is its owner's no more."""
        return self.now == FREED or self.now.startswith("reused")

    def __repr__(self) -> str:
        return f"{self.node} {self.name}, {self.role}: {self.at_capture} at {self.address:#x}, now {self.now}"


class AddressBook:
    """The pointers baked into a graph. Their owners now are found out whenever the book is asked or displayed."""

    def __init__(self, view: GraphView, owners: list[Owner]):
        self._at_capture, self._later = owners, []
        self._places = [
            (node, name, role, address, self._owner_at_capture(address)) for node, name, role, address in _baked(view, "")
        ]

    def _owner_at_capture(self, address: int) -> Owner | None:
        covering = [owner for owner in self._at_capture if owner.extent.covers(address)]
        return next((owner for owner in covering if owner.extent.address == address), covering[0] if covering else None)

    def update(self, **named_arrays: Any) -> AddressBook:
        """Tells the book of more arrays, so that it can name them; a name may come again with another array."""
        for name, array in named_arrays.items():
            if not any(owner.name == name and owner.is_(array) and owner.owns_memory() for owner in self._owners):
                self._later.append(Owner(name, array))
        return self

    @property
    def _owners(self) -> list[Owner]:
        return [*self._at_capture, *self._later]

    @property
    def pointers(self) -> tuple[BakedPointer, ...]:
        """Every baked pointer, in the order of the nodes, as things stand now."""
        live = {id(owner): owner.owns_memory() for owner in self._owners}
        out = []
        for node, name, role, address, owner in self._places:
            offset = address - owner.extent.address if owner else 0
            out.append(
                BakedPointer(node, name, role, address, owner.name if owner else None, offset, self._now(address, owner, live))
            )
        return tuple(out)

    def _now(self, address: int, owner: Owner | None, live: dict[int, bool]) -> str:
        if owner is not None and live[id(owner)]:
            return "live"

        def there(owners: list[Owner]) -> Owner | None:
            return next((o for o in reversed(owners) if live[id(o)] and o.extent.covers(address)), None)

        earlier, later = there(self._at_capture), there(self._later)
        if owner is None:
            found = earlier or later
            return f"in {found.name}" if found else UNKNOWN
        if earlier is not None:
            return f"live as {earlier.name}"
        if later is not None:
            return f"reused by {later.name}" + (" (another array)" if later.name == owner.name else "")
        return FREED

    @property
    def stale(self) -> tuple[BakedPointer, ...]:
        """The pointers whose owner is gone."""
        return tuple(pointer for pointer in self.pointers if pointer.is_stale)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[BakedPointer]:
        return iter(self.pointers)

    # -- words --------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """What a replay would work on, in one line."""
        pointers = self.pointers
        if not pointers:
            return "No pointers are baked into this graph."
        states = Counter(pointer.now for pointer in pointers)
        counted = ", ".join(f"{count:,} {state}" for state, count in states.items())
        stale = [pointer for pointer in pointers if pointer.is_stale]
        taken = list(dict.fromkeys(p.now.removeprefix("reused by ") for p in stale if p.now != FREED))
        if taken:
            advice = f" A replay works on the memory of {_listed(taken)}."
        else:
            advice = " A replay works on memory that nobody owns." if stale else ""
        if states[UNKNOWN]:
            advice += " Unknown is what no named array covers: name the arrays right after the capture."
        return f"{len(pointers):,} baked pointer{'' if len(pointers) == 1 else 's'}: {counted}.{advice}"

    def _rows(self) -> list[tuple[str, str, str, str, str, str]]:
        """(node, name, role, at capture, now, address); the same pointer in nodes in a row is one row."""

        def look(pointer: BakedPointer) -> tuple:
            return pointer.name, pointer.role, pointer.address, pointer.owner, pointer.now

        lanes: dict[tuple, list[list[BakedPointer]]] = {}
        groups: list[list[BakedPointer]] = []
        position = {node: i for i, node in enumerate(dict.fromkeys(pointer.node for pointer in self.pointers))}
        for pointer in self.pointers:
            runs = lanes.setdefault(look(pointer), [])
            if runs and position[pointer.node] - position[runs[-1][-1].node] == 1:
                runs[-1].append(pointer)
            else:
                runs.append([pointer])
                groups.append(runs[-1])
        rows = []
        for group in groups:
            first, last = group[0], group[-1]
            node = first.node if len(group) == 1 else f"{first.node} … {last.node}"
            rows.append((node, first.name, first.role, first.at_capture, first.now, f"{first.address:#x}"))
        return rows

    def __repr__(self) -> str:
        rows = [("node", "what", "pointer", "at capture", "now", "address"), *self._rows()]
        hidden, rows = len(rows) - 1 - LISTED, rows[: LISTED + 1]
        widths = [max(len(row[k]) for row in rows) for k in range(6)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self.verdict, *(lines if len(rows) > 1 else []), *([f"… {hidden} rows more"] if hidden > 0 else [])])

    def _repr_html_(self) -> str:
        rows = self._rows()
        head = "".join(
            f'<th style="text-align:left">{h}</th>' for h in ("node", "what", "pointer", "at capture", "now", "address")
        )
        body = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in itertools.islice(rows, LISTED))
        more = f"<div>… {len(rows) - LISTED} rows more</div>" if len(rows) > LISTED else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"<div><b>{html.escape(self.verdict)}</b></div>{table}{more}"


def _cells(row: tuple[str, ...]) -> Iterator[str]:
    for k, cell in enumerate(row):
        colour = COLOURS.get(cell.split(" ", 1)[0]) if k == 4 else None
        style = "text-align:left" + (f";color:{colour};font-weight:bold" if colour else "")
        text = html.escape(cell)
        yield f'<td style="{style}">{f"<code>{text}</code>" if k == 5 else text}</td>'


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


# -- what is baked ----------------------------------------------------------------------------------------------------


def _baked(view: GraphView, path: str) -> Iterator[tuple[str, str, str, int]]:
    """(node, its name, role, address) for each pointer, those of graphs inside too."""
    for node in view.nodes:
        place = f"{path}[{node.index}]"
        for role, address in _pointers_of(node):
            yield place, node.name, role, address
        for label, inner in node.inner:
            yield from _baked(inner, f"{place}.{label.replace(' ', '_')}")


def _pointers_of(node: GraphNode) -> Iterator[tuple[str, int]]:
    facts = node.facts
    for pointer in facts.pointers:
        inside = f" + {pointer.offset} B" if pointer.offset else ""
        yield f"parameter {pointer.parameter}{inside}", pointer.address
    if copy := facts.copy:
        for role, address, on_device in (
            ("copies to", copy.target, copy.target_on_device),
            ("copies from", copy.source, copy.source_on_device),
        ):
            if address is not None:
                yield role if on_device else f"{role} (host)", address
    if facts.memset:
        yield "sets", facts.memset.target
    if facts.memory is not None:
        yield "frees" if facts.memory_bytes is None else "allocates", facts.memory


def addresses(graph: Any, **named_arrays: Any) -> AddressBook:
    """Reads each pointer that is baked into the graph's nodes: kernel parameters, both ends of copies, targets of memsets.

    `named_arrays` (CuPy arrays, Numba device arrays, torch tensors, cuda.core buffers) give the memory names; they are not kept
    alive. Make the book while the arrays live, right after the capture; later it says for each pointer whether its owner is
    still there ("live"), gone ("freed"), or gone with another array in its place ("reused by NAME", for arrays that it was told
    of with `update`). Memory of arrays that it was not told of is "unknown". Raises what `graph_view` raises, and TypeError for
    an argument that is no device array.
    """
    view = graph_view(graph)
    return AddressBook(view, [Owner(name, array) for name, array in named_arrays.items()])
