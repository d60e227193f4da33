"""cuda.core on the simulated device: what the conformance cases do not show."""

from __future__ import annotations

import ctypes
import gc
import threading

import numpy as np
import pytest

from onelaunch.sim import core_face as core
from onelaunch.sim import cudart_face as cudart
from onelaunch.sim import cupy_face as cp
from onelaunch.sim import numba_face as cuda
from onelaunch.sim import types_face as types
from onelaunch.sim.core_face.graph.nodes import CUgraphNodeType
from onelaunch.sim.errors import CUDAError, NotSimulatedError

POINTER = types.CPointer(types.float32)
ONE = core.LaunchConfig(grid=1, block=1)


@cuda.jit(types.void(POINTER, types.float32))
def _add(p, value):
    p[0] += value


@cuda.jit(types.void(POINTER, types.int64, types.int32))
def _note(p, a, b):
    p[0], p[1] = a, b


@pytest.fixture
def device(gpu):
    device = core.Device(0)
    device.set_current()
    return device


@pytest.fixture
def stream(device):
    return device.create_stream()


@pytest.fixture
def x(gpu):
    array = cp.zeros(4, dtype="float32")
    cp.cuda.Device().synchronize()
    return array


def add() -> core.Kernel:
    return core.Kernel._of(_add)


def value(array) -> float:
    cp.cuda.Device().synchronize()
    return float(array.get()[0])


# -- device, streams, events -----------------------------------------------------------------------------------------------


def test_a_device_must_be_made_current_in_each_thread(gpu):
    device, caught = core.Device(0), []
    with pytest.raises(CUDAError, match="Device 0 is not yet initialized, perhaps you forgot to call"):
        device.create_stream()
    device.set_current()
    device.create_stream()

    def elsewhere():
        with pytest.raises(CUDAError, match="not yet initialized"):
            core.Device().create_event()
        caught.append(core.Device() is device)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert caught == [False]


def test_the_device_is_an_h200(device):
    assert (device.name, device.compute_capability, device.arch) == ("NVIDIA H200", (9, 0), "90")
    assert device.properties.multiprocessor_count == 132
    with pytest.raises(NotSimulatedError, match=r"cuda\.core\.Device\.uuid"):
        _ = device.uuid


@pytest.mark.parametrize("priority", [1, -6])
def test_a_priority_beyond_the_devices_range_is_refused(device, priority):
    with pytest.raises(ValueError, match=rf"priority={priority} is out of range \[-5, 0\]"):
        device.create_stream(options=core.StreamOptions(priority=priority))
    assert device.create_stream(options={"priority": -2, "nonblocking": False}).priority == -2


def test_options_are_an_object_or_a_dict(device):
    with pytest.raises(TypeError, match=r"The Event options must be provided as an object of type EventOptions or as a dict"):
        device.create_event("timed")


def test_a_stream_is_destroyed_with_its_last_holder(gpu, device):
    stream = device.create_stream()
    handle, builder = int(stream.handle), stream.create_graph_builder()
    stream.close()
    assert handle in gpu.streams
    assert int(stream.handle) == 0
    builder.close()
    del builder
    gc.collect()
    assert handle not in gpu.streams


def test_a_foreign_stream_is_not_destroyed(gpu, device):
    ours = cp.cuda.Stream(non_blocking=True)
    core.Stream.from_handle(ours.ptr).close()
    ours.synchronize()
    assert core.Stream.from_handle(ours.ptr) == core.Stream.from_handle(ours.ptr)


def test_a_handle_of_no_stream_is_refused_at_its_use(gpu):
    stream = core.Stream.from_handle(12345)
    with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_HANDLE: This indicates that a resource handle"):
        stream.sync()


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (lambda: (0,), "must return a sequence with 2 elements, got 1 elements"),
        (lambda: (1, 5), "The first element of the sequence returned by obj.__cuda_stream__ must be 0, got 1"),
        (lambda: 5, "must return a sequence with 2 elements, got <class 'int'>"),
    ],
)
def test_the_stream_protocol_is_checked(device, protocol, message):
    class Foreign:
        def __cuda_stream__(self):
            return protocol()

    with pytest.raises(RuntimeError, match=message):
        device.create_stream(Foreign())


