"""cuda.core: devices and streams, launches, GraphDefinition and its nodes, GraphBuilder, Graph; and their errors."""

from __future__ import annotations

import ctypes
import os
import tempfile

import numpy as np
from cases._graphs import (
    HOST_FUNCTION,
    Kit,
    address,
    core_shape,
    dot_shape,
    float_bytes,
    ok,
    shape,
    type_names,
)
from harness import case

# -- device, stream, event -------------------------------------------------------------------------------------------------


@case("core/device")
def device(lab):
    device = lab.core.Device(0)
    lab.log("set_current", lab.attempt("call", device.set_current))
    lab.log("class, id", [type(device).__name__, device.device_id])
    lab.log("one object a device", lab.core.Device(0) is device)
    lab.log("equal", lab.core.Device() == device)
    lab.log("int", int(device))
    lab.attempt("no such device", lab.core.Device, 99)
    lab.attempt("sync", device.sync)


@case("core/stream")
def stream(lab):
    k = Kit(lab)
    s = k.stream
    lab.log("class", type(s).__name__)
    lab.log("non-blocking", s.is_nonblocking)
    lab.log("device", s.device == k.device)
    lab.log("protocol", [s.__cuda_stream__()[0], s.__cuda_stream__()[1] == int(s.handle)])
    blocking = k.device.create_stream(options=lab.core.StreamOptions(nonblocking=False))
    lab.log("non-blocking, asked not to", blocking.is_nonblocking)
    lab.log("closed", [s.is_closed, s.close(), s.is_closed])
    lab.attempt("close again", s.close)
    lab.attempt("sync when closed", s.sync)
    lab.attempt("Stream()", lab.core.Stream)


@case("core/stream/from_handle")
def stream_from_handle(lab):
    k, ours = Kit(lab), lab.stream()
    s = lab.core.Stream.from_handle(ours.ptr)
    lab.log("the same handle", int(s.handle) == ours.ptr)
    lab.log("non-blocking", s.is_nonblocking)
    k.launch(s, "add", k.x, 2.0)
    ours.synchronize()
    lab.log("x", k.x.get()[0])
    graph = k.graph()
    k.launch(graph, "add", k.x, 3.0)
    lab.attempt("launch a graph", graph.instantiate().launch, s)
    ours.synchronize()
    lab.log("x", k.x.get()[0])
    s.close()
    lab.launch("add", ours, k.x, 1.0)
    ours.synchronize()
    lab.log("ours lives on", k.x.get()[0])


@case("core/stream/legacy_default")
def stream_legacy(lab):
    k = Kit(lab)
    graph = k.graph()
    k.launch(graph, "add", k.x, 1.0)
    executable = graph.instantiate()
    for name in ("LEGACY_DEFAULT_STREAM", "PER_THREAD_DEFAULT_STREAM"):
        s = getattr(lab.core, name)
        lab.attempt(name, executable.launch, s)
        s.sync()
        lab.log("x", k.x.get()[0])
    lab.attempt("of the device", executable.launch, k.device.default_stream)
    k.device.sync()
    lab.log("x", k.x.get()[0])


@case("core/stream/of_other_libraries")
def stream_foreign(lab):
    """Which of the APIs take CuPy's stream, its handle, or Numba's stream as they are."""
    k, ours = Kit(lab), lab.stream()
    graph = k.graph()
    k.launch(graph, "add", k.x, 1.0)
    executable = graph.instantiate()
    args = k.config(), k.kernel("add"), k.x.data.ptr, np.float32(1)
    for name, s in (("CuPy", ours), ("handle", ours.ptr), ("None", None), ("a string", "stream")):
        lab.attempt(f"core.launch, {name}", lab.core.launch, s, *args)
        lab.attempt(f"graph.launch, {name}", executable.launch, s)
        lab.attempt(f"graph.upload, {name}", executable.upload, s)
    lab.attempt("create_stream, CuPy", k.device.create_stream, ours)
    ours.synchronize()
    lab.log("x", k.x.get()[0])


@case("core/event")
def core_event(lab):
    k, other = Kit(lab), Kit(lab).stream
    event = k.device.create_event()
    lab.log("class", type(event).__name__)
    lab.log("done before it is recorded", event.is_done)
    k.launch(k.stream, "nap", k.x, 1.0)
    lab.log("record returns the event", k.stream.record(event) is event)
    other.wait(event)
    k.launch(other, "copy", k.y, k.x)
    other.sync()
    lab.log("y", k.y.get()[0])
    event.sync()
    lab.log("done", event.is_done)
    lab.log("closed", [event.close(), event.is_closed])
    lab.attempt("record the closed", k.stream.record, event)


# -- launches --------------------------------------------------------------------------------------------------------------


@case("core/launch/config")
def launch_config(lab):
    make = lab.core.LaunchConfig
    lab.log("repr", repr(make(grid=2, block=(3, 4))))
    lab.log("grids", [make(grid=2, block=3).grid, make(grid=(2, 3), block=3).grid])
    lab.log("shared memory", [make(grid=1, block=3).shmem_size, make(grid=1, block=3, shmem_size=8).shmem_size])
    one = make(grid=1, block=1)
    lab.log("equal", [one == make(grid=(1, 1, 1), block=(1,)), one == make(grid=2, block=1)])
    lab.log("hash", hash(one) == hash(make(grid=(1,), block=1)))


CONFIGS = {
    "nothing": {},
    "no_block": {"grid": 1},
    "no_grid": {"block": 1},
    "zero": {"grid": 0, "block": 1},
    "negative": {"grid": 1, "block": -1},
    "four": {"grid": (1, 1, 1, 1), "block": 1},
    "list": {"grid": [1, 1], "block": 1},
    "float": {"grid": 1.0, "block": 1},
    "string": {"grid": "1", "block": 1},
    "too_large_a_block": {"grid": 1, "block": 2048},
}


@case("core/launch/config_errors")
def launch_config_errors(lab):
    k = Kit(lab)
    for name, fields in CONFIGS.items():
        config = lab.attempt(name, lab.core.LaunchConfig, **fields)
        if config is not None:
            lab.attempt("launch", lab.core.launch, k.stream, config, k.kernel("add"), k.x.data.ptr, np.float32(1))
            lab.attempt("node", k.graph().launch, config, k.kernel("add"), k.x.data.ptr, np.float32(1))


