"""Corners of the simulated device: what frees, deaths, threads, finalizers and changes in mid-flight must not break."""

from __future__ import annotations

import gc
import threading
import types as python_types

import numpy as np
import pytest

from onelaunch.sim import core_face as core
from onelaunch.sim import cudart_face as rt
from onelaunch.sim import cupy_face as cp
from onelaunch.sim import numba_face as cuda
from onelaunch.sim import types_face as types
from onelaunch.sim.errors import DRIVER_SENTENCES, RUNTIME_ERRORS, CUDAError, NotSimulatedError
from onelaunch.sim.gpu import Trace

MIB = 1 << 20
P, F = types.CPointer(types.float32), types.float32


@cuda.jit(types.void(P, F))
def add(p, value):
    p[0] += value


@cuda.jit(types.void(P, F))
def nap(p, value):
    cuda.nanosleep(900_000)
    p[0] += value


def ok(result: tuple):
    assert result[0].name == "cudaSuccess", result[0].name
    return result[1] if len(result) == 2 else result[1:]


def name(result: tuple) -> str:
    return result[0].name


def captured(stream, *launches):
    """The graph of `launches` (kernel, array, value) on a CuPy stream, as a runtime handle."""
    ok(rt.cudaStreamBeginCapture(stream.ptr, rt.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed))
    for kernel, x, value in launches:
        kernel[1, 1, cuda.external_stream(stream.ptr)](x.data.ptr, value)
    return ok(rt.cudaStreamEndCapture(stream.ptr))


@pytest.fixture
def stream(gpu):
    return cp.cuda.Stream(non_blocking=True)


# -- frees wait -------------------------------------------------------------------------------------------------------


def test_what_numba_frees_has_been_used_up(gpu):
    @cuda.jit
    def touch(x):
        x[0] += 1

    for _ in range(12):
        touch[1, 1](cuda.device_array(MIB, np.float32))
    cuda.synchronize()


def test_the_pool_waits_before_it_gives_blocks_back(gpu):
    cp.get_default_memory_pool().set_limit(64 * MIB)
    a = cp.empty(40 * MIB, dtype=cp.uint8)
    a += 1
    del a
    b = cp.empty(50 * MIB, dtype=cp.uint8)
    cp.cuda.Device().synchronize()
    assert b.nbytes == 50 * MIB


def test_free_all_blocks_leaves_a_relaxed_capture_alone(gpu, stream):
    stream.begin_capture()
    cp.get_default_memory_pool().free_all_blocks()
    stream.end_capture()


def test_freed_page_locked_memory_is_illegal_and_no_crash(gpu, stream):
    d, h = ok(rt.cudaMalloc(16)), ok(rt.cudaMallocHost(16))
    kind = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
    stream.begin_capture()
    ok(rt.cudaMemcpyAsync(h, d, 16, kind, stream.ptr))
    graph = stream.end_capture()
    assert name(rt.cudaMemcpy(h, d, 64 * MIB, kind)) == "cudaErrorInvalidValue"
    ok(rt.cudaFreeHost(h))
    graph.launch(stream)
    assert name(rt.cudaStreamSynchronize(stream.ptr)) == "cudaErrorIllegalAddress"


def test_a_copy_within_the_host_is_done_when_the_call_returns(gpu, stream):
    a, b = np.zeros(4), np.ones(4)
    nap[1, 1, cuda.external_stream(stream.ptr)](cp.zeros(1, dtype=cp.float32).data.ptr, 1)
    kind = rt.cudaMemcpyKind.cudaMemcpyHostToHost
    ok(rt.cudaMemcpyAsync(a.ctypes.data, b.ctypes.data, a.nbytes, kind, stream.ptr))
    assert a.tolist() == [1.0] * 4


def test_page_locked_memory_goes_with_its_pointer(gpu):
    pointer = cp.cuda.alloc_pinned_memory(1024)
    host = np.frombuffer(pointer, np.float32)
    host[0] = 3
    address = pointer.ptr
    assert host.ctypes.data == address
    assert gpu.memory.is_pinned(address, 1024)
    del pointer, host
    gc.collect()
    assert not gpu.memory.is_pinned(address)


