"""Executable graphs updated: as a whole, node by node, and switched off; what is refused leaves them as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cases._graphs import (
    HOST_FUNCTION,
    Drawing,
    Kit,
    address,
    copy_kind,
    event,
    float_bits,
    float_bytes,
    host_params,
    memset_params,
    ok,
    run,
)
from harness import case

# -- the whole graph -------------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Kit, Any, bool], Any]] = {}
"""name → how to draw the graph into a definition, as it was (False) and as it shall be (True)"""


def change(name: str) -> Callable:
    def register(draw: Callable) -> Callable:
        CHANGES[name] = draw
        return draw

    return register


@change("nothing")
def _(k, g, new):
    k.launch(k.launch(g, "add", k.x, 1.0), "affine", k.x, 2.0, 0.0)


@change("both_empty")
def _(k, g, new):
    pass


@change("kernel/value")
def _(k, g, new):
    k.launch(g, "add", k.x, 10.0 if new else 1.0)


@change("kernel/array")
def _(k, g, new):
    k.launch(g, "add", k.y if new else k.x, 1.0)


@change("kernel/one_of_two")
def _(k, g, new):
    k.launch(k.launch(g, "add", k.x, 1.0), "affine", k.x, 2.0, 5.0 if new else 0.0)


@change("kernel/grid")
def _(k, g, new):
    k.launch(g, "index", k.x, 4, grid=2 if new else 1, block=2)


@change("kernel/block")
def _(k, g, new):
    k.launch(g, "index", k.x, 4, block=4 if new else 2)


@change("kernel/grid_dimensions")
def _(k, g, new):
    k.launch(g, "index", k.x, 4, grid=(2, 1) if new else (1, 2), block=(2, 1, 1))


@change("kernel/function")
def _(k, g, new):
    if new:
        k.launch(g, "affine", k.x, 2.0, 7.0)
    else:
        k.launch(g, "add", k.x, 1.0)


@change("kernel/functions_in_another_order")
def _(k, g, new):
    first = k.launch(g, "affine", k.x, 3.0, 1.0) if new else k.launch(g, "add", k.x, 1.0)
    k.launch(first, "add", k.x, 1.0) if new else k.launch(first, "affine", k.x, 3.0, 1.0)


@change("memcpy/source")
def _(k, g, new):
    a, b = k.fill(g, k.x, 1.0), k.fill(g, k.y, 2.0)
    k.copy(g.join(a, b), k.z, k.y if new else k.x)


@change("memcpy/target")
def _(k, g, new):
    k.copy(k.fill(g, k.x, 1.0), k.z if new else k.y, k.x)


@change("memcpy/fewer_bytes")
def _(k, g, new):
    k.copy(k.fill(g, k.x, 1.0), k.y, k.x, 8 if new else 16)


@change("memcpy/more_bytes")
def _(k, g, new):
    k.copy(k.fill(g, k.x, 1.0), k.y, k.x, 16 if new else 8)


def pinned(k) -> Any:
    """Four pinned float32."""
    if not hasattr(k, "pinned_memory"):
        k.pinned_memory = k.lab.cp.cuda.alloc_pinned_memory(16)
        np.frombuffer(k.pinned_memory, np.float32, 4)[:] = 6, 7, 8, 9
    return np.frombuffer(k.pinned_memory, np.float32, 4)


@change("memcpy/source_becomes_host")
def _(k, g, new):
    k.copy(g, k.y, pinned(k) if new else k.x)


@change("memcpy/target_becomes_host")
def _(k, g, new):
    k.copy(g, pinned(k) if new else k.y, k.x)


@change("memcpy/another_host_source")
def _(k, g, new):
    k.copy(g, k.y, pinned(k)[2:] if new else pinned(k)[:2], 8)


@change("memset/value")
def _(k, g, new):
    k.fill(g, k.x, 2.0 if new else 1.0)


@change("memset/target")
def _(k, g, new):
    k.fill(g, k.y if new else k.x, 1.0)


@change("memset/narrower")
def _(k, g, new):
    k.fill(g, k.x, 1.0, 2 if new else 4)


@change("memset/wider")
def _(k, g, new):
    k.fill(g, k.x, 1.0, 4 if new else 2)


@change("memset/element_size")
def _(k, g, new):
    g.memset(address(k.x), float_bytes(1.0) if new else 0, 4 if new else 16)


@change("memset/rows_value")
def _(k, g, new):
    g.memset(address(k.x), float_bytes(2.0 if new else 1.0), 1, 2, 8)


@change("memset/rows_target")
def _(k, g, new):
    g.memset(address(k.y if new else k.x), float_bytes(1.0), 1, 2, 8)


@change("memset/rows_height")
def _(k, g, new):
    g.memset(address(k.x), float_bytes(1.0), 1, 2 if new else 3, 4)


@change("memset/rows_width")
def _(k, g, new):
    g.memset(address(k.x), float_bytes(1.0), 1 if new else 2, 2, 8)


@change("memset/becomes_rows")
def _(k, g, new):
    g.memset(address(k.x), float_bytes(1.0), 1 if new else 2, 2 if new else 1, 8)


@change("callback/function")
def _(k, g, new):
    k.call(g, "new" if new else "old")


@change("event/recorded")
def _(k, g, new):
    k.launch(g, "add", k.x, 1.0).record(k.events[new])


@change("event/waited_for")
def _(k, g, new):
    k.launch(g.wait(k.events[new]), "add", k.x, 1.0)


@change("event/record_becomes_wait")
def _(k, g, new):
    g.wait(k.events[0]) if new else g.record(k.events[0])


def child(k, *values: float) -> Any:
    """A chain of kernels that add these values."""
    where = definition = k.graph()
    for value in values:
        where = k.launch(where, "add", k.x, value)
    return definition


@change("child/value")
def _(k, g, new):
    k.launch(g.embed(child(k, 10.0 if new else 1.0, 2.0)), "affine", k.x, 2.0, 0.0)


@change("child/one_node_more")
def _(k, g, new):
    g.embed(child(k, 1.0, 2.0) if new else child(k, 1.0))


@change("child/another_type_inside")
def _(k, g, new):
    inner = k.graph()
    k.fill(inner, k.x, 5.0) if new else k.launch(inner, "add", k.x, 1.0)
    g.embed(inner)


@change("child/becomes_kernel")
def _(k, g, new):
    k.launch(g, "add", k.x, 1.0) if new else g.embed(child(k, 1.0))


@change("topology/node_added")
def _(k, g, new):
    node = k.launch(g, "add", k.x, 1.0)
    if new:
        k.launch(node, "add", k.x, 10.0)


@change("topology/node_removed")
def _(k, g, new):
    node = k.launch(g, "add", k.x, 1.0)
    if not new:
        k.launch(node, "add", k.x, 10.0)


@change("topology/becomes_empty")
def _(k, g, new):
    if not new:
        k.launch(g, "add", k.x, 1.0)


@change("topology/edge_added")
def _(k, g, new):
    a = k.launch(g, "add", k.x, 1.0)
    b = k.launch(g, "add", k.y, 1.0)
    if new:
        a.succ.add(b)


@change("topology/edge_removed")
def _(k, g, new):
    a = k.launch(g, "add", k.x, 1.0)
    k.launch(g if new else a, "add", k.y, 1.0)


@change("topology/edge_moved")
def _(k, g, new):
    a = k.launch(g, "add", k.x, 1.0)
    b = k.launch(a, "add", k.y, 1.0)
    k.launch(a if new else b, "add", k.z, 1.0)


@change("topology/edge_reversed")
def _(k, g, new):
    a = k.launch(g, "affine", k.x, 3.0, 1.0)
    b = k.launch(g, "affine", k.x, 2.0, 5.0)
    (b.succ if new else a.succ).add(a if new else b)


@change("topology/fork_becomes_chain")
def _(k, g, new):
    a = k.launch(g, "add", k.x, 1.0)
    b = k.launch(a, "add", k.y, 1.0)
    c = k.launch(b if new else a, "add", k.z, 1.0)
    g.join(c) if new else g.join(b, c)


@change("topology/roots_made_in_another_order")
def _(k, g, new):
    for step in reversed("ab") if new else "ab":
        k.launch(g, "add", k.x, 1.0) if step == "a" else k.fill(g, k.y, 2.0)


@change("topology/shortcut_added")
def _(k, g, new):
    a = k.launch(g, "add", k.x, 1.0)
    c = k.launch(k.launch(a, "add", k.x, 2.0), "add", k.x, 3.0)
    if new:
        c.pred.add(a)


@change("type/kernel_becomes_memset")
def _(k, g, new):
    k.fill(g, k.x, 5.0) if new else k.launch(g, "add", k.x, 1.0)


@change("type/memset_becomes_memcpy")
def _(k, g, new):
    k.copy(g, k.x, k.y) if new else k.fill(g, k.x, 5.0)


@change("type/kernel_becomes_empty")
def _(k, g, new):
    g.empty() if new else k.launch(g, "add", k.x, 1.0)


@change("type/of_the_second_node")
def _(k, g, new):
    a = k.launch(g, "add", k.x, 10.0 if new else 1.0)
    k.fill(a, k.y, 5.0) if new else k.launch(a, "add", k.y, 1.0)


@change("memory/of_the_graphs_own")
def _(k, g, new):
    a = g.allocate(16)
    filled = a.memset(a.dptr, float_bytes(2.0 if new else 1.0), 4)
    filled.memcpy(address(k.x), a.dptr, 16).deallocate(a.dptr)


def whole(lab, draw):
    """Updated through cudart, then (another one) through cuda.core; what a launch does before and after."""
    k = Kit(lab)
    k.events = [k.device.create_event(), k.device.create_event()]
    for through in ("cudart", "core"):
        k.clear()
        old, new = k.graph(), k.graph()
        draw(k, old, False)
        draw(k, new, True)
        executable = old.instantiate()
        k.run(executable)
        lab.log(f"{through}: before", k.contents())
        k.clear()
        if through == "cudart":
            error, info = lab.cudart.cudaGraphExecUpdate(int(executable.handle), int(new.handle))
            lab.log("cudaGraphExecUpdate", [error.name, None if info is None else info.result.name])
        else:
            lab.attempt("graph.update", executable.update, new)
        k.run(executable)
        lab.log(f"{through}: after", k.contents())


for _name, _draw in CHANGES.items():
    case(f"update/whole/{_name}", draw=_draw)(whole)


def update(lab, label: str, executable: Any, graph: Any) -> None:
    """Notes the error and the reason that cudart gives."""
    error, info = lab.cudart.cudaGraphExecUpdate(executable, graph)
    lab.log(label, [error.name, None if info is None else info.result.name])


@case("update/whole/a_refusal_changes_nothing")
def refusal_changes_nothing(lab):
    """The first node could be updated, the second cannot: neither is."""
    x, y = lab.zeros(), lab.zeros()
    old, new = Drawing(lab), Drawing(lab)
    old.fill("a", x, 1.0)
    old.fill("b", y, 1.0, after="a")
    new.fill("a", x, 2.0)
    new.copy("b", y, x, after="a")
    executable = old.run()
    update(lab, "update", executable, new.graph)
    run(lab, executable)
    lab.log("x, y", [x.get(), y.get()])
    new = Drawing(lab)
    new.fill("a", x, 3.0)
    new.fill("b", y, 4.0, after="a")
    update(lab, "an update that fits", executable, new.graph)
    run(lab, executable)
    lab.log("x, y", [x.get(), y.get()])


@case("update/whole/the_definition_stays")
def definition_stays(lab):
    x = lab.zeros()
    old, new = Drawing(lab), Drawing(lab)
    old.fill("a", x, 1.0)
    new.fill("a", x, 2.0)
    executable = old.instantiate()
    update(lab, "update", executable, new.graph)
    run(lab, executable)
    lab.log("updated", x.get())
    old.run()
    lab.log("instantiated again", x.get())
    lab.log("value", ok(lab.cudart.cudaGraphMemsetNodeGetParams(old["a"])).value == float_bits(1.0))


@case("update/whole/then_the_source_is_changed_and_destroyed")
def source_gone(lab):
    x = lab.zeros()
    old, new = Drawing(lab), Drawing(lab)
    old.fill("a", x, 1.0)
    new.fill("a", x, 2.0)
    executable = old.instantiate()
    update(lab, "update", executable, new.graph)
    lab.rt("cudaGraphMemsetNodeSetParams", new["a"], memset_params(lab, x, float_bits(3.0), 4, size=4))
    lab.rt("cudaGraphDestroy", new.graph)
    run(lab, executable)
    lab.log("x", x.get())


@case("update/whole/with_its_own_changed_definition")
def update_from_itself(lab):
    x = lab.zeros()
    drawing = Drawing(lab)
    drawing.fill("a", x, 1.0)
    executable = drawing.instantiate()
    lab.rt("cudaGraphMemsetNodeSetParams", drawing["a"], memset_params(lab, x, float_bits(3.0), 4, size=4))
    run(lab, executable)
    lab.log("not updated", x.get())
    update(lab, "update", executable, drawing.graph)
    run(lab, executable)
    lab.log("updated", x.get())


@case("update/whole/between_queued_launches")
def update_in_flight(lab):
    """Launches that are queued already are not affected."""
    x, stream = lab.zeros(), lab.stream()
    lab.warm("nap")
    old, new = Drawing(lab), Drawing(lab)
    old.kernel("a", "nap", x, 1.0)
    new.kernel("a", "nap", x, 100.0)
    executable = old.instantiate()
    for _ in range(3):
        lab.rt("cudaGraphLaunch", executable, stream.ptr)
    update(lab, "update", executable, new.graph)
    for _ in range(2):
        lab.rt("cudaGraphLaunch", executable, stream.ptr)
    stream.synchronize()
    lab.log("x", x.get()[0])


@case("update/whole/captured_by_cupy")
def update_cupy(lab):
    x, stream = lab.zeros(), lab.stream()
    lab.warm("add")
    graphs = []
    for value in (1.0, 10.0):
        stream.begin_capture()
        lab.launch("add", stream, x, value)
        lab.launch("add", stream, x, 2 * value)
        graphs.append(stream.end_capture())
    old, new = graphs
    old.launch(stream)
    update(lab, "update", old.graphExec, new.graph)
    old.launch(stream)
    stream.synchronize()
    lab.log("x", x.get()[0])


@case("update/whole/a_captured_graph_with_one_drawn")
def update_mixed(lab):
    k = Kit(lab)
    builder = k.builder().begin_building()
    k.launch(builder, "add", k.x, 1.0)
    k.launch(builder, "affine", k.x, 2.0, 0.0)
    executable = builder.end_building().complete()
    drawn = k.graph()
    k.launch(k.launch(drawn, "add", k.x, 5.0), "affine", k.x, 3.0, 0.0)
    k.run(executable)
    lab.attempt("update with a definition", executable.update, drawn)
    k.run(executable)
    lab.log("x", k.x.get()[0])
    lab.attempt("update with a builder", executable.update, builder)
    k.run(executable)
    lab.log("x", k.x.get()[0])


@case("update/whole/wrong_arguments")
def update_wrong(lab):
    k = Kit(lab)
    definition = k.graph()
    k.launch(definition, "add", k.x, 1.0)
    executable = definition.instantiate()
    lab.attempt("a string", executable.update, "graph")
    lab.attempt("None", executable.update, None)
    lab.attempt("an executable graph", executable.update, executable)
    builder = k.builder()
    lab.attempt("a builder not begun", executable.update, builder)
    builder.begin_building()
    lab.attempt("a builder not ended", executable.update, builder)
    builder.end_building()
    executable.close()
    lab.attempt("after close", executable.update, definition)


def prioritised(k, priority: int, *, cooperative: bool = False) -> Any:
    """A captured kernel that has its stream's priority."""
    k.ready()
    options = k.core.StreamOptions(priority=priority)
    builder = k.device.create_stream(options=options).create_graph_builder().begin_building()
    config = k.core.LaunchConfig(grid=1, block=1, is_cooperative=cooperative)
    k.core.launch(builder, config, k.kernel("index"), k.x.data.ptr, np.int32(1))
    return builder.end_building()


