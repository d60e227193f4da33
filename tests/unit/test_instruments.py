"""graph_view and addresses on the simulated device, and the drawing of graphs of every size."""

from __future__ import annotations

import base64
import gc
import itertools
import struct

import numpy as np
import pytest

from onelaunch.charts.graph import MAX_COLUMNS, MAX_ROWS, Box, Picture, draw, fold, png
from onelaunch.device import current
from onelaunch.device.facts import Pointer, kernel_name
from onelaunch.instruments.addresses import addresses
from onelaunch.instruments.view import graph_view
from onelaunch.sim import core_face as core
from onelaunch.sim import cudart_face as cudart
from onelaunch.sim import cupy_face as cp
from onelaunch.sim import numba_face as cuda
from onelaunch.sim import types_face as types
from onelaunch.sim.errors import CUDARuntimeError

FLOATS = types.CPointer(types.float32)
CONFIG = core.LaunchConfig(grid=(4, 2), block=128, shmem_size=64)


@cuda.jit
def add_one(x):
    x[0] += 1


@cuda.jit
def axpy(y, a, x):
    y[0] += a * x[0]


@cuda.jit(types.void(FLOATS, types.float32))
def tile(p, value):
    p[0] += value


@pytest.fixture
def stream(gpu):
    return cp.cuda.Stream(non_blocking=True)


@pytest.fixture
def x(stream):
    return zeros(stream, 1000)


@pytest.fixture
def kernel(gpu):
    core.Device(0).set_current()
    return current().as_kernel(tile)


def zeros(stream, shape, dtype=np.float32):
    with stream:
        return cp.zeros(shape, dtype)


def captured(stream, *arrays, length=1, kernel=add_one):
    on = cuda.external_stream(stream.ptr)
    stream.begin_capture()
    for _ in range(length):
        kernel[1, 32, on](*arrays)
    return stream.end_capture()


def chain(stream, x, length):
    return captured(stream, cuda.as_cuda_array(x, sync=False), length=length)


def define(kernel, x, edges, count):
    """A definition with `count` kernels and these edges."""
    graph, nodes = core.graph.GraphDefinition(), []
    for i in range(count):
        node = graph.launch(CONFIG, kernel, x.data.ptr, np.float32(1))
        for a, b in edges:
            if b == i:
                nodes[a].succ.add(node)
        nodes.append(node)
    return graph


def branches(width, length):
    """Edges of a fork into `width` chains of `length`, and their join."""
    edges, last = [], 1 + width * length
    for w in range(width):
        nodes = [0, *range(1 + w * length, 1 + (w + 1) * length), last]
        edges += itertools.pairwise(nodes)
    return edges, last + 1


# -- what a view says -------------------------------------------------------------------------------------------------


def test_a_chain_of_two(stream, x):
    view = graph_view(chain(stream, x, 2))
    assert (len(view), view.edges, view.critical_path, view.widest_level) == (2, ((0, 1),), (0, 1), (0,))
    node = view[1]
    assert (node.kind, node.name, node.grid, node.block, node.shared_bytes) == ("kernel", "add_one", (1, 1, 1), (32, 1, 1), 0)
    assert (node.before, node.after, view[0].after) == ((0,), (), (1,))
    assert repr(view) == (
        "Graph of 2 nodes, 1 edge: one chain.\n"
        "  [0] kernel add_one <<<1, 32>>>, 7 parameters\n"
        "  [1] kernel add_one <<<1, 32>>>, 7 parameters, after 0"
    )


def test_a_long_chain_is_one_line_of_text(stream, x):
    assert repr(graph_view(chain(stream, x, 512))) == (
        "Graph of 512 nodes, 511 edges: one chain.\n  [0 … 511] chain of 512: kernel add_one <<<1, 32>>>"
    )


def test_a_fork_has_a_width_and_a_longest_chain(kernel, x):
    view = graph_view(define(kernel, x, [(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)], 5))
    assert (view.critical_path, view.widest_level, view.levels) == ((0, 2, 3, 4), (1, 2), ((0,), (1, 2), (3,), (4,)))
    assert view.verdict == "5 nodes, 5 edges: longest chain 4 nodes, widest level 2."
    assert "  [4] kernel tile <<<4x2, 128, 64>>>, 2 parameters, after 1, 3" in repr(view).splitlines()


