"""The virtual clocks: what costs the host time, when work runs, and in which order."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onelaunch.sim import cupy_face as cp
from onelaunch.sim import gpu as sim_gpu
from onelaunch.sim import numba_face as cuda
from onelaunch.sim import time_face as time
from onelaunch.sim.costs import Costs, Knots
from onelaunch.sim.errors import CUDAError, CUDARuntimeError


@cuda.jit
def add_one(x):
    x[0] += 1


@cuda.jit
def nap(x):
    cuda.nanosleep(100_000)
    x[0] += 1


def prepared(stream):
    with stream:
        x = cp.zeros(1, dtype=cp.float32)
    stream.synchronize()
    return x, cuda.as_cuda_array(x), cuda.external_stream(stream.ptr)


def test_python_is_free_and_calls_cost_time(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    _, array, on_stream = prepared(stream)
    before = gpu.now_us
    sum(range(100_000))
    assert gpu.now_us == before
    add_one[1, 1, on_stream](array)
    costs = gpu.costs.launch["numba"]
    assert gpu.now_us - before > costs.per_launch_us
    again = gpu.now_us
    add_one[1, 1, on_stream](array)
    assert gpu.now_us - again == pytest.approx(costs.per_launch_us)


def test_the_launch_queue_blocks_the_host(gpu):
    """Until the queue is full the host runs ahead; from then on each launch waits for a kernel to end."""
    stream = cp.cuda.Stream(non_blocking=True)
    _, array, on_stream = prepared(stream)
    depth, marks = gpu.costs.queue_depth, []
    for _ in range(depth + 600):
        nap[1, 1, on_stream](array)
        marks.append(gpu.now_us)
    steps = [b - a for a, b in itertools.pairwise(marks)]
    first = next(i for i, step in enumerate(steps) if step > 50)
    assert depth <= first < depth + 300  # some kernels were done by then
    period = 100 + gpu.costs.kernel_overhead_us + gpu.costs.stream_gap_us
    assert steps[-1] == pytest.approx(period, rel=0.01)


def test_kernels_of_two_streams_overlap(gpu):
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    work = [prepared(s) for s in streams]
    start = gpu.now_us
    for i in range(20):
        _, array, on_stream = work[i % 2]
        nap[1, 1, on_stream](array)
    for s in streams:
        s.synchronize()
    assert 1000 < gpu.now_us - start < 1500


def test_work_runs_when_its_time_comes(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    x, array, on_stream = prepared(stream)
    nap[1, 1, on_stream](array)
    assert x._view[0] == 0  # still ahead, in virtual time
    assert not stream.done
    time.sleep(200e-6)
    assert stream.done
    assert x._view[0] == 1


def test_sleep_moves_the_host_and_not_the_device(gpu):
    before = time.perf_counter()
    time.sleep(0.25)
    assert time.perf_counter() - before == pytest.approx(0.25)
    assert time.perf_counter_ns() == round(time.perf_counter() * 1e9)
    with pytest.raises(ValueError, match="non-negative"):
        time.sleep(-1)


def test_the_legacy_stream_waits_for_blocking_streams_only(gpu):
    for non_blocking, waits in ((False, True), (True, False)):
        stream = cp.cuda.Stream(non_blocking=non_blocking)
        _, array, on_stream = prepared(stream)
        nap[1, 1, on_stream](array)
        before = gpu.now_us
        cp.zeros(1).get()
        assert (gpu.now_us - before > 90) == waits
        stream.synchronize()


def test_a_second_stream_slows_the_nodes_of_a_graph(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    _, array, on_stream = prepared(stream)
    stream.begin_capture()
    for _ in range(100):
        add_one[1, 1, on_stream](array)
    graph = stream.end_capture()

    def replay() -> float:
        start = gpu.now_us
        graph.launch(stream)
        stream.synchronize()
        return gpu.now_us - start

    replay()
    alone = replay()
    second = cp.cuda.Stream(non_blocking=True)
    assert replay() - alone == pytest.approx(99 * gpu.costs.second_stream_us, rel=0.02)
    del second


def test_the_first_launch_of_a_graph_uploads_it(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    _, array, on_stream = prepared(stream)
    stream.begin_capture()
    for _ in range(512):
        add_one[1, 1, on_stream](array)
    graph = stream.end_capture()
    hosts = []
    for _ in range(2):
        start = gpu.now_us
        graph.launch(stream)
        hosts.append(gpu.now_us - start)
        stream.synchronize()
    assert hosts[0] > 20 * hosts[1]


def test_parallel_branches_overlap_in_a_graph(gpu):
    origin, fork = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    work = [prepared(s) for s in (origin, fork)]
    origin.begin_capture()
    fork.wait_event(origin.record())
    for _, array, on_stream in work:
        for _ in range(5):
            nap[1, 1, on_stream](array)
    origin.wait_event(fork.record())
    graph = origin.end_capture()
    graph.launch(origin)
    origin.synchronize()
    start = gpu.now_us
    graph.launch(origin)
    origin.synchronize()
    assert 500 < gpu.now_us - start < 600
    assert [float(x[0]) for x, _, _ in work] == [10.0, 10.0]


def test_an_index_out_of_range_kills_the_context(gpu):
    @cuda.jit
    def overrun(x):
        x[5] = 1

    stream = cp.cuda.Stream(non_blocking=True)
    _, array, on_stream = prepared(stream)
    overrun[1, 1, on_stream](array)
    for _ in range(2):
        with pytest.raises(CUDARuntimeError, match="cudaErrorIllegalAddress: an illegal memory access was encountered"):
            stream.synchronize()
    with pytest.raises(CUDAError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        add_one[1, 1, on_stream](array)


def test_a_dead_device_answers_every_call(gpu):
    """Nothing hangs and nothing runs: waiting calls raise, queries say no."""

    @cuda.jit
    def overrun(x):
        x[5] = 1

    stream, other = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    x, array, on_stream = prepared(stream)
    overrun[1, 1, on_stream](array)
    nap[1, 1, on_stream](array)
    event = stream.record()
    other.wait_event(event)
    for wait in (event.synchronize, other.synchronize, cp.cuda.Device().synchronize, x.get):
        with pytest.raises(CUDARuntimeError, match="cudaErrorIllegalAddress"):
            wait()
    assert not event.done
    assert not stream.done
    assert x._view[0] == 0


def test_a_typing_error_in_a_kernel_is_raised_once_and_the_device_lives(gpu):
    @cuda.jit
    def typo(x):
        x[0] = undefined_name  # noqa: F821

    stream = cp.cuda.Stream(non_blocking=True)
    x, array, on_stream = prepared(stream)
    typo[1, 1, on_stream](array)
    with pytest.raises(NameError, match="undefined_name") as caught:
        stream.synchronize()
    assert "raised by the kernel 'typo'" in caught.value.__notes__[0]
    add_one[1, 1, on_stream](array)
    stream.synchronize()
    assert float(x[0]) == 1.0


def test_a_replay_writes_to_whoever_owns_the_block_now(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        a = cp.zeros(256, dtype=cp.float32)
        array = cuda.as_cuda_array(a, sync=False)
        add_one[1, 1, cuda.external_stream(stream.ptr)](array)
        stream.synchronize()
        stream.begin_capture()
        add_one[1, 1, cuda.external_stream(stream.ptr)](array)
        graph = stream.end_capture()
        address = a.data.ptr
        del a, array
        b = cp.zeros(256, dtype=cp.float32)
        assert b.data.ptr == address
        graph.launch(stream)
        assert float(b[0]) == 1.0


def test_knots_interpolate_and_extend():
    knots = Knots((1, 10, 100), (1, 10, 19))
    assert [knots(x) for x in (1, 5.5, 10, 55, 100, 200)] == pytest.approx([1, 5.5, 10, 14.5, 19, 29])
    assert Knots((10, 20), (1, 11))(0) == 0  # never below zero
    for x, us in (((1,), (1,)), ((1, 1), (1, 2)), ((2, 1), (1, 2)), ((1, 2), (1,))):
        with pytest.raises(ValueError, match="knots need"):
            Knots(x, us)


def test_costs_survive_a_round_trip():
    costs = Costs.load()
    assert Costs.from_json(costs.to_json()) == costs


def naps(count: int, stream, array):
    """`count` kernels of 100 µs each, captured."""
    stream.begin_capture()
    for _ in range(count):
        nap[1, 1, cuda.external_stream(stream.ptr)](array)
    graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    return graph


def test_a_kernel_writes_when_it_ends(gpu):
    """What reads in the meantime, on another stream, reads what was there before."""
    slow, fast = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    x, array, on_slow = prepared(slow)
    nap[1, 1, on_slow](array)
    with fast:
        early = x + 0
    assert float(early[0]) == 0
    slow.synchronize()
    assert float(x[0]) == 1


def test_an_event_orders_two_streams(gpu):
    @cuda.jit
    def double(x):
        x[0] *= 2

    results = []
    for ordered in (False, True):
        first, second = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
        x, array, on_first = prepared(first)
        nap[1, 1, on_first](array)
        if ordered:
            second.wait_event(first.record())
        double[1, 1, cuda.external_stream(second.ptr)](array)
        cp.cuda.Device().synchronize()
        results.append(float(x[0]))
    assert results == [1.0, 2.0]


def test_a_graph_is_half_done_half_way(gpu):
    stream, other = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    x, array, _ = prepared(stream)
    graph = naps(10, stream, array)
    graph.launch(stream)
    time.sleep(550e-6)
    with other:
        assert 14 <= float(x[0]) <= 16
    stream.synchronize()
    assert float(x[0]) == 20


def test_one_executable_graph_runs_one_replay_at_a_time(gpu):
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    x, array, _ = prepared(streams[0])
    graph = naps(5, streams[0], array)
    start = gpu.now_us
    for s in streams:
        graph.launch(s)
    for s in streams:
        s.synchronize()
    assert gpu.now_us - start > 1000  # 2 × 5 × 100 µs: they did not overlap
    assert float(x[0]) == 15


def test_polling_moves_the_host_on_until_the_work_is_done(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    _, array, on_stream = prepared(stream)
    for of_event in (False, True):
        nap[1, 1, on_stream](array)
        asked = stream.record() if of_event else stream
        polls = next(i for i in range(10_000) if asked.done)
        assert polls > 10


def test_copies_wait_for_the_legacy_stream(gpu):
    """A synchronous copy on a blocking stream comes after what the legacy stream does, as a kernel there would."""
    x = cp.zeros(1, dtype=cp.float32)
    nap[1, 1](x)
    with cp.cuda.Stream():
        assert float(x[0]) == 1
    nap[1, 1](x)
    with cp.cuda.Stream(non_blocking=True):
        assert float(x[0]) == 1


def test_the_legacy_stream_cannot_depend_on_a_capture(gpu):
    stream = cp.cuda.Stream()  # a blocking one
    _, array, _ = prepared(stream)
    stream.begin_capture()
    with pytest.raises(CUDAError, match="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
        add_one[1, 1](array)
    with pytest.raises(CUDARuntimeError, match="cudaErrorStreamCaptureInvalidated"):
        stream.end_capture()


def test_a_capturing_stream_that_is_dropped_leaves_nothing_behind(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    del stream
    cp.cuda.Device().synchronize()  # illegal while anything captures
    assert gpu.captures == []
    assert list(gpu.streams) == [0]


def test_an_event_of_a_capture_cannot_be_waited_for(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    event = stream.record()
    with pytest.raises(CUDARuntimeError, match="cudaErrorCapturedEvent"):
        event.synchronize()
    with pytest.raises(CUDARuntimeError, match="cudaErrorStreamCaptureInvalidated"):
        stream.end_capture()


def test_a_sleep_in_a_device_function_takes_time(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    x, array, on_stream = prepared(stream)

    @cuda.jit(device=True)
    def pause():
        cuda.nanosleep(200_000)

    @cuda.jit
    def sleeper(x):
        pause()
        x[0] += 1

    start = gpu.now_us
    sleeper[1, 1, on_stream](array)
    stream.synchronize()
    assert gpu.now_us - start > 200
    assert float(x[0]) == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["launch", "nap", "replay", "event", "wait", "poll", "sync"]), st.integers(0, 2)), max_size=40
    )
)
def test_every_launch_runs_exactly_once_and_time_never_goes_back(steps):
    """Random work on three streams with events between them: counts are right and the clock only advances."""
    before = sim_gpu.swap(sim_gpu.Gpu())
    try:
        gpu = sim_gpu.current()
        streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
        work = [prepared(s) for s in streams]
        graphs = [naps(3, s, array) for s, (_, array, _) in zip(streams, work, strict=True)]
        expected, events, last = [3, 3, 3], [], gpu.now_us
        for what, k in steps:
            _, array, on_stream = work[k]
            if what in ("launch", "nap"):
                (add_one if what == "launch" else nap)[1, 1, on_stream](array)
                expected[k] += 1
            elif what == "replay":  # of any stream's graph, on any stream
                graphs[k].launch(streams[len(events) % 3])
                expected[k] += 3
            elif what == "poll":
                assert streams[k].done in (True, False)
            elif what == "event":
                events.append(streams[k].record())
            elif what == "wait" and events:
                streams[k].wait_event(events[-1])
            elif what == "sync":
                streams[k].synchronize()
                assert streams[k].done
            assert gpu.now_us >= last
            last = gpu.now_us
        cp.cuda.Device().synchronize()
        assert [float(x[0]) for x, _, _ in work] == expected
    finally:
        sim_gpu.swap(before)