@case("update/attributes/priority", node_priority=False)
@case("update/attributes/priority_of_nodes", node_priority=True)
def update_priority(lab, node_priority):
    k = Kit(lab)
    options = k.core.graph.GraphCompleteOptions(use_node_priority=node_priority)
    executable = prioritised(k, 0).complete(options)
    lab.attempt("the same priority", executable.update, prioritised(k, 0))
    lab.attempt("another priority", executable.update, prioritised(k, -1))
    lab.attempt("launch", k.run, executable)


@case("update/attributes/cooperative")
def update_cooperative(lab):
    k = Kit(lab)
    executable = prioritised(k, 0).complete()
    lab.attempt("becomes cooperative", executable.update, prioritised(k, 0, cooperative=True))
    executable = prioritised(k, 0, cooperative=True).complete()
    lab.attempt("no longer cooperative", executable.update, prioritised(k, 0))
    lab.attempt("launch", k.run, executable)


# -- one node, through cudart ----------------------------------------------------------------------------------------------

COPIES = {  # target, source, bytes, way, of arrays x (ones), y, z (twos), h (the host's, sixes)
    "source": ("y", "z", 16, "DeviceToDevice"),
    "target": ("z", "x", 16, "DeviceToDevice"),
    "fewer_bytes": ("y", "z", 8, "DeviceToDevice"),
    "default_way": ("y", "z", 16, "Default"),
    "no_bytes": ("y", "z", 0, "DeviceToDevice"),
    "source_becomes_host": ("y", "h", 16, "HostToDevice"),
    "target_becomes_host": ("h", "z", 16, "DeviceToHost"),
}


