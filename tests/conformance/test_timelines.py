"""What `ol.timeline` shows, held on both devices: run once simulated, once with ONELAUNCH_DEVICE=live."""

from __future__ import annotations

import json

import pytest

import onelaunch as ol


@pytest.fixture
def work(device, stream):
    work = device.work("rawkernel")
    work.set_kernel_us(0)
    work.prepare([stream])
    yield work
    work.set_kernel_us(0)
    work.count()


def captured(work, stream, count):
    stream.begin_capture()
    work.issue(count, [stream])
    return stream.end_capture()


@pytest.fixture
def seen(device, work, stream):
    """Skips where nobody sees the GPU; the source must say so then."""
    line = ol.timeline(lambda: work.issue(1, [stream]), stream=stream)
    if line.source == "host only":
        assert line.note
        assert line.gpu_idle is None
        pytest.skip(line.note)
    assert line.source == {"live": "CUPTI", "simulated": "virtual clock"}[device.kind]


@pytest.mark.usefixtures("seen")
def test_a_loop_and_a_replay_of_the_same_kernels(work, stream):
    graph = captured(work, stream, 64)
    work.count()
    loop = ol.timeline(lambda: work.issue(64, [stream]), stream=stream)
    replay = ol.timeline(lambda: graph.launch(stream), stream=stream)
    assert work.count() == 4 * 64  # each ran once to warm up
    assert [len(line.gpu) for line in (loop, replay)] == [64, 64]
    assert {s.kind for s in (*loop.gpu, *replay.gpu)} == {"kernel"}
    assert (loop.launches, replay.launches) == (64, 1)
    assert loop.gpu_idle > replay.gpu_idle
    assert replay.wall_us < loop.wall_us
    assert [s.node for s in replay.gpu] == list(range(64))
    assert {s.node for s in loop.gpu} == {None}


@pytest.mark.usefixtures("seen")
def test_the_clocks_of_host_and_gpu_agree(work, stream):
    work.set_kernel_us(20)
    line = ol.timeline(lambda: work.issue(8, [stream]), stream=stream)
    launches = [s for s in line.host if s.kind == "launch"]
    waits = [s for s in line.host if s.kind == "synchronize"]
    assert all(call.start_us < kernel.end_us for call, kernel in zip(launches, line.gpu, strict=True))
    assert line.gpu[-1].end_us < waits[-1].end_us + 3
    assert line.gpu_busy_us > 8 * 15


@pytest.mark.usefixtures("seen")
def test_streams_are_lanes(work, cp, stream):
    other = cp.cuda.Stream(non_blocking=True)
    work.prepare([stream, other])
    line = ol.timeline(lambda: work.issue(6, [stream, other]))
    assert line.lanes == ("host", "GPU 1", "GPU 2")
    assert len(line.gpu) == 6


@pytest.mark.usefixtures("seen")
def test_copies_are_on_both_lanes(cp, stream):
    with stream:
        x = cp.zeros(1 << 16, dtype=cp.float32)
    line = ol.timeline(lambda: x.get(stream=stream), stream=stream)
    assert [s.name for s in line.gpu] == ["memcpy DtoH"]
    assert [s.kind for s in line.host].count("memcpy") == 1


def test_what_fn_raises_gets_out_and_the_next_timeline_works(work, stream):
    def fails():
        stream.begin_capture()
        work.issue(1, [stream])
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ol.timeline(fails, stream=stream)
    assert not stream.is_capturing()
    assert ol.timeline(lambda: work.issue(2, [stream]), stream=stream).wall_us > 0


def test_picture_file_and_text(work, stream, tmp_path):
    line = ol.timeline(lambda: work.issue(300, [stream]), stream=stream)
    assert line.png().startswith(b"\x89PNG")
    data = json.loads(line.to_perfetto(tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert sum(event["ph"] == "X" for event in data["traceEvents"]) == len(line)
    assert f"seen by: {line.source}" in repr(line)
