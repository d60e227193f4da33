"""Device memory: a flat address space, `cudaMalloc` over it, and a pool that hands blocks back as CuPy's does; host memory."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .errors import CUDARuntimeError, OutOfMemoryError

BASE_ADDRESS = 1 << 48  # above what a host process can have, so that an address is either the device's or the host's
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
        self._reserved: dict[int, int] = {}  # of graph allocation nodes: address → bytes, mapped or not
        self.graph_memory: set[int] = set()  # of those, what a launch allocated and nothing freed, as the host sees it
        self.graph_frees: set[int] = set()  # and what some graph has a free node for
        self._async: dict[int, tuple[int, bool]] = {}  # of cudaMallocAsync: address → (bytes, in use)
        self._async_free: dict[tuple[int, int], list[int]] = {}  # (stream, bytes) → addresses
        self._freed_later: set[int] = set()  # blocks of cudaMalloc that a queued cudaFreeAsync will free
        self._pinned: dict[int, tuple[int, ctypes.Array | None]] = {}  # address → (bytes, page-locked host memory there)

    def allocate(self, nbytes: int) -> int:
        """`cudaMalloc`: the address of `nbytes` fresh bytes. Raises cudaErrorMemoryAllocation past the capacity."""
        size = _round_up(max(nbytes, 1), ALIGNMENT)
        address = self._allocate_small(size) if size < PAGE // 2 else self._map(size).base
        self._allocations[address] = size
        return address

    def free(self, address: int) -> None:
        """`cudaFree`. A large block is unmapped; a small one leaves its shared page mapped, as CUDA does."""
        if address in self._async:
            if not self._async[address][1]:
                raise CUDARuntimeError("cudaErrorInvalidValue")
            self._async.pop(address)
            self._unmap(self._mapping_of(address))
            return
        if address in self.graph_memory:
            self.graph_memory.remove(address)
            self.free_async(address)
            return
        size = self._allocations.pop(address, None)
        if size is None:
            raise CUDARuntimeError("cudaErrorInvalidValue")
        mapping = self._mapping_of(address)
        if size < PAGE // 2:
            insort(mapping.holes, (address - mapping.base, size))
            return
        self._unmap(mapping)

    def _unmap(self, mapping: Mapping) -> None:
        del self._mappings[mapping.base]
        self._bases.remove(mapping.base)
        self.mapped -= mapping.data.nbytes
        self.epoch += 1

    def view(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes at `address`, as a writable uint8 view; page-locked host memory is there for the device as well.

        Raises cudaErrorIllegalAddress where nothing is mapped.
        """
        if address < BASE_ADDRESS and self.is_pinned(address, nbytes):
            return self.at(address, nbytes)
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

    # -- in stream order, and in graphs -------------------------------------------------------------------------------

    def allocate_async(self, nbytes: int, stream: int) -> int:
        """`cudaMallocAsync`: a block that was freed in the same stream and has this size, or a fresh one."""
        size = _round_up(max(nbytes, 1), ALIGNMENT)
        freed = self._async_free.get((stream, size))
        address = freed.pop() if freed else self._map(size).base
        self._async[address] = size, True
        return address

    def release_async(self, address: int, stream: int) -> None:
        """What `cudaFreeAsync` does at the call. Raises cudaErrorInvalidValue for an address that it cannot free."""
        size, in_use = self._async.get(address, (0, False))
        if in_use:
            self._async[address] = size, False
            self._async_free.setdefault((stream, size), []).append(address)
        elif address in self._allocations and address not in self._freed_later:
            self._freed_later.add(address)
        elif address in self.graph_memory:
            self.graph_memory.remove(address)
        else:
            raise CUDARuntimeError("cudaErrorInvalidValue")

    def trim_async(self) -> None:
        """Gives the blocks back that `cudaFreeAsync` has freed, as a synchronisation does (the pool's default threshold)."""
        for addresses in self._async_free.values():
            for address in addresses:
                del self._async[address]
                self._unmap(self._mapping_of(address))
        self._async_free.clear()

    def require_room(self, addresses: set[int]) -> None:
        """Raises cudaErrorMemoryAllocation unless all that these addresses were reserved for can be mapped."""
        new = sum(_round_up(self._reserved[a], PAGE) for a in addresses if not self.is_mapped(a))
        if self.mapped + new > self.capacity:
            raise CUDARuntimeError("cudaErrorMemoryAllocation")

    def require_freeable(self, address: int) -> None:
        """Raises cudaErrorInvalidValue for what no allocation node has, or what a free node frees already."""
        if address not in self._reserved or address in self.graph_frees:
            raise CUDARuntimeError("cudaErrorInvalidValue")

    def reserve(self, nbytes: int) -> int:
        """An address for `nbytes` that a graph will map."""
        size = _round_up(max(nbytes, 1), PAGE)
        address, self._next = self._next, self._next + size + PAGE
        self._reserved[address] = size
        return address

    def map_reserved(self, address: int) -> None:
        """Maps a graph's memory, unless it is still there (a graph that frees its memory when it is launched again)."""
        if self.is_mapped(address):
            return
        self._map(self._reserved[address], address)

    def free_async(self, address: int) -> None:
        """What a free does in stream order: a graph's memory is unmapped, other memory stays for the next allocation."""
        if address in self._freed_later:
            self._freed_later.remove(address)
            self.free(address)
        elif address in self._reserved and (mapping := self._mapping_of(address)) is not None:
            self._unmap(mapping)

    # -- host memory --------------------------------------------------------------------------------------------------

    def pin(self, nbytes: int) -> int:
        """`cudaMallocHost`: the address of page-locked host memory."""
        try:
            buffer = (ctypes.c_uint8 * max(nbytes, 1))()
        except (MemoryError, OverflowError) as error:
            raise CUDARuntimeError("cudaErrorMemoryAllocation") from error
        return self.register(buffer, keep=True)

    def register(self, buffer: ctypes.Array, *, keep: bool) -> int:
        """Page-locks host memory that is there already, and keeps it if asked to; returns its address."""
        address = ctypes.addressof(buffer)
        self._pinned[address] = len(buffer), buffer if keep else None
        return address

    def unpin(self, address: int) -> None:
        """`cudaFreeHost`. Raises cudaErrorInvalidValue for memory that is not page-locked."""
        if self._pinned.pop(address, None) is None:
            raise CUDARuntimeError("cudaErrorInvalidValue")

    def is_pinned(self, address: int, nbytes: int = 1) -> bool:
        """Whether all these bytes are of one page-locked block."""
        return any(base <= address and address + nbytes <= base + size for base, (size, _) in self._pinned.items())

    @staticmethod
    def is_device(address: int) -> bool:
        return address >= BASE_ADDRESS

    def is_mapped(self, address: int) -> bool:
        return self._mapping_of(address) is not None

    def is_allocated(self, address: int, nbytes: int) -> bool:
        """Whether one mapped range, or one that a graph will map, holds all these bytes."""
        mapping = self._mapping_of(address)
        if mapping is not None:
            return address + nbytes <= mapping.end
        return any(base <= address and address + nbytes <= base + size for base, size in self._reserved.items())

    def at(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes at an address of the device or of the host, as a writable uint8 view."""
        if self.is_device(address):
            return self.view(address, nbytes)
        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.at(target, nbytes)[:] = self.at(source, nbytes)

    def write(self, target: int, data: bytes) -> None:
        self.at(target, len(data))[:] = np.frombuffer(data, np.uint8)

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        """`count` times `pattern`."""
        self.at(address, len(pattern) * count)[:] = np.tile(np.frombuffer(pattern, np.uint8), count)

    # -- mapping ------------------------------------------------------------------------------------------------------

    def _map(self, nbytes: int, address: int | None = None) -> Mapping:
        size = _round_up(nbytes, PAGE)
        if self.mapped + size > self.capacity:
            raise CUDARuntimeError("cudaErrorMemoryAllocation")
        try:
            mapping = Mapping(self._next if address is None else address, np.zeros(size, dtype=np.uint8))
        except MemoryError as error:  # this machine has less than the device
            raise CUDARuntimeError("cudaErrorMemoryAllocation") from error
        if address is None:
            self._next += size + PAGE  # an unmapped page behind each range: overruns fault
        self.mapped += size
        insort(self._bases, mapping.base)
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

    def __init__(self, memory: Memory, wait: Callable[[], object] = lambda: None):
        self.memory, self._wait = memory, wait  # what a free waits for
        self._free: dict[int, dict[int, list[Chunk]]] = {}  # stream → size → chunks, last freed last
        self.used = 0  # bytes of the chunks in use
        self.limit = 0  # the most bytes the pool may hold; 0: as many as there are

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
            self.used += size
            return chunk, True
        try:
            address = self._from_device(size)
        except CUDARuntimeError:
            self._wait()
            self.free_all_blocks()
            try:
                address = self._from_device(size)
            except CUDARuntimeError:
                raise OutOfMemoryError(size, self.total, self.limit) from None
        self.used += size
        return Chunk(address, size, stream), False

    @property
    def total(self) -> int:
        """Bytes that the pool has from the device."""
        return self.used + sum(c.size for c in self.free_blocks())

    def _from_device(self, size: int) -> int:
        if self.limit and self.total + size > self.limit:
            raise CUDARuntimeError("cudaErrorMemoryAllocation")
        return self.memory.allocate(size)

    def has(self, nbytes: int, stream: int) -> bool:
        """Whether the pool can serve `nbytes` without `cudaMalloc`."""
        return self._fit(_round_up(max(nbytes, 1), ALIGNMENT), stream) is not None

    def _fit(self, size: int, stream: int) -> int | None:
        """The smallest free size of that stream that is large enough."""
        return min((s for s, chunks in self._free.get(stream, {}).items() if chunks and s >= size), default=None)

    def release(self, chunk: Chunk) -> None:
        """Gives a chunk back to its stream's free list, merged with free neighbours."""
        chunk.free = True
        self.used -= chunk.size
        for neighbour in (chunk.next, chunk.prev):
            if neighbour is not None and neighbour.free:
                self._free[neighbour.stream][neighbour.size].remove(neighbour)
                chunk = self._merge(*sorted((chunk, neighbour), key=lambda c: c.address))
        self._free.setdefault(chunk.stream, {}).setdefault(chunk.size, []).append(chunk)

    def free_blocks(self) -> list[Chunk]:
        """The chunks that wait for an allocation."""
        return [chunk for bins in self._free.values() for chunks in bins.values() for chunk in chunks]

    def free_all_blocks(self, stream: int | None = None) -> None:
        """Returns every wholly free segment to the device (`cudaFree`): of one stream, or of all."""
        for owner, bins in self._free.items():
            if stream is not None and owner != stream:
                continue
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
