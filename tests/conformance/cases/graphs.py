"""Graphs built, read, instantiated and launched through cudart; and CuPy's graph objects."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile

import numpy as np
from cases._graphs import (
    HOST_FUNCTION,
    Drawing,
    address,
    alloc_params,
    captured,
    copy_kind,
    dot_shape,
    event,
    float_bits,
    host_params,
    kind,
    kinds,
    memset_params,
    nodes,
    ok,
    run,
    shape,
)
from harness import case


def chain(lab, *names: str) -> Drawing:
    """Empty nodes, one after the other."""
    drawing = Drawing(lab)
    for before, name in zip(("", *names), names, strict=False):
        drawing.empty(name, after=before)
    return drawing


# -- creating and adding ---------------------------------------------------------------------------------------------------


@case("graphs/create/empty")
def create_empty(lab):
    graph = lab.rt("cudaGraphCreate", 0)
    lab.log("shape", shape(lab, graph))
    lab.log("roots", ok(lab.cudart.cudaGraphGetRootNodes(graph))[-1])
    lab.rt("cudaGraphDestroy", graph)


@case("graphs/create/flags_must_be_0")
def create_flags(lab):
    lab.log("a graph", lab.rt("cudaGraphCreate", 1) is not None)


ADDED = {
    "empty": lambda d, x: d.empty("n"),
    "kernel": lambda d, x: d.kernel("n", "add", x, 1.0),
    "memset": lambda d, x: d.fill("n", x, 2.0),
    "memcpy": lambda d, x: d.copy("n", x, x[2:], 8),
    "child": lambda d, x: d.child("n", chain(d.lab, "a", "b")),
    "event_record": lambda d, x: d.record("n", event(d.lab)),
    "event_wait": lambda d, x: d.wait("n", event(d.lab)),
    "alloc": lambda d, x: d.alloc("n"),
}


def add_node(lab, add):
    x = lab.zeros()
    drawing = Drawing(lab, "add")
    add(drawing, x)
    lab.log("shape", shape(lab, drawing.graph))
    lab.log("type", ok(lab.cudart.cudaGraphNodeGetType(drawing["n"])).name)
    drawing.run()
    lab.log("x", x.get())


for _name, _add in ADDED.items():
    case(f"graphs/add/{_name}", add=_add)(add_node)


@case("graphs/add/host")
def add_host(lab):
    calls = []
    function = HOST_FUNCTION(lambda data: calls.append(data))
    drawing = Drawing(lab)
    params = host_params(lab, function, 7)
    drawing.named["n"] = lab.rt("cudaGraphAddHostNode", drawing.graph, [], 0, params)
    lab.log("shape", shape(lab, drawing.graph))
    drawing.run(times=2)
    lab.log("calls", calls)


@case("graphs/add/kernel_by_handle")
def add_kernel_by_handle(lab):
    x = lab.zeros()
    lab.warm("add")
    params = lab.cudart.cudaKernelNodeParams()
    params.func = int(lab.core_kernel("add").handle)
    params.kernelParams = ((x.data.ptr, 2.0), (ctypes.c_void_p, ctypes.c_float))
    graph = ok(lab.cudart.cudaGraphCreate(0))
    node = lab.rt("cudaGraphAddKernelNode", graph, [], 0, params)
    lab.log("shape", shape(lab, graph))
    if node is not None:
        run(lab, ok(lab.cudart.cudaGraphInstantiate(graph, 0)), times=3)
    lab.log("x", x.get())


@case("graphs/add/kernel_node_get_params")
def kernel_get_params(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "index")
    drawing.kernel("k", "index", x, 4, grid=2, block=2)
    params = lab.rt("cudaGraphKernelNodeGetParams", drawing["k"])
    if params is not None:
        lab.log("grid", [params.gridDim.x, params.gridDim.y, params.gridDim.z])
        lab.log("block", [params.blockDim.x, params.blockDim.y, params.blockDim.z])
        lab.log("shared memory", params.sharedMemBytes)


@case("graphs/add/with_dependencies")
def add_with_dependencies(lab):
    drawing = Drawing(lab)
    drawing.empty("a")
    drawing.empty("b")
    drawing.empty("c", after="a b")
    drawing.empty("d", after="c")
    lab.log("edges", drawing.edges())
    for name in "abcd":
        needs = ok(lab.cudart.cudaGraphNodeGetDependencies(drawing[name], 4))
        followers = ok(lab.cudart.cudaGraphNodeGetDependentNodes(drawing[name], 4))
        lab.log(f"{name}: how many", [needs[-1], followers[-1]])
        lab.log(f"{name} needs", drawing.names_of(needs[0][: needs[-1]]))
        lab.log(f"{name} is needed by", drawing.names_of(followers[0][: followers[-1]]))


def roots_of(drawing) -> list[str]:
    count = ok(drawing.cudart.cudaGraphGetRootNodes(drawing.graph))[-1]
    return drawing.names_of(ok(drawing.cudart.cudaGraphGetRootNodes(drawing.graph, count))[0])


@case("graphs/read/roots")
def read_roots(lab):
    drawing = chain(lab, "a", "b")
    drawing.empty("c")
    lab.log("roots", roots_of(drawing))
    lab.rt("cudaGraphAddDependencies", *drawing.link("b>c"))
    lab.log("roots, c linked", roots_of(drawing))
    lab.rt("cudaGraphRemoveDependencies", *drawing.link("a>b"))
    lab.log("roots, b unlinked", roots_of(drawing))


@case("graphs/read/more_and_fewer_than_there_are")
def read_counts(lab):
    drawing = chain(lab, "a", "b", "c")
    for asked in (0, 2, 3, 5):
        got, count = ok(lab.cudart.cudaGraphGetNodes(drawing.graph, asked))
        lab.log(f"nodes, asked {asked}", [len(got), count, sum(int(n) != 0 for n in got)])
        sources, targets, data, count = ok(lab.cudart.cudaGraphGetEdges(drawing.graph, asked))
        lab.log(f"edges, asked {asked}", [len(sources), len(targets), len(data), count])


WRONG_DEPENDENCIES = {
    "of_another_graph": lambda d, other: ([other["o"]], 1),
    "twice_the_same": lambda d, other: ([d["a"], d["a"]], 2),
    "fewer_counted": lambda d, other: ([d["a"], d["b"]], 1),
    "more_counted": lambda d, other: ([d["a"]], 2),
    "none": lambda d, other: (None, 0),
}


def wrong_dependencies(lab, which):
    drawing, other = chain(lab, "a", "b"), chain(lab, "o")
    needs, count = which(drawing, other)
    answer = lab.attempt("call", lab.cudart.cudaGraphAddEmptyNode, drawing.graph, needs, count)
    if answer is not None:
        lab.log("error", answer[0].name)
    lab.log("shape", shape(lab, drawing.graph))


for _name, _which in WRONG_DEPENDENCIES.items():
    case(f"graphs/dependencies/{_name}", which=_which)(wrong_dependencies)


# -- edges -----------------------------------------------------------------------------------------------------------------

ADDED_EDGES = {  # on the chain a → b, beside a lone c
    "new": ["b>c"],
    "several": ["a>c", "b>c"],
    "none": [],
    "duplicate": ["a>b"],
    "duplicate_in_one_call": ["b>c", "b>c"],
    "one_new_one_duplicate": ["b>c", "a>b"],
    "self": ["a>a"],
    "to_another_graph": ["a>o"],
    "from_another_graph": ["o>a"],
    "cycle_of_two": ["b>a"],
    "cycle_of_three": ["b>c", "c>a"],
}


def add_edges(lab, pairs):
    drawing, other = chain(lab, "a", "b"), chain(lab, "o")
    drawing.empty("c")
    drawing.named["o"] = other["o"]
    lab.rt("cudaGraphAddDependencies", *drawing.link(*pairs))
    lab.log("edges", drawing.edges())
    lab.log("executable", lab.rt("cudaGraphInstantiate", drawing.graph, 0) is not None)


for _name, _pairs in ADDED_EDGES.items():
    case(f"graphs/edges/add/{_name}", pairs=_pairs)(add_edges)

REMOVED_EDGES = {  # from a → b → c
    "existing": ["a>b"],
    "several": ["a>b", "b>c"],
    "missing": ["a>c"],
    "reversed": ["b>a"],
    "twice_in_one_call": ["a>b", "a>b"],
    "one_existing_one_missing": ["a>b", "a>c"],
}


def remove_edges(lab, pairs):
    drawing = chain(lab, "a", "b", "c")
    lab.rt("cudaGraphRemoveDependencies", *drawing.link(*pairs))
    lab.log("edges", drawing.edges())


for _name, _pairs in REMOVED_EDGES.items():
    case(f"graphs/edges/remove/{_name}", pairs=_pairs)(remove_edges)


@case("graphs/edges/explicit_data")
def edge_data(lab):
    drawing = Drawing(lab)
    drawing.empty("a")
    drawing.empty("b")
    data = lab.cudart.cudaGraphEdgeData()
    lab.rt("cudaGraphAddDependencies", drawing.graph, [drawing["a"]], [drawing["b"]], [data], 1)
    lab.log("edges", drawing.edges())
    [got] = ok(lab.cudart.cudaGraphGetEdges(drawing.graph, 1))[2]
    lab.log("data", [int(got.from_port), int(got.to_port), int(got.type)])


@case("graphs/edges/order_is_kept")
def edges_order(lab):
    """A node made first runs last, once an edge says so."""
    x = lab.zeros()
    drawing = Drawing(lab, "affine")
    drawing.kernel("late", "affine", x, 10.0, 3.0)
    drawing.kernel("early", "affine", x, 1.0, 2.0)
    lab.rt("cudaGraphAddDependencies", *drawing.link("early>late"))
    drawing.run()
    lab.log("x", x.get()[0])


@case("graphs/edges/after_a_cycle_is_broken")
def cycle_broken(lab):
    drawing = chain(lab, "a", "b")
    lab.rt("cudaGraphAddDependencies", *drawing.link("b>a"))
    lab.rt("cudaGraphInstantiate", drawing.graph, 0, label="with the cycle")
    lab.rt("cudaGraphRemoveDependencies", *drawing.link("a>b"))
    lab.rt("cudaGraphInstantiate", drawing.graph, 0, label="without")
    lab.log("edges", drawing.edges())


# -- destroying and cloning ------------------------------------------------------------------------------------------------


@case("graphs/destroy_node/in_the_middle")
def destroy_middle(lab):
    drawing = chain(lab, "a", "b", "c")
    lab.rt("cudaGraphDestroyNode", drawing.named.pop("b"))
    lab.log("shape", shape(lab, drawing.graph))
    lab.log("roots", roots_of(drawing))


@case("graphs/destroy_node/its_work_is_not_done")
def destroy_kernel(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "affine")
    drawing.kernel("a", "affine", x, 1.0, 2.0)
    drawing.kernel("b", "affine", x, 10.0, 3.0, after="a")
    executable = drawing.instantiate()
    lab.rt("cudaGraphDestroyNode", drawing["a"])
    lab.rt("cudaGraphInstantiate", drawing.graph, 0)
    drawing.run()
    lab.log("without a", x.get()[0])
    x.fill(0)
    lab.cp.cuda.Device().synchronize()
    run(lab, executable)
    lab.log("instantiated before", x.get()[0])


@case("graphs/destroy/executable_runs_on")
def destroy_graph(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "add")
    drawing.kernel("a", "add", x, 1.0)
    executable = drawing.instantiate()
    lab.rt("cudaGraphDestroy", drawing.graph)
    run(lab, executable, times=2)
    lab.log("x", x.get()[0])


@case("graphs/clone/original_changed")
def clone_then_change(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "affine")
    drawing.kernel("a", "affine", x, 1.0, 2.0)
    clone = lab.rt("cudaGraphClone", drawing.graph)
    drawing.kernel("b", "affine", x, 10.0, 0.0, after="a")
    lab.log("original", shape(lab, drawing.graph))
    lab.log("clone", shape(lab, clone))
    lab.log("the same handle", int(clone) == int(drawing.graph))
    run(lab, ok(lab.cudart.cudaGraphInstantiate(clone, 0)))
    lab.log("x after the clone", x.get()[0])
    drawing.run()
    lab.log("x after the original too", x.get()[0])


@case("graphs/clone/find_nodes")
def find_in_clone(lab):
    drawing, other = chain(lab, "a", "b"), chain(lab, "o")
    clone = ok(lab.cudart.cudaGraphClone(drawing.graph))
    drawing.empty("late")
    mirrored = {name: lab.rt("cudaGraphNodeFindInClone", drawing[name], clone, label=name) for name in ("a", "b", "late")}
    lab.log("another node", [int(mirrored[n]) != int(drawing[n]) for n in "ab"])
    lab.log("in the clone", sorted(int(mirrored[n]) for n in "ab") == sorted(map(int, nodes(lab, clone))))
    lab.rt("cudaGraphNodeFindInClone", other["o"], clone, label="of another graph")
    lab.rt("cudaGraphNodeFindInClone", drawing["a"], other.graph, label="in a graph that is no clone")
    lab.rt("cudaGraphDestroyNode", mirrored["b"])
    lab.rt("cudaGraphNodeFindInClone", drawing["b"], clone, label="removed from the clone")


@case("graphs/clone/with_child")
def clone_with_child(lab):
    drawing = Drawing(lab)
    drawing.child("c", chain(lab, "a", "b"))
    clone = ok(lab.cudart.cudaGraphClone(drawing.graph))
    [node] = nodes(lab, clone)
    inner = ok(lab.cudart.cudaGraphChildGraphNodeGetGraph(node))
    original = ok(lab.cudart.cudaGraphChildGraphNodeGetGraph(drawing["c"]))
    lab.log("shapes", [shape(lab, clone), shape(lab, inner)])
    lab.log("the child is cloned too", int(inner) != int(original))


# -- child graphs ----------------------------------------------------------------------------------------------------------


@case("graphs/child/is_a_clone")
def child_is_clone(lab):
    x = lab.zeros()
    inner, outer = Drawing(lab, "add"), Drawing(lab)
    inner.kernel("a", "add", x, 1.0)
    outer.child("c", inner)
    inner.kernel("b", "add", x, 10.0, after="a")
    outer.run()
    lab.log("x", x.get()[0])
    held = ok(lab.cudart.cudaGraphChildGraphNodeGetGraph(outer["c"]))
    lab.log("held", shape(lab, held))
    lab.log("the same handle", int(held) == int(inner.graph))


@case("graphs/child/changed_through_the_node")
def child_changed(lab):
    x = lab.zeros()
    inner, outer = Drawing(lab), Drawing(lab)
    inner.fill("a", x, 1.0, n=1)
    outer.child("c", inner)
    held = ok(lab.cudart.cudaGraphChildGraphNodeGetGraph(outer["c"]))
    params = memset_params(lab, x[1:], float_bits(2.0), 1, size=4)
    lab.rt("cudaGraphAddMemsetNode", held, nodes(lab, held), 1, params)
    lab.log("held", shape(lab, held))
    outer.run()
    lab.log("x", x.get())


@case("graphs/child/order")
def child_order(lab):
    """All of a child runs between what comes before the node and what comes after."""
    x = lab.zeros()
    inner, outer = Drawing(lab, "affine"), Drawing(lab)
    inner.kernel("a", "affine", x, 2.0, 1.0)
    inner.kernel("b", "affine", x, 3.0, 1.0, after="a")
    outer.kernel("first", "affine", x, 1.0, 5.0)
    outer.child("c", inner, after="first")
    outer.kernel("last", "affine", x, 10.0, 7.0, after="c")
    lab.log("shape", shape(lab, outer.graph))
    outer.run()
    lab.log("x", x.get()[0])


@case("graphs/child/nested")
def child_nested(lab):
    x = lab.zeros()
    graph = Drawing(lab, "affine")
    graph.kernel("k", "affine", x, 2.0, 1.0)
    for _ in range(3):
        outer = Drawing(lab)
        outer.child("a", graph)
        outer.child("b", graph, after="a")
        graph = outer
    graph.run()
    lab.log("x", x.get()[0])


@case("graphs/child/empty")
def child_empty(lab):
    outer = Drawing(lab)
    lab.rt("cudaGraphAddChildGraphNode", outer.graph, [], 0, ok(lab.cudart.cudaGraphCreate(0)))
    executable = lab.rt("cudaGraphInstantiate", outer.graph, 0)
    if executable is not None:
        stream = lab.stream()
        lab.rt("cudaGraphLaunch", executable, stream.ptr)
        lab.rt("cudaStreamSynchronize", stream.ptr)


# -- instantiating ---------------------------------------------------------------------------------------------------------


@case("graphs/instantiate/empty")
def instantiate_empty(lab):
    graph = ok(lab.cudart.cudaGraphCreate(0))
    executable = lab.rt("cudaGraphInstantiate", graph, 0)
    stream = lab.stream()
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    lab.rt("cudaStreamSynchronize", stream.ptr)
    lab.rt("cudaGraphExecDestroy", executable)


FLAGS = {
    "none": 0,
    "auto_free": 1,
    "upload": 2,
    "device_launch": 4,
    "node_priority": 8,
    "auto_free_and_device_launch": 5,
    "auto_free_and_node_priority": 9,
    "unknown": 1024,
}


def instantiate_flags(lab, flags):
    x = lab.zeros()
    drawing = Drawing(lab, "add")
    drawing.kernel("a", "add", x, 1.0)
    executable = lab.rt("cudaGraphInstantiate", drawing.graph, flags)
    if executable is not None:
        lab.log("flags", int(lab.rt("cudaGraphExecGetFlags", executable)))
        run(lab, executable, times=2)
    lab.log("x", x.get()[0])


for _name, _flags in FLAGS.items():
    case(f"graphs/instantiate/flags/{_name}", flags=_flags)(instantiate_flags)


@case("graphs/instantiate/with_params")
def instantiate_with_params(lab):
    drawing = chain(lab, "a", "b")
    params = lab.cudart.cudaGraphInstantiateParams()
    lab.log("executable", lab.rt("cudaGraphInstantiateWithParams", drawing.graph, params) is not None)
    lab.log("result", params.result_out)
    ok(lab.cudart.cudaGraphAddDependencies(*drawing.link("b>a")))
    params = lab.cudart.cudaGraphInstantiateParams()
    lab.log("executable", lab.rt("cudaGraphInstantiateWithParams", drawing.graph, params) is not None)
    lab.log("result", params.result_out)


@case("graphs/instantiate/device_launch_of_what_cannot")
def device_launch_refused(lab):
    drawing = chain(lab, "a")
    for name in ("empty graph", "empty node", "and an event"):
        if name == "and an event":
            drawing.record("r", event(lab))
        graph = ok(lab.cudart.cudaGraphCreate(0)) if name == "empty graph" else drawing.graph
        params = lab.cudart.cudaGraphInstantiateParams()
        params.flags = 4
        lab.rt("cudaGraphInstantiateWithParams", graph, params, label=name)
        lab.log("result", params.result_out)


@case("graphs/instantiate/not_changed_by_later_nodes")
def exec_is_fixed(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "add")
    drawing.kernel("a", "add", x, 1.0)
    before = drawing.instantiate()
    drawing.kernel("b", "add", x, 10.0, after="a")
    run(lab, before)
    lab.log("instantiated before", x.get()[0])
    drawing.run()
    lab.log("and after", x.get()[0])


@case("graphs/instantiate/twice")
def instantiate_twice(lab):
    x, y = lab.zeros(), lab.zeros()
    drawing = Drawing(lab, "add")
    drawing.kernel("a", "add", x, 1.0)
    drawing.kernel("b", "add", y, 10.0)
    first, second = drawing.instantiate(), drawing.instantiate()
    lab.log("two handles", int(first) != int(second))
    run(lab, first, times=2)
    lab.rt("cudaGraphExecDestroy", first)
    run(lab, second, times=3)
    lab.log("x, y", [x.get()[0], y.get()[0]])


# -- launching -------------------------------------------------------------------------------------------------------------


@case("graphs/launch/upload_runs_nothing")
def upload(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "add")
    drawing.kernel("a", "add", x, 1.0)
    executable, stream = drawing.instantiate(), lab.stream()
    lab.rt("cudaGraphUpload", executable, stream.ptr)
    stream.synchronize()
    lab.log("uploaded", x.get()[0])
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    lab.rt("cudaGraphUpload", executable, stream.ptr)
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    stream.synchronize()
    lab.log("launched twice", x.get()[0])


@case("graphs/launch/queued_behind_itself")
def queued(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "nap", "affine")
    drawing.kernel("a", "nap", x, 1.0)
    drawing.kernel("b", "affine", x, 2.0, 0.0, after="a")
    run(lab, drawing.instantiate(), times=8)
    lab.log("x", x.get()[0])


@case("graphs/launch/one_executable_on_two_streams")
def two_streams(lab):
    """Launches of one executable graph come one after the other, on whatever streams."""
    x = lab.zeros()
    drawing = Drawing(lab, "nap", "affine")
    drawing.kernel("a", "nap", x, 1.0)
    drawing.kernel("b", "affine", x, 2.0, 0.0, after="a")
    executable, streams = drawing.instantiate(), [lab.stream(), lab.stream()]
    for _ in range(4):
        for stream in streams:
            ok(lab.cudart.cudaGraphLaunch(executable, stream.ptr))
    for stream in streams:
        stream.synchronize()
    lab.log("x", x.get()[0])


STREAMS = {"legacy": 0, "legacy_by_handle": 1, "per_thread": 2, "blocking": None}


def launch_on(lab, handle):
    x = lab.zeros()
    drawing = Drawing(lab, "add")
    drawing.kernel("a", "add", x, 1.0)
    executable = drawing.instantiate()
    handle = lab.stream(blocking=True).ptr if handle is None else handle
    for _ in range(3):
        lab.rt("cudaGraphLaunch", executable, handle)
    lab.rt("cudaStreamSynchronize", handle)
    lab.log("x", x.get()[0])


for _name, _handle in STREAMS.items():
    case(f"graphs/launch/on/{_name}", handle=_handle)(launch_on)


@case("graphs/launch/between_the_streams_work")
def launch_in_order(lab):
    x, stream = lab.zeros(), lab.stream()
    drawing = Drawing(lab, "affine", "nap")
    drawing.kernel("a", "nap", x, 2.0)
    drawing.kernel("b", "affine", x, 3.0, 0.0, after="a")
    executable = drawing.instantiate()
    lab.launch("affine", stream, x, 1.0, 5.0)
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    lab.launch("affine", stream, x, 10.0, 1.0)
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    stream.synchronize()
    lab.log("x", x.get()[0])


@case("graphs/launch/diamond")
def diamond(lab):
    x, y = lab.zeros(), lab.zeros()
    drawing = Drawing(lab, "affine", "copy", "nap")
    drawing.kernel("top", "nap", x, 2.0)
    drawing.kernel("left", "affine", x, 3.0, 1.0, after="top")
    drawing.kernel("right", "copy", y, x[1:], after="top")
    drawing.kernel("right2", "affine", y, 1.0, 4.0, after="right")
    drawing.empty("join", after="left right2")
    drawing.kernel("bottom", "copy", x[2:], y, after="join")
    drawing.kernel("bottom2", "copy", y[1:], x, after="join")
    drawing.run(times=2)
    lab.log("x, y", [x.get(), y.get()])


@case("graphs/launch/destroyed_while_queued")
def destroyed_while_queued(lab):
    """An executable graph in flight is freed when it ends (CUDA driver API, cuGraphExecDestroy)."""
    x, stream = lab.zeros(), lab.stream()
    drawing = Drawing(lab, "nap")
    drawing.kernel("a", "nap", x, 1.0)
    executable = drawing.instantiate()
    for _ in range(3):
        ok(lab.cudart.cudaGraphLaunch(executable, stream.ptr))
    lab.rt("cudaGraphExecDestroy", executable)
    lab.rt("cudaStreamSynchronize", stream.ptr)
    lab.log("x", x.get()[0])


@case("graphs/launch/into_a_capture")
def launch_into_capture(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "add")
    drawing.kernel("a", "add", x, 1.0)
    drawing.kernel("b", "add", x[1:], 2.0, after="a")
    executable = drawing.instantiate()
    with captured(lab) as held:
        lab.rt("cudaGraphLaunch", executable, held[0])
        lab.rt("cudaGraphLaunch", executable, held[0])
    lab.log("shape", shape(lab, held[1]))
    lab.log("x", x.get())
    [first, second] = [ok(lab.cudart.cudaGraphChildGraphNodeGetGraph(n)) for n in nodes(lab, held[1])]
    lab.log("children", [shape(lab, first), shape(lab, second)])
    run(lab, ok(lab.cudart.cudaGraphInstantiate(held[1], 0)))
    lab.log("x", x.get())


# -- memset and memcpy nodes -----------------------------------------------------------------------------------------------

MEMSETS = {  # value, width, layout
    "size_1": (0xAB, 5, {"size": 1}),
    "size_2": (0xABCD, 5, {"size": 2}),
    "size_4": (0xABCDEF01, 3, {"size": 4}),
    "two_rows": (7, 3, {"height": 2, "pitch": 8}),
    "three_rows_of_size_2": (0x0102, 2, {"size": 2, "height": 3, "pitch": 8}),
    "rows_without_a_gap": (7, 8, {"height": 3, "pitch": 8}),
    "pitch_without_rows": (7, 3, {"pitch": 16}),
}


def memset_node(lab, value, width, layout):
    memory = lab.zeros(32, "uint8")
    drawing = Drawing(lab)
    drawing.memset("m", memory, value, width, **layout)
    params = ok(lab.cudart.cudaGraphMemsetNodeGetParams(drawing["m"]))
    lab.log("its target", int(params.dst) == memory.data.ptr)
    lab.log("params", [params.value, params.elementSize, params.width, params.height])
    drawing.run()
    lab.log("memory", memory.get())


for _name, (_value, _width, _layout) in MEMSETS.items():
    case(f"graphs/memset/{_name}", value=_value, width=_width, layout=_layout)(memset_node)

WRONG_MEMSETS = {
    "size_3": (1, 4, {"size": 3}),
    "size_8": (1, 4, {"size": 8}),
    "size_0": (1, 4, {"size": 0}),
    "width_0": (1, 0, {}),
    "height_0": (1, 4, {"height": 0}),
    "pitch_too_small": (1, 8, {"height": 2, "pitch": 4}),
    "value_too_large": (0x1FF, 4, {"size": 1}),
}


def wrong_memset(lab, value, width, layout):
    memory = lab.zeros(32, "uint8")
    drawing = Drawing(lab)
    params = memset_params(lab, memory, value, width, **layout)
    node = lab.rt("cudaGraphAddMemsetNode", drawing.graph, [], 0, params)
    executable = lab.rt("cudaGraphInstantiate", drawing.graph, 0)
    if node is not None and executable is not None:
        run(lab, executable)
    lab.log("memory", memory.get()[:8])


for _name, (_value, _width, _layout) in WRONG_MEMSETS.items():
    case(f"graphs/memset/wrong/{_name}", value=_value, width=_width, layout=_layout)(wrong_memset)

WAYS = {
    "host_to_device": ("host", "device", "HostToDevice"),
    "device_to_host": ("device", "host", "DeviceToHost"),
    "device_to_device": ("device", "device", "DeviceToDevice"),
    "host_to_host": ("host", "host", "HostToHost"),
    "default_to_device": ("host", "device", "Default"),
    "default_to_host": ("device", "host", "Default"),
}


def memcpy_node(lab, source, target, way):
    """Copies at the replay what the source holds at that time. The host's memory is pageable."""
    host = {n: np.array([v, v, v, v], np.float32) for n, v in (("source", 1), ("target", 0))}
    device = {n: lab.cp.asarray(a) for n, a in host.items()}
    lab.cp.cuda.Device().synchronize()
    sides = {"host": host, "device": device}
    a, b = sides[source]["source"], sides[target]["target"]
    drawing = Drawing(lab)
    drawing.copy("c", b, a, 12, way=way)
    executable = drawing.run()
    lab.log("first", b if target == "host" else b.get())
    a[:] = 5
    lab.cp.cuda.Device().synchronize()
    run(lab, executable)
    lab.log("the source changed", b if target == "host" else b.get())