VALUES = {  # for the float32 of "add"
    "ctypes_float": ctypes.c_float(1.5),
    "numpy_float32": np.float32(1.5),
    "python_float": 1.5,  # eight bytes: the kernel reads the first four
    "numpy_float64": np.float64(1.5),
    "python_int_0": 0,
    "numpy_int32": np.int32(0x3FC00000),
    "ctypes_int32": ctypes.c_int32(0x3FC00000),
    "string": "1.5",
    "none": None,
    "bytes": b"1.5",
    "list": [1.5],
}
POINTERS = {  # for its pointer
    "python_int": int,
    "numpy_uint64": np.uint64,
    "numpy_intp": np.intp,
    "ctypes_uint64": ctypes.c_uint64,
    "ctypes_size_t": ctypes.c_size_t,
    "ctypes_void_p": ctypes.c_void_p,
}


def launch_argument(lab, value):
    k = Kit(lab)
    args = k.config(), k.kernel("add"), k.x.data.ptr, value
    lab.attempt("launch", lab.core.launch, k.stream, *args)
    k.stream.sync()
    lab.log("x", k.x.get()[0])
    graph = k.graph()
    lab.attempt("node", graph.launch, *args)
    k.run(graph.instantiate())
    lab.log("x", k.x.get()[0])


for _name, _value in VALUES.items():
    case(f"core/launch/value/{_name}", value=_value)(launch_argument)


def launch_pointer(lab, kind):
    k = Kit(lab)
    args = k.config(), k.kernel("add"), kind(k.x.data.ptr), np.float32(2)
    lab.attempt("launch", lab.core.launch, k.stream, *args)
    k.stream.sync()
    graph = k.graph()
    lab.attempt("node", graph.launch, *args)
    k.run(graph.instantiate())
    lab.log("x", k.x.get()[0])


for _name, _kind in POINTERS.items():
    case(f"core/launch/pointer/{_name}", kind=_kind)(launch_pointer)


@case("core/launch/arrays_are_not_taken")
def launch_arrays(lab):
    k = Kit(lab)
    lab.attempt("CuPy", lab.core.launch, k.stream, k.config(), k.kernel("add"), k.x, np.float32(1))
    lab.attempt("NumPy", lab.core.launch, k.stream, k.config(), k.kernel("add"), np.zeros(4), np.float32(1))
    buffer = k.device.allocate(16, stream=k.stream)
    buffer.fill(float_bytes(4.0), stream=k.stream)
    lab.attempt("Buffer", lab.core.launch, k.stream, k.config(), k.kernel("add"), buffer, np.float32(1))
    lab.attempt("Buffer and pointer", lab.core.launch, k.stream, k.config(), k.kernel("copy"), k.x.data.ptr, buffer)
    k.stream.sync()
    lab.log("x", k.x.get()[0])


@case("core/launch/integers")
def launch_integers(lab):
    """The int32 of "index" from four kinds of 3: a Python int passes eight bytes, of which the first four are read."""
    k = Kit(lab)
    for value in (ctypes.c_int32(3), np.int32(3), np.int64(3), 3):
        k.clear()
        lab.attempt(type(value).__name__, lab.core.launch, k.stream, k.config(2, 2), k.kernel("index"), k.x.data.ptr, value)
        k.stream.sync()
        lab.log("x", k.x.get())
    lab.attempt("too large", lab.core.launch, k.stream, k.config(), k.kernel("index"), k.x.data.ptr, 2**70)


@case("core/launch/wrong_types")
def launch_wrong(lab):
    k = Kit(lab)
    graph = k.graph()
    args = k.x.data.ptr, np.float32(1)
    for name, where in (("stream", lambda *a: lab.core.launch(k.stream, *a)), ("node", graph.launch)):
        lab.attempt(f"{name}: config", where, (1, 1), k.kernel("add"), *args)
        lab.attempt(f"{name}: kernel", where, k.config(), "add", *args)
        lab.attempt(f"{name}: no kernel", where, k.config())
        lab.attempt(f"{name}: swapped", where, k.kernel("add"), k.config(), *args)
    lab.log("nodes", len(graph.nodes()))


@case("core/launch/kernel_object")
def kernel_object(lab):
    k = Kit(lab)
    kernel = k.kernel("add")
    lab.log("class", type(kernel).__name__)
    lab.log("equal", [kernel == lab.core_kernel("add"), kernel == k.kernel("copy")])
    lab.attempt("arguments", lambda: kernel.num_arguments, show=True)
    lab.attempt("Kernel()", lab.core.Kernel)
    lab.attempt("from_handle of a string", lab.core.Kernel.from_handle, "kernel")


# -- definitions and nodes -------------------------------------------------------------------------------------------------


@case("core/definition/empty")
def definition_empty(lab):
    k = Kit(lab)
    graph = k.graph()
    lab.log("class", type(graph).__name__)
    for name, some in (("nodes", graph.nodes()), ("edges", graph.edges())):
        lab.log(name, [type(some).__name__, len(some)])
    lab.log("valid", graph.is_valid)
    lab.log("handle in cudart", shape(lab, graph.handle))
    lab.attempt("run", k.run, graph.instantiate())


@case("core/definition/equality")
def definition_equality(lab):
    k = Kit(lab)
    graph, other = k.graph(), k.graph()
    node = k.fill(graph, k.x, 1.0)
    lab.log("equal", [graph == graph, graph == other, graph == "graph"])
    lab.log("of a node", [node.graph == graph, node.graph == other, hash(node.graph) == hash(graph)])


ADDED = {
    "launch": lambda k, w: k.launch(w, "add", k.x, 1.0),
    "memcpy": lambda k, w: k.copy(w, k.x, k.y),
    "memset": lambda k, w: k.fill(w, k.x, 1.0),
    "callback": lambda k, w: k.call(w, "called"),
    "embed": lambda k, w: w.embed(k.graph()),
    "record": lambda k, w: w.record(k.device.create_event()),
    "wait": lambda k, w: w.wait(k.device.create_event()),
    "join": lambda k, w: w.join(),
    "allocate": lambda k, w: w.allocate(16),
}


def add_core(lab, add):
    """A node of each kind, as a root and after another node."""
    k = Kit(lab)
    graph = k.graph()
    root, first = add(k, graph), graph.empty()
    after = add(k, first)
    lab.log("class", type(after).__name__)
    lab.log("type", after.type.name)
    lab.log("repr begins", repr(after).partition(" ")[0])
    lab.log("roots before", [len(root.pred), len(root.succ), len(first.pred)])
    lab.log("after the first", [after in first.succ, first in after.pred, len(after.pred), len(after.succ)])
    lab.log("shape", core_shape(graph))
    lab.log("through cudart", shape(lab, graph.handle))
    lab.log("graph, valid", [after.graph == graph, after.is_valid])
    first.pred.add(root)
    lab.attempt("run", lambda: k.run(graph.instantiate()))
    lab.log("contents", k.contents())