def test_freed_memory_in_stream_order_is_given_back_when_it_is_needed(gpu):
    for i in range(200):
        ok(rt.cudaFreeAsync(ok(rt.cudaMallocAsync((1024 + i) * MIB, 0)), 0))
    cp.cuda.Device().synchronize()
    assert gpu.memory.mapped < 4 * MIB


@pytest.mark.parametrize("first", [rt.cudaMalloc, lambda n: rt.cudaMallocAsync(n, 0)])
def test_nothing_is_freed_twice(gpu, first):
    p = ok(first(1024))
    ok(rt.cudaFreeAsync(p, 0))
    assert name(rt.cudaFreeAsync(p, 0)) == "cudaErrorInvalidValue"
    assert name(rt.cudaFree(p)) in ("cudaErrorInvalidValue",)


# -- graphs -----------------------------------------------------------------------------------------------------------


def test_a_condition_begins_anew_with_each_replay(gpu, stream):
    set_condition = cuda.declare_device("cudaGraphSetConditional", types.void(types.uint64, types.uint32), abi="c")

    @cuda.jit(types.void(types.uint64, P))
    def once(handle, p):
        p[0] += 1
        set_condition(handle, 0)

    core.Device(0).set_current()
    x = cp.zeros(1, dtype=cp.float32)
    graph = core.graph.GraphDefinition()
    condition = graph.create_condition(default_value=1)
    body = graph.while_loop(condition).body
    body.launch(core.LaunchConfig(grid=1, block=1), core.Kernel._of(once), np.uint64(int(condition.handle)), x.data.ptr)
    executable = graph.instantiate()
    for _ in range(2):
        executable.launch(core.Stream.from_handle(stream.ptr))
    stream.synchronize()
    assert x.tolist() == [2.0]


def test_a_loop_that_never_ends_is_said_so(gpu, stream):
    core.Device(0).set_current()
    graph = core.graph.GraphDefinition()
    graph.while_loop(graph.create_condition(default_value=1))
    graph.instantiate().launch(core.Stream.from_handle(stream.ptr))
    with pytest.raises(RuntimeError, match="never ends"):
        stream.synchronize()


@pytest.mark.parametrize("beside", ["nothing", "another stream", "a trace"])
def test_a_race_between_branches_has_one_outcome(gpu, stream, beside):
    x, y, z = (cp.zeros(1, dtype=cp.float32) for _ in range(3))

    @cuda.jit(types.void(P, P))
    def copy(target, source):
        target[0] = source[0]

    side, fork = cp.cuda.Stream(non_blocking=True), cp.cuda.Event()
    stream.begin_capture()
    side.wait_event(stream.record(fork))
    nap[1, 1, cuda.external_stream(stream.ptr)](x.data.ptr, 1)
    copy[1, 1, cuda.external_stream(side.ptr)](y.data.ptr, x.data.ptr)
    stream.wait_event(side.record())
    graph = stream.end_capture()
    if beside == "another stream":
        nap[1, 1, cuda.external_stream(side.ptr)](z.data.ptr, 1)
    gpu.trace = Trace() if beside == "a trace" else None
    graph.launch(stream)
    cp.cuda.Device().synchronize()
    assert (x.tolist(), y.tolist()) == ([1.0], [0.0])


@pytest.mark.parametrize("busy", [False, True])
def test_a_python_error_in_one_node_leaves_the_others(gpu, stream, busy):
    @cuda.jit(types.void(P, F))
    def fails(p, _):
        p[0] = 1 // cuda.threadIdx.x

    x, other = cp.zeros(1, dtype=cp.float32), cp.cuda.Stream(non_blocking=True)
    executable = ok(rt.cudaGraphInstantiate(captured(stream, (fails, x, 0), (add, x, 7)), 0))
    if busy:
        nap[1, 1, cuda.external_stream(other.ptr)](cp.zeros(1, dtype=cp.float32).data.ptr, 1)
    ok(rt.cudaGraphLaunch(executable, stream.ptr))
    with pytest.raises(ZeroDivisionError):
        stream.synchronize()
    cp.cuda.Device().synchronize()
    assert x.tolist() == [7.0]