def set_memcpy(lab, target, source, size, way):
    names = {"x": lab.cp.full(4, 1, "float32"), "y": lab.zeros(), "z": lab.cp.full(4, 2, "float32"), "h": np.full(4, 6, "f4")}
    lab.cp.cuda.Device().synchronize()
    drawing = Drawing(lab)
    drawing.copy("c", names["y"], names["x"])
    executable = drawing.instantiate()
    params = address(names[target]), address(names[source]), size, copy_kind(lab, way)
    lab.rt("cudaGraphExecMemcpyNodeSetParams1D", executable, drawing["c"], *params)
    run(lab, executable)
    lab.log("y, z", [names["y"].get(), names["z"].get()])
    lab.log("host", names["h"])
    drawing.run()
    lab.log("y, instantiated again", names["y"].get())


for _name, (_target, _source, _size, _way) in COPIES.items():
    case(f"update/memcpy/{_name}", target=_target, source=_source, size=_size, way=_way)(set_memcpy)

MEMSETS = {  # value, width, layout; it was 1.0, four float32
    "value": (float_bits(2.0), 4, {"size": 4}),
    "narrower": (float_bits(2.0), 2, {"size": 4}),
    "wider": (float_bits(2.0), 8, {"size": 4}),
    "element_size": (0, 8, {"size": 1}),
    "rows": (float_bits(2.0), 1, {"size": 4, "height": 2, "pitch": 8}),
    "no_elements": (float_bits(2.0), 0, {"size": 4}),
    "wrong_size": (0, 4, {"size": 3}),
}