for _name, _add in ADDED.items():
    case(f"core/definition/add/{_name}", add=_add)(add_core)


@case("core/definition/add/deallocate")
def add_deallocate(lab):
    k = Kit(lab)
    graph = k.graph()
    alloc = graph.allocate(64)
    node = alloc.deallocate(alloc.dptr)
    lab.log("class, type", [type(node).__name__, node.type.name])
    lab.log("the address", node.dptr == alloc.dptr)
    lab.attempt("run twice", lambda: k.run(graph.instantiate(), 2))
    lab.attempt("again", alloc.deallocate, alloc.dptr)
    lab.attempt("null", graph.deallocate, 0)
    lab.attempt("of CuPy", graph.deallocate, k.x.data.ptr)
    lab.log("shape", core_shape(graph))


@case("core/definition/add/empty")
def add_empty(lab):
    k = Kit(lab)
    graph = k.graph()
    node = graph.empty()
    lab.log("class, type", [type(node).__name__, node.type.name])
    lab.attempt("after a node", lambda: node.empty())
    lab.log("join of nothing", type(graph.join()).__name__)
    lab.log("shape", core_shape(graph))


@case("core/definition/chain")
def definition_chain(lab):
    k = Kit(lab)
    graph = k.graph()
    node = k.fill(graph, k.x, 1.0)
    for _ in range(3):
        node = k.launch(node, "affine", k.x, 2.0, 1.0)
    k.copy(node, k.y, k.x)
    lab.log("shape", core_shape(graph))
    k.run(graph.instantiate(), 2)
    lab.log("contents", k.contents())


@case("core/definition/fork_and_join")
def definition_fork(lab):
    k = Kit(lab)
    graph = k.graph()
    top = k.launch(graph, "nap", k.x, 1.0)
    left = k.launch(top, "copy", k.y, k.x)
    right = k.launch(top, "copy", k.z, k.x)
    join = left.join(right)
    lab.log("join", [type(join).__name__, join.pred == {left, right}])
    k.launch(join, "affine", k.x, 10.0, 0.0)
    lab.log("shape", core_shape(graph))
    k.run(graph.instantiate(), 2)
    lab.log("contents", k.contents())


@case("core/definition/join_wrong")
def join_wrong(lab):
    k = Kit(lab)
    graph, other = k.graph(), k.graph()
    a, b, foreign = graph.empty(), graph.empty(), other.empty()
    lab.attempt("of another graph", a.join, foreign)
    lab.attempt("twice the same", a.join, b, b)
    lab.attempt("itself", a.join, a)
    lab.attempt("a number", a.join, 1)
    lab.attempt("a list", graph.join, [a, b])
    lab.log("shape", core_shape(graph))


@case("core/edges/add_and_discard")
def edges_add(lab):
    k = Kit(lab)
    graph = k.graph()
    late = k.launch(graph, "affine", k.x, 10.0, 3.0)
    early = k.launch(graph, "affine", k.x, 1.0, 2.0)
    lab.log("before", [len(late.pred), len(early.succ), len(graph.edges())])
    early.succ.add(late)
    lab.log("added", [early in late.pred, late in early.succ, graph.edges() == {(early, late)}])
    k.run(graph.instantiate())
    lab.log("x", k.x.get()[0])
    late.pred.add(early)
    lab.log("added again", len(graph.edges()))
    early.succ.discard(late)
    early.succ.discard(late)
    lab.log("discarded twice", len(graph.edges()))
    try:
        early.succ.remove(late)
    except KeyError as error:
        lab.log("remove what is not there", type(error.args[0]).__name__)
    late.succ.add(early)
    k.clear()
    k.run(graph.instantiate())
    lab.log("x, the other way", k.x.get()[0])


@case("core/edges/set_operations")
def edges_sets(lab):
    k = Kit(lab)
    graph = k.graph()
    a, b, c, d = (graph.empty() for _ in range(4))
    names = {a: "a", b: "b", c: "c", d: "d"}

    def succ():
        return sorted(names[n] for n in a.succ)

    a.succ.update([b], c)
    lab.log("update", succ())
    a.succ |= {d}
    lab.log("|=", succ())
    a.succ -= {b, d}
    lab.log("-=", succ())
    lab.log("& | -", [len(a.succ & {b, c}), len(a.succ | {b}), len(a.succ - {c}), type(a.succ & {c}).__name__])
    lab.log("== <=", [a.succ == {c}, a.succ <= {b, c}])
    a.succ = [b, d]
    lab.log("assigned", succ())
    lab.log("the other side", [len(b.pred), len(c.pred), len(d.pred)])
    a.succ.clear()
    lab.log("clear", succ())
    d.pred = {a, b}
    lab.log("pred assigned", [len(d.pred), succ()])
    lab.log("pop", d.pred.pop() in {a, b})
    lab.log("edges", len(graph.edges()))
    lab.log("repr of none", repr(c.pred))


@case("core/edges/wrong")
def edges_wrong(lab):
    k = Kit(lab)
    graph, other = k.graph(), k.graph()
    a, b, foreign = graph.empty(), graph.empty(), other.empty()
    lab.attempt("a string", a.succ.add, "b")
    lab.attempt("a string in an update", a.succ.update, ["b"])
    lab.attempt("discard a string", a.succ.discard, "b")
    lab.log("contains a string", "b" in a.succ)
    lab.attempt("itself", a.succ.add, a)
    lab.attempt("of another graph", a.succ.add, foreign)
    a.succ.add(b)
    lab.attempt("cycle", b.succ.add, a)
    lab.log("edges", len(graph.edges()))
    lab.attempt("instantiate", graph.instantiate)


@case("core/nodes/identity")
def nodes_identity(lab):
    k = Kit(lab)
    graph = k.graph()
    a = k.launch(graph, "add", k.x, 1.0)
    b = k.launch(a, "add", k.x, 2.0)
    lab.log("nodes", [graph.nodes() == {a, b}, a in graph.nodes()])
    lab.log("edges", graph.edges() == {(a, b)})
    [edge] = graph.edges()
    lab.log("the same objects", [edge[0] is a, edge[1] is b])
    lab.log("equal", [a == edge[0], a == b, a == "a", hash(a) == hash(edge[0])])
    lab.log("handle", int(a.handle) in {int(n.handle) for n in graph.nodes()})


