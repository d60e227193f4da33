"""Conditional nodes: IF, IF/ELSE, WHILE and SWITCH through cuda.core, their conditions set by Numba kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases._graphs import HOST_FUNCTION, Kit, argument, core_shape, event, float_bytes, host_params, kinds, memset_params, ok
from harness import case


class Conditions(Kit):
    """A kit with two kernels that set a condition: "choose" to p[0]; "count" adds 1 to p[0] and sets whether it is < limit."""

    def __init__(self, lab: Any):
        super().__init__(lab)
        types = lab.types
        set_condition = lab.cuda.declare_device("cudaGraphSetConditional", types.void(types.uint64, types.uint32), abi="c")

        def choose(handle, p):
            set_condition(handle, int(p[0]))

        def count(handle, p, limit):
            p[0] += 1
            set_condition(handle, 1 if p[0] < limit else 0)

        pointer = types.CPointer(types.float32)
        self._jitted = [
            lab.cuda.jit(types.void(types.uint64, pointer))(choose),
            lab.cuda.jit(types.void(types.uint64, pointer, types.float32))(count),
        ]
        self.setters = dict(zip(("choose", "count"), map(lab.as_kernel, self._jitted), strict=True))

    def sets(self, where: Any, kernel: str, condition: Any, *args: Any) -> Any:
        """A node that sets the condition, after a definition or a node."""
        return where.launch(self.config(), self.setters[kernel], np.uint64(int(condition.handle)), *map(argument, args))

    def give(self, value: float) -> None:
        """Puts a value into x[0]."""
        self.x[0] = value
        self.device.sync()


# -- one conditional node --------------------------------------------------------------------------------------------------


@case("conditional/if/default_0", default=0)
@case("conditional/if/default_1", default=1)
@case("conditional/if/default_7", default=7)
def if_default(lab, default):
    k = Conditions(lab)
    graph = k.graph()
    node = graph.if_then(graph.create_condition(default_value=default))
    k.launch(node.then, "add", k.y, 1.0)
    k.launch(node, "add", k.z, 1.0)
    k.run(graph.instantiate(), 3)
    lab.log("contents", k.contents())


@case("conditional/if/set_by_a_kernel")
def if_set(lab):
    k = Conditions(lab)
    graph = k.graph()
    condition = graph.create_condition()
    node = k.sets(graph, "choose", condition, k.x).if_then(condition)
    k.launch(node.then, "add", k.y, 1.0)
    k.launch(node, "add", k.z, 1.0)
    executable = graph.instantiate()
    for value in (0, 1, 0, 5):
        k.give(value)
        k.run(executable)
        lab.log(f"{value}: y, z", [k.y.get()[0], k.z.get()[0]])


@case("conditional/if_else/default_0", default=0)
@case("conditional/if_else/default_1", default=1)
def if_else_default(lab, default):
    k = Conditions(lab)
    graph = k.graph()
    node = graph.if_else(graph.create_condition(default_value=default))
    k.launch(node.then, "add", k.y, 1.0)
    k.launch(node.else_, "add", k.z, 1.0)
    k.run(graph.instantiate(), 2)
    lab.log("contents", k.contents())


@case("conditional/if_else/set_by_a_kernel")
def if_else_set(lab):
    k = Conditions(lab)
    graph = k.graph()
    condition = graph.create_condition(default_value=1)
    node = k.sets(graph, "choose", condition, k.x).if_else(condition)
    k.launch(node.then, "add", k.y, 1.0)
    k.launch(node.else_, "add", k.z, 1.0)
    executable = graph.instantiate()
    for value in (0, 2, 0):
        k.give(value)
        k.run(executable)
        lab.log(f"{value}: y, z", [k.y.get()[0], k.z.get()[0]])


@case("conditional/if_else/one_branch_empty")
def if_else_empty(lab):
    k = Conditions(lab)
    for default in (0, 1):
        graph = k.graph()
        node = graph.if_else(graph.create_condition(default_value=default))
        k.launch(node.then, "add", k.y, 1.0)
        lab.attempt(f"default {default}", lambda graph=graph: k.run(graph.instantiate()))
    lab.log("y", k.y.get()[0])


@case("conditional/while/counts", limit=4.0, default=1)
@case("conditional/while/once", limit=1.0, default=1)
@case("conditional/while/never", limit=4.0, default=0)
@case("conditional/while/many", limit=1000.0, default=1)
def while_counts(lab, limit, default):
    """The default is set again before each launch, so a later launch loops again."""
    k = Conditions(lab)
    graph = k.graph()
    condition = graph.create_condition(default_value=default)
    node = graph.while_loop(condition)
    k.sets(k.launch(node.body, "add", k.y, 2.0), "count", condition, k.x, limit)
    k.copy(node, k.z, k.y)
    executable = graph.instantiate()
    for turn in (1, 2):
        k.give(0)
        k.run(executable)
        lab.log(f"turn {turn}", k.contents())


@case("conditional/while/decided_before_the_loop")
def while_decided(lab):
    """The kernel before the loop overrides the default."""
    k = Conditions(lab)
    graph = k.graph()
    condition = graph.create_condition(default_value=1)
    node = k.sets(graph, "choose", condition, k.x).while_loop(condition)
    k.sets(node.body, "count", condition, k.y, 3.0)
    executable = graph.instantiate()
    for value in (0, 1):
        k.give(value)
        k.run(executable)
        lab.log(f"{value}: y", k.y.get()[0])


@case("conditional/while/order_in_the_body")
def while_order(lab):
    k = Conditions(lab)
    graph = k.graph()
    condition = graph.create_condition(default_value=1)
    node = k.fill(graph, k.y, 1.0).while_loop(condition)
    first = k.launch(node.body, "affine", k.y, 2.0, 1.0)
    k.sets(k.launch(first, "affine", k.y, 3.0, 0.0), "count", condition, k.x, 3.0)
    k.launch(node, "affine", k.y, 1.0, 0.5)
    k.run(graph.instantiate())
    lab.log("contents", k.contents())


@case("conditional/switch/default_0", default=0)
@case("conditional/switch/default_2", default=2)
@case("conditional/switch/out_of_range", default=3)
@case("conditional/switch/far_out_of_range", default=99)
def switch_default(lab, default):
    k = Conditions(lab)
    graph = k.graph()
    node = graph.switch(graph.create_condition(default_value=default), 3)
    for i, branch in enumerate(node.branches):
        k.launch(branch, "add", k.y[i:], 1.0)
    k.launch(node, "add", k.z, 1.0)
    k.run(graph.instantiate(), 2)
    lab.log("contents", k.contents())


@case("conditional/switch/set_by_a_kernel")
def switch_set(lab):
    k = Conditions(lab)
    graph = k.graph()
    condition = graph.create_condition()
    node = k.sets(graph, "choose", condition, k.x).switch(condition, 4)
    for i, branch in enumerate(node.branches):
        k.launch(branch, "add", k.y[i:], 1.0)
    executable = graph.instantiate()
    for value in (3, 1, 1, 4, 0):
        k.give(value)
        k.run(executable)
        lab.log(f"{value}: y", k.y.get())


@case("conditional/switch/counts")
def switch_counts(lab):
    k = Conditions(lab)
    for count in (0, 1, 2, 64):
        graph = k.graph()
        node = lab.attempt(f"{count}", graph.switch, graph.create_condition(default_value=count - 1 if count else 0), count)
        if node is not None:
            lab.log("branches", len(node.branches))
            k.launch(node.branches[-1], "add", k.y, 1.0)
            k.run(graph.instantiate())
            lab.log("y", k.y.get()[0])


# -- nested ----------------------------------------------------------------------------------------------------------------


@case("conditional/nested/while_in_if", default=1)
@case("conditional/nested/while_in_if_not_taken", default=0)
def while_in_if(lab, default):
    k = Conditions(lab)
    graph = k.graph()
    outer, inner = graph.create_condition(default_value=default), graph.create_condition(default_value=1)
    node = graph.if_then(outer)
    loop = lab.attempt("while_loop", node.then.while_loop, inner)
    if loop is not None:
        k.sets(k.launch(loop.body, "add", k.y, 1.0), "count", inner, k.x, 3.0)
        lab.attempt("run", lambda: k.run(graph.instantiate()))
    lab.log("contents", k.contents())


@case("conditional/nested/condition_made_in_the_body")
def condition_of_body(lab):
    k = Conditions(lab)
    graph = k.graph()
    node = graph.if_then(graph.create_condition(default_value=1))
    inner = lab.attempt("create", node.then.create_condition, default_value=1)
    if inner is not None:
        loop = lab.attempt("while_loop", node.then.while_loop, inner)
        if loop is not None:
            k.sets(k.launch(loop.body, "add", k.y, 1.0), "count", inner, k.x, 3.0)
            lab.attempt("run", lambda: k.run(graph.instantiate()))
    lab.log("contents", k.contents())


@case("conditional/nested/if_in_while")
def if_in_while(lab):
    """The inner condition is set anew in each round: y counts the rounds in which x is not 0."""
    k = Conditions(lab)
    graph = k.graph()
    outer, inner = graph.create_condition(default_value=1), graph.create_condition()
    loop = graph.while_loop(outer)
    decided = k.sets(loop.body, "choose", inner, k.x)
    node = decided.if_then(inner)
    k.launch(node.then, "add", k.y, 1.0)
    k.sets(node, "count", outer, k.x, 4.0)
    k.run(graph.instantiate())
    lab.log("contents", k.contents())


@case("conditional/nested/if_after_if")
def if_after_if(lab):
    k = Conditions(lab)
    graph = k.graph()
    first, second = (graph.create_condition(default_value=v) for v in (0, 1))
    node = graph.if_then(first)
    k.launch(node.then, "add", k.y, 1.0)
    node = node.if_then(second)
    k.launch(node.then, "add", k.y, 10.0)
    k.run(graph.instantiate(), 2)
    lab.log("y", k.y.get()[0])


# -- what the nodes are ----------------------------------------------------------------------------------------------------

MADE = {
    "if": lambda g, c: g.if_then(c),
    "if_else": lambda g, c: g.if_else(c),
    "while": lambda g, c: g.while_loop(c),
    "switch": lambda g, c: g.switch(c, 3),
}


def node_made(lab, make):
    k = Conditions(lab)
    graph = k.graph()
    condition = graph.create_condition(default_value=0)
    node = make(graph, condition)
    lab.log("class", type(node).__name__)
    lab.log("type", node.type.name)
    lab.log("kind", str(node.cond_type))
    lab.log("condition", [node.condition == condition, type(condition).__name__, hash(condition) == hash(node.condition)])
    lab.log("branches", [type(b).__name__ for b in node.branches])
    lab.log("first branch", core_shape(node.branches[0]))
    lab.log("repr begins", repr(node).partition(" ")[0])
    lab.log("shape", core_shape(graph))
    lab.log("through cudart", kinds(lab, graph.handle))
    lab.log("valid", [b.is_valid for b in node.branches])
    node.destroy()
    lab.log("destroyed", [node.is_valid, len(graph.nodes())])


for _name, _make in MADE.items():
    case(f"conditional/node/{_name}", make=_make)(node_made)


@case("conditional/node/condition_as_an_argument")
def condition_argument(lab):
    """A kernel takes the condition itself, its handle as uint64, or its handle as an int."""
    k = Conditions(lab)
    for name in ("condition", "uint64", "int"):
        graph = k.graph()
        condition = graph.create_condition(default_value=0)
        forms = {"condition": condition, "uint64": np.uint64(int(condition.handle)), "int": int(condition.handle)}
        k.give(1)
        args = k.config(), k.setters["choose"], forms[name], k.x.data.ptr
        node = lab.attempt(name, graph.launch, *args)
        if node is not None:
            k.launch(node.if_then(condition).then, "add", k.y, 1.0)
            k.run(graph.instantiate())
        lab.log("y", k.y.get()[0])


# -- what is refused -------------------------------------------------------------------------------------------------------


@case("conditional/refused/wrong_conditions")
def wrong_conditions(lab):
    k = Conditions(lab)
    graph, other = k.graph(), k.graph()
    condition, foreign = graph.create_condition(default_value=0), other.create_condition(default_value=0)
    lab.attempt("a number", graph.if_then, 1)
    lab.attempt("None", graph.while_loop, None)
    lab.attempt("a handle", graph.if_then, int(condition.handle))
    lab.attempt("of another graph", graph.if_then, foreign)
    lab.attempt("first use", graph.if_then, condition)
    lab.attempt("second use", graph.if_then, condition)
    lab.attempt("default of another type", graph.create_condition, default_value="1")
    lab.attempt("default too large", graph.create_condition, default_value=2**40)
    lab.attempt("default negative", graph.create_condition, default_value=-1)
    lab.log("equal", [condition == foreign, condition == "condition"])


@case("conditional/refused/condition_not_used")
def condition_unused(lab):
    k = Conditions(lab)
    graph = k.graph()
    graph.create_condition(default_value=1)
    k.launch(graph, "add", k.y, 1.0)
    lab.attempt("instantiate", graph.instantiate)
    params = lab.cudart.cudaGraphInstantiateParams()
    lab.rt("cudaGraphInstantiateWithParams", int(graph.handle), params)
    lab.log("result", params.result_out)


@case("conditional/refused/copies")
def conditional_copies(lab):
    k = Conditions(lab)
    graph = k.graph()
    node = graph.if_then(graph.create_condition(default_value=1))
    k.launch(node.then, "add", k.y, 1.0)
    lab.rt("cudaGraphClone", int(graph.handle))
    lab.attempt("embed", k.graph().embed, graph)
    lab.attempt("device launch", graph.instantiate, lab.core.graph.GraphCompleteOptions(device_launch=True))
    first, second = graph.instantiate(), lab.attempt("a second executable", graph.instantiate)
    lab.attempt("a view", first.__getitem__, node)
    lab.rt("cudaGraphNodeSetEnabled", int(first.handle), node.handle, 0)
    for executable in (first, second):
        if executable is not None:
            k.run(executable)
    lab.log("y", k.y.get()[0])


BODIES = {
    "empty": lambda k, b: b.empty(),
    "memset": lambda k, b: k.fill(b, k.y, 3.0),
    "memcpy": lambda k, b: k.copy(b, k.y, k.x),
    "child": lambda k, b: b.embed(one_fill(k)),
    "callback": lambda k, b: k.call(b, "called"),
    "event_record": lambda k, b: b.record(k.device.create_event()),
    "event_wait": lambda k, b: b.wait(k.device.create_event()),
    "allocation": lambda k, b: b.allocate(16),
    "nothing": lambda k, b: None,
}


def one_fill(k):
    graph = k.graph()
    k.fill(graph, k.y, 4.0)
    return graph


def body_of(lab, add):
    k = Conditions(lab)
    k.give(6)
    graph = k.graph()
    node = graph.if_then(graph.create_condition(default_value=1))
    lab.attempt("add", add, k, node.then)
    lab.log("body", core_shape(node.then))
    executable = lab.attempt("instantiate", graph.instantiate)
    if executable is not None:
        lab.attempt("run", k.run, executable)
    lab.log("contents", k.contents())


for _name, _add in BODIES.items():
    case(f"conditional/body/{_name}", add=_add)(body_of)


@case("conditional/body/through_cudart")
def body_cudart(lab):
    """What cudart adds to a body."""
    k = Conditions(lab)
    graph = k.graph()
    body = graph.if_then(graph.create_condition(default_value=1)).then
    handle = int(body.handle)
    lab.rt("cudaGraphAddMemsetNode", handle, [], 0, memset_params(lab, k.y, 0, 16))
    lab.rt("cudaGraphAddEventRecordNode", handle, [], 0, event(lab))
    function = HOST_FUNCTION(lambda data: None)
    lab.rt("cudaGraphAddHostNode", handle, [], 0, host_params(lab, function))
    lab.log("kinds", kinds(lab, handle))
    lab.log("of the graph", kinds(lab, graph.handle))
    lab.attempt("instantiate", graph.instantiate)


# -- updates ---------------------------------------------------------------------------------------------------------------


def if_graph(k, value: float, default: int, nodes: int = 1) -> Any:
    """IF with a body that adds `value` to y, `nodes` times."""
    graph = k.graph()
    where = graph.if_then(graph.create_condition(default_value=default)).then
    for _ in range(nodes):
        where = k.launch(where, "add", k.y, value)
    return graph


@case("conditional/update/value_in_the_body", value=10.0, default=1, nodes=1)
@case("conditional/update/default", value=1.0, default=0, nodes=1)
@case("conditional/update/body_longer", value=1.0, default=1, nodes=2)
def update_if(lab, value, default, nodes):
    k = Conditions(lab)
    graph = if_graph(k, 1.0, 1)
    executable = graph.instantiate()
    k.run(executable)
    lab.log("y", k.y.get()[0])
    lab.attempt("update", executable.update, if_graph(k, value, default, nodes))
    k.run(executable)
    lab.log("y", k.y.get()[0])


@case("conditional/update/another_kind")
def update_kind(lab):
    k = Conditions(lab)
    graph = if_graph(k, 1.0, 1)
    executable = graph.instantiate()
    other = k.graph()
    node = other.if_else(other.create_condition(default_value=1))
    k.launch(node.then, "add", k.y, 1.0)
    lab.attempt("if becomes if/else", executable.update, other)
    other = k.graph()
    condition = other.create_condition(default_value=1)
    k.sets(other.while_loop(condition).body, "count", condition, k.x, 1.0)
    lab.attempt("if becomes while", executable.update, other)
    k.run(executable)
    lab.log("y", k.y.get()[0])


@case("conditional/update/body_changed_after_instantiate")
def body_changed(lab):
    k = Conditions(lab)
    graph = k.graph()
    node = graph.if_then(graph.create_condition(default_value=1))
    inner = k.launch(node.then, "add", k.y, 1.0)
    before = graph.instantiate()
    k.launch(inner, "add", k.y, 10.0)
    k.run(before)
    lab.log("y, instantiated before", k.y.get()[0])
    k.run(graph.instantiate())
    lab.log("y, and after", k.y.get()[0])


@case("conditional/update/node_in_the_body")
def update_inner(lab):
    k = Conditions(lab)
    graph = k.graph()
    node = graph.if_then(graph.create_condition(default_value=1))
    inner = k.launch(node.then, "add", k.y, 1.0)
    executable = graph.instantiate()
    view = lab.attempt("view", executable.__getitem__, inner)
    args = k.y.data.ptr, np.float32(10)
    if view is not None:
        lab.attempt("update", view.update, config=k.config(), kernel=k.kernel("add"), args=args)
        lab.attempt("disable", view.disable)
    k.run(executable)
    lab.log("y", k.y.get()[0])


# -- builders --------------------------------------------------------------------------------------------------------------


def set_on(k, builder, kernel: str, condition: Any, *args: Any) -> None:
    k.core.launch(builder, k.config(), k.setters[kernel], condition, *map(argument, args))


@case("conditional/builder/if_then")
def builder_if(lab):
    k = Conditions(lab)
    builder = k.builder().begin_building()
    condition = builder.create_condition()
    set_on(k, builder, "choose", condition, k.x)
    body = builder.if_then(condition).begin_building()
    k.launch(body, "add", k.y, 1.0)
    body.end_building()
    k.launch(builder, "add", k.z, 1.0)
    builder.end_building()
    lab.log("shape", [len(builder.graph_definition.nodes()), len(builder.graph_definition.edges())])
    lab.log("through cudart", kinds(lab, builder.graph_definition.handle))
    executable = builder.complete()
    for value in (0, 1):
        k.give(value)
        k.run(executable)
        lab.log(f"{value}: y, z", [k.y.get()[0], k.z.get()[0]])


@case("conditional/builder/while_loop")
def builder_while(lab):
    k = Conditions(lab)
    builder = k.builder().begin_building()
    condition = builder.create_condition(default_value=1)
    body = builder.while_loop(condition)
    lab.log("new", [body.is_building, body.is_join_required])
    body.begin_building()
    k.launch(body, "add", k.y, 2.0)
    set_on(k, body, "count", condition, k.x, 5.0)
    body.end_building()
    k.launch(builder, "copy", k.z, k.y)
    k.run(builder.end_building().complete())
    lab.log("contents", k.contents())


@case("conditional/builder/switch_and_if_else")
def builder_switch(lab):
    k = Conditions(lab)
    builder = k.builder().begin_building()
    cases = builder.switch(builder.create_condition(default_value=1), 3)
    lab.log("cases", [len(cases), type(cases).__name__])
    for i, body in enumerate(cases):
        body.begin_building()
        k.launch(body, "add", k.y[i:], 1.0)
        body.end_building()
    then, otherwise = builder.if_else(builder.create_condition(default_value=0))
    for i, body in enumerate((then, otherwise)):
        body.begin_building()
        k.launch(body, "add", k.z[i:], 1.0)
        body.end_building()
    k.run(builder.end_building().complete())
    lab.log("contents", k.contents())


@case("conditional/builder/body_by_definition")
def builder_body_definition(lab):
    """A body filled through its definition, never begun."""
    k = Conditions(lab)
    builder = k.builder().begin_building()
    body = builder.if_then(builder.create_condition(default_value=1))
    lab.attempt("definition", lambda: body.graph_definition.memset(k.y.data.ptr, float_bytes(2.0), 4))
    builder.end_building()
    k.run(builder.complete())
    lab.log("y", k.y.get())


@case("conditional/builder/errors")
def builder_errors(lab):
    k = Conditions(lab)
    builder = k.builder()
    lab.attempt("condition before begin", builder.create_condition)
    builder.begin_building()
    condition = builder.create_condition(default_value=0)
    lab.attempt("a number", builder.if_then, 1)
    lab.attempt("switch of none", builder.switch, condition, 0)
    builder.if_then(condition)
    builder.end_building()
    lab.attempt("if_then after the end", builder.if_then, condition)
    lab.attempt("condition after the end", builder.create_condition)
    lab.attempt("complete", builder.complete)


@case("conditional/made_through_cudart")
def cudart_condition(lab):
    """cudaGraphConditionalHandleCreate, of a graph without the node for it."""
    graph = ok(lab.cudart.cudaGraphCreate(0))
    handle = lab.rt("cudaGraphConditionalHandleCreate", graph, 1, 1)
    lab.log("a handle", handle is not None)
    lab.rt("cudaGraphInstantiate", graph, 0)
