"""`ol.timeline` on the simulated device, its picture and its file; and the reading of CUPTI's records, from made-up ones."""

from __future__ import annotations

import base64
import io
import json
from enum import IntEnum
from types import MappingProxyType, ModuleType, SimpleNamespace

import pytest
from PIL import Image

from onelaunch.charts.timeline import CROWDED, Block, Row, View, draw, png, side_by_side, union
from onelaunch.device import current, live_timeline
from onelaunch.device.calls import call_kind, plain_name
from onelaunch.instruments.timeline import of_trace, timeline
from onelaunch.sim import cudart_face as cudart
from onelaunch.sim import cupy_face as cp
from onelaunch.sim.gpu import Span, Trace


@pytest.fixture
def stream(gpu):
    return cp.cuda.Stream(non_blocking=True)


@pytest.fixture
def work(gpu, stream):
    from onelaunch.device.simulated import SimulatedDevice

    work = SimulatedDevice().work("rawkernel")
    work.prepare([stream])
    return work


def loop(work, stream, count):
    return lambda: work.issue(count, [stream])


def replay(work, streams, count):
    first = streams[0]
    work.prepare(streams)
    first.begin_capture()
    for other in streams[1:]:
        other.wait_event(first.record())
    work.issue(count, streams)
    for other in streams[1:]:
        first.wait_event(other.record())
    graph = first.end_capture()
    return lambda: graph.launch(first)


# -- what happened ----------------------------------------------------------------------------------------------------


def test_a_launch_loop_leaves_the_gpu_idle_and_a_replay_does_not(work, stream):
    looped, replayed = timeline(loop(work, stream, 64)), timeline(replay(work, [stream], 64))
    assert looped.gpu_idle > 0.7 > 0.2 > replayed.gpu_idle
    assert looped.gpu_busy_us == pytest.approx(replayed.gpu_busy_us)
    assert replayed.wall_us < looped.wall_us / 2
    assert (looped.launches, replayed.launches) == (64, 1)
    assert looped.advice.verdict.startswith("yes")
    assert replayed.advice.verdict.startswith("no")


def test_spans_are_in_the_order_of_their_starts_and_begin_with_the_first_call(work, stream):
    line = timeline(loop(work, stream, 8), stream=stream)
    starts = [span.start_us for span in line]
    assert starts == sorted(starts)
    assert (starts[0], line.spans[0].lane, line.spans[0].kind) == (0.0, "host", "launch")
    assert [s.kind for s in line.host] == ["launch"] * 8 + ["synchronize"]
    assert [(s.lane, s.kind, s.name) for s in line.gpu] == [("GPU", "kernel", "work")] * 8
    assert all(call.end_us <= kernel.start_us for call, kernel in zip(line.host, line.gpu, strict=False))


def test_kernels_of_a_graph_say_which_node_they_are(work, stream):
    launch = replay(work, [stream], 5)

    def twice():
        launch()
        launch()

    line = timeline(twice)
    assert [s.node for s in line.gpu] == [0, 1, 2, 3, 4] * 2
    assert {s.graph for s in line.gpu} == {0}
    assert [s.kind for s in line.host] == ["graph launch", "graph launch", "synchronize"]
    assert timeline(loop(work, stream, 2)).gpu[0].node is None


def test_two_graphs_are_told_apart(work, stream):
    first, second = replay(work, [stream], 2), replay(work, [stream], 3)
    line = timeline(lambda: (first(), second()))
    assert [(s.graph, s.node) for s in line.gpu] == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


def test_each_stream_is_a_lane(work, stream):
    other = cp.cuda.Stream(non_blocking=True)
    work.set_kernel_us(50)
    work.prepare([stream, other])
    line = timeline(lambda: work.issue(6, [stream, other]), stream=stream)  # which waits for one of them
    assert line.lanes == ("host", "GPU 1", "GPU 2")
    assert [sum(s.lane == lane for s in line) for lane in line.lanes] == [7, 3, 3]
    total = sum(s.duration_us for s in line.gpu)
    assert line.gpu_busy_us < 0.7 * total  # what overlaps counts once


def test_branches_of_a_graph_overlap_in_the_lane_of_its_launch(work, stream):
    work.set_kernel_us(50)
    line = timeline(replay(work, [stream, cp.cuda.Stream(non_blocking=True)], 6))
    assert line.lanes == ("host", "GPU")
    assert sorted(s.node for s in line.gpu) == list(range(6))
    assert line.gpu_busy_us < 0.6 * sum(s.duration_us for s in line.gpu)