def set_memset(lab, value, width, layout):
    x = lab.zeros(8)
    drawing = Drawing(lab)
    drawing.fill("m", x, 1.0)
    executable = drawing.instantiate()
    lab.rt("cudaGraphExecMemsetNodeSetParams", executable, drawing["m"], memset_params(lab, x, value, width, **layout))
    run(lab, executable)
    lab.log("x", x.get())
    x.fill(0)
    lab.cp.cuda.Device().synchronize()
    drawing.run()
    lab.log("x, instantiated again", x.get())


for _name, (_value, _width, _layout) in MEMSETS.items():
    case(f"update/memset/{_name}", value=_value, width=_width, layout=_layout)(set_memset)


@case("update/memset/target")
def set_memset_target(lab):
    x, y = lab.zeros(), lab.zeros()
    drawing = Drawing(lab)
    drawing.fill("m", x, 1.0)
    executable = drawing.instantiate()
    params = memset_params(lab, y, float_bits(2.0), 4, size=4)
    lab.rt("cudaGraphExecMemsetNodeSetParams", executable, drawing["m"], params)
    run(lab, executable)
    lab.log("x, y", [x.get(), y.get()])


@case("update/child/through_cudart")
def set_child(lab):
    x = lab.zeros()
    inner, outer = Drawing(lab, "add"), Drawing(lab)
    inner.kernel("a", "add", x, 1.0)
    outer.child("c", inner)
    executable = outer.instantiate()
    fits, longer, another = Drawing(lab), Drawing(lab), Drawing(lab)
    fits.kernel("a", "add", x, 10.0)
    longer.kernel("a", "add", x, 100.0)
    longer.kernel("b", "add", x, 100.0, after="a")
    another.fill("a", x, 1000.0)
    for name, graph in (("fits", fits), ("longer", longer), ("another type", another)):
        lab.rt("cudaGraphExecChildGraphNodeSetParams", executable, outer["c"], graph.graph, label=name)
        run(lab, executable)
        lab.log("x", x.get()[0])
    outer.run()
    lab.log("x, instantiated again", x.get()[0])