for _name, (_source, _target, _way) in WAYS.items():
    case(f"graphs/memcpy/{_name}", source=_source, target=_target, way=_way)(memcpy_node)


@case("graphs/memcpy/no_bytes")
def memcpy_nothing(lab):
    x = lab.zeros()
    graph = ok(lab.cudart.cudaGraphCreate(0))
    lab.rt("cudaGraphAddMemcpyNode1D", graph, [], 0, address(x), address(x[2:]), 0, copy_kind(lab))
    lab.log("shape", shape(lab, graph))


@case("graphs/memcpy/round_trip")
def round_trip(lab):
    """Host → device → kernel → device → host in one graph."""
    source, target, x = np.full(4, 3, np.float32), np.zeros(4, np.float32), lab.zeros()
    drawing = Drawing(lab, "affine")
    drawing.copy("up", x, source, way="HostToDevice")
    drawing.kernel("k", "affine", x, 10.0, 1.0, after="up")
    drawing.copy("down", target, x, way="DeviceToHost", after="k")
    executable = drawing.run()
    lab.log("first", target)
    source[:] = 4
    run(lab, executable)
    lab.log("second", target)


# -- memory of a graph's own -----------------------------------------------------------------------------------------------


def with_memory(lab, x, *, free: bool) -> tuple[Drawing, int]:
    """Allocates, fills with 3, adds 1, copies to x; frees, or not."""
    drawing = Drawing(lab, "add")
    pointer = drawing.alloc("alloc")
    drawing.fill("fill", pointer, 3.0, after="alloc")
    drawing.kernel("add", "add", pointer, 1.0, after="fill")
    drawing.copy("copy", x, pointer, after="add")
    if free:
        drawing.free("free", pointer, after="copy")
    return drawing, pointer