def test_copies_and_memsets_are_seen_on_both_sides(stream):
    with stream:
        x = cp.zeros(1 << 20, dtype=cp.float32)

    def fn():
        with stream:
            x.get()
            y = cp.empty(1 << 20, dtype=cp.float32)
            cudart.cudaMemsetAsync(y.data.ptr, 0, y.nbytes, stream.ptr)
            cudart.cudaMemcpyAsync(y.data.ptr, x.data.ptr, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, stream.ptr)

    line = timeline(fn, stream=stream)
    assert [(s.kind, s.name) for s in line.gpu] == [("memcpy", "memcpy DtoH"), ("memset", "memset"), ("memcpy", "memcpy DtoD")]
    assert [s.kind for s in line.host] == ["memcpy", "memset", "memcpy", "synchronize"]
    assert line.host[0].start_us <= line.gpu[0].start_us < line.gpu[0].end_us <= line.host[0].end_us
    assert line.launches == 0
    assert line.advice is None


def test_a_launch_into_a_capture_is_no_launch(work, stream):
    def fn():
        stream.begin_capture()
        work.issue(3, [stream])
        stream.end_capture()

    line = timeline(fn)
    assert (line.launches, line.gpu) == (0, ())
    assert [s.kind for s in line.host].count("captured launch") == 3


def test_a_host_function_is_the_hosts(stream):
    line = timeline(lambda: stream.launch_host_func(lambda _: None, None), stream=stream)
    assert not line.gpu
    assert "host" in {s.kind for s in line.host}


def test_a_conditional_body_runs_the_same_node_again():
    trace = Trace(
        [Span("graph launch", 0, 1, kind="graph launch")],
        [Span("body", t, t + 1, 7, "kernel", 3, (0, 0)) for t in (2, 4, 6)] + [Span("last", 8, 9, 7, "kernel", 3, (1,))],
        "virtual clock",
    )
    assert [s.node for s in of_trace(trace, current().provenance).gpu] == [0, 0, 0, 1]


def test_the_warm_up_can_be_left_out(work, stream):
    calls = []
    timeline(lambda: calls.append(1))
    assert len(calls) == 2
    timeline(lambda: calls.append(1), warmup=False)
    assert len(calls) == 3


def test_nothing_called_is_an_empty_timeline(gpu):
    line = timeline(lambda: None, warmup=False)
    assert [s.kind for s in line] == ["synchronize"]
    assert (line.launches, line.gpu_busy_us, line.advice) == (0, 0, None)
    png(line.figure())


@pytest.mark.parametrize("warmup", [True, False])
def test_what_fn_raises_gets_out_and_nothing_is_traced_any_more(gpu, work, stream, warmup):
    def fails():
        with stream:
            stream.begin_capture()
            work.issue(1, [stream])
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        timeline(fails, stream=stream, warmup=warmup)
    assert gpu.trace is None
    assert not stream.is_capturing()
    assert timeline(loop(work, stream, 3)).launches == 3


def test_tracing_moves_no_clock(gpu, work, stream):
    fn = replay(work, [stream, cp.cuda.Stream(non_blocking=True)], 9)
    fn()
    stream.synchronize()
    times = []
    for traced in (False, True, False):
        start = gpu.now_us
        timeline(fn, stream=stream, warmup=False) if traced else (fn(), stream.synchronize())
        times.append(gpu.now_us - start)
    # the timeline waits for the device before and behind what it traces, which costs the host two looks
    assert times[1] == pytest.approx(times[0] + 2 * gpu.costs.sync_idle_us, abs=2.0)
    assert times[2] == pytest.approx(times[0])


def test_what_is_no_function_or_stream_is_refused(work, stream):
    with pytest.raises(TypeError, match=r"Did you write fn\(\) for fn"):
        timeline(loop(work, stream, 1)())
    with pytest.raises(TypeError, match=r"stream must be a cp\.cuda\.Stream"):
        timeline(loop(work, stream, 1), stream=7)


# -- text, picture, file ----------------------------------------------------------------------------------------------


def test_the_text_has_the_first_spans_the_totals_and_where_they_come_from(work, stream):
    line = timeline(loop(work, stream, 600), stream=stream)
    lines = repr(line).splitlines()
    assert lines[0].startswith("Timeline: 600 kernel launches: the GPU idles ")
    assert lines[1].split()[:2] == ["host", "launch"]
    assert "  … 1,189 more" in lines
    assert any(text.startswith("  in all 600 × GPU kernel: ") for text in lines)
    assert lines[-2] == "seen by: virtual clock"
    assert lines[-1].startswith("modelled · ")
    assert repr(line) == repr(line)
    assert len(lines) < 24


