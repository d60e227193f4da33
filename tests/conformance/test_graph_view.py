"""graph_view and addresses, held on both devices: run once simulated, once with ONELAUNCH_DEVICE=live."""

from __future__ import annotations

import gc
import struct

import numpy as np
import pytest

from onelaunch.instruments.addresses import addresses
from onelaunch.instruments.view import graph_view


@pytest.fixture
def zeros(cp, stream):
    def zeros(shape, dtype=np.float32):
        with stream:
            made = cp.zeros(shape, dtype=dtype)
        stream.synchronize()
        return made

    return zeros


@pytest.fixture
def axpy(cuda):
    @cuda.jit
    def axpy(y, a, x):
        y[0] += a * x[0]

    return axpy


@pytest.fixture
def capture(cuda, stream):
    """Captures `length` launches of a kernel, after one that compiles it."""

    def capture(kernel, *args, length=1, launch=(3, 32)):
        on = cuda.external_stream(stream.ptr)
        args = [a if np.isscalar(a) else cuda.as_cuda_array(a, sync=False) for a in args]
        kernel[(*launch, on)](*args)
        stream.synchronize()
        with cuda.defer_cleanup():
            stream.begin_capture()
            for _ in range(length):
                kernel[(*launch, on)](*args)
            return stream.end_capture()

    return capture


@pytest.fixture
def tile(device, cuda):
    """A kernel for graphs built by hand, its configuration, and what must live as long as they do."""
    types, core = device.types, device.core
    core.Device(0).set_current()

    @cuda.jit(types.void(types.CPointer(types.float32), types.float32))
    def tile(p, value):
        p[0] += value

    return device.as_kernel(tile), core.LaunchConfig(grid=(4, 2), block=128, shmem_size=64), tile


def words(*values):
    return tuple(struct.pack("<d" if isinstance(v, float) else "<q", v) for v in values)


def test_a_captured_chain(capture, axpy, zeros):
    view = graph_view(capture(axpy, zeros(4), 2.0, zeros(4), length=512))
    assert repr(view) == "Graph of 512 nodes, 511 edges: one chain.\n  [0 … 511] chain of 512: kernel axpy <<<3, 32>>>"
    node = view[511]
    assert (node.kind, node.name, node.grid, node.block, node.shared_bytes) == ("kernel", "axpy", (3, 1, 1), (32, 1, 1), 0)
    assert (view.critical_path, view.widest_level) == (tuple(range(512)), (0,))


def test_parameters_of_numba_arrays_byte_for_byte(capture, axpy, zeros):
    y, x = zeros((3, 5)), zeros(7, np.float64)
    (node,) = graph_view(capture(axpy, y, 2.5, x, launch=((1, 2), (8, 4))))
    assert node.grid == (1, 2, 1)
    assert node.parameters == words(0, 0, 15, 4, y.data.ptr, 3, 5, 20, 4, 2.5, 0, 0, 7, 8, x.data.ptr, 7, 8)
    assert [tuple(p) for p in node.pointers] == [(4, 0, y.data.ptr), (14, 0, x.data.ptr)]


@pytest.mark.parametrize(
    ("value", "raw"),
    [(3, struct.pack("<q", 3)), (True, b"\x01"), (2.0, struct.pack("<d", 2.0)), (np.float32(1.5), struct.pack("<f", 1.5))],
)
def test_parameters_of_scalars(capture, axpy, zeros, value, raw):
    (node,) = graph_view(capture(axpy, zeros(4), value, zeros(4)))
    assert node.parameters[7] == raw


def test_a_cupy_kernel_holds_its_arrays_in_structures(cp, stream, zeros):
    x, y = zeros(1000), zeros(1000)
    with stream:
        cp.add(x, 1, out=y)
        stream.begin_capture()
        cp.add(x, 1, out=y)
        graph = stream.end_capture()
    (node,) = graph_view(graph)
    assert (node.name, node.block, len(node.parameters)) == ("cupy_add", (128, 1, 1), 4)
    assert [tuple(p) for p in node.pointers] == [(0, 0, x.data.ptr), (2, 0, y.data.ptr)]
    assert node.parameters[0][:32] == b"".join(words(x.data.ptr, 1000, 1000, 4))