@case("graphs/memory/used_and_freed")
def memory_freed(lab):
    x = lab.zeros()
    drawing, pointer = with_memory(lab, x, free=True)
    lab.log("shape", shape(lab, drawing.graph))
    lab.log("an address", pointer != 0)
    drawing.run(times=3)
    lab.log("x", x.get())


@case("graphs/memory/params")
def memory_params(lab):
    drawing = Drawing(lab)
    a, b = drawing.alloc("a", 100), drawing.alloc("b", 1 << 20)
    lab.log("two addresses", a != b)
    params = lab.rt("cudaGraphMemAllocNodeGetParams", drawing["a"])
    lab.log("bytes", int(params.bytesize))
    lab.log("the same address", int(params.dptr) == a)
    drawing.free("f", a, after="a")
    lab.log("freed", int(lab.rt("cudaGraphMemFreeNodeGetParams", drawing["f"])) == a)


RELAUNCHES = {"without_free": (False, 0), "freed_inside": (True, 0), "auto_free": (False, 1)}


def memory_relaunched(lab, free, flags):
    x, stream = lab.zeros(), lab.stream()
    drawing, _ = with_memory(lab, x, free=free)
    executable = lab.rt("cudaGraphInstantiate", drawing.graph, flags)
    for _ in range(3):
        lab.rt("cudaGraphLaunch", executable, stream.ptr)
    lab.rt("cudaStreamSynchronize", stream.ptr)
    lab.log("x", x.get())


