"""What chapter 01 relies on, held on both devices: run once simulated, once with ONELAUNCH_DEVICE=live."""

from __future__ import annotations

import pytest


@pytest.fixture
def add_one(cuda):
    @cuda.jit
    def add_one(x):
        x[0] += 1

    return add_one


@pytest.fixture
def counter(cp, cuda, stream):
    """(CuPy array of one float32 zero, the same as a Numba array, the stream for Numba)."""
    with stream:
        x = cp.zeros(1, dtype=cp.float32)
    stream.synchronize()
    return x, cuda.as_cuda_array(x, sync=False), cuda.external_stream(stream.ptr)


def test_each_launch_runs_once(add_one, counter, stream):
    x, array, on_stream = counter
    for _ in range(512):
        add_one[1, 1, on_stream](array)
    stream.synchronize()
    assert x.get().tolist() == [512.0]


def test_captured_launches_do_not_run_until_replayed(add_one, counter, stream):
    x, array, on_stream = counter
    add_one[1, 1, on_stream](array)
    stream.synchronize()
    stream.begin_capture()
    for _ in range(512):
        add_one[1, 1, on_stream](array)
    graph = stream.end_capture()
    assert x.get().tolist() == [1.0]
    for _ in range(1000):
        graph.launch(stream)
    stream.synchronize()
    assert x.get().tolist() == [512_001.0]


def test_numba_and_cupy_see_the_same_memory(counter):
    x, array, _ = counter
    x[0] = 7
    assert array.copy_to_host().tolist() == [7.0]
    assert array.shape == x.shape
    assert array.dtype == x.dtype


def test_a_cupy_array_is_a_kernel_argument(add_one, counter, stream):
    x, _, on_stream = counter
    add_one[1, 1, on_stream](x)
    stream.synchronize()
    assert x.get().tolist() == [1.0]


def test_a_host_array_argument_is_copied_there_and_back(add_one):
    import numpy as np

    host = np.full(1, 4.0, dtype=np.float32)
    add_one[1, 1](host)
    assert host.tolist() == [5.0]


def test_pointer_argument(device, cuda, counter, stream):
    x, _, on_stream = counter
    types = device.types

    @cuda.jit(types.void(types.CPointer(types.float32)))
    def add_one(p):
        p[0] += 1

    add_one[1, 1, on_stream](x.data.ptr)
    stream.synchronize()
    assert x.get().tolist() == [1.0]