def test_a_fork_in_a_capture(cp, cuda, capture, axpy, zeros):
    y, x = (cuda.as_cuda_array(zeros(4), sync=False) for _ in range(2))
    capture(axpy, zeros(4), 2.0, zeros(4))
    origin, fork = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    on, beside = (cuda.external_stream(s.ptr) for s in (origin, fork))
    axpy[1, 1, on](y, 2.0, x)
    origin.synchronize()
    origin.begin_capture()
    axpy[1, 1, on](y, 2.0, x)
    fork.wait_event(origin.record())
    axpy[1, 1, beside](x, 2.0, x)
    axpy[2, 1, beside](x, 2.0, x)
    axpy[3, 1, on](y, 2.0, x)
    origin.wait_event(fork.record())
    axpy[4, 1, on](y, 2.0, x)
    view = graph_view(origin.end_capture())
    assert view.verdict == "5 nodes, 5 edges: longest chain 4 nodes, widest level 2."
    assert sorted((view[a].grid[0], view[b].grid[0]) for a, b in view.edges) == [(1, 1), (1, 2), (1, 3), (2, 4), (3, 4)]


def test_a_graph_built_by_hand(device, tile, zeros):
    kernel, config, _ = tile
    x, graph = zeros(64), device.core.graph.GraphDefinition()
    first = graph.memset(x.data.ptr, 0, 256)
    ends = [first.launch(config, kernel, x.data.ptr, np.float32(k)) for k in range(2)]
    ends[0].join(ends[1]).memcpy(x.data.ptr, x.data.ptr + 128, 64)
    view = graph_view(graph)
    assert view.kinds == {"kernel": 2, "memset": 1, "empty": 1, "memcpy": 1}
    assert view.verdict == "5 nodes, 5 edges: longest chain 4 nodes, widest level 2."
    by_kind = {node.kind: node for node in view}
    assert by_kind["kernel"].detail == "<<<4x2, 128, 64>>>"
    assert by_kind["kernel"].parameters[0] == struct.pack("<Q", x.data.ptr)
    assert by_kind["memset"].detail == "256 B to 0x0"
    assert by_kind["memcpy"].detail == "64 B, device to device"
    copy = by_kind["memcpy"].facts.copy
    assert (copy.target, copy.source) == (x.data.ptr, x.data.ptr + 128)


def test_a_copy_to_the_host(cp, cuda, stream, zeros):
    host, array = np.zeros(64, np.float32), cuda.as_cuda_array(zeros(64), sync=False)
    array.copy_to_host(host, stream=cuda.external_stream(stream.ptr))
    stream.synchronize()
    stream.begin_capture()
    array.copy_to_host(host, stream=cuda.external_stream(stream.ptr))
    (node,) = graph_view(stream.end_capture())
    assert node.detail == "256 B, device to host"
    assert node.facts.copy.target == host.ctypes.data


def test_memory_and_event_nodes(device, tile):
    core = device.core
    graph, event = core.graph.GraphDefinition(), core.Device(0).create_event()
    memory = graph.allocate(4096)
    end = memory.memset(memory.dptr, 7, 4096).deallocate(memory.dptr)
    end.record(event).wait(event).callback(lambda: None)
    view = graph_view(graph)
    kinds = ["allocation", "memset", "free", "event record", "event wait", "host"]
    assert [node.kind for node in view] == kinds
    assert view[0].detail == "4,096 B"
    assert view[0].facts.memory == view[2].facts.memory == int(memory.dptr)