for _name, (_free, _flags) in RELAUNCHES.items():
    case(f"graphs/memory/relaunched/{_name}", free=_free, flags=_flags)(memory_relaunched)


def freed_by_graph(lab, pointer, stream):
    other = Drawing(lab)
    other.free("free", pointer)
    lab.rt("cudaGraphLaunch", other.instantiate(), stream.ptr, label="launch of the freeing graph")


def freed_on_stream(lab, pointer, stream):
    lab.rt("cudaFreeAsync", pointer, stream.ptr)


def freed_by_host(lab, pointer, stream):
    stream.synchronize()
    lab.rt("cudaFree", pointer)


def memory_freed_outside(lab, free):
    x, y, stream = lab.zeros(), lab.zeros(), lab.stream()
    drawing, pointer = with_memory(lab, x, free=False)
    executable = drawing.instantiate()
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    lab.rt("cudaMemcpyAsync", address(y), pointer, 16, copy_kind(lab), stream.ptr)
    free(lab, pointer, stream)
    lab.rt("cudaGraphLaunch", executable, stream.ptr, label="launched again")
    lab.rt("cudaStreamSynchronize", stream.ptr)
    lab.log("x, y", [x.get(), y.get()])


for _name, _by in {"graph": freed_by_graph, "free_async": freed_on_stream, "free": freed_by_host}.items():
    case(f"graphs/memory/freed_by/{_name}", free=_by)(memory_freed_outside)