def test_events_tell_the_time_between_them(device, stream, x):
    timed = [device.create_event({"timing_enabled": True}) for _ in range(2)]
    with pytest.raises(RuntimeError, match="must be recorded before they can be subtracted"):
        _ = timed[1] - timed[0]
    stream.record(timed[0])
    core.launch(stream, ONE, add(), x.data.ptr, np.float32(1))
    stream.record(timed[1])
    stream.sync()
    assert timed[1] - timed[0] > 0
    plain = stream.record()
    stream.sync()
    with pytest.raises(RuntimeError, match=r"use EventOptions\(timing_enabled=True\) when creating both events"):
        _ = plain - timed[0]
    assert (timed[0].is_timing_enabled, plain.is_timing_enabled) == (True, False)


def test_an_event_is_the_runtimes_event(device, stream):
    event = device.create_event()
    assert cudart.cudaEventRecord(int(event.handle), int(stream.handle)) == (cudart.cudaError_t.cudaSuccess,)
    stream.sync()
    assert event.is_done


# -- launches --------------------------------------------------------------------------------------------------------------


def test_a_kernel_reads_the_bytes_it_declares(stream, x):
    """A Python float is a double and a Python int eight bytes, whatever the kernel takes."""
    note = core.Kernel._of(_note)
    core.launch(stream, ONE, note, x.data.ptr, ctypes.c_int64(-3), -1)
    stream.sync()
    assert x.get()[:2].tolist() == [-3, -1]
    core.launch(stream, ONE, note, x.data.ptr, True, np.int64(2**32 + 7))
    cp.cuda.Device().synchronize()
    assert x.get()[:2].tolist() == [1, 7]


def test_more_arguments_than_parameters_are_not_looked_at(stream, x):
    core.launch(stream, ONE, add(), x.data.ptr, np.float32(1), 5, 6)
    assert value(x) == 1


def test_fewer_arguments_than_parameters_are_not_simulated(stream, x):
    with pytest.raises(NotSimulatedError, match="1 arguments for 2 parameters"):
        core.launch(stream, ONE, add(), x.data.ptr)


