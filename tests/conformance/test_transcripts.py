"""Holds the simulated device against what the H200 did in every conformance case."""

from __future__ import annotations

import json
import warnings

import pytest
from harness import TRANSCRIPTS, load_cases, observe

from onelaunch.sim import gpu as sim_gpu

REFUSED = "rawkernel"  # in the names of cases about CUDA C++ source, which the simulated device refuses by name
TRANSCRIPT = json.loads(TRANSCRIPTS.read_text(encoding="utf-8"))
CASES = load_cases()


def test_the_transcripts_are_of_these_cases():
    assert set(TRANSCRIPT["cases"]) == set(CASES), "record them again: tools/record_conformance.py, on a GPU"
    assert len(CASES) >= 250
    assert TRANSCRIPT["gpu"] == "NVIDIA H200"
    assert TRANSCRIPT["driver"]
    assert TRANSCRIPT["date"]
    assert TRANSCRIPT["versions"]


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_simulated_device_does_what_the_gpu_did(name):
    from onelaunch.device.simulated import SimulatedDevice

    before = sim_gpu.swap(sim_gpu.Gpu())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            observed = observe(name, SimulatedDevice())
    finally:
        sim_gpu.swap(before)
    if REFUSED in name:
        assert "NotSimulatedError: cupy.RawKernel" in observed[0][1]
        assert "numba's cuda.jit" in observed[0][1]
    else:
        assert observed == TRANSCRIPT["cases"][name]