def test_durations_give_the_slowest_path(kernel, x):
    graph = define(kernel, x, [(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)], 5)
    view = graph_view(graph, durations_us={0: 1, 1: 50, 2: 10, 3: 10, 4: 1})
    assert (view.slowest_path, view.slowest_us, view.critical_path) == ((0, 1, 4), 52.0, (0, 2, 3, 4))
    assert graph_view(graph, durations_us=[1, 1, 1, 1, 1]).slowest_path == (0, 2, 3, 4)
    assert graph_view(graph).slowest_us is None
    for wrong, why in (([1], "1 values for 5 nodes"), ({7: 1}, r"nodes that there are not: \[7\]"), ([-1] * 5, "less than 0")):
        with pytest.raises(ValueError, match=why):
            graph_view(graph, durations_us=wrong)


def test_nodes_stand_behind_what_they_wait_for(kernel, x):
    graph = core.graph.GraphDefinition()
    first, second = (graph.launch(CONFIG, kernel, x.data.ptr, np.float32(i)) for i in range(2))
    second.succ.add(first)
    view = graph_view(graph)
    assert view.edges == ((0, 1),)
    assert [struct.unpack("<f", node.parameters[1])[0] for node in view] == [1.0, 0.0]


def test_an_empty_graph(gpu):
    view = graph_view(core.graph.GraphDefinition())
    assert (len(view), view.critical_path, view.widest_level, repr(view)) == (0, (), (), "An empty graph.")
    assert view.png().startswith(b"\x89PNG")


def test_copies_memsets_memory_and_events(kernel, x):
    graph = core.graph.GraphDefinition()
    event = core.Device(0).create_event()
    memory = graph.allocate(4096)
    node = memory.memset(memory.dptr, np.uint16(0x0102), 8, 2, 64)
    node = node.memcpy(x.data.ptr, memory.dptr, 16).deallocate(memory.dptr)
    node.record(event).wait(event).callback(lambda: None).join()
    view = graph_view(graph)
    kinds = ["allocation", "memset", "memcpy", "free", "event record", "event wait", "host", "empty"]
    assert [node.kind for node in view] == kinds
    details = ["4,096 B", "32 B to 0x102", "16 B, device to device", *[""] * 5]
    assert [node.detail for node in view] == details
    facts = view[1].facts.memset
    assert (facts.target, facts.element_size, facts.width, facts.height, facts.pitch) == (int(memory.dptr), 2, 8, 2, 64)
    assert (view[2].facts.copy.target, view[2].facts.copy.source) == (x.data.ptr, int(memory.dptr))
    assert view[0].facts.memory == view[3].facts.memory == int(memory.dptr)


def test_a_copy_to_the_host(stream, x):
    stream.begin_capture()
    cuda.as_cuda_array(x, sync=False).copy_to_host(stream=cuda.external_stream(stream.ptr))
    (node,) = graph_view(stream.end_capture())
    assert node.detail == "4,000 B, device to host"


def test_child_graphs_and_bodies_are_views(kernel, x):
    inner = define(kernel, x, [(0, 1)], 2)
    graph = core.graph.GraphDefinition()
    child = graph.launch(CONFIG, kernel, x.data.ptr, np.float32(1)).embed(inner)
    loop = child.while_loop(graph.create_condition(default_value=3))
    loop.body.launch(CONFIG, kernel, x.data.ptr, np.float32(1))
    choice = loop.if_else(graph.create_condition(default_value=1))
    choice.then.embed(inner)
    view = graph_view(graph)
    assert [[label for label, _ in node.inner] for node in view] == [[], ["child graph"], ["body"], ["then", "else"]]
    assert [node.name for node in view] == ["tile", "child graph", "conditional while", "conditional if"]
    assert (len(view), view.total_nodes) == (4, 10)
    then = view[3].inner[0][1]
    assert [node.name for node in then[0].inner[0][1]] == ["tile", "tile"]
    text = repr(view)
    assert text.startswith("Graph of 4 nodes and 6 inside, 3 edges: one chain.")
    assert "    body of [2]: 1 node, 0 edges: longest chain 1 node, widest level 1." in text
    assert "    else of [3]: An empty graph." in text