def test_a_refused_launch_ends_a_capture(device, x):
    builder = device.create_graph_builder().begin_building()
    with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE"):
        core.launch(builder, core.LaunchConfig(grid=1, block=1025), add(), x.data.ptr, np.float32(1))
    with pytest.raises(RuntimeError, match="has been invalidated"):
        builder.end_building()
    with pytest.raises(CUDAError, match="CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        builder.close()


def test_no_arguments_for_a_kernel_with_parameters_are_refused(stream):
    with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE"):
        core.launch(stream, ONE, add())


def test_a_kernel_knows_its_parameters(gpu):
    note = core.Kernel._of(_note)
    assert note.num_arguments == 3
    assert note.arguments_info == [(0, 8), (8, 8), (16, 4)]
    assert note == core.Kernel.from_handle(int(note.handle))
    assert {note, core.Kernel._of(_note)} == {note}


def test_a_launch_costs_what_the_recording_says(gpu, stream, x):
    core.launch(stream, ONE, add(), x.data.ptr, np.float32(1))
    before = gpu.now_us
    core.launch(stream, ONE, add(), x.data.ptr, np.float32(1))
    assert gpu.now_us - before == pytest.approx(gpu.costs.launch["core"].per_launch_us)


def test_a_config_can_be_changed(gpu):
    config = core.LaunchConfig(grid=1, block=(2, 3))
    config.shmem_size = 16
    assert (config.block, config.shmem_size) == ((2, 3, 1), 16)
    with pytest.raises(TypeError, match="Expected tuple, got int"):
        config.grid = 2
    with pytest.raises(AttributeError, match=r"'cuda.core._launch_config.LaunchConfig' object has no attribute 'gird'"):
        config.gird = 2


# -- buffers ---------------------------------------------------------------------------------------------------------------


def test_a_buffer_is_freed_in_the_order_of_its_stream(gpu, device, stream):
    buffer = device.allocate(64, stream=stream)
    address = int(buffer.handle)
    buffer.close()
    assert (buffer.is_closed, buffer.handle, buffer.size) == (True, 0, 0)
    assert int(device.allocate(64, stream=stream).handle) == address
    with pytest.raises(RuntimeError, match="Buffer has been closed"):
        buffer.fill(0, stream=stream)


def test_buffers_are_filled_and_copied(device, stream, x):
    a, b = (device.allocate(8, stream=stream) for _ in range(2))
    a.fill(np.float32(2.5), stream=stream)
    b.copy_from(a, stream=stream)
    core.Buffer.from_handle(x.data.ptr, 8).copy_from(b, stream=stream)
    stream.sync()
    assert x.get().tolist() == [2.5, 2.5, 0, 0]
    with pytest.raises(ValueError, match=r"buffer sizes mismatch between src and dst \(sizes are: src=8, dst=16\)"):
        core.Buffer.from_handle(x.data.ptr, 16).copy_from(b, stream=stream)
    with pytest.raises(ValueError, match=r"buffer size \(6\) must be divisible by 4"):
        core.Buffer.from_handle(x.data.ptr, 6).fill(b"abcd", stream=stream)


def test_each_memory_resource_has_its_place(device, stream):
    builder = device.create_graph_builder().begin_building()
    with pytest.raises(RuntimeError, match="_MemPool cannot perform memory operations on a capturing stream"):
        device.allocate(16, stream=builder)
    resource = core.GraphMemoryResource(device)
    with pytest.raises(RuntimeError, match="cannot perform memory operations on a non-capturing stream"):
        resource.allocate(16, stream=stream)
    resource.allocate(16, stream=builder).close(builder)
    builder.end_building()
    assert {type(n).__name__ for n in builder.graph_definition.nodes()} == {"AllocNode", "FreeNode"}


# -- definitions -----------------------------------------------------------------------------------------------------------


def test_a_node_that_nobody_holds_comes_back_equal(gpu, x):
    graph = core.graph.GraphDefinition()
    graph.memset(x.data.ptr, 1, 4).memset(x.data.ptr, 2, 4)
    [(a, b)] = graph.edges()
    assert graph.nodes() == {a, b}
    assert b in a.succ
    handle = int(b.handle)
    del a, b
    gc.collect()
    [second] = [n for n in graph.nodes() if n.pred]
    assert int(second.handle) == handle
    assert second.type is CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
    assert repr(second).startswith(f"<MemsetNode handle={handle:#x} dptr=")


def test_a_conditional_node_that_nobody_holds_comes_back_without_its_kind(gpu):
    """The driver says what it is from CUDA 13.2 on; the H200 that is simulated has 13.0."""
    graph = core.graph.GraphDefinition()
    graph.if_then(graph.create_condition(1))
    gc.collect()
    [node] = graph.nodes()
    assert type(node) is core.graph.ConditionalNode
    assert (node.condition, node.cond_type, node.branches) == (None, None, ())


def test_a_node_shows_the_engines_node(gpu, x):
    """What cudart changes, cuda.core sees."""
    graph = core.graph.GraphDefinition()
    node = graph.memset(x.data.ptr, 1, 4)
    params = cudart.cudaMemsetParams()
    params.dst, params.value, params.elementSize, params.width, params.height = x.data.ptr, 9, 1, 8, 1
    assert cudart.cudaGraphMemsetNodeSetParams(int(node.handle), params) == (cudart.cudaError_t.cudaSuccess,)
    assert (node.value, node.width) == (9, 8)


def test_what_was_inside_a_destroyed_node_is_invalid(gpu, x):
    graph, inner = core.graph.GraphDefinition(), core.graph.GraphDefinition()
    inner.empty()
    child = graph.embed(inner)
    inside = child.child_graph
    [node] = inside.nodes()
    child.destroy()
    assert (inside.is_valid, node.is_valid, inner.is_valid, int(inside.handle)) == (False, False, True, 0)
    with pytest.raises(RuntimeError, match="GraphDefinition is no longer valid"):
        inside.empty()
    with pytest.raises(RuntimeError, match="GraphNode belongs to an invalid GraphDefinition"):
        node.memset(x.data.ptr, 1, 4)
    assert repr(child) == "<ChildGraphNode handle=0x0 child=0x0>"


def test_a_child_is_replaced_by_an_independent_graph(gpu, x, stream):
    graph, one, two = (core.graph.GraphDefinition() for _ in range(3))
    one.memset(x.data.ptr, np.float32(1), 4)
    two.memset(x.data.ptr, np.float32(2), 4)
    node = graph.embed(one)
    before = node.child_graph
    node.update(two)
    assert (before.is_valid, node.child_graph.is_valid) == (False, True)
    graph.instantiate().launch(stream)
    assert value(x) == 2
    for dependent in (graph, node.child_graph):
        with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE"):
            node.update(dependent)


def test_definition_nodes_are_updated_in_part(gpu, x, stream):
    graph = core.graph.GraphDefinition()
    fill = graph.memset(x.data.ptr, np.float32(1), 4)
    copy = fill.memcpy(x.data.ptr, x.data.ptr + 8, 4)
    fill.update(width=2)
    copy.update(src=x.data.ptr + 4, size=4)
    assert (fill.width, fill.element_size, copy.src - copy.dst) == (2, 4, 4)
    with pytest.raises(ValueError, match="dst_owner requires dst"):
        fill.update(dst_owner=x)
    graph.instantiate().launch(stream)
    cp.cuda.Device().synchronize()
    assert x.get().tolist() == [1, 1, 0, 0]


def test_the_entry_takes_part_in_no_edge(gpu):
    graph = core.graph.GraphDefinition()
    node = graph.empty()
    with pytest.raises(ValueError, match="virtual graph entry node"):
        node.pred.add(graph._entry)
    assert (graph._entry.type, graph._entry.handle, repr(graph._entry)) == (None, None, "<GraphNode entry>")


def test_attributes_are_read_only_and_misspelt_ones_are_errors(gpu):
    node = core.graph.GraphDefinition().empty()
    with pytest.raises(AttributeError, match=r"attribute 'type' of 'cuda\.core\..*EmptyNode' objects is not writable"):
        node.type = 1
    with pytest.raises(AttributeError, match="has no attribute 'successors'"):
        _ = node.successors


def test_a_c_callback_gets_its_data(gpu, stream):
    seen = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: seen.append(ctypes.string_at(data, 3)))
    graph = core.graph.GraphDefinition()
    node = graph.callback(function, user_data=b"abc")
    assert node.callback is None
    assert " cfunc=0x" in repr(node)
    graph.instantiate().launch(stream)
    stream.sync()
    assert seen == [b"abc"]


