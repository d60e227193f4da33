"""Device memory and the pool."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onelaunch.sim.errors import CUDARuntimeError
from onelaunch.sim.memory import ALIGNMENT, PAGE, Memory, Pool


def test_allocations_are_aligned_and_apart():
    memory = Memory()
    addresses = [memory.allocate(n) for n in (1, 512, 513, 3 * PAGE, 100)]
    assert all(a % ALIGNMENT == 0 for a in addresses)
    for address, size in zip(addresses, (1, 512, 513, 3 * PAGE, 100), strict=True):
        memory.view(address, size)[...] = 7
    assert len(set(addresses)) == 5


def test_writes_are_read_back_at_their_address():
    memory = Memory()
    a, b = memory.allocate(16), memory.allocate(16)
    memory.view(a, 16)[:] = 1
    memory.view(b, 16)[:] = 2
    assert memory.view(a, 16).tolist() == [1] * 16
    assert memory.view(a + 8, 4).tolist() == [1] * 4


def test_a_freed_large_block_faults_and_moves_the_epoch():
    memory = Memory()
    address, epoch = memory.allocate(4 * PAGE), memory.epoch
    memory.free(address)
    assert memory.epoch == epoch + 1
    with pytest.raises(CUDARuntimeError, match="cudaErrorIllegalAddress: an illegal memory access was encountered"):
        memory.view(address, 1)


def test_a_freed_small_block_stays_mapped_and_is_reused():
    memory = Memory()
    address = memory.allocate(100)
    memory.allocate(100)
    memory.free(address)
    memory.view(address, 100)
    assert memory.allocate(100) == address


def test_an_overrun_of_a_large_block_faults():
    memory = Memory()
    address = memory.allocate(PAGE)
    with pytest.raises(CUDARuntimeError, match="cudaErrorIllegalAddress"):
        memory.view(address + PAGE - 4, 8)


def test_freeing_what_was_not_allocated_is_refused():
    memory = Memory()
    address = memory.allocate(10)
    memory.free(address)
    for wrong in (address, address + 1, 0):
        with pytest.raises(CUDARuntimeError, match="cudaErrorInvalidValue"):
            memory.free(wrong)


def test_memory_runs_out():
    memory = Memory(capacity=4 * PAGE)
    memory.allocate(3 * PAGE)
    with pytest.raises(CUDARuntimeError, match="cudaErrorMemoryAllocation: out of memory"):
        memory.allocate(2 * PAGE)


def test_the_pool_gives_the_block_freed_last():
    pool = Pool(Memory())
    first, second = (pool.malloc(1000, 0)[0] for _ in range(2))
    pool.release(first)
    pool.release(second)
    again, pooled = pool.malloc(1000, 0)
    assert pooled
    assert again.address == second.address


def test_the_pool_keeps_streams_apart():
    pool = Pool(Memory())
    chunk, _ = pool.malloc(1000, stream=1)
    pool.release(chunk)
    _, pooled = pool.malloc(1000, stream=2)
    assert not pooled


def test_the_pool_splits_and_merges():
    pool = Pool(Memory())
    whole, _ = pool.malloc(4096, 0)
    pool.release(whole)
    left, _ = pool.malloc(1024, 0)
    right, _ = pool.malloc(3072, 0)
    assert (left.address, right.address) == (whole.address, whole.address + 1024)
    pool.release(left)
    pool.release(right)
    again, pooled = pool.malloc(4096, 0)
    assert pooled
    assert again.address == whole.address


def test_free_all_blocks_unmaps_what_nobody_uses():
    memory = Memory()
    pool = Pool(memory)
    used, unused = (pool.malloc(2 * PAGE, 0)[0] for _ in range(2))
    pool.release(unused)
    pool.free_all_blocks()
    memory.view(used.address, 1)
    with pytest.raises(CUDARuntimeError):
        memory.view(unused.address, 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5000), st.integers(0, 1)), max_size=60))
def test_live_chunks_never_overlap(steps):
    """Whatever is allocated and released, no byte belongs to two chunks, and every chunk is large enough."""
    pool, live = Pool(Memory()), []
    for release, size, stream in steps:
        if release and live:
            pool.release(live.pop(size % len(live))[0])
        else:
            chunk, _ = pool.malloc(size, stream)
            assert chunk.size >= size
            live.append((chunk, size))
        spans = sorted((c.address, c.address + s) for c, s in live)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
