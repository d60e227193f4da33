"""Shared by all tests: which device they run on, and the repository's folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("ONELAUNCH_DEVICE", "sim")  # a test run is the same on every machine; `live` is asked for by name

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def device():
    """The device under test: simulated, or live with ONELAUNCH_DEVICE=live."""
    from onelaunch.device import current

    return current()


@pytest.fixture
def cp(device):
    return device.cp


@pytest.fixture
def cuda(device):
    return device.cuda


@pytest.fixture
def stream(cp):
    return cp.cuda.Stream(non_blocking=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ["ONELAUNCH_DEVICE"] == "live":
        return
    skip = pytest.mark.skip(reason="needs a live GPU: ONELAUNCH_DEVICE=live")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)