@case("graphs/memory/used_by_the_next_graph")
def memory_passed_on(lab):
    x, stream = lab.zeros(), lab.stream()
    maker, pointer = with_memory(lab, x, free=False)
    user = Drawing(lab, "add")
    user.kernel("add", "add", pointer, 10.0)
    user.copy("copy", x, pointer, after="add")
    user.free("free", pointer, after="copy")
    first, second = maker.instantiate(), user.instantiate()
    for _ in range(2):
        lab.rt("cudaGraphLaunch", first, stream.ptr)
        lab.rt("cudaGraphLaunch", second, stream.ptr)
    stream.synchronize()
    lab.log("x", x.get())


@case("graphs/memory/wrong_frees")
def wrong_frees(lab):
    x = lab.zeros()
    drawing, pointer = with_memory(lab, x, free=True)
    lab.rt("cudaGraphAddMemFreeNode", drawing.graph, [drawing["free"]], 1, pointer, label="twice")
    lab.rt("cudaGraphAddMemFreeNode", drawing.graph, [], 0, address(x), label="of another allocator")
    lab.rt("cudaGraphAddMemFreeNode", drawing.graph, [], 0, pointer + 4, label="not the beginning")
    lab.rt("cudaGraphAddMemFreeNode", drawing.graph, [], 0, 0, label="null")
    other = Drawing(lab)
    lab.rt("cudaGraphAddMemFreeNode", other.graph, [], 0, pointer, label="freed by its own graph, and by another")
    lab.log("shapes", [shape(lab, drawing.graph), shape(lab, other.graph)])