@pytest.mark.parametrize("busy", [False, True])
def test_a_wait_node_means_the_event_before_its_own_replay(gpu, stream, busy):
    event, other = ok(rt.cudaEventCreate()), cp.cuda.Stream(non_blocking=True)
    graph = ok(rt.cudaGraphCreate(0))
    record = ok(rt.cudaGraphAddEventRecordNode(graph, [], 0, event))
    wait = ok(rt.cudaGraphAddEventWaitNode(graph, [], 0, event))
    ok(rt.cudaGraphAddDependencies(graph, [wait], [record], None, 1))
    executable = ok(rt.cudaGraphInstantiate(graph, 0))
    if busy:
        nap[1, 1, cuda.external_stream(other.ptr)](cp.zeros(1, dtype=cp.float32).data.ptr, 1)
    ok(rt.cudaGraphLaunch(executable, stream.ptr))
    cp.cuda.Device().synchronize()


def test_a_changed_child_keeps_its_nodes(gpu, stream):
    x = cp.zeros(1, dtype=cp.float32)
    cp.cuda.Device().synchronize()
    outer, child, other = ok(rt.cudaGraphCreate(0)), captured(stream, (add, x, 1)), captured(stream, (add, x, 10))
    node = ok(rt.cudaGraphAddChildGraphNode(outer, [], 0, child))
    inner = ok(rt.cudaGraphGetNodes(ok(rt.cudaGraphChildGraphNodeGetGraph(node)), 1))[0][0]
    executable = ok(rt.cudaGraphInstantiate(outer, 0))
    ok(rt.cudaGraphExecChildGraphNodeSetParams(executable, node, other))
    ok(rt.cudaGraphLaunch(executable, stream.ptr))
    stream.synchronize()
    assert x.tolist() == [10.0]
    ok(rt.cudaGraphNodeSetEnabled(executable, inner, 0))
    ok(rt.cudaGraphLaunch(executable, stream.ptr))
    stream.synchronize()
    assert x.tolist() == [10.0]


def test_a_capture_goes_behind_its_own_nodes_only(gpu, stream):
    x = cp.zeros(1, dtype=cp.float32)
    foreign = ok(rt.cudaGraphGetNodes(captured(stream, (add, x, 1)), 1))[0][0]
    stream.begin_capture()
    answer = rt.cudaStreamUpdateCaptureDependencies(stream.ptr, [foreign], None, 1, 1)
    add[1, 1, cuda.external_stream(stream.ptr)](x.data.ptr, 1)
    tail = ok(rt.cudaStreamGetCaptureInfo(stream.ptr))[3][0]
    refused = rt.cudaGraphDestroyNode(tail)
    stream.end_capture()
    assert name(answer) == name(refused) == "cudaErrorInvalidValue"


def test_a_graph_too_large_for_the_device_is_refused_at_the_launch(gpu, stream):
    graph, params = ok(rt.cudaGraphCreate(0)), rt.cudaMemAllocNodeParams()
    params.poolProps.allocType = rt.cudaMemAllocationType.cudaMemAllocationTypePinned
    params.poolProps.location.type = rt.cudaMemLocationType.cudaMemLocationTypeDevice
    params.bytesize = 1 << 40
    ok(rt.cudaGraphAddMemAllocNode(graph, [], 0, params))
    executable = ok(rt.cudaGraphInstantiate(graph, 0))
    assert name(rt.cudaGraphLaunch(executable, stream.ptr)) == "cudaErrorMemoryAllocation"
    stream.synchronize()


def test_a_refused_free_node_leaves_nothing_behind(gpu, stream):
    stream.begin_capture()
    p = ok(rt.cudaMallocAsync(64, stream.ptr))
    stream.end_capture()
    other = ok(rt.cudaGraphCreate(0))
    foreign = ok(rt.cudaGraphAddEmptyNode(ok(rt.cudaGraphCreate(0)), [], 0))
    assert name(rt.cudaGraphAddMemFreeNode(other, [foreign], 1, p)) == "cudaErrorInvalidValue"
    ok(rt.cudaGraphAddMemFreeNode(other, [], 0, p))
    ok(rt.cudaGraphDestroy(other))
    ok(rt.cudaGraphAddMemFreeNode(ok(rt.cudaGraphCreate(0)), [], 0, p))


def test_the_upload_flag_is_for_the_call_with_parameters(gpu, stream):
    graph, params = captured(stream, (add, cp.zeros(1, dtype=cp.float32), 1)), rt.cudaGraphInstantiateParams()
    params.flags, params.uploadStream = 2, stream.ptr
    ok(rt.cudaGraphInstantiateWithParams(graph, params))
    assert name(rt.cudaGraphInstantiate(graph, 2)) == "cudaErrorInvalidValue"