@case("core/nodes/kernel")
def node_kernel(lab):
    k = Kit(lab)
    node = k.launch(k.graph(), "index", k.x, 4, grid=(2, 3), block=(4, 5, 6))
    lab.log("grid, block, shared", [node.grid, node.block, node.shmem_size])
    lab.log("config", repr(node.config))
    lab.log("kernel", [type(node.kernel).__name__, node.kernel == k.kernel("index")])


@case("core/nodes/memcpy")
def node_memcpy(lab):
    k = Kit(lab)
    node = k.copy(k.graph(), k.y, k.x, 12)
    lab.log("addresses", [node.dst == k.y.data.ptr, node.src == k.x.data.ptr])
    lab.log("size", node.size)
    lab.attempt("no bytes", k.graph().memcpy, k.y.data.ptr, k.x.data.ptr, 0)


FILLS = {
    "int": (7, 5, 1, 0),
    "one_byte": (b"\x07", 5, 1, 0),
    "two_bytes": (b"\x01\x02", 3, 1, 0),
    "float32": (np.float32(1.5), 3, 1, 0),
    "four_bytes": (float_bytes(2.5), 2, 1, 0),
    "uint8": (np.uint8(9), 3, 1, 0),
    "bool": (True, 3, 1, 0),
    "rows": (b"\xaa", 2, 3, 4),
    "too_large": (256, 4, 1, 0),
    "negative": (-1, 4, 1, 0),
    "three_bytes": (b"abc", 4, 1, 0),
    "eight_bytes": (np.float64(1), 1, 1, 0),
    "float": (1.5, 4, 1, 0),
    "none": (None, 4, 1, 0),
}


def node_memset(lab, value, width, height, pitch):
    k = Kit(lab)
    graph, memory = k.graph(), lab.zeros(16, "uint8")
    node = lab.attempt("memset", graph.memset, memory.data.ptr, value, width, height, pitch)
    if node is not None:
        lab.log("target", node.dptr == memory.data.ptr)
        lab.log("fields", [node.value, node.element_size, node.width, node.height, node.pitch])
        k.run(graph.instantiate())
    lab.log("memory", memory.get())


for _name, (_value, _width, _height, _pitch) in FILLS.items():
    case(f"core/nodes/memset/{_name}", value=_value, width=_width, height=_height, pitch=_pitch)(node_memset)


@case("core/nodes/alloc")
def node_alloc(lab):
    k = Kit(lab)
    graph = k.graph()
    node = graph.allocate(100)
    lab.log("address", node.dptr != 0)
    lab.log("fields", [node.bytesize, node.device_id, node.memory_type, node.peer_access])
    other = graph.allocate(100)
    lab.log("another address", other.dptr != node.dptr)
    lab.attempt("device 0", lambda: graph.allocate(16, device=0).device_id, show=True)
    lab.attempt("device object", lambda: graph.allocate(16, device=k.device).device_id, show=True)
    lab.attempt("no bytes", graph.allocate, 0)
    lab.attempt("negative", graph.allocate, -1)
    lab.attempt("a string", graph.allocate, "16")
    lab.attempt("no such type", graph.allocate, 16, memory_type="texture")
    lab.attempt("no such device", graph.allocate, 16, device=99)


@case("core/nodes/alloc_used")
def alloc_used(lab):
    k = Kit(lab)
    graph = k.graph()
    alloc = graph.allocate(16)
    filled = alloc.memset(alloc.dptr, float_bytes(3.0), 4)
    added = filled.launch(k.config(), k.kernel("add"), alloc.dptr, np.float32(1))
    added.memcpy(k.x.data.ptr, alloc.dptr, 16).deallocate(alloc.dptr)
    lab.log("shape", core_shape(graph))
    executable = graph.instantiate()
    k.run(executable, 2)
    lab.log("x", k.x.get())
    lab.attempt("a second executable", graph.instantiate)
    executable.close()
    lab.attempt("the first closed", graph.instantiate)


@case("core/nodes/alloc_not_freed")
def alloc_not_freed(lab):
    k = Kit(lab)
    graph = k.graph()
    alloc = graph.allocate(16)
    alloc.memset(alloc.dptr, float_bytes(3.0), 4).memcpy(k.x.data.ptr, alloc.dptr, 16)
    executable = graph.instantiate()
    lab.attempt("first", executable.launch, k.stream)
    lab.attempt("second", executable.launch, k.stream)
    k.stream.sync()
    executable.close()
    executable = lab.attempt("auto-free", graph.instantiate, lab.core.graph.GraphCompleteOptions(auto_free_on_launch=True))
    if executable is not None:
        lab.attempt("first", executable.launch, k.stream)
        lab.attempt("second", executable.launch, k.stream)
        k.stream.sync()
    lab.log("x", k.x.get())


@case("core/nodes/child_event_callback")
def node_others(lab):
    k = Kit(lab)
    graph, inner, event = k.graph(), k.graph(), k.device.create_event()
    k.launch(inner, "add", k.x, 1.0)
    child = graph.embed(inner)
    lab.log("child", [type(child.child_graph).__name__, core_shape(child.child_graph), child.child_graph == inner])
    k.launch(inner, "add", k.x, 10.0)
    lab.log("child, the embedded changed", core_shape(child.child_graph))
    record, wait = graph.record(event), graph.wait(event)
    lab.log("events", [record.event == event, wait.event == event])

    def function():
        k.calls.append("called")

    node = graph.callback(function)
    lab.log("callback", node.callback is function)
    lab.log("destroyed", [node.destroy(), node.is_valid])
    k.run(graph.instantiate())
    lab.log("contents", k.contents())


@case("core/nodes/destroy")
def node_destroy(lab):
    k = Kit(lab)
    graph = k.graph()
    a = k.launch(graph, "affine", k.x, 1.0, 2.0)
    b = k.launch(a, "affine", k.x, 10.0, 1.0)
    c = k.launch(b, "affine", k.x, 3.0, 0.0)
    executable = graph.instantiate()
    lab.attempt("destroy", b.destroy)
    lab.log("valid", [a.is_valid, b.is_valid])
    lab.log("shape", core_shape(graph))
    lab.attempt("destroy again", b.destroy)
    lab.attempt("a node after it", b.join)
    lab.attempt("type", lambda: b.type, show=True)
    lab.log("its neighbours", [len(b.pred), len(b.succ), len(a.succ)])
    lab.attempt("an edge to it", a.succ.add, b)
    a.succ.add(c)
    k.run(graph.instantiate())
    lab.log("x", k.x.get()[0])
    k.clear()
    k.run(executable)
    lab.log("x, instantiated before", k.x.get()[0])