def test_child_graphs_and_bodies(device, tile, zeros):
    kernel, config, _ = tile
    x, core = zeros(4), device.core
    inner = core.graph.GraphDefinition()
    inner.launch(config, kernel, x.data.ptr, np.float32(1)).launch(config, kernel, x.data.ptr, np.float32(2))
    graph = core.graph.GraphDefinition()
    loop = graph.embed(inner).while_loop(graph.create_condition(default_value=0))
    loop.body.launch(config, kernel, x.data.ptr, np.float32(1))
    choice = loop.if_else(graph.create_condition(default_value=1))
    choice.then.embed(inner)
    view = graph_view(graph)
    assert [node.name for node in view] == ["child graph", "conditional while", "conditional if"]
    assert [[label for label, _ in node.inner] for node in view] == [["child graph"], ["body"], ["then", "else"]]
    assert [node.parameters[1] for node in view[0].inner[0][1]] == [struct.pack("<f", v) for v in (1, 2)]
    assert view.total_nodes == 3 + 2 + 1 + 1 + 2
    book = addresses(graph, x=x)
    assert [p.node for p in book] == [
        "[0].child_graph[0]", "[0].child_graph[1]", "[1].body[0]", "[2].then[0].child_graph[0]", "[2].then[0].child_graph[1]",
    ]  # fmt: skip
    assert {p.now for p in book} == {"live"}


def test_handles_of_every_kind(device, capture, axpy, zeros):
    graph = capture(axpy, zeros(4), 2.0, zeros(4), length=3)
    for handle in (graph, graph.graph, device.cudart.cudaGraph_t(graph.graph)):
        assert graph_view(handle).edges == ((0, 1), (1, 2))


def test_a_finished_builder(device, tile, zeros):
    kernel, config, _ = tile
    x, core = zeros(4), device.core
    builder = core.Device(0).create_stream().create_graph_builder().begin_building()
    for k in range(2):
        core.launch(builder, config, kernel, x.data.ptr, np.float32(k))
    builder.end_building()
    assert [node.name for node in graph_view(builder)] == ["tile", "tile"]
    with pytest.raises(TypeError, match="an executable graph cannot be looked into"):
        graph_view(builder.complete())


def test_what_is_no_graph_is_refused(stream, zeros):
    for wrong in (None, zeros(4), stream, True):
        with pytest.raises(TypeError, match="not a graph"):
            graph_view(wrong)


def test_owners_live_freed_and_reused(capture, axpy, zeros):
    a, c = zeros(4096), zeros(4096)
    book = addresses(capture(axpy, a, 2.0, c, length=2), a=a, c=c)
    assert [(p.owner, p.now, p.address) for p in book][:2] == [("a", "live", a.data.ptr), ("c", "live", c.data.ptr)]
    address = a.data.ptr
    del a
    gc.collect()
    assert [p.now for p in book] == ["freed", "live"] * 2
    b = zeros(4096)
    assert b.data.ptr == address
    assert [p.now for p in book.update(b=b)] == ["reused by b", "live"] * 2
    assert book.verdict == "4 baked pointers: 2 reused by b, 2 live. A replay works on the memory of b."


def test_a_view_keeps_its_array(capture, axpy, zeros):
    x = zeros(100)
    part = x[10:20]
    book = addresses(capture(axpy, part, 2.0, part), x=x)
    del x
    gc.collect()
    assert [(p.at_capture, p.now) for p in book] == [("x + 40 B", "live")] * 2


def test_a_numba_array_owns_its_memory(cuda, capture, axpy):
    array = cuda.device_array(16, np.float32)
    book = addresses(capture(axpy, array, 2.0, array), array=array)
    assert [(p.owner, p.now) for p in book] == [("array", "live")] * 2


def test_torch_graphs_and_tensors(device):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU")
    x = torch.zeros(1000, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.add_(1)
    side.synchronize()
    graph, given_away = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.CUDAGraph()
    for each in (graph, given_away):
        with torch.cuda.graph(each):
            x.add_(1)
    view = graph_view(graph)
    assert view.kinds == {"kernel": 1}
    book = addresses(graph, x=x)
    assert {(p.owner, p.now) for p in book} == {("x", "live")}
    with pytest.raises(ValueError, match="keep_graph=True"):
        graph_view(given_away)
    part = x[:10]
    del x
    gc.collect()
    assert {p.now for p in book} == {"live"}  # the view holds the memory
    del part, view
    gc.collect()
    assert {p.now for p in book} == {"freed"}
