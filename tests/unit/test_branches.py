"""The explorer of a graph's branches: the graph is what was asked for, it does its work, and its times keep the bounds."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from PIL import Image

from onelaunch import explore
from onelaunch.device import HostTimes
from onelaunch.explore.branches import _gain
from onelaunch.instruments.view import graph_view
from onelaunch.measure.branches import Branches, branches_of


def picture(explorer) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(explorer._image.value)).convert("RGB")).astype(int)


@pytest.fixture
def explorer():
    return explore.branches()


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("depth", [1, 7, 64])
def test_the_graph_has_the_shape_that_was_asked_for_and_runs_all_its_kernels(explorer, width, depth):
    explorer.width.value, explorer.depth.value = width, depth
    view = graph_view(explorer.measured.graph)
    assert len(view) == explorer.measured.nodes == width * depth + 2
    assert len(view.critical_path) == explorer.measured.critical_path == depth + 2
    assert len(view.widest_level) == width
    assert len(view.levels[0]) == len(view.levels[-1]) == 1
    work, stream = explorer._comparison._work("rawkernel", 0), explorer._comparison.stream
    work.count()
    explorer.measured.graph.launch(stream)
    assert work.count() == width * depth + 2


@pytest.mark.parametrize("kernel_us", [0.5, 5, 100])
def test_branches_take_between_the_critical_path_and_one_chain(explorer, kernel_us):
    explorer.kernel_us.value = kernel_us
    gains = []
    for width in range(1, 9):
        explorer.width.value = width
        found = explorer.measured
        path = explorer._comparison.replay("rawkernel", found.critical_path, kernel_us)
        assert path.total_us <= found.branches.total_us * 1.001
        assert found.branches.total_us <= found.chain.total_us * 1.001
        assert found.speed_up <= found.ceiling * 1.001
        gains.append(found.speed_up)
    assert gains[0] == pytest.approx(1, abs=0.01)
    assert gains[3] > 2
    assert gains == sorted(gains)


def test_long_kernels_come_closer_to_what_the_critical_path_promises(explorer):
    shares = []
    for kernel_us in (0.5, 5, 100):
        explorer.kernel_us.value = kernel_us
        shares.append(explorer.measured.speed_up / explorer.measured.ceiling)
    assert shares == sorted(shares)
    assert shares[-1] > 0.97 > 0.9 > shares[0]


def test_every_setting_gives_a_picture_and_a_verdict(explorer):
    pictures = set()
    for width, depth, kernel_us in itertools.product((1, 3, 8), (1, 2, 64), (0.5, 100)):
        explorer.width.value, explorer.depth.value, explorer.kernel_us.value = width, depth, kernel_us
        assert explorer.error == ""
        assert f"the critical path has {depth + 2} of {width * depth + 2} nodes" in explorer.verdict
        assert explorer.verdict.startswith("no gain: ") == (width == 1)
        assert picture(explorer).std() > 10
        pictures.add(explorer._image.value)
    assert len(pictures) == 18
    before = explorer._image.value
    explorer.width.slider.value = 2
    explorer.width.box.value = 8
    assert explorer._image.value == before  # the kept bitmaps change nothing


def test_a_failure_is_shown_and_the_next_move_works(explorer, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(explorer._comparison, "replay_branches", lambda *a: (_ for _ in ()).throw(RuntimeError("gone")))
        explorer.width.value = 2
    assert "RuntimeError: gone" in explorer.text
    explorer.width.value = 3
    assert explorer.error == ""
    assert "3 branches of 8 kernels of 5 µs" in explorer.text


@pytest.mark.parametrize(("width", "depth", "kernel_us"), [(0, 1, 1), (9, 1, 1), (2, 0, 1), (2, 1, -1)])
def test_what_cannot_be_measured_is_refused(explorer, width, depth, kernel_us):
    with pytest.raises(ValueError, match="cannot be measured"):
        branches_of(explorer._comparison, width, depth, kernel_us)


@pytest.mark.parametrize(
    ("branches_us", "says"),
    [(50, "2.00× as fast: "), (98, "no gain: "), (104, "no gain: "), (150, "a loss: ")],
)
def test_the_verdict_follows_the_times(explorer, branches_us, says):
    provenance = explorer.measured.provenance
    found = Branches(4, 8, 0.5, HostTimes(1, branches_us), HostTimes(1, 100), None, provenance)
    assert _gain(found).startswith(says)
    assert "3.40× at the most" in _gain(found)
    assert ("1.50× as long" in _gain(found)) == (branches_us == 150)