def test_bodies_that_cuda_does_not_tell_are_called_unknown(kernel, x):
    graph = core.graph.GraphDefinition()
    loop = graph.while_loop(graph.create_condition(default_value=0))
    view = graph_view(int(graph.handle))
    assert (view[0].kind, view[0].inner) == ("conditional", ())
    assert "bodies unknown" in repr(view)
    assert graph_view(graph)[0].inner[0][0] == "body"
    assert loop is not None


# -- whose graphs it takes --------------------------------------------------------------------------------------------


def test_graphs_of_every_library(stream, x, kernel):
    cupys, definition = chain(stream, x, 3), define(kernel, x, [(0, 1), (1, 2)], 3)
    builder = core.Device(0).create_stream().create_graph_builder().begin_building()
    for _ in range(3):
        core.launch(builder, CONFIG, kernel, x.data.ptr, np.float32(1))
    builder.end_building()
    raw = cudart.cudaGraph_t(cupys.graph)

    class CUDAGraph:  # as torch's
        def raw_cuda_graph(self):
            return cupys.graph

    for graph in (cupys, definition, definition.handle, builder, raw, int(raw), CUDAGraph()):
        assert graph_view(graph).edges == ((0, 1), (1, 2))


def test_what_is_no_graph_is_refused(stream, x, kernel):
    graph = define(kernel, x, [], 1)

    class CUDAGraph:
        def raw_cuda_graph(self):
            raise RuntimeError("You cannot access the raw cudaGraph_t instance")

    for wrong in (graph.instantiate(), cudart.cudaGraphInstantiate(graph.handle, 0)[1]):
        with pytest.raises(TypeError, match="an executable graph cannot be looked into"):
            graph_view(wrong)
    for wrong in (None, "graph", x, True, stream):
        with pytest.raises(TypeError, match=r"not a graph: .* It takes a cupy\.cuda\.Graph"):
            graph_view(wrong)
    with pytest.raises(ValueError, match=r"torch\.cuda\.CUDAGraph\(keep_graph=True\)"):
        graph_view(CUDAGraph())
    with pytest.raises(ValueError, match="0x3039 is not a graph, or not any more"):
        graph_view(12345)
    with pytest.raises(ValueError, match="its handle is 0"):
        graph_view(0)
    gone = cudart.cudaGraphCreate(0)[1]
    cudart.cudaGraphDestroy(gone)
    with pytest.raises(ValueError, match="not any more"):
        graph_view(gone)


def test_a_cycle_is_named(kernel, x):
    graph = define(kernel, x, [(0, 1)], 2)
    a, b = graph.nodes()
    a.succ.add(b)
    b.succ.add(a)
    with pytest.raises(ValueError, match="cycle"):
        graph_view(graph)


# -- parameters -------------------------------------------------------------------------------------------------------


def test_a_numba_array_is_five_words_and_two_for_each_dimension(stream):
    matrix, vector = zeros(stream, (3, 5)), zeros(stream, 7, np.float64)
    arrays = [cuda.as_cuda_array(a, sync=False) for a in (matrix, vector)]
    view = graph_view(captured(stream, arrays[0], 2.5, arrays[1], kernel=axpy))
    words = [0, 0, 15, 4, matrix.data.ptr, 3, 5, 20, 4]
    words += [2.5]
    words += [0, 0, 7, 8, vector.data.ptr, 7, 8]
    expected = tuple(struct.pack("<d" if isinstance(w, float) else "<q", w) for w in words)
    assert view[0].parameters == expected
    assert view[0].pointers == (Pointer(4, 0, matrix.data.ptr), Pointer(14, 0, vector.data.ptr))


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (3, struct.pack("<q", 3)), (True, b"\x01"), (np.int16(-2), struct.pack("<h", -2)),
        (np.float32(1.5), struct.pack("<f", 1.5)), (2.0, struct.pack("<d", 2.0)),
    ],
)  # fmt: skip
def test_scalars_are_as_long_as_their_type(stream, x, value, raw):
    array = cuda.as_cuda_array(x, sync=False)
    assert graph_view(captured(stream, array, value, array, kernel=axpy))[0].parameters[7] == raw