# -- conditions ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def count_down(gpu):
    set_condition = cuda.declare_device("cudaGraphSetConditional", types.void(types.uint64, types.uint32), abi="c")

    @cuda.jit(types.void(types.uint64, POINTER))
    def count_down(handle, p):
        p[0] -= 1
        set_condition(handle, 1 if p[0] > 0 else 0)

    return core.Kernel._of(count_down)


def loop(kernel, pointer):
    graph = core.graph.GraphDefinition()
    condition = graph.create_condition(default_value=1)
    node = graph.while_loop(condition)
    node.body.launch(ONE, kernel, condition, pointer)
    return graph, node


def test_only_the_conditions_setter_can_be_declared(gpu):
    with pytest.raises(NotSimulatedError, match="declare_device"):
        cuda.declare_device("mine", types.void(types.uint64), abi="c")
    with pytest.raises(NotSimulatedError, match="declare_device"):
        cuda.declare_device("cudaGraphSetConditional", types.void(types.uint64, types.uint32))


def test_executables_of_two_graphs_keep_their_conditions_apart(gpu, count_down, device):
    """Their handles look alike, and both run at the same time."""
    arrays, streams = [cp.zeros(1, dtype="float32") for _ in range(2)], [device.create_stream() for _ in range(2)]
    cp.cuda.Device().synchronize()
    graphs = [loop(count_down, a.data.ptr) for a in arrays]
    executables = [graph.instantiate() for graph, _ in graphs]
    assert graphs[0][1].condition == graphs[1][1].condition
    for turn in (3, 5):
        arrays[0].fill(turn)
        arrays[1].fill(2 * turn)
        cp.cuda.Device().synchronize()
        for executable, stream in zip(executables, streams, strict=True):
            executable.launch(stream)
        assert [value(a) for a in arrays] == [0, 0]


