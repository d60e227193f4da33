"""Device memory: a flat address space, `cudaMalloc` over it, and a pool that hands blocks back as CuPy's does."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field

import numpy as np

from .errors import CUDARuntimeError, OutOfMemoryError

BASE_ADDRESS = 0x7F_2000_000000
PAGE = 2 * 1024**2  # what cudaMalloc maps at a time; small allocations share one
ALIGNMENT = 512


def _round_up(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit


@dataclass(eq=False)
class Mapping:
    """A mapped range of device addresses, and the bytes behind it."""

    base: int
    data: np.ndarray  # uint8
    holes: list[tuple[int, int]] = field(default_factory=list)  # (offset, size) free for small allocations

    @property
    def end(self) -> int:
        return self.base + self.data.nbytes


class Memory:
    """The address space of one device, `capacity` bytes of it mappable.

    `epoch` counts unmappings: whoever keeps a view must ask for it again once `epoch` has moved.
    """

    def __init__(self, capacity: int = 141 * 1024**3):
        self.capacity = capacity
        self.mapped = 0
        self.epoch = 0
        self._bases: list[int] = []
        self._mappings: dict[int, Mapping] = {}
        self._allocations: dict[int, int] = {}  # address → bytes
        self._next = BASE_ADDRESS

    def allocate(self, nbytes: int) -> int:
        """`cudaMalloc`: the address of `nbytes` fresh bytes. Raises cudaErrorMemoryAllocation past the capacity."""
        size = _round_up(max(nbytes, 1), ALIGNMENT)
        address = self._allocate_small(size) if size < PAGE // 2 else self._map(size).base
        self._allocations[address] = size
        return address

    def free(self, address: int) -> None:
        """`cudaFree`. A large block is unmapped; a small one leaves its shared page mapped, as CUDA does."""
        size = self._allocations.pop(address, None)
        if size is None:
            raise CUDARuntimeError("cudaErrorInvalidValue")
        mapping = self._mapping_of(address)
        if size < PAGE // 2:
            insort(mapping.holes, (address - mapping.base, size))
            return
        del self._mappings[mapping.base]
        self._bases.remove(mapping.base)
        self.mapped -= mapping.data.nbytes
        self.epoch += 1

    def view(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes at `address`, as a writable uint8 view. Raises cudaErrorIllegalAddress where nothing is mapped."""
        mapping = self._mapping_of(address)
        if mapping is None or address + nbytes > mapping.end:
            raise CUDARuntimeError("cudaErrorIllegalAddress")
        offset = address - mapping.base
        return mapping.data[offset : offset + nbytes]

    def _mapping_of(self, address: int) -> Mapping | None:
        i = bisect_right(self._bases, address) - 1
        if i < 0:
            return None
        mapping = self._mappings[self._bases[i]]
        return mapping if address < mapping.end else None

    def _map(self, nbytes: int) -> Mapping:
        size = _round_up(nbytes, PAGE)
        if self.mapped + size > self.capacity:
            raise CUDARuntimeError("cudaErrorMemoryAllocation")
        try:
            mapping = Mapping(self._next, np.zeros(size, dtype=np.uint8))
        except MemoryError as error:  # this machine has less than the device
            raise CUDARuntimeError("cudaErrorMemoryAllocation") from error
        self._next += size + PAGE  # an unmapped page behind each range: overruns fault
        self.mapped += size
        self._bases.append(mapping.base)
        self._mappings[mapping.base] = mapping
        return mapping

    def _allocate_small(self, size: int) -> int:
        for mapping in self._mappings.values():
            for i, (offset, hole) in enumerate(mapping.holes):
                if hole >= size:
                    mapping.holes[i : i + 1] = [(offset + size, hole - size)] if hole > size else []
                    return mapping.base + offset
        mapping = self._map(PAGE)
        mapping.holes = [(size, PAGE - size)]
        return mapping.base


@dataclass(eq=False)
class Chunk:
    """A piece of one pool segment, in use or free; `prev` and `next` are its neighbours in that segment."""

    address: int
    size: int
    stream: int
    free: bool = False
    prev: Chunk | None = None
    next: Chunk | None = None


class Pool:
    """CuPy's default memory pool: blocks rounded to 512 bytes, freed blocks kept per stream, best fit, split and merge.

    So the next allocation of the same size on the same stream gets a block that was freed before. (Of several, the one freed
    last; CuPy leaves open which.)
    """

    def __init__(self, memory: Memory):
        self.memory = memory
        self._free: dict[int, dict[int, list[Chunk]]] = {}  # stream → size → chunks, last freed last

    def malloc(self, nbytes: int, stream: int) -> tuple[Chunk, bool]:
        """A chunk of at least `nbytes`, and whether it came out of the pool (else `cudaMalloc` was called).

        Raises OutOfMemoryError when the device is full even after the pool has given its free blocks back.
        """
        size = _round_up(max(nbytes, 1), ALIGNMENT)
        bins = self._free.get(stream, {})
        if (fit := self._fit(size, stream)) is not None:
            chunk = bins[fit].pop()
            chunk.free = False
            if chunk.size > size:
                self._split(chunk, size)
            return chunk, True
        try:
            address = self.memory.allocate(size)
        except CUDARuntimeError:
            self.free_all_blocks()
            try:
                address = self.memory.allocate(size)
            except CUDARuntimeError:
                raise OutOfMemoryError(size, self.memory.mapped) from None
        return Chunk(address, size, stream), False

    def has(self, nbytes: int, stream: int) -> bool:
        """Whether the pool can serve `nbytes` without `cudaMalloc`."""
        return self._fit(_round_up(max(nbytes, 1), ALIGNMENT), stream) is not None

    def _fit(self, size: int, stream: int) -> int | None:
        """The smallest free size of that stream that is large enough."""
        return min((s for s, chunks in self._free.get(stream, {}).items() if chunks and s >= size), default=None)

    def release(self, chunk: Chunk) -> None:
        """Gives a chunk back to its stream's free list, merged with free neighbours."""
        chunk.free = True
        for neighbour in (chunk.next, chunk.prev):
            if neighbour is not None and neighbour.free:
                self._free[neighbour.stream][neighbour.size].remove(neighbour)
                chunk = self._merge(*sorted((chunk, neighbour), key=lambda c: c.address))
        self._free.setdefault(chunk.stream, {}).setdefault(chunk.size, []).append(chunk)

    def free_all_blocks(self) -> None:
        """Returns every wholly free segment to the device (`cudaFree`)."""
        for bins in self._free.values():
            for chunks in bins.values():
                for chunk in [c for c in chunks if c.prev is None and c.next is None]:
                    chunks.remove(chunk)
                    self.memory.free(chunk.address)

    def _split(self, chunk: Chunk, size: int) -> None:
        rest = Chunk(chunk.address + size, chunk.size - size, chunk.stream, True, chunk, chunk.next)
        if chunk.next is not None:
            chunk.next.prev = rest
        chunk.size, chunk.next = size, rest
        self._free.setdefault(chunk.stream, {}).setdefault(rest.size, []).append(rest)

    @staticmethod
    def _merge(low: Chunk, high: Chunk) -> Chunk:
        low.size += high.size
        low.next = high.next
        if high.next is not None:
            high.next.prev = low
        low.free = True
        return low