# -- captures over streams and threads --------------------------------------------------------------------------------


def test_a_handed_over_array_is_an_edge_in_a_capture(gpu, stream):
    @cuda.jit
    def touch(x):
        x[0] += 1

    x, side = cp.zeros(1, dtype=cp.float32), cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        cp.add(x, 1, out=x)
        touch[1, 1, cuda.external_stream(side.ptr)](x)  # joins the capture
        stream.wait_event(side.record())
        graph = stream.end_capture()
    handles = ok(rt.cudaGraphGetNodes(graph.graph, 2))[0]
    assert [ok(rt.cudaGraphNodeGetType(h)).name for h in handles] == ["cudaGraphNodeTypeKernel"] * 2
    assert ok(rt.cudaGraphGetEdges(graph.graph))[3] == 1
    graph.launch(stream)
    assert x.tolist() in ([0.0], [2.0])  # the copy does not wait for a non-blocking stream
    stream.synchronize()
    assert x.tolist() == [2.0]


def in_thread(function):
    out = []
    thread = threading.Thread(target=lambda: out.append(function()))
    thread.start()
    thread.join()
    return out[0]


def test_a_new_thread_is_not_an_old_one(gpu, stream):
    mode = rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
    ok(in_thread(lambda: rt.cudaStreamBeginCapture(stream.ptr, mode)))
    assert name(in_thread(lambda: rt.cudaStreamEndCapture(stream.ptr))) == "cudaErrorStreamCaptureWrongThread"
    first, second = (in_thread(lambda: cp.cuda.Stream.ptds._stream) for _ in range(2))
    assert first is not second


def test_the_default_streams_cannot_be_destroyed(gpu):
    for handle in (0, 1, 2):
        assert name(rt.cudaStreamDestroy(handle)) == "cudaErrorInvalidResourceHandle"


def test_destroying_a_stream_waits_for_nothing(gpu):
    host = ok(rt.cudaMallocHost(4))
    handle = ok(rt.cudaStreamCreateWithFlags(1))
    value = gpu.memory.at(host, 4).view(np.float32)
    nap[1, 1, cuda.external_stream(int(handle))](host, 5)
    ok(rt.cudaStreamDestroy(handle))
    assert value[0] == 0
    assert name(rt.cudaStreamQuery(handle)) == "cudaErrorInvalidResourceHandle"
    cp.cuda.Device().synchronize()
    assert value[0] == 5
    assert int(handle) not in gpu.streams


def test_a_host_function_is_permitted_no_call(gpu, stream):
    seen = []
    other = ok(rt.cudaStreamCreateWithFlags(1))
    calls = (lambda: rt.cudaStreamDestroy(other), lambda: rt.cudaGraphCreate(0), lambda: rt.cudaMalloc(4))
    stream.launch_host_func(lambda _: seen.extend(name(call()) for call in calls), None)
    stream.synchronize()
    assert seen == ["cudaErrorNotPermitted"] * 3


def test_a_buffer_outlives_its_stream(gpu):
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(1024, stream=stream)
    stream.close()
    del buffer
    gc.collect()
    cp.cuda.Device().synchronize()


# -- copies, memsets, launches ----------------------------------------------------------------------------------------


def test_a_copy_within_the_device_does_not_hold_the_host(gpu):
    x, y = (cp.zeros(1, dtype=cp.float32) for _ in range(2))
    cp.cuda.Device().synchronize()
    before = gpu.now_us
    nap[1, 1](x.data.ptr, 1)
    ok(rt.cudaMemcpy(y.data.ptr, x.data.ptr, 4, rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice))
    assert gpu.now_us - before < 500
    assert y.tolist() == [1.0]


def test_all_rows_of_a_memset_must_be_there(gpu):
    p, params = ok(rt.cudaMalloc(4096)), rt.cudaMemsetParams()
    params.dst, params.elementSize, params.width, params.height, params.pitch = p, 1, 16, 10, 4 * MIB
    graph = ok(rt.cudaGraphCreate(0))
    assert name(rt.cudaGraphAddMemsetNode(graph, [], 0, params)) == "cudaErrorInvalidValue"