@case("update/event/recorded")
def set_record(lab):
    """After the update it is the second event that a stream waits for."""
    x, y, events, streams = lab.zeros(), lab.zeros(), [event(lab), event(lab)], [lab.stream(), lab.stream()]
    lab.warm("copy")
    drawing = Drawing(lab, "nap")
    drawing.kernel("a", "nap", x, 1.0)
    drawing.record("r", events[0], after="a")
    executable = drawing.instantiate()
    lab.rt("cudaGraphExecEventRecordNodeSetEvent", executable, drawing["r"], events[1])
    lab.rt("cudaGraphLaunch", executable, streams[0].ptr)
    lab.rt("cudaStreamWaitEvent", streams[1].ptr, events[1], 0)
    lab.launch("copy", streams[1], y, x)
    streams[1].synchronize()
    lab.log("y", y.get()[0])
    held = ok(lab.cudart.cudaGraphEventRecordNodeGetEvent(drawing["r"]))
    lab.log("the definition keeps the first", int(held) == int(events[0]))


@case("update/event/waited_for")
def set_wait(lab):
    x, y, events, streams = lab.zeros(), lab.zeros(), [event(lab), event(lab)], [lab.stream(), lab.stream()]
    drawing = Drawing(lab, "nap", "copy")
    drawing.wait("w", events[0])
    drawing.kernel("c", "copy", y, x, after="w")
    executable = drawing.instantiate()
    lab.rt("cudaGraphExecEventWaitNodeSetEvent", executable, drawing["w"], events[1])
    lab.launch("nap", streams[0], x, 1.0)
    lab.rt("cudaEventRecord", events[1], streams[0].ptr)
    run(lab, executable, streams[1])
    lab.log("y", y.get()[0])


@case("update/host/function")
def set_host(lab):
    calls = []
    old, new = HOST_FUNCTION(lambda data: calls.append("old")), HOST_FUNCTION(lambda data: calls.append("new"))
    drawing = Drawing(lab)
    drawing.host("h", old)
    executable = drawing.run()
    lab.rt("cudaGraphExecHostNodeSetParams", executable, drawing["h"], host_params(lab, new))
    run(lab, executable)
    drawing.run()
    lab.log("calls", calls)


@case("update/node/not_in_the_executable")
def node_elsewhere(lab):
    x = lab.zeros()
    drawing, other = Drawing(lab), Drawing(lab)
    drawing.fill("m", x, 1.0)
    other.fill("m", x, 2.0)
    executable = drawing.instantiate()
    drawing.fill("late", x, 3.0, after="m")
    clone = ok(lab.cudart.cudaGraphClone(drawing.graph))
    mirrored = ok(lab.cudart.cudaGraphNodeFindInClone(drawing["m"], clone))
    params = memset_params(lab, x, float_bits(9.0), 4, size=4)
    for name, node in (("of another graph", other["m"]), ("added later", drawing["late"]), ("of a clone", mirrored)):
        lab.rt("cudaGraphExecMemsetNodeSetParams", executable, node, params, label=name)
        lab.rt("cudaGraphNodeSetEnabled", executable, node, 0, label=f"disable the one {name}")
    run(lab, executable)
    lab.log("x", x.get())


@case("update/node/of_another_type")
def node_of_another_type(lab):
    x, y = lab.zeros(), lab.zeros()
    drawing = Drawing(lab)
    drawing.fill("m", x, 1.0)
    drawing.copy("c", y, x, after="m")
    executable = drawing.instantiate()
    params = memset_params(lab, x, float_bits(9.0), 4, size=4)
    lab.rt("cudaGraphExecMemsetNodeSetParams", executable, drawing["c"], params)
    copy = address(y), address(x), 8, copy_kind(lab)
    lab.rt("cudaGraphExecMemcpyNodeSetParams1D", executable, drawing["m"], *copy)
    lab.rt("cudaGraphExecEventRecordNodeSetEvent", executable, drawing["m"], event(lab))
    lab.rt("cudaGraphExecChildGraphNodeSetParams", executable, drawing["m"], drawing.graph)
    run(lab, executable)
    lab.log("x, y", [x.get(), y.get()])


@case("update/node/one_of_two_executables")
def one_of_two(lab):
    x = lab.zeros()
    drawing = Drawing(lab)
    drawing.fill("m", x, 1.0)
    first, second = drawing.instantiate(), drawing.instantiate()
    params = memset_params(lab, x, float_bits(2.0), 4, size=4)
    lab.rt("cudaGraphExecMemsetNodeSetParams", first, drawing["m"], params)
    run(lab, second)
    lab.log("the other", x.get()[0])
    run(lab, first)
    lab.log("the updated", x.get()[0])


@case("update/node/between_queued_launches")
def node_in_flight(lab):
    x, total, stream = lab.zeros(), lab.zeros(), lab.stream()
    drawing = Drawing(lab, "nap")
    drawing.kernel("n", "nap", total, 1.0)
    drawing.fill("m", x, 1.0, after="n")
    drawing.copy("c", total[1:], x, 4, after="m")
    executable = drawing.instantiate()
    for _ in range(2):
        lab.rt("cudaGraphLaunch", executable, stream.ptr)
    copied = address(total[2:]), address(x), 4, copy_kind(lab)
    lab.rt("cudaGraphExecMemcpyNodeSetParams1D", executable, drawing["c"], *copied)
    params = memset_params(lab, x, float_bits(2.0), 4, size=4)
    lab.rt("cudaGraphExecMemsetNodeSetParams", executable, drawing["m"], params)
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    stream.synchronize()
    lab.log("total", total.get())


# -- enabling and disabling, through cudart --------------------------------------------------------------------------------

SWITCHED = {
    "kernel": lambda d, x: d.kernel("n", "add", x, 1.0),
    "memset": lambda d, x: d.fill("n", x, 5.0),
    "memcpy": lambda d, x: d.copy("n", x[2:], x, 8),
    "empty": lambda d, x: d.empty("n"),
    "child": lambda d, x: d.child("n", child_of_one_fill(d.lab, x)),
    "event_record": lambda d, x: d.record("n", event(d.lab)),
    "event_wait": lambda d, x: d.wait("n", event(d.lab)),
    "alloc": lambda d, x: d.alloc("n"),
}