@pytest.mark.parametrize("count", [1, 10, 600])
def test_the_picture(work, stream, count):
    for fn in (loop(work, stream, count), replay(work, [stream], count)):
        line = timeline(fn)
        bundle = line._repr_mimebundle_()
        image = Image.open(io.BytesIO(base64.b64decode(bundle["image/png"])))
        assert image.width == 960
        assert 150 < image.height < 600
        assert bundle["text/plain"] == repr(line)
        assert line._repr_png_() == base64.b64decode(bundle["image/png"])
        panels = line.figure().axes
        assert len(panels) == (2 if count > CROWDED else 1)  # too many spans: the beginning in detail as well


def test_a_crowded_picture_still_shows_how_idle_the_gpu_is():
    """600 kernels of 1 µs, one every 10 µs: drawn as blocks of at least a pixel they would fill half of the lane."""
    kernels = [Block(10 * i, 10 * i + 1, "kernel") for i in range(600)]
    calls = [Block(10 * i, 10 * i + 9, "launch") for i in range(600)]
    figure = draw(View("", calls, [Row("GPU", kernels)]))
    bars = [c for c in figure.axes[0].collections if len(c.get_paths()) > 100]
    heights = [path.get_extents().height for bar in bars for path in bar.get_paths()]
    assert len(bars) == 2
    low = min(max(p.get_extents().height for p in bar.get_paths()) for bar in bars)
    assert low < 0.35 * max(heights)


def test_many_streams_fold_into_a_last_row():
    rows = [Row(f"GPU {k}", [Block(k, k + 30.0, "kernel", "work")]) for k in range(1, 33)]
    figure = draw(View("32 streams", [Block(0, 5, "launch", "launch")], rows))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "GPU 7" in texts
    assert "GPU 8" not in texts
    assert "25 more" in texts


def test_unions_and_rows():
    assert union([(5, 6), (0, 2), (1, 3), (3, 4)]) == [(0, 4), (5, 6)]
    assert union([]) == []
    assert side_by_side([(0, 2), (1, 3), (2, 4), (3, 5)]) == [[0, 2], [1, 3]]


def test_perfettos_file_is_a_chrome_trace(work, stream, tmp_path):
    work.set_kernel_us(20)
    other = cp.cuda.Stream(non_blocking=True)
    launch = replay(work, [stream, other], 4)

    def fn():
        launch()
        work.issue(4, [stream, other])

    line = timeline(fn)
    path = line.to_perfetto(tmp_path / "trace.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    validate_chrome_trace(data)
    events = [e for e in data["traceEvents"] if e["ph"] == "X"]
    assert len(events) == len(line)
    assert sorted((e["ts"], e["dur"], e["name"]) for e in events) == sorted((s.start_us, s.duration_us, s.name) for s in line)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in data["traceEvents"] if e["name"] == "thread_name"}
    assert sorted(names.values()) == ["GPU 1", "GPU 1 (2)", "GPU 2", "host"]
    assert {e["args"]["node"] for e in events if "node" in e["args"]} == {0, 1, 2, 3}
    assert data["otherData"]["source"] == "virtual clock"


def validate_chrome_trace(data):
    """What Perfetto needs (Trace Event Format): complete events in named threads of named processes, which do not overlap
    within a thread."""
    assert isinstance(data["traceEvents"], list)
    processes, threads, ends = set(), set(), {}
    for event in data["traceEvents"]:
        assert event["ph"] in ("M", "X")
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        if event["ph"] == "M":
            if event["name"] == "process_name":
                processes.add(event["pid"])
            elif event["name"] == "thread_name":
                threads.add((event["pid"], event["tid"]))
            continue
        assert isinstance(event["name"], str)
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        place = event["pid"], event["tid"]
        assert event["pid"] in processes
        assert place in threads
        assert event["ts"] >= ends.get(place, 0.0) - 1e-3
        ends[place] = event["ts"] + event["dur"]


# -- a live GPU's records ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cuLaunchKernel", "launch"), ("cuLaunchKernelEx", "launch"), ("cudaLaunchKernelExC", "launch"),
        ("cuLaunchCooperativeKernel", "launch"), ("launch", "launch"), ("captured launch", "captured launch"),
        ("cudaGraphLaunch", "graph launch"), ("cuGraphLaunch", "graph launch"), ("graph launch (first)", "graph launch"),
        ("cudaMemcpyAsync", "memcpy"), ("cuMemcpyDtoHAsync_v2", "memcpy"), ("copy to host", "memcpy"),
        ("cuMemsetD8Async", "memset"), ("cudaMemsetAsync", "memset"), ("cudaStreamSynchronize", "synchronize"),
        ("cuCtxSynchronize", "synchronize"), ("cudaGraphAddMemcpyNode", "call"), ("cuGraphExecKernelNodeSetParams", "call"),
        ("cudaStreamBeginCapture", "call"), ("cuLaunchHostFunc", "call"), ("cudaMalloc", "call"),
        ("update memcpy node", "call"),
    ],
)  # fmt: skip
def test_calls_by_their_name(name, kind):
    assert call_kind(name) == kind