@case("core/definition/wrong_types")
def definition_wrong(lab):
    k = Kit(lab)
    graph = k.graph()
    x = k.x.data.ptr
    for name, method, args in (
        ("memcpy from a string", "memcpy", (x, "y", 4)),
        ("memcpy of -1 bytes", "memcpy", (x, x, -1)),
        ("memcpy without a size", "memcpy", (x, x)),
        ("memset of a string", "memset", ("x", 1, 4)),
        ("memset, width a string", "memset", (x, 1, "4")),
        ("memset of no width", "memset", (x, 1, 0)),
        ("memset of no height", "memset", (x, 1, 4, 0)),
        ("embed a string", "embed", ("graph",)),
        ("embed None", "embed", (None,)),
        ("record a number", "record", (1,)),
        ("wait for CuPy's event", "wait", (lab.cp.cuda.Event(),)),
        ("callback of a number", "callback", (1,)),
        ("deallocate a string", "deallocate", ("x",)),
        ("if_then of a number", "if_then", (1,)),
        ("join a string", "join", ("a",)),
    ):
        lab.attempt(name, getattr(graph, method), *args)
    lab.log("shape", core_shape(graph))


@case("core/definition/embed_refused")
def embed_refused(lab):
    k = Kit(lab)
    graph, with_memory, cyclic = k.graph(), k.graph(), k.graph()
    alloc = with_memory.allocate(16)
    alloc.deallocate(alloc.dptr)
    lab.attempt("with an allocation", graph.embed, with_memory)
    k.fill(graph, k.x, 1.0)
    lab.log("shape", core_shape(graph))
    a, b = cyclic.empty(), cyclic.empty()
    for name, one, other in (("a>b", a, b), ("b>a", b, a)):
        lab.attempt(name, one.succ.add, other)
    lab.attempt("with a cycle", k.graph().embed, cyclic)


@case("core/definition/callbacks")
def definition_callbacks(lab):
    k = Kit(lab)
    graph, seen = k.graph(), []
    function = HOST_FUNCTION(lambda data: seen.append(ctypes.cast(data, ctypes.POINTER(ctypes.c_ubyte))[0]))
    node = k.call(graph, "first")
    node = k.call(k.launch(node, "add", k.x, 1.0), "second")
    lab.attempt("ctypes", lambda: node.callback(function, user_data=b"\x07"))
    lab.log("calls, built", k.calls)
    k.run(graph.instantiate(), 2)
    lab.log("calls, run twice", k.calls)
    lab.log("seen", seen)
    lab.attempt("user data for Python", graph.callback, lambda: None, user_data=b"1")
    wrong = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda data: 0)
    lab.attempt("another prototype", graph.callback, wrong)


@case("core/definition/events")
def definition_events(lab):
    """One graph records after its work; another waits before its own."""
    k, other = Kit(lab), Kit(lab).stream
    event = k.device.create_event()
    first, second = k.graph(), k.graph()
    k.launch(first, "nap", k.x, 1.0).record(event)
    k.launch(second.wait(event), "copy", k.y, k.x)
    first, second = first.instantiate(), second.instantiate()
    first.launch(k.stream)
    second.launch(other)
    other.sync()
    lab.log("y", k.y.get()[0])
    k.stream.sync()
    lab.log("done", event.is_done)


@case("core/definition/shared_with_cudart")
def definition_cudart(lab):
    k = Kit(lab)
    graph = k.graph()
    node = k.fill(graph, k.x, 1.0)
    ok(lab.cudart.cudaGraphAddEmptyNode(int(graph.handle), [node.handle], 1))
    lab.log("shape", core_shape(graph))
    [late] = node.succ
    lab.log("its class", type(late).__name__)
    executable = ok(lab.cudart.cudaGraphInstantiate(int(graph.handle), 0))
    lab.rt("cudaGraphLaunch", executable, int(k.stream.handle))
    k.stream.sync()
    lab.log("x", k.x.get())
    again = graph.instantiate()
    lab.rt("cudaGraphLaunch", int(again.handle), int(k.stream.handle))
    k.stream.sync()


@case("core/definition/dot")
def definition_dot(lab):
    k = Kit(lab)
    graph = k.graph()
    k.copy(k.launch(graph, "add", k.x, 1.0), k.y, k.x).join(k.fill(graph, k.z, 1.0))
    path = os.path.join(tempfile.mkdtemp(), "graph.dot")
    options = lab.core.graph.GraphDebugPrintOptions(verbose=True)
    for name, args in (("plain", ()), ("verbose", (options,))):
        lab.attempt(name, graph.debug_dot_print, path, *args)
        with open(path, encoding="utf-8") as file:
            lab.log("shape", dot_shape(file.read()))


# -- executable graphs -----------------------------------------------------------------------------------------------------


@case("core/graph/launch_upload_close")
def graph_life(lab):
    k = Kit(lab)
    definition = k.graph()
    k.launch(definition, "add", k.x, 1.0)
    graph = definition.instantiate()
    lab.log("class, closed", [type(graph).__name__, graph.is_closed])
    lab.log("returns", [graph.upload(k.stream), graph.launch(k.stream), graph.launch(stream=k.stream)])
    k.stream.sync()
    lab.log("x", k.x.get()[0])
    lab.log("close", [graph.close(), graph.is_closed])
    lab.attempt("close again", graph.close)
    lab.attempt("launch", graph.launch, k.stream)
    lab.attempt("upload", graph.upload, k.stream)
    lab.attempt("no handle", lambda: int(graph.handle) == 0, show=True)
    lab.log("the definition", core_shape(definition))
    k.run(definition.instantiate())
    lab.log("x, another", k.x.get()[0])


@case("core/graph/closed_while_queued")
def graph_closed_early(lab):
    k = Kit(lab)
    definition = k.graph()
    k.launch(definition, "nap", k.x, 1.0)
    graph = definition.instantiate()
    for _ in range(3):
        graph.launch(k.stream)
    graph.close()
    k.stream.sync()
    lab.log("x", k.x.get()[0])


@case("core/graph/outlives_its_definition")
def graph_outlives(lab):
    k = Kit(lab)
    definition = k.graph()
    k.call(k.launch(definition, "add", k.x, 1.0), "called")
    graph = definition.instantiate()
    del definition
    k.run(graph, 2)
    lab.log("contents", k.contents())


OPTIONS = {
    "none": {},
    "auto_free": {"auto_free_on_launch": True},
    "device_launch": {"device_launch": True},
    "node_priority": {"use_node_priority": True},
    "auto_free_and_device_launch": {"auto_free_on_launch": True, "device_launch": True},
    "upload": {"upload_stream": None},
}