def test_thread_indices(cp, cuda):
    @cuda.jit
    def number(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 1000 * cuda.blockIdx.x + cuda.threadIdx.x + cuda.blockDim.x + cuda.gridDim.x

    out = cp.zeros(10, dtype=cp.int64)
    number[3, 4](out)
    cp.cuda.Device().synchronize()
    assert out.get().tolist() == [1000 * (i // 4) + i % 4 + 4 + 3 for i in range(10)]


def test_two_dimensional_grid(cp, cuda):
    @cuda.jit
    def number(out):
        x, y = cuda.grid(2)
        if x < out.shape[0] and y < out.shape[1]:
            out[x, y] = 10 * x + y

    out = cp.zeros((3, 5), dtype=cp.int32)
    number[(2, 3), (2, 2)](out)
    cp.cuda.Device().synchronize()
    assert out.get().tolist() == [[10 * x + y for y in range(5)] for x in range(3)]


def test_atomics_count_every_thread(cp, cuda):
    @cuda.jit
    def count(total):
        cuda.atomic.add(total, 0, 1)

    total = cp.zeros(1, dtype=cp.int32)
    count[8, 32](total)
    cp.cuda.Device().synchronize()
    assert int(total[0]) == 256


def test_streams_count_apart(add_one, cp, cuda):
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
    counters = cp.zeros((4, 1), dtype=cp.float32)
    cp.cuda.Device().synchronize()
    arrays = [cuda.as_cuda_array(counters[k], sync=False) for k in range(4)]
    for i in range(10):
        add_one[1, 1, cuda.external_stream(streams[i % 4].ptr)](arrays[i % 4])
    for s in streams:
        s.synchronize()
    assert counters.ravel().get().tolist() == [3.0, 3.0, 2.0, 2.0]


def test_work_is_asynchronous_until_synchronised(cuda, counter, stream):
    @cuda.jit
    def nap(x):
        cuda.nanosleep(900_000)
        x[0] += 1

    _, array, on_stream = counter
    nap[1, 1, on_stream](array)  # compiles
    stream.synchronize()
    for _ in range(20):
        nap[1, 1, on_stream](array)
    assert not stream.done
    stream.synchronize()
    assert stream.done


def test_an_event_orders_two_streams(cp, cuda, counter):
    @cuda.jit
    def slow_set(x):
        cuda.nanosleep(900_000)
        x[0] = 5

    @cuda.jit
    def double(x):
        x[0] *= 2

    x, array, _ = counter
    first, second = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    slow_set[1, 1, cuda.external_stream(first.ptr)](array)
    double[1, 1, cuda.external_stream(second.ptr)](array)
    cp.cuda.Device().synchronize()
    x[0] = 0
    cp.cuda.Device().synchronize()
    slow_set[1, 1, cuda.external_stream(first.ptr)](array)
    second.wait_event(first.record())
    double[1, 1, cuda.external_stream(second.ptr)](array)
    second.synchronize()
    assert x.get().tolist() == [10.0]


def test_elapsed_time_needs_reached_events(cp, stream):
    before, after = cp.cuda.Event(), cp.cuda.Event()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidResourceHandle: invalid resource handle"):
        cp.cuda.get_elapsed_time(before, after)
    before.record(stream)
    after.record(stream)
    stream.synchronize()
    assert cp.cuda.get_elapsed_time(before, after) >= 0


def test_synchronising_in_a_capture_invalidates_it(cp, stream):
    error = cp.cuda.runtime.CUDARuntimeError
    stream.begin_capture()
    with pytest.raises(error, match="cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"):
        stream.synchronize()
    with pytest.raises(error, match="cudaErrorStreamCaptureInvalidated: operation failed due to a previous error"):
        stream.end_capture()
    stream.synchronize()


def test_a_second_begin_is_refused(cp, stream):
    stream.begin_capture()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalState: the operation cannot be performed"):
        stream.begin_capture()
    stream.end_capture()


def test_an_unjoined_fork_is_refused(add_one, counter, cp, cuda):
    _, array, _ = counter
    origin, fork = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    add_one[1, 1, cuda.external_stream(fork.ptr)](array)
    fork.synchronize()
    origin.begin_capture()
    fork.wait_event(origin.record())
    add_one[1, 1, cuda.external_stream(fork.ptr)](array)
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnjoined: capturing stream has unjoined"):
        origin.end_capture()


def test_a_block_too_large_is_refused(add_one, counter):
    _, array, on_stream = counter
    with pytest.raises(Exception, match="CUDA_ERROR_INVALID_VALUE"):
        add_one[1, 2048, on_stream](array)


def test_elementwise_kernels(cp):
    a = cp.arange(6, dtype=cp.float32).reshape(2, 3)
    b = a * 2 + 1
    assert b.get().tolist() == [[1.0, 3.0, 5.0], [7.0, 9.0, 11.0]]
    assert (b.dtype, b.shape) == (cp.float32, (2, 3))
    cp.add(b, 1, out=b)
    assert float(b.sum()) == 42.0
    b[0] = 0
    assert (float(b[1, 2]), float(b[0, 1])) == (12.0, 0.0)


def test_the_pool_hands_a_freed_block_back(cp):
    a = cp.zeros(4096, dtype=cp.float32)
    address = a.data.ptr
    del a
    assert cp.zeros(4096, dtype=cp.float32).data.ptr == address


def test_measure_finds_the_waiting_host(device, add_one, counter, stream):
    from onelaunch.measure import measure

    _, array, on_stream = counter

    def loop() -> None:
        for _ in range(128):
            add_one[1, 1, on_stream](array)

    timing = measure(loop, stream=stream, repeats=5)
    assert timing.host_us <= timing.total_us < 1.5 * timing.host_us
    assert timing.provenance.kind == {"live": "live", "simulated": "modelled"}[device.kind]


def test_measure_leaves_the_stream_usable_when_fn_raises(add_one, counter, stream):
    from onelaunch.measure import measure

    x, array, on_stream = counter
    add_one[1, 1, on_stream](array)

    def captures_and_fails() -> None:
        stream.begin_capture()
        add_one[1, 1, on_stream](array)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        measure(captures_and_fails, stream=stream)
    assert not stream.is_capturing()
    add_one[1, 1, on_stream](array)
    stream.synchronize()
    assert x.get().tolist() == [2.0]


@pytest.mark.parametrize("api", ["cpp", "bindings", "core", "rawkernel", "ufunc", "torch", "numba_ptr", "numba"])
def test_every_api_launches_as_often_as_it_says(device, stream, api):
    if api not in device.apis:
        pytest.skip(f"{api} is not on this device")
    work = device.work(api)
    work.prepare([stream])
    work.count()
    times = work.run(37, [stream])
    assert work.count() == 37
    assert 0 < times.host_us <= times.total_us


def test_a_graph_of_any_api_replays_its_launches(device, stream):
    for api in device.apis:
        work = device.work(api)
        work.prepare([stream])
        work.count()
        stream.begin_capture()
        work.issue(5, [stream])
        graph = stream.end_capture()
        work.run_replays(graph, stream, 3)
        assert (api, work.count()) == (api, 15)


def test_traces_say_when_each_call_and_kernel_was(device, stream):
    work = device.work("rawkernel")
    work.set_kernel_us(20)
    work.trace(8, stream)
    loop, replay = work.trace(8, stream), work.trace_replay(8, stream)
    work.set_kernel_us(0)
    work.count()
    assert [s.name for s in loop.host] == ["launch"] * 8 + ["synchronize"]
    assert [s.name for s in replay.host] == ["graph launch", "synchronize"]
    for trace in (loop, replay):
        assert len(trace.device) == 8
        assert all(15 < s.end_us - s.start_us < 30 for s in trace.device)
        starts = [s.start_us for s in trace.device]
        assert starts == sorted(starts)
        # The clocks of host and GPU are aligned: the first kernel starts after its call began, and ends before the wait does.
        assert trace.host[0].start_us < trace.device[0].end_us < trace.host[-1].end_us + 3


def test_longer_kernels_make_the_gpu_the_slower_one(device, stream):
    from onelaunch.measure.comparison import Comparison

    comparison = Comparison(device)
    short, long = comparison.at("rawkernel", 256, 0), comparison.at("rawkernel", 256, 100)
    assert short.slopes.bound_by(0) == "host"
    assert long.slopes.bound_by(100) == "GPU"
    assert short.speed_up > 2 > long.speed_up
    assert short.idle_share > 0.5 > long.idle_share