def test_names_lose_their_version():
    names = ["cudaLaunchKernel_ptsz_v7000", "cuMemcpyDtoHAsync_v2_ptsz", "cudaGraphLaunch_v10000", "cuCtxSynchronize"]
    assert [plain_name(n) for n in names] == ["cudaLaunchKernel", "cuMemcpyDtoHAsync", "cudaGraphLaunch", "cuCtxSynchronize"]


class Kind(IntEnum):  # the numbers of CUpti_ActivityKind
    MEMCPY, MEMSET, KERNEL, DRIVER, RUNTIME, CONCURRENT_KERNEL = 1, 2, 3, 4, 5, 10


class FakeCupti:
    """The part of cupti-python that is used: it hands over, at the flush, the records that the test has put in."""

    ActivityKind = Kind
    ActivityMemcpyKind = IntEnum("ActivityMemcpyKind", {"HTOD": 1, "DTOH": 2})
    ActivityFlag = IntEnum("ActivityFlag", {"FLUSH_FORCED": 1})
    CallbackDomain = IntEnum("CallbackDomain", {"DRIVER_API": 1, "RUNTIME_API": 2})
    NAMES = MappingProxyType(
        {1: "cudaLaunchKernel_v7000", 2: "cuLaunchKernel", 3: "cudaGraphLaunch_v10000", 4: "cudaStreamSynchronize_v3020"}
    )

    def __init__(self, refuses=None):
        self.refuses, self.records, self.enabled, self.flushed = refuses, [], [], 0
        self.ns = 1_760_000_000_000_000_000

    def activity_register_callbacks(self, requested, completed):
        assert requested()[0] > 0
        self.completed = completed

    def activity_enable(self, kind):
        if kind == self.refuses:
            raise RuntimeError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
        self.enabled.append(kind)

    def activity_disable(self, kind):
        self.enabled.remove(kind)

    def activity_flush_all(self, flag):
        self.flushed += 1
        records, self.records = self.records, []
        self.completed(records)

    def get_timestamp(self):
        self.ns += 1000
        return self.ns

    def get_callback_name(self, domain, cbid):
        return self.NAMES[cbid]

    def call(self, kind, cbid, start, end, correlation, thread=1):
        self.records.append(
            SimpleNamespace(
                kind=kind, cbid=cbid, start=self.ns + start, end=self.ns + end, thread_id=thread, correlation_id=correlation
            )
        )

    def work(self, kind, start, end, correlation, graph=0, node=0, stream=7, **more):
        self.records.append(
            SimpleNamespace(
                kind=kind, start=self.ns + start, end=self.ns + end, correlation_id=correlation, graph_id=graph,
                graph_node_id=node, stream_id=stream, **more,
            )
        )  # fmt: skip


@pytest.fixture
def cupti(monkeypatch):
    fake = FakeCupti()
    install(monkeypatch, fake)
    return fake


def install(monkeypatch, fake):
    module = ModuleType("cupti")
    module.cupti = fake
    monkeypatch.setitem(__import__("sys").modules, "cupti", module)


def record(fn, wait=lambda: None):
    ticks = iter(range(0, 10_000, 100))
    return live_timeline.record(fn, wait, lambda: float(next(ticks)), lambda: None)


def a_loop_and_a_replay(cupti):
    cupti.work(Kind.CONCURRENT_KERNEL, -9000, -8000, 1, name="before")  # of earlier work
    cupti.call(Kind.DRIVER, 2, 110, 190, 12)  # inside the runtime's call, whose record comes later
    cupti.call(Kind.RUNTIME, 1, 100, 200, 11)
    cupti.call(Kind.RUNTIME, 1, 210, 250, 13)  # into a capture: no work
    cupti.call(Kind.RUNTIME, 3, 300, 400, 14)
    cupti.call(Kind.DRIVER, 99, 410, 420, 15)
    cupti.work(Kind.CONCURRENT_KERNEL, 300, 350, 12, name="_Z7add_onePf")
    for i, node in enumerate((5002, 5001)):
        cupti.work(Kind.CONCURRENT_KERNEL, 500 + 60 * i, 550 + 60 * i, 14, 77, node, name="work")
    cupti.work(Kind.MEMCPY, 700, 750, 14, 77, 5003, copy_kind=2)
    cupti.work(Kind.MEMSET, 760, 770, 16, stream=8)


