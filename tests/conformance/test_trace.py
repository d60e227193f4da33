"""`trace_capture` on both devices: for every row of the legality table that is illegal, it names the line."""

from __future__ import annotations

import gc
import json
import weakref

import pytest
from harness import TRANSCRIPTS, Lab, load_cases

from onelaunch.instruments.trace import trace_capture
from onelaunch.sim import gpu as sim_gpu

load_cases()
from cases import legality  # noqa: E402

ROWS = json.loads(TRANSCRIPTS.read_text(encoding="utf-8"))["cases"]
MODES = {"global": "global", "threadlocal": "thread_local", "relaxed": "relaxed"}
LINES = {  # a part of the line that each operation breaks the capture with
    "kernel": "lab.launch", "cupy-array-to-numba": "scratch.increment[", "numpy-array-to-numba": "scratch.increment[",
    "stream-synchronize": "stream.synchronize()", "device-synchronize": "Device().synchronize()", "stream-done": "stream.done",
    "float-of-element": "float(scratch.d[0])", "empty-big": "lab.cp.empty", "runtime-malloc": "runtime.malloc(",
    "times-two": "scratch.d * 2", "matmul": "scratch.matrix @ scratch.matrix", "sum": "scratch.ints.sum()",
    "sort": "lab.cp.sort", "fft": "lab.cp.fft.fft", "random": "lab.cp.random.random", "begin": "begin_capture",
    "numba-synchronize": "lab.cuda.synchronize", "numba-to-device": "to_device",
}  # fmt: skip


def illegal(name: str) -> bool:
    """Whether the H200's transcript of a row has an error in the operation, or a capture that was lost."""
    outcome = dict(ROWS[name])
    return outcome["operation"] != "ok" or outcome["end"] != "ok"


def rows() -> list[tuple[str, str, str]]:
    """(mode, warmth, operation) of each illegal row."""
    found = [tuple(name.split("/")[1:]) for name in ROWS if name.startswith("legality/") and illegal(name)]
    return [row for row in found if "rawkernel" not in row[2]]


@pytest.fixture
def lab(device, cp):
    """On the simulated device, a GPU that nothing has touched yet."""
    before = sim_gpu.swap(sim_gpu.Gpu()) if device.kind == "simulated" else None
    yield Lab(device)
    cp.cuda.Device().synchronize()
    if before is not None:
        sim_gpu.swap(before)


def test_there_are_rows():
    assert len(rows()) >= 40


@pytest.mark.parametrize(("mode", "warmth", "operation"), rows())
def test_the_line_is_named(lab, mode, warmth, operation):
    if warmth == "cold" and lab.device.kind == "live":
        pytest.skip("only a process that has done nothing yet is cold")
    stream = lab.stream()
    function, _ = legality.OPERATIONS[operation]
    lab.kernel("add")
    scratch = legality.scratch_of(lab, operation, mode)
    if warmth == "warm":
        legality.warm_up(lab, stream, scratch, function, ends=operation == "begin")
    trace = trace_capture(lambda: function(lab, stream, scratch), stream, mode=MODES[mode])
    assert not trace.ok
    if operation == "fork":
        assert "Unjoined" in str(trace.error)
        assert "launch" in trace.culprit.line.source
    else:
        assert trace.culprit is not None, trace
        assert LINES[operation] in trace.culprit.line.source, trace
        assert trace.culprit.line.function == function.__name__
        assert trace.culprit.why
        assert trace.culprit.fix
    assert not stream.is_capturing()
    stream.synchronize()


@pytest.fixture
def increment(cp, cuda):
    @cuda.jit
    def increment(x):
        x[0] += 1

    x = cp.zeros(4, dtype=cp.float32)
    cp.cuda.Device().synchronize()
    array = cuda.as_cuda_array(x, sync=False)
    increment[1, 1](array)
    cp.cuda.Device().synchronize()
    return increment, array, x


def test_each_line_says_what_it_added(increment, cp, cuda, stream):
    kernel, array, x = increment
    on = cuda.external_stream(stream.ptr)
    with stream:
        cp.add(x, 1, out=x)
    stream.synchronize()

    def work():
        for _ in range(3):
            kernel[1, 1, on](array)
        with stream:
            cp.add(x, 1, out=x)

    trace = trace_capture(work, stream)
    assert trace.ok, trace
    assert trace.nodes == 4
    added = {line.source.strip(): (line.hits, line.nodes, line.kinds) for line in trace.lines}
    assert added["kernel[1, 1, on](array)"] == (3, 3, {"Kernel": 3})
    assert added["cp.add(x, 1, out=x)"] == (1, 1, {"Kernel": 1})


def test_the_captured_graph_can_be_looked_at(increment, cuda, stream):
    import onelaunch as ol

    kernel, array, x = increment
    on = cuda.external_stream(stream.ptr)
    graph = trace_capture(lambda: kernel[1, 1, on](array), stream).graph
    assert [node.name for node in ol.graph_view(graph).nodes] == ["increment"]
    assert [p.owner for p in ol.addresses(graph, x=x).pointers if p.address == x.data.ptr] == ["x"]


def test_a_launch_outside_the_graph_is_flagged(increment, cuda, stream):
    kernel, array, _ = increment
    on = cuda.external_stream(stream.ptr)

    def forgets_the_stream():
        kernel[1, 1, on](array)
        kernel[1, 1](array)

    trace = trace_capture(forgets_the_stream, stream)
    assert [line.source.strip() for line in trace.outside] == ["kernel[1, 1](array)"]
    assert trace.nodes == 1
    assert not trace.ok
    assert "ran at once, outside the graph" in repr(trace)