@case("graphs/memory/freed_by_another_then_its_own")
def freed_elsewhere_first(lab):
    drawing, other = Drawing(lab), Drawing(lab)
    pointer = drawing.alloc("alloc")
    lab.rt("cudaGraphAddMemFreeNode", other.graph, [], 0, pointer, label="by another graph")
    lab.rt("cudaGraphAddMemFreeNode", drawing.graph, [drawing["alloc"]], 1, pointer, label="by its own")


@case("graphs/memory/wrong_allocations")
def wrong_allocations(lab):
    graph = ok(lab.cudart.cudaGraphCreate(0))
    lab.rt("cudaGraphAddMemAllocNode", graph, [], 0, alloc_params(lab, 0), label="no bytes")
    lab.rt("cudaGraphAddMemAllocNode", graph, [], 0, lab.cudart.cudaMemAllocNodeParams(), label="no place")
    params = alloc_params(lab, 16)
    params.poolProps.location.id = 99
    lab.rt("cudaGraphAddMemAllocNode", graph, [], 0, params, label="no such device")
    lab.log("shape", shape(lab, graph))


@case("graphs/memory/what_such_a_graph_refuses")
def memory_restrictions(lab):
    x = lab.zeros()
    drawing, _ = with_memory(lab, x, free=True)
    lab.rt("cudaGraphDestroyNode", drawing["copy"])
    lab.rt("cudaGraphRemoveDependencies", *drawing.link("add>copy"))
    lab.rt("cudaGraphClone", drawing.graph)
    lab.rt("cudaGraphAddChildGraphNode", Drawing(lab).graph, [], 0, drawing.graph)
    lab.rt("cudaGraphAddEmptyNode", drawing.graph, [drawing["free"]], 1, label="add a node")
    lab.log("shape", shape(lab, drawing.graph))