def test_records_that_cupti_keeps_to_itself_are_missed(cupti, monkeypatch):
    def keeps_them(flag):
        raise RuntimeError("CUPTI_ERROR_UNKNOWN")

    monkeypatch.setattr(cupti, "activity_flush_all", keeps_them)
    trace = record(lambda: a_loop_and_a_replay(cupti))
    assert trace.note.startswith("CUPTI kept some records to itself (RuntimeError: CUPTI_ERROR_UNKNOWN)")


def test_records_become_spans(cupti):
    trace = record(lambda: a_loop_and_a_replay(cupti), lambda: cupti.call(Kind.RUNTIME, 4, 10, 900, 17))
    assert (trace.source, cupti.enabled) == ("CUPTI", [])
    line = of_trace(trace, current().provenance)
    assert [(s.name, s.kind) for s in line.host] == [
        ("cudaLaunchKernel", "launch"), ("cudaLaunchKernel", "captured launch"), ("cudaGraphLaunch", "graph launch"),
        ("driver call 99", "call"), ("cudaStreamSynchronize", "synchronize"),
    ]  # fmt: skip
    assert [(s.lane, s.name, s.graph, s.node) for s in line.gpu] == [
        ("GPU 1", "add_one", None, None), ("GPU 1", "work", 0, 1), ("GPU 1", "work", 0, 0), ("GPU 1", "memcpy DtoH", 0, 2),
        ("GPU 2", "memset", None, None),
    ]  # fmt: skip
    assert line.launches == 2
    assert [s.duration_us for s in line.gpu] == pytest.approx([0.05, 0.05, 0.05, 0.05, 0.01])  # no digit lost to the epoch
    assert line.gpu_busy_us == pytest.approx(0.21)


def test_graph_launches_whose_work_was_not_seen_are_counted_in_the_note(cupti):
    def fn():
        cupti.call(Kind.RUNTIME, 1, 100, 200, 11)
        cupti.work(Kind.CONCURRENT_KERNEL, 300, 350, 11, name="add_one")
        cupti.call(Kind.RUNTIME, 3, 300, 400, 14)

    assert "nothing of what 1 graph launch ran" in record(fn).note


def test_calls_without_any_work_are_host_only(cupti):
    trace = record(lambda: cupti.call(Kind.RUNTIME, 3, 300, 400, 14))
    line = of_trace(trace, current().provenance)
    assert line.source == "host only"
    assert (line.gpu_busy_us, line.gpu_idle, line.launches, line.advice) == (None,) * 4


def test_what_fn_raises_switches_cupti_off(cupti):
    with pytest.raises(KeyError):
        record(lambda: {}["mine"])
    assert (cupti.enabled, cupti.flushed) == ([], 1)
    assert record(lambda: None).source == "CUPTI"


@pytest.mark.parametrize("kind", [Kind.CONCURRENT_KERNEL, Kind.DRIVER])
def test_where_cupti_refuses_the_host_alone_is_timed(monkeypatch, kind):
    fake = FakeCupti(kind)
    install(monkeypatch, fake)
    trace = record(lambda: None)
    assert fake.enabled == []
    assert trace.source == "host only"
    assert "MULTIPLE_SUBSCRIBERS" in trace.note
    line = of_trace(trace, current().provenance)
    assert [(s.name, s.kind) for s in line] == [("fn", "call"), ("synchronize", "synchronize")]
    assert "what the GPU did is unknown" in repr(line)
    assert "not seen" in [text.get_text() for text in line.figure().axes[0].texts]


def test_without_cupti_the_note_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupti", None)
    trace = record(lambda: None)
    assert (trace.source, len(trace.host), trace.device) == ("host only", 2, [])
    assert "uv pip install" in trace.note


@pytest.mark.parametrize(
    ("packages", "said"), [({"cupy-cuda13x": "14.2.0"}, 1), ({}, 0), ({"cupy": "14", "cupti-python": "13.0.1"}, 0)]
)
def test_doctor_says_where_a_gpu_would_not_be_seen(capsys, monkeypatch, packages, said):
    from onelaunch import cli
    from onelaunch.device import Found

    monkeypatch.setattr(cli, "find", lambda: Found(packages=packages))
    cli.main(["doctor"])
    assert capsys.readouterr().out.count("ol.timeline does not see the GPU   -> uv pip install 'cupti-python==13.0.*'") == said