def child_of_one_fill(lab, x) -> Drawing:
    inner = Drawing(lab)
    inner.fill("a", x, 5.0)
    return inner


def switch(lab, add):
    x = lab.cp.arange(4, dtype="float32")
    drawing = Drawing(lab, "add")
    add(drawing, x)
    executable = drawing.instantiate()
    lab.log("enabled", lab.rt("cudaGraphNodeGetEnabled", executable, drawing["n"]))
    lab.rt("cudaGraphNodeSetEnabled", executable, drawing["n"], 0, label="disable")
    lab.log("enabled", lab.rt("cudaGraphNodeGetEnabled", executable, drawing["n"]))
    stream = lab.stream()
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    lab.rt("cudaStreamSynchronize", stream.ptr)
    lab.log("x, disabled", x.get())
    lab.rt("cudaGraphNodeSetEnabled", executable, drawing["n"], 2, label="enable with 2")
    lab.log("enabled", lab.rt("cudaGraphNodeGetEnabled", executable, drawing["n"]))
    lab.rt("cudaGraphLaunch", executable, stream.ptr)
    lab.rt("cudaStreamSynchronize", stream.ptr)
    lab.log("x, enabled", x.get())


for _name, _add in SWITCHED.items():
    case(f"update/enabled/{_name}", add=_add)(switch)


@case("update/enabled/order_stays")
def disabled_order(lab):
    """A disabled node still stands between its neighbours."""
    x, y = lab.zeros(), lab.zeros()
    drawing = Drawing(lab, "nap", "add", "copy")
    drawing.kernel("first", "nap", x, 1.0)
    drawing.kernel("off", "add", x, 100.0, after="first")
    drawing.kernel("last", "copy", y, x, after="off")
    executable = drawing.instantiate()
    lab.rt("cudaGraphNodeSetEnabled", executable, drawing["off"], 0)
    run(lab, executable, times=2)
    lab.log("x, y", [x.get()[0], y.get()[0]])


@case("update/enabled/params_set_while_off")
def disabled_params(lab):
    x = lab.zeros()
    drawing = Drawing(lab)
    drawing.fill("m", x, 1.0)
    executable = drawing.instantiate()
    lab.rt("cudaGraphNodeSetEnabled", executable, drawing["m"], 0)
    params = memset_params(lab, x, float_bits(2.0), 4, size=4)
    lab.rt("cudaGraphExecMemsetNodeSetParams", executable, drawing["m"], params)
    lab.log("enabled", lab.rt("cudaGraphNodeGetEnabled", executable, drawing["m"]))
    run(lab, executable)
    lab.log("x, off", x.get()[0])
    lab.rt("cudaGraphNodeSetEnabled", executable, drawing["m"], 1)
    run(lab, executable)
    lab.log("x, on", x.get()[0])


@case("update/enabled/after_a_whole_update")
def disabled_then_whole(lab):
    x, y = lab.zeros(), lab.zeros()
    old, new = Drawing(lab), Drawing(lab)
    for drawing, value in ((old, 1.0), (new, 2.0)):
        drawing.fill("a", x, value)
        drawing.fill("b", y, value, after="a")
    executable = old.instantiate()
    lab.rt("cudaGraphNodeSetEnabled", executable, old["a"], 0)
    update(lab, "update", executable, new.graph)
    lab.log("enabled", lab.rt("cudaGraphNodeGetEnabled", executable, old["a"]))
    run(lab, executable)
    lab.log("x, y", [x.get()[0], y.get()[0]])
    again = old.instantiate()
    lab.log("enabled in another", lab.rt("cudaGraphNodeGetEnabled", again, old["a"]))


# -- one node, through cuda.core -------------------------------------------------------------------------------------------


@case("update/view/kernel")
def view_kernel(lab):
    k = Kit(lab)
    definition = k.graph()
    node = k.launch(definition, "add", k.x, 1.0)
    executable = definition.instantiate()
    view = executable[node]
    lab.log("class", type(view).__name__)
    lab.attempt("value", view.update, config=k.config(), kernel=k.kernel("add"), args=(k.x.data.ptr, np.float32(10)))
    k.run(executable)
    lab.log("x", k.x.get()[0])
    lab.attempt("array", view.update, config=k.config(), kernel=k.kernel("add"), args=(k.y.data.ptr, np.float32(3)))
    k.run(executable)
    lab.log("x, y", [k.x.get()[0], k.y.get()[0]])
    config = k.config(2, 2)
    lab.attempt("all", view.update, config=config, kernel=k.kernel("index"), args=(k.z.data.ptr, np.int32(4)))
    k.run(executable)
    lab.log("z", k.z.get())
    lab.log("the definition's grid", node.grid)
    k.run(definition.instantiate())
    lab.log("x, instantiated again", k.x.get()[0])


@case("update/view/kernel_wrong_arguments")
def view_kernel_wrong(lab):
    k = Kit(lab)
    definition = k.graph()
    node = k.launch(definition, "add", k.x, 1.0)
    executable = definition.instantiate()
    view = executable[node]
    args = (k.x.data.ptr, np.float32(10))
    lab.attempt("nothing", view.update)
    lab.attempt("no kernel", view.update, config=k.config(), args=args)
    lab.attempt("by position", view.update, k.config(), k.kernel("add"), args)
    lab.attempt("config", view.update, config="1", kernel=k.kernel("add"), args=args)
    lab.attempt("kernel", view.update, config=k.config(), kernel="add", args=args)
    lab.attempt("an argument", view.update, config=k.config(), kernel=k.kernel("add"), args=("x", 1))
    lab.attempt("too large a block", view.update, config=k.config(1, 4096), kernel=k.kernel("add"), args=args)
    k.run(executable)
    lab.log("x", k.x.get()[0])