def test_page_locked_memory_can_be_set(gpu):
    host = ok(rt.cudaMallocHost(16))
    ok(rt.cudaMemset(host, 7, 16))
    cp.cuda.Device().synchronize()
    assert gpu.memory.at(host, 16).tolist() == [7] * 16


@pytest.mark.parametrize(
    "call",
    [
        lambda: rt.cudaEventCreateWithFlags(64), lambda: rt.cudaEventCreateWithFlags(rt.cudaEventInterprocess),
        lambda: rt.cudaHostAlloc(4, 64), lambda: rt.cudaStreamWaitEvent(0, ok(rt.cudaEventCreate()), 8),
        lambda: rt.cudaEventRecordWithFlags(ok(rt.cudaEventCreate()), 0, 8),
    ],
)  # fmt: skip
def test_unknown_flags_are_refused(gpu, call):
    assert name(call()) == "cudaErrorInvalidValue"


def test_too_much_shared_memory_is_refused(gpu, stream):
    x = cp.zeros(1, dtype=cp.float32)
    with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE"):
        add[1, 1, cuda.external_stream(stream.ptr), MIB](x.data.ptr, 1)


# -- device code ------------------------------------------------------------------------------------------------------


def test_one_thread_has_shared_memory_too(gpu):
    @cuda.jit
    def look(out):
        own, rest = cuda.shared.array(1, types.float32), cuda.shared.array(0, types.float32)
        rest[0] = 3
        out[0] = rest[0]
        out[1] = own[0] != own[0]  # NaN: new in each launch
        own[0] = 1

    out = cp.zeros(2, dtype=cp.float32)
    for _ in range(2):
        look[1, 1, 0, 64](out)
    assert out.tolist() == [3.0, 1.0]


def test_barriers_and_sleeps_are_found_under_other_names(gpu):
    barrier, sleep, helpers = cuda.syncthreads, cuda.nanosleep, python_types.ModuleType("helpers")

    @cuda.jit(device=True)
    def meet():
        barrier()

    helpers.meet = meet

    @cuda.jit
    def reverse(x):
        own = cuda.shared.array(4, types.float32)
        t = cuda.threadIdx.x
        own[t] = t
        helpers.meet()
        x[t] = own[3 - t]
        sleep(900_000)

    x = cp.zeros(4, dtype=cp.float32)
    cp.cuda.Device().synchronize()
    before = gpu.now_us
    reverse[1, 4](x)
    assert x.tolist() == [3.0, 2.0, 1.0, 0.0]
    assert gpu.now_us - before > 900


def test_a_barrier_that_is_not_seen_is_refused(gpu):
    hidden = python_types.SimpleNamespace(meet=cuda.syncthreads)

    @cuda.jit
    def meets(x):
        hidden.meet()
        x[0] = 1

    meets[1, 2](cp.zeros(1))
    with pytest.raises(NotSimulatedError, match="syncthreads"):
        cp.cuda.Device().synchronize()


def test_a_shared_array_belongs_to_its_place_in_the_code(gpu):
    @cuda.jit
    def places(out):
        t = cuda.threadIdx.x
        if t == 0:
            first = cuda.shared.array(1, types.float32)
            first[0] = 9
        second = cuda.shared.array(4, types.float32)
        second[t] = t
        cuda.syncthreads()
        total = 0.0
        for k in range(4):
            third = cuda.shared.array(1, types.float32)
            if k == 0:
                third[0] = 5
            total += second[k]
        out[t] = total + third[0]

    out = cp.zeros(4, dtype=cp.float32)
    places[1, 4](out)
    assert out.tolist() == [11.0] * 4


# -- a dead context ---------------------------------------------------------------------------------------------------


def test_every_error_has_the_drivers_sentence():
    assert set(DRIVER_SENTENCES) >= set(RUNTIME_ERRORS)


def test_every_face_says_why_the_context_is_dead(gpu, stream):
    x, device = cp.zeros(2, dtype=cp.float32), core.Device(0)
    device.set_current()
    add[1, 1, cuda.external_stream(stream.ptr)](x.data.ptr + 2, 1)
    assert name(rt.cudaStreamSynchronize(stream.ptr)) == "cudaErrorMisalignedAddress"
    for call in (lambda: add[1, 1](x.data.ptr, 1), cuda.stream, cuda.event, device.sync):
        with pytest.raises(Exception, match="CUDA_ERROR_MISALIGNED_ADDRESS"):
            call()
