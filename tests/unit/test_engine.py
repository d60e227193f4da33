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
from onelaunch.sim.errors import CUDARuntimeError, NotSimulatedError


@pytest.fixture
def gpu():
    """A fresh device behind the faces."""
    fresh = sim_gpu.Gpu()
    before = sim_gpu.swap(fresh)
    yield fresh
    sim_gpu.swap(before)


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
    with pytest.raises(CUDARuntimeError, match="cudaErrorIllegalAddress"):
        add_one[1, 1, on_stream](array)


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


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: cp.linalg, "cupy.linalg"),
        (lambda: cp.RawKernel, "cupy.RawKernel"),
        (lambda: cp.cuda.ExternalStream, "cupy.cuda.ExternalStream"),
        (lambda: cuda.shared, "numba.cuda.shared"),
        (lambda: cuda.syncthreads, "numba.cuda.syncthreads"),
        (lambda: time.strftime, "time.strftime"),
        (lambda: cp.cuda.Stream(ptds=True), "cupy.cuda.Stream(ptds=True)"),
        (lambda: cp.cuda.Stream().launch_host_func, "cupy.cuda.Stream.launch_host_func"),
        (lambda: cp.zeros(3).dot, "cupy.ndarray.dot"),
        (lambda: cuda.to_device([1]).split, "numba.cuda.DeviceNDArray.split"),
        (lambda: cp.zeros(3)[[0, 1]], "cupy.ndarray indexing"),
    ],
)
def test_what_is_not_simulated_names_the_call_and_the_list(gpu, call, name):
    with pytest.raises(NotSimulatedError, match=r"docs/simulated_device\.md") as caught:
        call()
    assert name in str(caught.value)


def test_a_raw_kernel_points_to_numba():
    with pytest.raises(NotSimulatedError, match=r"numba's cuda\.jit"):
        cp.RawKernel  # noqa: B018


@pytest.mark.parametrize(
    ("launch", "error", "message"),
    [
        (lambda k, a: k[1](a), ValueError, "griddim and blockdim"),
        (lambda k, a: k(a), ValueError, "launch configuration"),
        (lambda k, a: k[0, 1](a), RuntimeError, "CUDA_ERROR_INVALID_VALUE"),
        (lambda k, a: k[1, 1025](a), RuntimeError, "CUDA_ERROR_INVALID_VALUE"),
        (lambda k, a: k[-1, 1](a), RuntimeError, "CUDA_ERROR_INVALID_VALUE"),
        (lambda k, a: k[1, 1](), TypeError, "takes 1 arguments, 0 given"),
        (lambda k, a: k["1", 1](a), TypeError, "a grid or block is an int"),
        (lambda k, a: k[1, 1, 12345](a), RuntimeError, "cudaErrorInvalidResourceHandle"),
    ],
)
def test_a_wrong_launch_is_refused(gpu, launch, error, message):
    x = cp.zeros(1)
    with pytest.raises(error, match=message):
        launch(add_one, cuda.as_cuda_array(x))


def test_arrays_do_not_mix_with_host_arrays(gpu):
    import numpy as np

    with pytest.raises(TypeError, match="Unsupported type"):
        cp.zeros(3) + np.ones(3)
    with pytest.raises(TypeError, match="Implicit conversion to a NumPy array is not allowed"):
        np.asarray(cp.zeros(3))


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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["launch", "nap", "event", "wait", "sync"]), st.integers(0, 2)), max_size=40))
def test_every_launch_runs_exactly_once_and_time_never_goes_back(steps):
    """Random work on three streams with events between them: counts are right and the clock only advances."""
    before = sim_gpu.swap(sim_gpu.Gpu())
    try:
        gpu = sim_gpu.current()
        streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
        work = [prepared(s) for s in streams]
        expected, events, last = [0, 0, 0], [], gpu.now_us
        for what, k in steps:
            _, array, on_stream = work[k]
            if what in ("launch", "nap"):
                (add_one if what == "launch" else nap)[1, 1, on_stream](array)
                expected[k] += 1
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
