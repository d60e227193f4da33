"""The memory map: each step really happens on the device, says what it left, and leaves nothing behind."""

from __future__ import annotations

import gc
import io

import numpy as np
import pytest
from PIL import Image

from onelaunch import explore
from onelaunch.charts.memory_map import FREED, LIVE, RETURNED, REUSED, UNUSED, Block, MemoryMap, MemoryMapChart, Step, shortened
from onelaunch.explore.pointers import Story
from onelaunch.sim.memory import Pool

SAME, OTHER, STATIC, REAL = SCENARIOS = ("same size", "other size", "static buffer", "freed for real")
STEPS = range(1, 8)

pytestmark = pytest.mark.usefixtures("gpu")


def picture(explorer) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(explorer._image.value)).convert("RGB")).astype(int)


def walk(scenario: str) -> list[tuple[MemoryMap, str]]:
    """(map, verdict) after each step."""
    explorer, out = explore.memory_map(scenario), []
    for step in STEPS:
        explorer.step.value = step
        assert explorer.error == ""
        out.append((explorer.view, explorer.verdict))
    return out


def blocks(view: MemoryMap) -> list[tuple]:
    """(state, owner, first value) of each block that the story has come to, a's old one first."""
    there = sorted((b for b in view.blocks if b.state != UNUSED), key=lambda b: b.was or b.owner)
    return [(b.state, b.owner, b.values[0] if b.values else None) for b in there]


A0, A1 = (LIVE, "a", 0.0), (LIVE, "a", 1.0)
STORIES = {
    SAME: [[A0], [A0], [A1], [(FREED, None, 1.0)], [(REUSED, "b", 0.0)], [(REUSED, "b", 1.0)], [(REUSED, "b", 1.0)]],
    OTHER: [
        [A0], [A0], [A1], [(FREED, None, 1.0)],
        [(FREED, None, 1.0), (LIVE, "b", 0.0)], [(FREED, None, 2.0), (LIVE, "b", 0.0)], [(FREED, None, 2.0), (LIVE, "b", 0.0)],
    ],
    STATIC: [
        [A0], [A0], [A1], [A1, (LIVE, "b", 5.0)],
        [(LIVE, "a", 5.0), (LIVE, "b", 5.0)], [(LIVE, "a", 6.0), (LIVE, "b", 5.0)], [(LIVE, "a", 6.0), (LIVE, "b", 5.0)],
    ],
    REAL: [[A0], [A0], [A1], [(FREED, None, 1.0)], *[[(RETURNED, None, None)]] * 3],
}  # fmt: skip
START = [
    "a has a block of device memory, and a[0] is 0.0",
    "the graph's node holds the address of a, as a bare number; a[0] is still 0.0",
    "the replay added 1 at the baked address: a[0] is 1.0",
]
FREE = "a is gone, its block is back in CuPy's pool, and nobody told the graph; its pointer: freed"
WORDS = {
    SAME: [
        *START, FREE, "the pool handed a's block to b: the same address, and b[0] is 0.0; the graph's pointer: reused by b",
        "the replay wrote into b: b[0] is 1.0, nobody wrote it there", "b was made of zeros, and reads 1.0 in front",
    ],
    OTHER: [
        *START, FREE, "b does not fit into a's block and is elsewhere; the graph's pointer: freed",
        "the replay wrote into freed memory, without an error: 2.0 where a[0] was; b[0] is still 0.0",
        "b reads 0.0, unharmed by luck",
    ],
    STATIC: [
        *START, "the new input came in b, in a block of its own: b[0] is 5.0; a stays; the graph's pointer: live",
        "the input is copied into a, the static buffer: a[0] is 5.0", "the replay worked on a: a[0] is 6.0; b[0] is still 5.0",
        "a reads 6.0, the input plus 1",
    ],
    REAL: [
        *START, FREE, "CuPy returned the block to the device (cudaFree)",
        "not run here, since it would kill this process's context: the replay fails with cudaErrorIllegalAddress",
        "not run here: from then on every call fails with the same error",
    ],
}  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_step_leaves_these_values_states_and_words(scenario):
    moments = walk(scenario)
    assert [blocks(view) for view, _ in moments] == STORIES[scenario]
    for (_, verdict), words in zip(moments, WORDS[scenario], strict=True):
        assert verdict.startswith(words)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_pointer_in_the_node_never_moves(scenario):
    views = [view for view, _ in walk(scenario)]
    a = next(block.address for block in views[0].blocks if block.owner == "a")
    assert [view.baked for view in views] == [None, *[a] * 6]
    assert all(view.target.address == a for view in views[1:])
    assert [view.step for view in views if view.writes] == [3, 6]


def test_the_pool_hands_the_block_back_only_for_the_same_size():
    assert {len(view.blocks) for view, _ in walk(SAME)} == {1}
    views = [view for view, _ in walk(OTHER)]
    assert {len(view.blocks) for view in views} == {2}  # from the first step on, so that nothing jumps
    assert len({tuple(b.address for b in view.blocks) for view in views}) == 1


def test_a_pool_that_does_not_hand_the_block_back_is_told_of(monkeypatch):
    monkeypatch.setattr(Pool, "_fit", lambda *_: None)
    moments = walk(SAME)
    assert blocks(moments[5][0]) == [(FREED, None, 2.0), (LIVE, "b", 0.0)]
    assert moments[4][1] == "the pool did not hand a's block back this time: b is elsewhere; the graph's pointer: freed"
    assert moments[5][1].startswith("the replay wrote into freed memory, without an error: 2.0 where a[0] was")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_step_changes_the_picture(scenario):
    explorer = explore.memory_map(scenario)
    pictures = []
    for step in STEPS:
        explorer.step.value = step
        assert picture(explorer).shape == (430, 960, 3)
        pictures.append(explorer._image.value)
    assert len(set(pictures)) == len(STEPS)
    for step in reversed(STEPS):
        explorer.step.value = step
        assert explorer._image.value == pictures[step - 1]