@case("update/view/memcpy")
def view_memcpy(lab):
    k = Kit(lab)
    definition = k.graph()
    ones, twos = k.fill(definition, k.x, 1.0), k.fill(definition, k.y, 2.0)
    node = k.copy(definition.join(ones, twos), k.z, k.x)
    executable = definition.instantiate()
    view = executable[node]
    lab.log("class", type(view).__name__)
    lab.attempt("update", view.update, dst=k.z.data.ptr, src=k.y.data.ptr, size=8)
    k.run(executable)
    lab.log("z", k.z.get())
    lab.attempt("only a size", view.update, size=8)
    lab.attempt("no bytes", view.update, dst=k.z.data.ptr, src=k.y.data.ptr, size=0)
    lab.attempt("negative", view.update, dst=k.z.data.ptr, src=k.y.data.ptr, size=-1)
    lab.log("the definition's size", node.size)


@case("update/view/memset")
def view_memset(lab):
    k = Kit(lab)
    definition = k.graph()
    node = k.fill(definition, k.x, 1.0)
    executable = definition.instantiate()
    view = executable[node]
    lab.log("class", type(view).__name__)
    lab.attempt("value", view.update, dst=k.x.data.ptr, value=float_bytes(2.0), width=4)
    k.run(executable)
    lab.log("x", k.x.get())
    lab.attempt("target", view.update, dst=k.y.data.ptr, value=float_bytes(3.0), width=4)
    k.run(executable)
    lab.log("y", k.y.get())
    lab.attempt("rows", view.update, dst=k.x.data.ptr, value=float_bytes(3.0), width=1, height=2, pitch=8)
    lab.attempt("three bytes", view.update, dst=k.x.data.ptr, value=b"abc", width=4)
    lab.attempt("no value", view.update, dst=k.x.data.ptr, width=4)
    lab.log("the definition's value", node.value == float_bits(1.0))


@case("update/view/child")
def view_child(lab):
    k = Kit(lab)
    definition = k.graph()
    node = definition.embed(child(k, 1.0, 2.0))
    executable = definition.instantiate()
    view = executable[node]
    lab.log("class", type(view).__name__)
    for name, values in (("values", (10.0, 20.0)), ("longer", (1.0, 1.0, 1.0))):
        lab.attempt(name, view.update, child(k, *values))
        k.run(executable)
        lab.log("x", k.x.get()[0])
    lab.attempt("not a graph", view.update, "graph")


@case("update/view/event")
def view_event(lab):
    k = Kit(lab)
    events = [k.device.create_event() for _ in range(2)]
    definition = k.graph()
    record = k.launch(definition, "nap", k.x, 1.0).record(events[0])
    wait = definition.wait(events[0])
    executable = definition.instantiate()
    for node in (record, wait):
        lab.log("class", type(executable[node]).__name__)
        lab.attempt("update", executable[node].update, events[1])
        lab.attempt("not an event", executable[node].update, 5)
    lab.log("the definition's", [node.event == events[0] for node in (record, wait)])


@case("update/view/callback")
def view_callback(lab):
    k = Kit(lab)
    definition = k.graph()
    node = k.call(definition, "old")
    executable = definition.instantiate()
    view = executable[node]
    lab.log("class", type(view).__name__)
    lab.attempt("update", view.update, lambda: k.calls.append("new"))
    k.run(executable)
    lab.attempt("user data", view.update, lambda: None, user_data=b"1")
    lab.attempt("not callable", view.update, 5)
    k.run(executable)
    k.run(definition.instantiate())
    lab.log("calls", k.calls)


@case("update/view/nodes_without_one")
def view_none(lab):
    k = Kit(lab)
    definition, other = k.graph(), k.graph()
    empty = definition.empty()
    alloc = definition.allocate(16)
    free = alloc.deallocate(alloc.dptr)
    node, foreign = k.fill(definition, k.x, 1.0), k.fill(other, k.x, 2.0)
    executable = definition.instantiate()
    for name, key in (("empty", empty), ("alloc", alloc), ("free", free), ("a string", "node"), ("None", None)):
        lab.attempt(name, executable.__getitem__, key)
    view = lab.attempt("of another graph", executable.__getitem__, foreign)
    if view is not None:
        lab.attempt("its update", view.update, dst=k.x.data.ptr, value=1, width=4)
        lab.attempt("its disable", view.disable)
    view = executable[node]
    executable.close()
    lab.attempt("closed", executable.__getitem__, node)
    lab.attempt("the view of the closed", view.update, dst=k.x.data.ptr, value=1, width=4)


@case("update/view/node_destroyed")
def view_destroyed(lab):
    k = Kit(lab)
    definition = k.graph()
    node = k.fill(definition, k.x, 1.0)
    executable = definition.instantiate()
    view = executable[node]
    node.destroy()
    lab.attempt("a new view", executable.__getitem__, node)
    lab.attempt("update", view.update, dst=k.x.data.ptr, value=1, width=4)
    lab.attempt("disable", view.disable)
    k.run(executable)
    lab.log("x", k.x.get())