def graph_options(lab, options):
    k = Kit(lab)
    definition = k.graph()
    k.launch(definition, "add", k.x, 1.0)
    if "upload_stream" in options:
        options = {"upload_stream": k.stream}
    graph = lab.attempt("instantiate", definition.instantiate, lab.core.graph.GraphCompleteOptions(**options))
    if graph is not None:
        k.run(graph, 2)
    lab.log("x", k.x.get()[0])


for _name, _options in OPTIONS.items():
    case(f"core/graph/options/{_name}", options=_options)(graph_options)


@case("core/graph/options_by_other_means")
def graph_options_wrong(lab):
    k = Kit(lab)
    definition = k.graph()
    k.launch(definition, "add", k.x, 1.0)
    lab.log("repr", repr(lab.core.graph.GraphCompleteOptions()))
    lab.attempt("a dict", definition.instantiate, {"auto_free_on_launch": True})
    lab.attempt("a string", definition.instantiate, "auto_free")
    lab.attempt("by name", definition.instantiate, options=None)
    lab.attempt("no such field", lab.core.graph.GraphCompleteOptions, automatic=True)


@case("core/graph/classes_are_not_called")
def graph_classes(lab):
    for name in ("Graph", "GraphBuilder"):
        lab.attempt(name, getattr(lab.core.graph, name))


@case("core/graph/on_two_streams")
def graph_two_streams(lab):
    k, other = Kit(lab), Kit(lab).stream
    definition = k.graph()
    k.launch(k.launch(definition, "nap", k.x, 1.0), "affine", k.x, 2.0, 0.0)
    graph = definition.instantiate()
    for _ in range(3):
        graph.launch(k.stream)
        graph.launch(other)
    k.stream.sync()
    other.sync()
    lab.log("x", k.x.get()[0])


# -- builders --------------------------------------------------------------------------------------------------------------


@case("core/builder/life")
def builder_life(lab):
    k = Kit(lab)
    builder = k.builder()
    lab.log("class", type(builder).__name__)
    lab.log("new", [builder.is_building, builder.is_join_required, builder.is_closed])
    lab.log("begin returns it", builder.begin_building() is builder)
    lab.log("building", builder.is_building)
    k.launch(builder, "add", k.x, 1.0)
    k.launch(builder, "affine", k.x, 10.0, 0.0)
    lab.log("end returns it", builder.end_building() is builder)
    lab.log("building", builder.is_building)
    graph = builder.complete()
    lab.log("complete", type(graph).__name__)
    lab.log("x, captured", k.x.get()[0])
    k.run(graph, 2)
    lab.log("x", k.x.get()[0])
    again = lab.attempt("complete again", builder.complete)
    k.run(again)
    lab.log("x", k.x.get()[0])
    lab.log("close", [builder.close(), builder.is_closed])
    lab.attempt("complete when closed", builder.complete)
    lab.attempt("building when closed", lambda: builder.is_building, show=True)


@case("core/builder/errors")
def builder_errors(lab):
    k = Kit(lab)
    builder = k.builder()
    lab.attempt("complete before begin", builder.complete)
    lab.attempt("end before begin", builder.end_building)
    lab.attempt("no such mode", builder.begin_building, "strict")
    lab.attempt("begin", builder.begin_building)
    lab.attempt("begin twice", builder.begin_building)
    lab.attempt("complete before end", builder.complete)
    lab.attempt("dot before end", builder.debug_dot_print, "/tmp/never.dot")
    lab.attempt("end", builder.end_building)
    lab.attempt("end twice", builder.end_building)
    lab.attempt("begin again", builder.begin_building)
    lab.attempt("callback after end", builder.callback, lambda: None)


@case("core/builder/mode/global", mode="global")
@case("core/builder/mode/thread_local", mode="thread_local")
@case("core/builder/mode/relaxed", mode="relaxed")
@case("core/builder/mode/none", mode=None)
def builder_mode(lab, mode):
    """What a synchronisation of the device and of the building stream does to it."""
    k = Kit(lab)
    builder, kernel = k.builder(), k.kernel("add")
    lab.attempt("begin", builder.begin_building, mode)
    lab.attempt("launch", lab.core.launch, builder, k.config(), kernel, k.x.data.ptr, np.float32(1))
    lab.attempt("sync the builder's stream", builder.stream.sync)
    lab.attempt("building", lambda: builder.is_building, show=True)
    lab.attempt("end", builder.end_building)
    lab.attempt("complete", builder.complete)


@case("core/builder/launch_after_the_end")
def builder_launch_late(lab):
    """After the end the builder's stream is a stream like any other."""
    k = Kit(lab)
    builder = k.builder().begin_building()
    k.launch(builder, "add", k.x, 1.0)
    builder.end_building()
    lab.attempt("launch", k.launch, builder, "add", k.x, 10.0)
    k.device.sync()
    lab.log("x", k.x.get()[0])
    k.run(builder.complete())
    lab.log("x", k.x.get()[0])


@case("core/builder/launch_before_the_beginning")
def builder_launch_early(lab):
    k = Kit(lab)
    builder = k.builder()
    lab.attempt("launch", k.launch, builder, "add", k.x, 10.0)
    k.device.sync()
    lab.log("x", k.x.get()[0])
    builder.begin_building().end_building()
    lab.log("shape", core_shape(builder.graph_definition))
    k.run(builder.complete())
    lab.log("x", k.x.get()[0])


@case("core/builder/split_and_join")
def builder_split(lab):
    k = Kit(lab)
    builder = k.builder().begin_building()
    k.launch(builder, "nap", k.x, 1.0)
    left, middle, right = builder.split(3)
    lab.log("the first is the builder", left is builder)
    lab.log("join required", [b.is_join_required for b in (left, middle, right)])
    lab.log("building", [b.is_building for b in (left, middle, right)])
    k.launch(left, "affine", k.x, 3.0, 0.0)
    k.launch(middle, "affine", k.y, 1.0, 5.0)
    k.launch(right, "affine", k.z, 1.0, 7.0)
    joined = lab.core.graph.GraphBuilder.join(left, middle, right)
    lab.log("the joined is the builder", joined is builder)
    lab.log("the others are closed", [middle.is_closed, right.is_closed])
    k.launch(joined, "copy", k.y[1:], k.z)
    joined.end_building()
    lab.log("shape", core_shape(joined.graph_definition))
    k.run(joined.complete())
    lab.log("contents", k.contents())