@pytest.mark.parametrize("scenario", [SAME, OTHER, STATIC])
def test_two_runs_give_the_same_pictures(scenario):
    first, second = explore.memory_map(scenario), explore.memory_map(scenario)
    for step in STEPS:
        first.step.value = second.step.value = step
        assert first._image.value == second._image.value
        assert first.text == second.text


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_is_left_behind(scenario, cp, gpu):
    pool = cp.get_default_memory_pool()
    keep = cp.zeros(1_000, "float32")
    for _ in range(3):
        cp.zeros(1_000, "float32")  # a free block of just that size in the pool
    before = pool.used_bytes(), pool.free_bytes(), pool.total_bytes(), gpu.memory.mapped
    streams = len(gpu.streams)
    walk(scenario)
    gc.collect()
    assert (pool.used_bytes(), pool.free_bytes(), pool.total_bytes()) == before[:3]
    assert gpu.memory.mapped - before[3] <= 2 * 1024**2  # the page of small allocations, which stays mapped
    assert len(gpu.streams) == streams
    assert cp.cuda.get_current_stream() == cp.cuda.Stream.null
    assert gpu.fault is None
    assert not keep.get().any()


def test_blocks_in_the_pool_change_nothing(cp):
    arrays = [cp.zeros(n, "float32") for n in (1, 1_000, 1_000, 3_000, 10_000)]
    del arrays
    assert [blocks(view) for view, _ in walk(SAME)] == STORIES[SAME]
    assert [blocks(view) for view, _ in walk(OTHER)] == STORIES[OTHER]


def test_a_step_that_fails_leaves_nothing_and_the_next_move_works(cp, monkeypatch):
    pool = cp.get_default_memory_pool()
    before = pool.total_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Story, "replay", lambda self: (_ for _ in ()).throw(RuntimeError("no <GPU>")))
        explorer = explore.memory_map()
        assert explorer.error == "RuntimeError: no <GPU>"
        assert "no &lt;GPU&gt;" in explorer._words.value
        assert "no <GPU>" in repr(explorer)
    assert pool.total_bytes() == before
    assert cp.cuda.get_current_stream() == cp.cuda.Stream.null
    explorer.step.value = 6
    assert explorer.error == ""
    assert explorer.verdict.startswith("the replay wrote into b")


def test_without_cupys_pool_nothing_is_freed_and_replayed(cp, monkeypatch):
    """What another allocator frees may be unmapped: a replay would kill the learner's context."""
    monkeypatch.setattr(type(cp.get_default_memory_pool()), "used_bytes", lambda _: 0)
    explorer = explore.memory_map()
    assert explorer.error.startswith("RuntimeError: the memory map needs CuPy's default memory pool")


def test_the_scenario_can_be_changed_at_any_step():
    explorer = explore.memory_map(step=6)
    assert explorer.verdict.startswith("the replay wrote into b")
    for scenario in (*SCENARIOS[1:], SAME):
        explorer.scenario.value = scenario
        assert explorer.error == ""
        assert explorer.verdict.startswith(WORDS[scenario][5])


def test_the_stepper_works_by_slider_and_by_number_box():
    explorer = explore.memory_map()
    explorer.step.slider.value = 4
    assert (explorer.step.box.value, explorer.view.step) == (4, 4)
    explorer.step.box.value = 5
    assert (explorer.step.slider.value, explorer.view.step) == (5, 5)
    explorer.step.box.value = 99
    assert explorer.view.step == 7


def test_it_says_in_words_what_the_picture_shows(device):
    explorer = explore.memory_map(OTHER, 6)
    assert explorer.text.splitlines() == [
        "Memory map: other size (b is larger), step 6 of 7: replay, graph.launch(stream)",
        "  freed: it was a's; 2.0  0.0  0.0  0.0  …  ← the graph points here",
        "  live: it is b's; 0.0  0.0  0.0  0.0  …",
        explorer.verdict,
        explorer.provenance,
    ]
    assert explorer.provenance.startswith(f"{device.kind} · {device.gpu} · ")
    bundle = explorer._repr_mimebundle_()
    assert set(bundle) >= {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert bundle["text/plain"] == repr(explorer) == explorer.text


def test_a_scenario_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no scenario 'freed'; there are same size, other size, static buffer, freed for real"):
        explore.memory_map("freed")


# -- the chart --------------------------------------------------------------------------------------------------------


def test_addresses_are_shortened_but_told_apart():
    assert shortened([0x7F0001000200, 0x7F0001000400, 0x7F0001000200]) == {
        0x7F0001000200: "…000200",
        0x7F0001000400: "…000400",
    }
    assert shortened([0x7F0001000200, 0x7F0002000200]) == {0x7F0001000200: "…1000200", 0x7F0002000200: "…2000200"}
    assert shortened([]) == {}


def test_a_map_with_too_many_blocks_is_refused():
    steps = tuple(Step("step", "code") for _ in STEPS)
    crowd = tuple(Block(512 * i, 512, LIVE, "x", (0.0,)) for i in range(3))
    with pytest.raises(ValueError, match="the map has room for 2 blocks, not 3"):
        MemoryMapChart().png(MemoryMap(steps, 1, crowd))