@case("graphs/memory/one_executable_at_a_time")
def memory_one_exec(lab):
    x = lab.zeros()
    drawing, _ = with_memory(lab, x, free=True)
    first = lab.rt("cudaGraphInstantiate", drawing.graph, 0, label="first")
    lab.rt("cudaGraphInstantiate", drawing.graph, 0, label="second")
    lab.rt("cudaGraphExecDestroy", first)
    again = lab.rt("cudaGraphInstantiate", drawing.graph, 0, label="the first destroyed")
    if again is not None:
        run(lab, again)
    lab.log("x", x.get())


# -- events ----------------------------------------------------------------------------------------------------------------


@case("graphs/events/record_in_a_graph_wait_on_a_stream")
def event_record_node(lab):
    x, y, happening = lab.zeros(), lab.zeros(), event(lab)
    first, second = lab.stream(), lab.stream()
    lab.warm("copy")
    drawing = Drawing(lab, "nap")
    drawing.kernel("a", "nap", x, 1.0)
    drawing.record("r", happening, after="a")
    executable = drawing.instantiate()
    for _ in range(3):
        ok(lab.cudart.cudaGraphLaunch(executable, first.ptr))
    lab.rt("cudaStreamWaitEvent", second.ptr, happening, 0)
    lab.launch("copy", second, y, x)
    second.synchronize()
    lab.log("y", y.get()[0])
    lab.rt("cudaEventQuery", happening)
    first.synchronize()


@case("graphs/events/record_on_a_stream_wait_in_a_graph")
def event_wait_node(lab):
    x, y, happening = lab.zeros(), lab.zeros(), event(lab)
    first, second = lab.stream(), lab.stream()
    drawing = Drawing(lab, "nap", "copy")
    drawing.wait("w", happening)
    drawing.kernel("c", "copy", y, x, after="w")
    executable = drawing.instantiate()
    for turn in (1, 2):
        lab.launch("nap", first, x, 1.0)
        lab.rt("cudaEventRecord", happening, first.ptr)
        run(lab, executable, second)
        lab.log(f"y, turn {turn}", y.get()[0])


@case("graphs/events/never_recorded")
def event_never_recorded(lab):
    x, happening = lab.zeros(), event(lab)
    drawing = Drawing(lab, "add")
    drawing.wait("w", happening)
    drawing.kernel("a", "add", x, 1.0, after="w")
    drawing.run()
    lab.log("x", x.get()[0])
    lab.rt("cudaEventQuery", happening)


# -- DOT -------------------------------------------------------------------------------------------------------------------


@case("graphs/dot/print")
def dot_print(lab):
    x = lab.zeros()
    drawing = Drawing(lab, "add")
    drawing.kernel("a", "add", x, 1.0)
    drawing.fill("b", x[2:], 1.0, after="a", n=1)
    drawing.copy("c", x[3:], x[2:], 4, after="b")
    drawing.empty("d", after="a c")
    for flags in (0, 1):
        path = os.path.join(tempfile.mkdtemp(), "graph.dot")
        lab.rt("cudaGraphDebugDotPrint", drawing.graph, path.encode(), flags)
        with open(path, encoding="utf-8") as file:
            lab.log(f"flags {flags}", dot_shape(file.read()))
    lab.rt("cudaGraphDebugDotPrint", drawing.graph, b"/no/such/folder/graph.dot", 0)


# -- CuPy's graph ----------------------------------------------------------------------------------------------------------


def cupy_graph(lab, x):
    """Two kernels captured by CuPy: x = (x + 1) * 2."""
    lab.warm("affine")
    stream = lab.stream()
    stream.begin_capture()
    lab.launch("affine", stream, x, 1.0, 1.0)
    lab.launch("affine", stream, x, 2.0, 0.0)
    return stream.end_capture(), stream


@case("graphs/cupy/launch")
def cupy_launch(lab):
    x = lab.zeros()
    graph, stream = cupy_graph(lab, x)
    lab.log("captured", x.get()[0])
    lab.attempt("upload", graph.upload, stream)
    lab.attempt("launch", graph.launch, stream)
    lab.attempt("launch again", graph.launch, stream=stream)
    stream.synchronize()
    lab.log("x", x.get()[0])


@case("graphs/cupy/launch_on_the_current_stream")
def cupy_current(lab):
    x = lab.zeros()
    graph, stream = cupy_graph(lab, x)
    with stream:
        lab.attempt("in a with", graph.launch)
    stream.synchronize()
    lab.log("x", x.get()[0])
    lab.attempt("on the null stream", graph.launch)
    lab.cp.cuda.Stream.null.synchronize()
    lab.log("x", x.get()[0])