@case("core/builder/split_wrong")
def builder_split_wrong(lab):
    k = Kit(lab)
    builder = k.builder().begin_building()
    for count in (1, 0, -1, "2"):
        lab.attempt(f"split({count!r})", builder.split, count)
    join = lab.core.graph.GraphBuilder.join
    lab.attempt("join one", join, builder)
    lab.attempt("join none", join)
    lab.attempt("join a string", join, builder, "builder")
    _, forked = builder.split(2)
    lab.attempt("end a forked one", forked.end_building)
    lab.attempt("its definition", lambda: forked.graph_definition)
    lab.attempt("end", builder.end_building)


@case("core/builder/not_joined")
def builder_not_joined(lab):
    k = Kit(lab)
    builder = k.builder().begin_building()
    _, forked = builder.split(2)
    k.launch(forked, "add", k.x, 1.0)
    lab.attempt("end", builder.end_building)
    lab.attempt("building", lambda: builder.is_building, show=True)
    lab.attempt("complete", builder.complete)


@case("core/builder/embed")
def builder_embed(lab):
    k = Kit(lab)
    inner = k.builder().begin_building()
    k.launch(inner, "affine", k.x, 2.0, 1.0)
    outer = k.builder().begin_building()
    lab.attempt("embed one that is building", outer.embed, inner)
    inner.end_building()
    k.launch(outer, "affine", k.x, 1.0, 3.0)
    lab.attempt("embed", outer.embed, inner)
    lab.attempt("embed again", outer.embed, inner)
    k.launch(outer, "affine", k.x, 10.0, 0.0)
    lab.attempt("embed a string", outer.embed, "graph")
    outer.end_building()
    lab.attempt("embed after the end", outer.embed, inner)
    lab.log("shape", core_shape(outer.graph_definition))
    k.run(outer.complete())
    lab.log("x", k.x.get()[0])


@case("core/builder/callback")
def builder_callback(lab):
    k = Kit(lab)
    builder = k.builder()
    lab.attempt("before begin", builder.callback, lambda: None)
    builder.begin_building()
    k.launch(builder, "add", k.x, 1.0)
    builder.callback(lambda: k.calls.append("called"))
    lab.attempt("user data for Python", builder.callback, lambda: None, user_data=b"1")
    lab.attempt("a number", builder.callback, 1)
    builder.end_building()
    lab.log("shape", core_shape(builder.graph_definition))
    k.run(builder.complete(), 2)
    lab.log("contents", k.contents())


@case("core/builder/definition")
def builder_definition(lab):
    k = Kit(lab)
    builder = k.builder()
    lab.attempt("before begin", lambda: builder.graph_definition)
    builder.begin_building()
    k.launch(builder, "affine", k.x, 1.0, 2.0)
    lab.attempt("while building", lambda: builder.graph_definition)
    builder.end_building()
    definition = builder.graph_definition
    lab.log("class", type(definition).__name__)
    [node] = definition.nodes()
    lab.log("node", [type(node).__name__, node.grid, node.block])
    before = builder.complete()
    k.launch(node, "affine", k.x, 10.0, 0.0)
    lab.log("shape", core_shape(builder.graph_definition))
    k.run(builder.complete())
    lab.log("x", k.x.get()[0])
    k.clear()
    k.run(before)
    lab.log("x, completed before", k.x.get()[0])
    builder.close()
    lab.log("after close", core_shape(definition))
    lab.attempt("asked after close", lambda: builder.graph_definition)


@case("core/builder/of_a_stream")
def builder_of_stream(lab):
    k, ours = Kit(lab), lab.stream()
    k.ready()
    for name, s in (("core", k.stream), ("CuPy's", lab.core.Stream.from_handle(ours.ptr))):
        builder = s.create_graph_builder()
        lab.log(f"{name}: the same stream", builder.stream == s)
        builder.begin_building()
        k.launch(s, "add", k.x, 1.0)
        builder.end_building()
        lab.log("shape", core_shape(builder.graph_definition))
        k.run(builder.complete())
        lab.log("x", k.x.get()[0])
    lab.attempt("of the legacy stream", lambda: lab.core.LEGACY_DEFAULT_STREAM.create_graph_builder().begin_building())


@case("core/builder/numba")
def builder_numba(lab):
    """Numba launches onto the builder's stream, and onto the builder."""
    k = Kit(lab)
    builder = k.builder().begin_building()
    lab.launch("add", int(builder.stream.handle), k.x, 1.0)
    kernel = lab.kernel("add")
    lab.attempt("stream", lambda: kernel[1, 1, builder.stream](k.x.data.ptr, 10.0))
    lab.attempt("builder", lambda: kernel[1, 1, builder](k.x.data.ptr, 100.0))
    builder.end_building()
    lab.log("shape", core_shape(builder.graph_definition))
    k.run(builder.complete())
    lab.log("x", k.x.get()[0])


@case("core/builder/cupy")
def builder_cupy(lab):
    k = Kit(lab)
    lab.cp.add(k.x, 1, out=k.y)
    k.clear()
    builder = k.builder().begin_building()
    lab.attempt("under its stream", cupy_adds, lab, k, int(builder.stream.handle))
    builder.end_building()
    lab.log("shape", core_shape(builder.graph_definition))
    k.run(builder.complete(), 2)
    lab.log("x", k.x.get())


def cupy_adds(lab, k, handle):
    with lab.cp.cuda.ExternalStream(handle):
        lab.cp.add(k.x, 1, out=k.x)


@case("core/builder/buffers")
def builder_buffers(lab):
    k = Kit(lab)
    a, b = (k.device.allocate(16, stream=k.stream) for _ in range(2))
    k.stream.sync()
    builder = k.builder().begin_building()
    lab.attempt("fill", a.fill, float_bytes(3.0), stream=builder)
    lab.attempt("copy_to", a.copy_to, b, stream=builder)
    lab.attempt("launch", lab.core.launch, builder, k.config(), k.kernel("copy"), k.x.data.ptr, b)
    builder.end_building()
    lab.log("shape", core_shape(builder.graph_definition))
    k.run(builder.complete())
    lab.log("x", k.x.get()[0])


@case("core/builder/graph_launched_into_it")
def builder_graph_launch(lab):
    k = Kit(lab)
    definition = k.graph()
    k.launch(definition, "affine", k.x, 2.0, 1.0)
    graph = definition.instantiate()
    builder = k.builder().begin_building()
    k.launch(builder, "affine", k.x, 1.0, 3.0)
    lab.attempt("onto the builder", graph.launch, builder)
    lab.attempt("onto its stream", graph.launch, builder.stream)
    builder.end_building()
    lab.log("shape", core_shape(builder.graph_definition))
    k.run(builder.complete())
    lab.log("x", k.x.get()[0])


