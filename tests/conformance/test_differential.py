"""Random programs (`programs.py`): the simulated device does what the GPU did, whatever the timing, and raises nothing else.

`tools/record_programs.py` ran the seeds on a GPU and wrote `transcripts/programs_h200.json.gz`; on a live GPU
(ONELAUNCH_DEVICE=live), hypothesis draws programs of its own and runs each on both devices.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import struct
from pathlib import Path

import programs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onelaunch.device.simulated import SimulatedDevice
from onelaunch.sim.gpu import Trace

TRANSCRIPT = Path(__file__).parent / "transcripts" / "programs_h200.json.gz"
REPLAYED = 4000  # seeds that are run again here, of those recorded
AT_LEAST = 2000
SHOWN = 5

SIMULATED = SimulatedDevice()


@st.composite
def drawn_programs(draw) -> programs.Program:
    return programs.draw_program(lambda n: draw(st.integers(0, n - 1)))


def ours(**more) -> settings:
    return settings(deadline=None, suppress_health_check=list(HealthCheck), **more)


# -- what the GPU did ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> dict:
    assert TRANSCRIPT.exists(), f"{TRANSCRIPT.name} is missing: record it on a GPU with tools/record_programs.py"
    document = json.loads(gzip.decompress(TRANSCRIPT.read_bytes()))
    assert document["grammar"] == programs.grammar_version(), "the grammar has changed: record the programs again"
    return document


def test_the_simulated_device_does_what_the_gpu_did_step_by_step(recorded):
    assert len(recorded["outcomes"]) >= 200
    wrong = []
    for seed, outcomes in recorded["outcomes"].items():
        program = programs.seeded(int(seed))
        difference = programs.first_difference(program, outcomes, programs.run(program, SIMULATED))
        if difference:
            wrong.append(f"seed {seed}: {difference}")
    assert not wrong, f"{len(wrong)} programs differ (GPU against simulated):\n" + "\n".join(wrong[:SHOWN])


def test_the_simulated_device_does_what_the_gpu_did(recorded):
    data = base64.b64decode(recorded["digests"])
    digests = struct.unpack(f"<{len(data) // 4}I", data)
    first, not_run = recorded["first_seed"], set(recorded["not_run"])
    seeds = [first + i for i in range(min(REPLAYED, len(digests))) if first + i not in not_run]
    assert len(seeds) >= AT_LEAST
    wrong = [s for s in seeds if programs.digest(programs.run(programs.seeded(s), SIMULATED)) != digests[s - first]]
    assert not wrong, f"{len(wrong)} of {len(seeds)} programs differ: seeds {wrong[:20]}"


# -- what holds without a GPU -------------------------------------------------------------------------------------------------


class Jittery:
    """Costs under which every operation takes its own, random time."""

    def __init__(self, costs, seed: int):
        self._costs, self._random = costs, random.Random(seed)

    def __getattr__(self, name: str):
        return getattr(self._costs, name)

    def kernel_us(self, *_) -> float:
        return self._random.choice((0.01, 1.0, 30.0, 2000.0))

    copy_us = memset_us = kernel_us


@ours(max_examples=300)
@given(drawn_programs())
def test_any_program_does_the_same_twice_and_traced(program):
    outcomes = programs.run(program, SIMULATED)
    assert programs.run(program, SIMULATED) == outcomes
    assert programs.run(program, SIMULATED, lambda gpu: setattr(gpu, "trace", Trace())) == outcomes


def test_the_seeds_do_the_same_traced():
    seeds = range(20_000, 21_000)
    ran = [programs.run(programs.seeded(seed), SIMULATED) for seed in seeds]
    for seed, outcomes in zip(seeds, ran, strict=True):
        again = programs.run(programs.seeded(seed), SIMULATED, lambda gpu: setattr(gpu, "trace", Trace()))
        assert not programs.first_difference(programs.seeded(seed), outcomes, again), seed


@ours(max_examples=300)
@given(drawn_programs(), st.integers(0, 2**32))
def test_no_program_depends_on_how_long_its_work_takes(program, seed):
    """Holds the race tracker too: a race that it missed would show."""

    def jitter(gpu) -> None:
        gpu.costs = Jittery(gpu.costs, seed)

    assert programs.run(program, SIMULATED, jitter) == programs.run(program, SIMULATED)


@ours(max_examples=100)
@given(drawn_programs(), st.randoms(use_true_random=False))
def test_any_part_of_a_program_is_a_program(program, rng):
    programs.run([step for step in program if rng.random() < 0.7], SIMULATED)


def test_a_missed_race_would_show(monkeypatch):
    monkeypatch.setattr(programs.Tracker, "races", lambda *_: False)

    def differs(seed: int) -> bool:
        program = programs.seeded(seed)
        runs = [
            programs.run(program, SIMULATED, lambda gpu, k=k: setattr(gpu, "costs", Jittery(gpu.costs, k))) for k in range(3)
        ]
        return any(run != runs[0] for run in runs)

    assert any(differs(seed) for seed in range(100))


def test_programs_are_worth_running():
    drawn = [programs.seeded(seed) for seed in range(400)]
    assert 15 <= sum(map(len, drawn)) / len(drawn) <= 40
    replayed = failed = 0
    for program in drawn:
        outcomes = programs.run(program, SIMULATED)
        pairs = list(zip(program, outcomes, strict=False))
        replayed += any(step[0] == "graph" and outcome.endswith("ok") for step, outcome in pairs)
        failed += any("rror" in outcome for _, outcome in pairs)
    assert replayed >= 0.6 * len(drawn)
    assert 0.2 * len(drawn) <= failed <= 0.8 * len(drawn)


def test_a_seed_gives_one_program():
    assert programs.seeded(7) == programs.seeded(7)
    assert json.loads(json.dumps(programs.seeded(7))) == [list(step) for step in programs.seeded(7)]


def test_shrinking_keeps_what_matters():
    program = programs.seeded(11)
    small = programs.shrink(program, lambda p: sum(step[0] == "sync_device" for step in p) >= 1)
    assert small == [("sync_device",)]


# -- what a GPU shows ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live():
    from onelaunch.device.live import LiveLibraries

    return LiveLibraries()


@pytest.mark.gpu
def test_any_program_does_on_both_devices_the_same(live):
    @ours(max_examples=2000)
    @given(drawn_programs())
    def compare(program):
        assert programs.first_difference(program, programs.run(program, live), programs.run(program, SIMULATED)) == ""

    compare()