VIEWS = {
    "kernel": lambda k, g: k.launch(g, "add", k.x, 1.0),
    "memset": lambda k, g: k.fill(g, k.x, 5.0),
    "memcpy": lambda k, g: k.copy(g, k.x, k.ones),
}


def view_switch(lab, add):
    k = Kit(lab)
    k.ones = lab.cp.full(4, 1, "float32")
    lab.cp.cuda.Device().synchronize()
    definition = k.graph()
    k.launch(node := add(k, definition), "add", k.y, 1.0)
    executable = definition.instantiate()
    view = executable[node]
    lab.log("enabled", view.is_enabled)
    for switch_it in (view.disable, view.disable, view.enable):
        lab.attempt(switch_it.__name__, switch_it)
        lab.log("enabled", view.is_enabled)
        k.run(executable)
        lab.log("x, y", [k.x.get(), k.y.get()[0]])
    view.disable()
    lab.log("through another view", executable[node].is_enabled)
    lab.log("in another executable", definition.instantiate()[node].is_enabled)


for _name, _add in VIEWS.items():
    case(f"update/view/enabled/{_name}", add=_add)(view_switch)


# -- the definition's nodes ------------------------------------------------------------------------------------------------


@case("update/definition/kernel")
def definition_kernel(lab):
    k = Kit(lab)
    definition = k.graph()
    node = k.launch(definition, "index", k.x, 2)
    before = definition.instantiate()
    lab.attempt("config", node.update, config=k.config(2, 2))
    lab.log("grid, block", [node.grid, node.block])
    lab.attempt("args", node.update, args=(k.y.data.ptr, np.int32(3)))
    after = definition.instantiate()
    k.run(before)
    lab.log("the executable made before", k.contents())
    k.run(after)
    lab.log("and the one after", k.contents())
    lab.attempt("kernel without args", node.update, kernel=k.kernel("add"))
    one = {"config": k.config(1, 1), "kernel": k.kernel("add"), "args": (k.z.data.ptr, np.float32(7))}
    lab.attempt("kernel", lambda: node.update(**one))
    lab.attempt("nothing", node.update)
    lab.attempt("config of another type", node.update, config=(1, 1))
    k.run(definition.instantiate())
    lab.log("the last", k.contents())
    lab.attempt("the first updated with the definition", before.update, definition)
    k.clear()
    k.run(before)
    lab.log("its work", k.contents())


@case("update/definition/memset")
def definition_memset(lab):
    k = Kit(lab)
    definition = k.graph()
    node = k.fill(definition, k.x, 1.0)
    before = definition.instantiate()
    lab.attempt("value", node.update, value=float_bytes(2.0))
    lab.attempt("target", node.update, dst=k.y.data.ptr)
    lab.attempt("width", node.update, width=2)
    lab.attempt("nothing", node.update)
    lab.attempt("value too large", node.update, value=256)
    lab.attempt("target of another type", node.update, dst="y")
    lab.log("node", [node.value == float_bits(2.0), node.dptr == k.y.data.ptr, node.width, node.element_size])
    k.run(before)
    k.run(definition.instantiate())
    lab.log("contents", k.contents())


@case("update/definition/memcpy")
def definition_memcpy(lab):
    k = Kit(lab)
    definition = k.graph()
    first = k.fill(definition, k.x, 1.0)
    node = k.copy(first, k.y, k.x, 8)
    before = definition.instantiate()
    lab.attempt("size", node.update, size=16)
    lab.attempt("target", node.update, dst=k.z.data.ptr)
    lab.attempt("negative", node.update, size=-1)
    lab.log("node", [node.size, node.dst == k.z.data.ptr, node.src == k.x.data.ptr])
    k.run(before)
    k.run(definition.instantiate())
    lab.log("contents", k.contents())


@case("update/definition/child_event_callback")
def definition_others(lab):
    k = Kit(lab)
    events = [k.device.create_event() for _ in range(2)]
    definition = k.graph()
    embedded = definition.embed(child(k, 1.0))
    record = embedded.record(events[0])
    called = k.call(record, "old")
    before = definition.instantiate()
    lab.attempt("child", embedded.update, child(k, 10.0, 20.0))
    lab.attempt("event", record.update, events[1])
    lab.attempt("callback", called.update, lambda: k.calls.append("new"))
    lab.log("the child's nodes", len(embedded.child_graph.nodes()))
    lab.log("the event", record.event == events[1])
    k.run(before)
    lab.log("before", k.contents())
    k.run(definition.instantiate())
    lab.log("after", k.contents())
    lab.attempt("the first updated", before.update, definition)


@case("update/definition/through_cudart")
def definition_cudart(lab):
    x, y = lab.zeros(), lab.zeros()
    drawing = Drawing(lab)
    drawing.fill("m", x, 1.0)
    drawing.copy("c", y, x, 8, after="m")
    before = drawing.instantiate()
    lab.rt("cudaGraphMemsetNodeSetParams", drawing["m"], memset_params(lab, x, float_bits(2.0), 4, size=4))
    lab.rt("cudaGraphMemcpyNodeSetParams1D", drawing["c"], address(y), address(x), 16, copy_kind(lab))
    run(lab, before)
    lab.log("before: x, y", [x.get(), y.get()])
    drawing.run()
    lab.log("after: x, y", [x.get(), y.get()])
    lab.rt("cudaGraphMemsetNodeSetParams", drawing["m"], memset_params(lab, x, 1, 4, size=3), label="size 3")
    lab.rt("cudaGraphMemsetNodeSetParams", drawing["c"], memset_params(lab, x, 1, 4), label="of a memcpy node")