@case("graphs/cupy/handles_in_cudart")
def cupy_handles(lab):
    x, stream = lab.zeros(), lab.stream()
    graph, _ = cupy_graph(lab, x)
    lab.log("ints", [type(graph.graph).__name__, type(graph.graphExec).__name__])
    lab.log("shape", shape(lab, graph.graph))
    lab.rt("cudaGraphLaunch", graph.graphExec, stream.ptr)
    stream.synchronize()
    lab.log("x", x.get()[0])
    run(lab, ok(lab.cudart.cudaGraphInstantiate(graph.graph, 0)), stream)
    lab.log("x, instantiated by cudart", x.get()[0])


@case("graphs/cupy/dot")
def cupy_dot(lab):
    graph, _ = cupy_graph(lab, lab.zeros())
    text = lab.attempt("debug_dot_str", graph.debug_dot_str)
    if text is not None:
        lab.log("a str", isinstance(text, str))
        lab.log("shape", dot_shape(text if isinstance(text, str) else text.decode()))


@case("graphs/cupy/made_only_by_a_capture")
def cupy_made(lab):
    lab.attempt("Graph()", lab.cp.cuda.Graph)
    graph, _ = cupy_graph(lab, lab.zeros())
    lab.log("class", type(graph).__name__)
    lab.attempt("launch on a number", graph.launch, 0)


# -- what a capture adds ---------------------------------------------------------------------------------------------------


CAPTURES = {
    "nothing": lambda lab, stream, x: None,
    "kernel": lambda lab, stream, x: lab.launch("add", stream, x, 1.0),
    "two_kernels": lambda lab, stream, x: [lab.launch("add", stream, x, v) for v in (1.0, 2.0)],
    "memset": lambda lab, stream, x: ok(lab.cudart.cudaMemsetAsync(address(x), 0, 16, stream)),
    "memset_2d": lambda lab, stream, x: ok(lab.cudart.cudaMemset2DAsync(address(x), 8, 0, 4, 2, stream)),
    "copy": lambda lab, stream, x: ok(lab.cudart.cudaMemcpyAsync(address(x), address(x[2:]), 8, copy_kind(lab), stream)),
    "copy_from_host": lambda lab, stream, x: ok(
        lab.cudart.cudaMemcpyAsync(address(x), address(HOST), 16, copy_kind(lab, "HostToDevice"), stream)
    ),
    "copy_to_host": lambda lab, stream, x: ok(
        lab.cudart.cudaMemcpyAsync(address(HOST), address(x), 16, copy_kind(lab, "DeviceToHost"), stream)
    ),
    "event_record": lambda lab, stream, x: ok(lab.cudart.cudaEventRecord(event(lab), stream)),
    "event_record_external": lambda lab, stream, x: ok(
        lab.cudart.cudaEventRecordWithFlags(event(lab), stream, lab.cudart.cudaEventRecordExternal)
    ),
    "event_wait_external": lambda lab, stream, x: ok(
        lab.cudart.cudaStreamWaitEvent(stream, event(lab), lab.cudart.cudaEventWaitExternal)
    ),
    "malloc_and_free": lambda lab, stream, x: ok(lab.cudart.cudaFreeAsync(ok(lab.cudart.cudaMallocAsync(64, stream)), stream)),
}
HOST = np.arange(4, dtype=np.float32)


def captured_kinds(lab, what):
    x = lab.zeros()
    lab.warm("add")
    with captured(lab) as held:
        what(lab, held[0], x)
    lab.log("shape", shape(lab, held[1]))
    executable = lab.rt("cudaGraphInstantiate", held[1], 0)
    run(lab, executable)
    lab.log("x", x.get())


for _name, _what in CAPTURES.items():
    case(f"graphs/captured/{_name}", what=_what)(captured_kinds)


@case("graphs/captured/host_function")
def captured_host(lab):
    calls, stream = [], lab.stream()
    stream.begin_capture()
    lab.attempt("launch_host_func", stream.launch_host_func, calls.append, "called")
    graph = stream.end_capture()
    lab.log("shape", shape(lab, graph.graph))
    lab.log("calls, captured", calls)
    for _ in range(2):
        graph.launch(stream)
    stream.synchronize()
    lab.log("calls, replayed twice", calls)


@case("graphs/captured/into_a_graph_that_has_nodes")
def captured_to_graph(lab):
    x, stream = lab.zeros(), lab.stream()
    drawing = Drawing(lab, "affine")
    drawing.kernel("a", "affine", x, 1.0, 2.0)
    mode = lab.cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal
    lab.rt("cudaStreamBeginCaptureToGraph", stream.ptr, drawing.graph, [drawing["a"]], None, 1, mode)
    lab.launch("affine", stream, x, 10.0, 1.0)
    lab.launch("affine", stream, x, 10.0, 1.0)
    graph = lab.rt("cudaStreamEndCapture", stream.ptr)
    lab.log("the same graph", int(graph) == int(drawing.graph))
    lab.log("shape", shape(lab, drawing.graph))
    drawing.run()
    lab.log("x", x.get()[0])


@case("graphs/captured/to_a_node_of_another_graph")
def captured_to_wrong_node(lab):
    drawing, other, stream = chain(lab, "a"), chain(lab, "o"), lab.stream()
    mode = lab.cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal
    lab.rt("cudaStreamBeginCaptureToGraph", stream.ptr, drawing.graph, [other["o"]], None, 1, mode)
    status = ok(lab.cudart.cudaStreamIsCapturing(stream.ptr))
    lab.log("status", status)
    with contextlib.suppress(RuntimeError):
        ok(lab.cudart.cudaStreamEndCapture(stream.ptr))
    lab.log("kinds", kinds(lab, drawing.graph))
    lab.log("of the first", kind(lab, drawing["a"]))