def test_a_pointer_argument_is_one_word(kernel, x):
    view = graph_view(define(kernel, x, [], 1))
    assert view[0].parameters == (struct.pack("<Q", x.data.ptr), struct.pack("<f", 1))
    assert view[0].pointers == (Pointer(0, 0, x.data.ptr),)


def test_cupys_kernels_hold_pointers_inside_structures(stream, x):
    y = zeros(stream, 1000)
    with stream:
        stream.begin_capture()
        cp.add(x, 1, out=y)
        graph = stream.end_capture()
    (node,) = graph_view(graph)
    assert (node.name, node.pointers) == ("cupy_add", (Pointer(0, 0, x.data.ptr), Pointer(2, 0, y.data.ptr)))


def test_node_facts_of_what_is_no_node(gpu, x):
    with pytest.raises(CUDARuntimeError, match="cudaErrorInvalidValue"):
        current().node_facts(12345)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("add_one", "add_one"),
        ("_ZN6cudapy8__main__7add_oneB2v1B8cw51cXTLE5ArrayIfLi1E1C7mutable7alignedE", "add_one"),
        ("_ZN31cudapy_3a_3a__main___3a_3aouter12_3clocals_3e7add_oneB2v3E5ArrayIfLi1E1C7mutable7alignedE", "add_one"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE", "vectorized_elementwise_kernel"),
        ("_Z6kernelIfEvPT_", "kernel"),
        ("cupy_add__float32_float_float32", "cupy_add"),
        ("_Z", "_Z"),
    ],
)
def test_kernel_names_are_as_written(symbol, name):
    assert kernel_name(symbol) == name


# -- other forms ------------------------------------------------------------------------------------------------------


def test_networkx_and_dot(kernel, x):
    import networkx

    graph = define(kernel, x, [(0, 1), (0, 2)], 3)
    definition = core.graph.GraphDefinition()
    definition.embed(graph)
    inner = graph_view(graph).to_networkx()
    assert (set(inner.edges), inner.nodes[0]["grid"], inner.nodes[2]["name"]) == ({(0, 1), (0, 2)}, (4, 2, 1), "tile")
    assert networkx.dag_longest_path_length(inner) == 1
    outer = graph_view(definition)
    assert set(outer.to_networkx().nodes[0]["inner"]["child graph"].edges) == set(inner.edges)
    dot = outer.to_dot()
    assert dot.startswith("digraph graph_view {")
    assert dot.count("->") == 3  # two edges, and from the node to what is inside
    assert "subgraph cluster_0_0" in dot
    assert dot.count("{") == dot.count("}")


def test_a_notebook_gets_picture_and_text(stream, x):
    view = graph_view(chain(stream, x, 8))
    bundle = view._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert bundle["text/plain"] == repr(view)


# -- pictures ---------------------------------------------------------------------------------------------------------


def row(length):
    return [(i, i + 1) for i in range(length - 1)], length


def wavefront(n):
    edges = [(i * n + j, i * n + j + 1) for i in range(n) for j in range(n - 1)]
    return sorted(edges + [(i * n + j, i * n + j + n) for i in range(n - 1) for j in range(n)]), n * n


