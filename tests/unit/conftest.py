"""Shared by the unit tests: a fresh simulated device."""

from __future__ import annotations

import pytest

from onelaunch.sim import gpu as sim_gpu


@pytest.fixture
def gpu():
    """A fresh device behind the faces."""
    fresh = sim_gpu.Gpu()
    before = sim_gpu.swap(fresh)
    yield fresh
    sim_gpu.swap(before)