def test_an_updated_loop_still_ends(gpu, count_down, x, stream):
    first, _ = loop(count_down, x.data.ptr)
    second, _ = loop(count_down, x.data.ptr + 4)
    executable = first.instantiate()
    executable.update(second)
    x.fill(3)
    cp.cuda.Device().synchronize()
    executable.launch(stream)
    cp.cuda.Device().synchronize()
    assert x.get().tolist() == [3, 0, 3, 3]


def test_a_kernel_sets_nothing_outside_of_a_graph(gpu, count_down, x, stream):
    core.launch(stream, ONE, count_down, 1, x.data.ptr)
    assert value(x) == -1


# -- builders --------------------------------------------------------------------------------------------------------------


def test_a_builder_that_nobody_holds_ends_its_capture(gpu, device, stream):
    builder = stream.create_graph_builder().begin_building()
    del builder
    gc.collect()
    assert not gpu.captures
    stream.sync()


def test_closing_a_builder_ends_its_capture(gpu, device, stream, x):
    builder = stream.create_graph_builder().begin_building()
    core.launch(builder, ONE, add(), x.data.ptr, np.float32(1))
    builder.close()
    stream.sync()
    assert value(x) == 0
    with pytest.raises(RuntimeError, match="GraphBuilder has been closed"):
        builder.begin_building()
    builder.close()


def test_a_body_is_built_where_its_parent_says(gpu, device, stream, x):
    builder = device.create_graph_builder().begin_building()
    condition = builder.create_condition(default_value=1)
    body = builder.if_then(condition)
    assert body.graph_definition.nodes() == set()
    body.begin_building()
    with pytest.raises(RuntimeError, match="unavailable while capture is in progress"):
        _ = body.graph_definition
    inner = body.create_condition(default_value=1)
    assert inner.handle != condition.handle
    leaf = body.if_then(inner).begin_building()
    core.launch(leaf, ONE, add(), x.data.ptr, np.float32(5))
    leaf.end_building()
    body.end_building()
    builder.end_building().complete().launch(stream)
    assert value(x) == 5


def test_numba_launches_onto_a_builder_and_a_stream(gpu, device, stream, x):
    builder = device.create_graph_builder().begin_building()
    _add[1, 1, builder](x.data.ptr, 2.0)
    _add[1, 1, builder.stream](x.data.ptr, 3.0)
    graph = builder.end_building().complete()
    _add[1, 1, stream](x.data.ptr, 10.0)
    graph.launch(stream)
    assert value(x) == 15


def test_what_is_missing_is_named(gpu):
    for missing in (lambda: core.Program, lambda: core.graph.Kernel, lambda: core.LEGACY_DEFAULT_STREAM.resources):
        with pytest.raises(NotSimulatedError, match=r"cuda\.core\..* is not part of the simulated device"):
            missing()