def tree(leaves):
    edges, first, width = [], 0, leaves
    while width > 1:
        edges += [(first + k, first + width + k // 2) for k in range(width)]
        first, width = first + width, width // 2
    return edges, first + 1


def scattered(count):
    random = np.random.default_rng(0)
    return sorted({(int(random.integers(max(0, i - 9), i)), i) for i in range(1, count) for _ in range(2)}), count


SHAPES = {
    "two": row(2), "eight": row(8), "chain 64": row(64), "chain 512": row(512), "branches 8 x 8": branches(8, 8),
    "branches 8 x 62": branches(8, 62), "branches 64 x 7": branches(64, 7), "wavefront 8": wavefront(8),
    "wavefront 22": wavefront(22), "tree 32": tree(32), "tree 256": tree(256), "alone": ([], 500), "one": ([], 1),
    "scattered 64": scattered(64), "scattered 500": scattered(500),
}  # fmt: skip


@pytest.mark.parametrize("names", [1, 3, 40])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_graph_fits_its_picture(shape, names):
    edges, count = SHAPES[shape]
    picture = Picture([Box("kernel", f"kernel_{i % names}", "<<<1, 1>>>") for i in range(count)], edges)
    folded = fold(picture)
    assert sorted(i for part in folded.parts for i in part.nodes) == list(range(count))
    assert len(folded.levels) <= MAX_COLUMNS
    assert max(map(len, folded.levels)) <= MAX_ROWS
    column = {p: k for k, level in enumerate(folded.levels) for p in level}
    assert all(column[a] < column[b] for a, b in folded.edges)
    figure = draw(picture, shape)
    assert figure.get_figwidth() == 9.6
    assert figure.get_figheight() < 8
    assert png(figure).startswith(b"\x89PNG")


def test_small_graphs_are_not_folded():
    for edges, count in (row(8), branches(3, 2), wavefront(3), tree(8)):
        folded = fold(Picture([Box("kernel", "k")] * count, edges))
        assert (len(folded.parts), folded.edges) == (count, set(edges))


def test_a_long_chain_keeps_its_ends():
    parts = fold(Picture([Box("kernel", "add_one")] * 512, row(512)[0])).parts
    assert [(part.name, len(part.nodes)) for part in parts] == [("add_one", 1), ("× 510 add_one", 510), ("add_one", 1)]


def test_a_chain_of_two_kernels_counts_both():
    boxes = [Box("kernel", ("scale", "shift")[i % 2]) for i in range(100)]
    part = fold(Picture(boxes, row(100)[0])).parts[1]
    assert (part.name, part.detail) == ("× 98 nodes", "49 shift, 49 scale")


def test_a_wide_level_is_one_box():
    edges, count = branches(64, 1)
    parts = fold(Picture([Box("kernel", "tile")] * count, edges)).parts
    assert [(part.form, part.name) for part in parts] == [("one", "tile"), ("wide", "64 × tile"), ("one", "tile")]


# -- addresses --------------------------------------------------------------------------------------------------------


def test_live_freed_reused(stream):
    a, c = zeros(stream, 1000), zeros(stream, 1000)
    graph = captured(stream, cuda.as_cuda_array(a, sync=False), 2.0, cuda.as_cuda_array(c, sync=False), kernel=axpy)
    book = addresses(graph, a=a, c=c)
    assert [(p.owner, p.now, p.address) for p in book] == [("a", "live", a.data.ptr), ("c", "live", c.data.ptr)]
    assert book.verdict == "2 baked pointers: 2 live."
    address = a.data.ptr
    del a
    gc.collect()
    assert [p.now for p in book] == ["freed", "live"]
    assert "A replay works on memory that nobody owns." in book.verdict
    b = zeros(stream, 1000)
    assert b.data.ptr == address
    assert [p.now for p in book] == ["freed", "live"]  # it has not been told of b
    assert book.update(b=b) is book
    assert [p.now for p in book] == ["reused by b", "live"]
    assert book.verdict == "2 baked pointers: 1 reused by b, 1 live. A replay works on the memory of b."
    assert [p.address for p in book.stale] == [address]
    del b
    gc.collect()
    assert [p.now for p in book] == ["freed", "live"]


def test_the_book_keeps_nothing_alive(stream):
    import weakref

    a = zeros(stream, 10)
    book, gone = addresses(chain(stream, a, 1), a=a), weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None
    assert book.pointers[0].now == "freed"


def test_a_name_that_comes_again(stream):
    a = zeros(stream, 1000)
    book = addresses(chain(stream, a, 1), a=a)
    assert book.update(a=a).pointers[0].now == "live"
    address = a.data.ptr
    del a
    gc.collect()
    a = zeros(stream, 1000)
    assert a.data.ptr == address
    assert book.update(a=a).pointers[0].now == "reused by a (another array)"


def test_unknown_until_it_is_named(stream, x):
    book = addresses(chain(stream, x, 1))
    assert [(p.owner, p.at_capture, p.now) for p in book] == [(None, "unknown", "unknown")]
    assert book.verdict.endswith("name the arrays right after the capture.")
    assert [p.now for p in book.update(x=x)] == ["in x"]
    assert book.stale == ()


def test_views_and_offsets(stream, x):
    part = x[10:20]
    book = addresses(chain(stream, part, 1), x=x)
    assert (book.pointers[0].at_capture, book.pointers[0].offset) == ("x + 40 B", 40)
    named = addresses(chain(stream, part, 1), x=x, part=part)
    assert named.pointers[0].at_capture == "part"
    assert addresses(chain(stream, part, 1), other=x[:10]).pointers[0].owner is None
    backwards = x[::-1]
    assert addresses(chain(stream, x, 1), backwards=backwards).pointers[0].owner == "backwards"


def test_another_array_over_the_same_memory_keeps_it_live(stream, x):
    array = cuda.as_cuda_array(x, sync=False)
    book = addresses(captured(stream, array), array=array, x=x)
    del array
    gc.collect()
    assert book.pointers[0].now == "live as x"


def test_numba_arrays_and_core_buffers(stream, kernel):
    array = cuda.device_array(16, np.float32)
    assert addresses(captured(stream, array), array=array).pointers[0].owner == "array"
    queue = core.Device(0).create_stream()
    buffer = core.Device(0).allocate(64, stream=queue)
    graph = core.graph.GraphDefinition()
    graph.memset(buffer, 0, 64)
    book = addresses(graph, buffer=buffer)
    assert [(p.role, p.owner, p.now) for p in book] == [("sets", "buffer", "live")]
    buffer.close(queue)
    assert book.pointers[0].now == "freed"


def test_copies_memsets_and_graphs_inside(stream, kernel, x):
    y = zeros(stream, 1000)
    inner = core.graph.GraphDefinition()
    inner.memcpy(y.data.ptr, x.data.ptr, 64).memset(x.data.ptr + 8, 0, 8)
    graph = core.graph.GraphDefinition()
    graph.embed(inner)
    book = addresses(graph, x=x, y=y)
    assert [(p.node, p.role, p.at_capture) for p in book] == [
        ("[0].child_graph[0]", "copies to", "y"),
        ("[0].child_graph[0]", "copies from", "x"),
        ("[0].child_graph[1]", "sets", "x + 8 B"),
    ]


def test_the_table_has_one_row_for_equal_nodes(stream, x):
    book = addresses(chain(stream, x, 512), x=x)
    assert len(book) == 512
    lines = repr(book).splitlines()
    assert lines[:2] == ["512 baked pointers: 512 live.", "node         what     pointer      at capture  now   address"]
    assert lines[2] == f"[0] … [511]  add_one  parameter 4  x           live  {x.data.ptr:#x}"
    assert len(lines) == 3
    page = book._repr_html_()
    assert page.count("<tr>") == 2
    assert f"<code>{x.data.ptr:#x}</code>" in page


def test_a_graph_without_pointers(gpu):
    graph = core.graph.GraphDefinition()
    graph.empty()
    assert repr(addresses(graph)) == "No pointers are baked into this graph."


def test_what_is_no_array_is_refused(stream, x):
    graph = chain(stream, x, 1)
    for wrong in (3, np.zeros(3), "x", None):
        with pytest.raises(TypeError, match="is not an array in device memory"):
            addresses(graph, wrong=wrong)


def test_torch_tensors_by_what_they_offer(stream, x, monkeypatch):
    import sys
    import types as python_types

    class Storage:
        alive = True

    class Reference:
        def __init__(self, storage):
            self.storage = storage

        def expired(self):
            return not self.storage.alive

    class Tensor:
        is_cuda, device, shape = True, "cuda:0", (10, 10)
        storage = Storage()
        data_ptr = staticmethod(lambda: x.data.ptr)
        element_size = staticmethod(lambda: 4)
        stride = staticmethod(lambda: (1, 10))

        def untyped_storage(self):
            return self.storage

    for name in ("torch", "torch.multiprocessing", "torch.multiprocessing.reductions"):
        monkeypatch.setitem(sys.modules, name, python_types.ModuleType(name))
    sys.modules["torch.multiprocessing.reductions"].StorageWeakRef = Reference
    tensor = Tensor()
    book = addresses(chain(stream, x, 1), tensor=tensor)
    assert (book.pointers[0].owner, book.pointers[0].now) == ("tensor", "live")
    Storage.alive = False
    assert book.pointers[0].now == "freed"
    tensor.is_cuda = False
    with pytest.raises(TypeError, match="not on the GPU"):
        addresses(chain(stream, x, 1), tensor=tensor)