@case("core/builder/events_across_streams")
def builder_events(lab):
    """A fork and a join made by events of the streams, not by split and join."""
    k = Kit(lab)
    other = k.device.create_stream()
    builder = k.builder().begin_building()
    s = builder.stream
    k.launch(s, "nap", k.x, 1.0)
    other.wait(s.record())
    k.launch(other, "copy", k.y, k.x)
    s.wait(other)
    k.launch(s, "copy", k.z, k.y)
    builder.end_building()
    lab.log("shape", core_shape(builder.graph_definition))
    k.run(builder.complete())
    lab.log("contents", k.contents())


@case("core/builder/dot")
def builder_dot(lab):
    k = Kit(lab)
    builder = k.builder().begin_building()
    for _ in range(3):
        k.launch(builder, "add", k.x, 1.0)
    builder.end_building()
    path = os.path.join(tempfile.mkdtemp(), "graph.dot")
    lab.attempt("print", builder.debug_dot_print, path)
    with open(path, encoding="utf-8") as file:
        lab.log("shape", dot_shape(file.read()))


# -- captured and drawn ----------------------------------------------------------------------------------------------------


def capture_chain(k, builder):
    for value in (1.0, 2.0, 3.0):
        k.launch(builder, "affine", k.x, value, 1.0)


def draw_chain(k, graph):
    node = graph
    for value in (1.0, 2.0, 3.0):
        node = k.launch(node, "affine", k.x, value, 1.0)


def capture_diamond(k, builder):
    k.launch(builder, "nap", k.x, 1.0)
    left, right = builder.split(2)
    k.launch(left, "copy", k.y, k.x)
    k.launch(right, "copy", k.z, k.x)
    builder = k.core.graph.GraphBuilder.join(left, right)
    k.launch(builder, "affine", k.x, 10.0, 1.0)


def draw_diamond(k, graph):
    top = k.launch(graph, "nap", k.x, 1.0)
    left, right = k.launch(top, "copy", k.y, k.x), k.launch(top, "copy", k.z, k.x)
    bottom = k.launch(left, "affine", k.x, 10.0, 1.0)
    bottom.pred.add(right)


def capture_copies(k, builder):
    handle = int(builder.stream.handle)
    ok(k.lab.cudart.cudaMemsetAsync(address(k.x), 0, 16, handle))
    k.launch(builder, "add", k.x, 5.0)
    kind = k.lab.cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    ok(k.lab.cudart.cudaMemcpyAsync(address(k.y), address(k.x), 16, kind, handle))
    builder.callback(lambda: k.calls.append("called"))


def draw_copies(k, graph):
    node = k.launch(graph.memset(address(k.x), 0, 16), "add", k.x, 5.0)
    k.call(k.copy(node, k.y, k.x), "called")


PAIRS = {
    "chain": (capture_chain, draw_chain),
    "diamond": (capture_diamond, draw_diamond),
    "memset_kernel_memcpy_callback": (capture_copies, draw_copies),
}


def equal_graphs(lab, capture, draw):
    """The captured graph and the one drawn by hand have the same nodes, edges and results, and update each other."""
    k = Kit(lab)
    builder, graph = k.builder().begin_building(), k.graph()
    capture(k, builder)
    builder.end_building()
    draw(k, graph)
    executables = []
    for name, definition in (("captured", builder.graph_definition), ("drawn", graph)):
        k.clear()
        lab.log(name, core_shape(definition))
        executables.append(definition.instantiate())
        k.run(executables[-1], 2)
        lab.log(f"{name}: contents", k.contents())
    lab.attempt("the captured updated with the drawn", executables[0].update, graph)
    lab.attempt("the drawn updated with the captured", executables[1].update, builder)
    k.clear()
    for executable in executables:
        k.run(executable)
    lab.log("contents", k.contents())


for _name, (_capture, _draw) in PAIRS.items():
    case(f"core/captured_and_drawn/{_name}", capture=_capture, draw=_draw)(equal_graphs)


@case("core/captured_and_drawn/node_attributes")
def captured_attributes(lab):
    """What the nodes of a capture say, read back from CUDA."""
    k = Kit(lab)
    builder = k.builder().begin_building()
    handle = int(builder.stream.handle)
    k.launch(builder, "index", k.x, 4, grid=2, block=2)
    ok(lab.cudart.cudaMemsetAsync(address(k.y), 7, 16, handle))
    kind = lab.cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    ok(lab.cudart.cudaMemcpyAsync(address(k.z), address(k.x), 12, kind, handle))
    builder.end_building()
    nodes = builder.graph_definition.nodes()
    lab.log("classes", type_names(nodes))
    kernel, memcpy, memset = sorted(nodes, key=lambda n: type(n).__name__)
    lab.log("kernel", [kernel.grid, kernel.block, kernel.kernel == k.kernel("index")])
    lab.log("memcpy", [memcpy.dst == address(k.z), memcpy.src == address(k.x), memcpy.size])
    lab.log("memset", [memset.dptr == address(k.y), memset.width * memset.element_size, memset.height])
    lab.log("value, element size", [memset.value, memset.element_size])


# -- corners ---------------------------------------------------------------------------------------------------------------


@case("core/corners/invalidated_builder_closed")
def invalidated_builder(lab):
    k = Kit(lab)
    builder = k.builder().begin_building()
    k.launch(builder, "add", k.x, 1.0)
    lab.log("query", ok_or_name(lab.cudart.cudaStreamQuery(int(builder.stream.handle))))
    lab.attempt("end", builder.end_building)
    lab.attempt("close", builder.close)
    lab.attempt("a new one", lambda: k.builder().begin_building().end_building())


@case("core/corners/child_updated_with_its_family")
def child_updated(lab):
    k = Kit(lab)
    graph, child = k.graph(), k.graph()
    k.fill(child, k.x, 1.0)
    node = graph.embed(child)
    executable = graph.instantiate()
    for name, other in (("the child", child), ("its own embedded graph", node.child_graph), ("the whole", graph)):
        lab.attempt(name, executable[node].update, other)
    k.run(executable)
    lab.log("contents", k.contents())


@case("core/corners/launch_without_arguments")
def launch_without_arguments(lab):
    k = Kit(lab)
    stream = lab.core.Stream.from_handle(lab.stream().ptr)
    lab.attempt("on a stream", lab.core.launch, stream, k.config(), k.kernel("add"))
    lab.attempt("on a builder", lab.core.launch, k.builder().begin_building(), k.config(), k.kernel("add"))


def ok_or_name(result: tuple) -> str:
    return result[0].name