def test_several_statements_on_one_line(increment, cp, cuda, stream):
    """What need not run each time that its line is come by is not called forgotten; what ran outside on each turn is."""
    kernel, array, x = increment
    on = cuda.external_stream(stream.ptr)
    kernel[1, 1](array)
    with stream:
        cp.add(x, 1, out=x)
    cp.cuda.Device().synchronize()
    never = False

    # fmt: off
    def fine():
        for _ in range(3): kernel[1, 1, on](array)  # noqa: E701
        for _ in range(0): kernel[1, 1](array)  # noqa: E701
        if never: kernel[1, 1](array)  # noqa: E701
        if never or on: kernel[1, 1, on](array)  # noqa: E701
        with stream: cp.add(x, 1, out=x)  # noqa: E701
        a = 1; kernel[1, 1, on](array)  # noqa: E702
        [kernel[1, 1, on](array) for _ in range(a - 1)]
        a > 1 and kernel[1, 1](array)
        kernel[1, 1](array) if never else None

    def forgets():
        for _ in range(3): kernel[1, 1](array)  # noqa: E701
        with stream: kernel[1, 1](array)  # noqa: E701
        a = 1; kernel[1, a](array)  # noqa: E702
        for _ in range(3): kernel[1, 1, on](array)  # noqa: E701
    # fmt: on

    trace = trace_capture(fine, stream)
    assert trace.ok, trace
    assert trace.outside == ()
    assert trace.nodes == 6
    trace = trace_capture(forgets, stream)
    assert [line.source.strip().split("  #")[0] for line in trace.outside] == [
        "for _ in range(3): kernel[1, 1](array)",
        "with stream: kernel[1, 1](array)",
        "a = 1; kernel[1, a](array)",
    ]
    assert trace.nodes == 3


def test_a_notebook_gets_a_table(increment, cuda, stream):
    kernel, array, _ = increment
    on = cuda.external_stream(stream.ptr)

    def once():
        kernel[1, 1, on](array)
        assert 1 < 2

    def often():
        for _ in range(3):
            kernel[1, 1, on](array)
        stream.synchronize()

    kernel[1, 1, on](array)
    stream.synchronize()
    page = trace_capture(once, stream)._repr_html_()
    assert ">ran<" not in page
    assert "assert 1 &lt; 2" in page
    assert "<b>captured: 1 node</b>" in page
    page = trace_capture(often, stream)._repr_html_()
    assert ">ran<" in page
    assert ">× 3<" in page
    assert "+ 3 Kernel" in page
    rows = page.split("<tr>")
    assert [("#D55E00" in row) for row in rows] == [("stream.synchronize()" in row) for row in rows]


def test_the_call_inside_a_lambda_is_named(stream):
    trace = trace_capture(lambda: stream.synchronize(), stream)
    assert trace.culprit.called == "stream.synchronize()"
    trace = trace_capture(lambda: [stream.synchronize() for _ in range(2)], stream)
    assert trace.culprit.called == "stream.synchronize()"


def test_a_copy_back_is_flagged(increment, cuda, stream):
    kernel, array, _ = increment
    on = cuda.external_stream(stream.ptr)

    def reads_too_early():
        kernel[1, 1, on](array)
        return array.copy_to_host(stream=on)

    trace = trace_capture(reads_too_early, stream)
    assert [line.kinds for line in trace.stale] == [{"Memcpy": 1}]
    assert "not filled yet" in repr(trace)


def test_functions_that_it_calls_are_followed(increment, cuda, stream):
    kernel, array, _ = increment
    on = cuda.external_stream(stream.ptr)

    def inner():
        kernel[1, 1, on](array)
        stream.synchronize()

    def middle():
        inner()

    def outer():
        middle()

    two, none = trace_capture(outer, stream, depth=2), trace_capture(outer, stream, depth=0)
    assert (two.culprit.line.source.strip(), two.culprit.line.depth) == ("stream.synchronize()", 2)
    assert (none.culprit.line.source.strip(), none.culprit.line.depth) == ("middle()", 0)


def test_a_function_that_captures_itself(increment, cuda, stream):
    kernel, array, _ = increment
    on = cuda.external_stream(stream.ptr)

    def whole():
        stream.begin_capture()
        kernel[1, 1, on](array)
        stream.synchronize()
        stream.end_capture()

    trace = trace_capture(whole, stream, mode=None)
    assert trace.culprit.line.source.strip() == "stream.synchronize()"
    assert not stream.is_capturing()


def test_what_the_function_raises_is_kept(increment, cuda, stream):
    kernel, array, _ = increment
    on = cuda.external_stream(stream.ptr)

    def fails():
        kernel[1, 1, on](array)
        raise KeyError("mine")

    trace = trace_capture(fails, stream)
    assert isinstance(trace.error, KeyError)
    assert trace.culprit is None
    assert not trace.ok
    assert not stream.is_capturing()


def test_a_failed_trace_keeps_no_array_alive(cp, stream):
    def fail():
        x = cp.zeros(4, dtype=cp.float32)
        return weakref.ref(x), trace_capture(lambda: float(x[0]), stream)

    seen, trace = fail()
    gc.collect()
    assert not trace.ok
    assert seen() is None
