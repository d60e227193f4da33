"""What single calls cost the host, and single nodes the device: graphs built by hand, changed, copied into, started.

`host_calls` and `node_kinds` give (name, function, how many at a time) for the sweeps. All of them go through cuda.core and the
runtime's bindings, so they run on both devices.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from onelaunch.device import Device

BYTES = 4  # of each copy and memset: the shortest there are
NODES = 64  # of a chain whose nodes are of one kind
SIZES = (1, 16, 64, 256, 1024)  # nodes of a graph that is updated, uploaded or copied as a whole
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(frozen=True)
class Call:
    """`run()` makes one call; `prepare()` before and `after()` behind each batch of `batch` are not timed. `nodes` is the size
    of the graph that the call works on."""

    name: str
    run: Callable[[], object]
    batch: int = 100
    prepare: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None
    nodes: int = 1


def check(result: tuple) -> Any:
    """The value of a runtime call; raises RuntimeError for an error."""
    error, *values = result
    if int(error):
        raise RuntimeError(error.name)
    return values[0] if len(values) == 1 else values


class Calls:
    """The calls and the graphs of one device."""

    def __init__(self, device: Device, stream: Any):
        self.device, self.rt, self.stream = device, device.cudart, stream
        self.cp, self.graphs = device.cp, device.core.graph
        cuda, types = device.cuda, device.types

        @cuda.jit(types.void(types.CPointer(types.float32), types.float32))
        def add(p, value):
            p[0] += value

        device.core.Device(0).set_current()
        self.kernel, self.config = device.as_kernel(add), device.core.LaunchConfig(grid=1, block=1)
        self.array = self.cp.zeros(8, dtype=self.cp.float32)
        self.cp.cuda.Device().synchronize()
        self.pointer = self.array.data.ptr
        self.pinned = check(self.rt.cudaMallocHost(64))
        self.nothing = _HOST_FUNCTION(lambda _: None)
        self.nothing_at = ctypes.cast(self.nothing, ctypes.c_void_p).value

    # -- building blocks ----------------------------------------------------------------------------------------------

    def arguments(self) -> tuple:
        return self.pointer, ctypes.c_float(1.0)

    def kernels(self, n: int):
        """A chain of `n` kernels, built by hand: (definition, last node)."""
        graph = self.graphs.GraphDefinition()
        node = graph
        for _ in range(n):
            node = node.launch(self.config, self.kernel, *self.arguments())
        return graph, node

    def memset_params(self):
        p = self.rt.cudaMemsetParams()
        p.dst, p.value, p.elementSize, p.width, p.height = self.pointer, 0, 4, 1, 1
        return p

    def chain(self, add: Callable[[Any, list], Any], n: int = NODES):
        """An executable chain of `n` nodes made by `add(graph, dependencies)`."""
        graph = check(self.rt.cudaGraphCreate(0))
        behind: list = []
        for _ in range(n):
            behind = [add(graph, behind)]
        return check(self.rt.cudaGraphInstantiate(graph, 0))

    def add_memset(self, graph, behind):
        return check(self.rt.cudaGraphAddMemsetNode(graph, behind, len(behind), self.memset_params()))

    def add_memcpy(self, graph, behind):
        kind = self.rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        copy = self.pointer, self.pointer + 8, BYTES, kind
        return check(self.rt.cudaGraphAddMemcpyNode1D(graph, behind, len(behind), *copy))

    def add_host(self, graph, behind):
        p = self.rt.cudaHostNodeParams()
        p.fn = self.rt.cudaHostFn_t(self.nothing_at) if hasattr(self.rt, "cudaHostFn_t") else self.nothing_at
        return check(self.rt.cudaGraphAddHostNode(graph, behind, len(behind), p))

    # -- what is timed ------------------------------------------------------------------------------------------------

    def host_calls(self) -> Iterator[Call]:
        """Calls whose host time is timed, in batches."""
        rt, stream, kind = self.rt, self.stream.ptr, self.rt.cudaMemcpyKind
        to_device, within = kind.cudaMemcpyHostToDevice, kind.cudaMemcpyDeviceToDevice
        wait = self.stream.synchronize
        yield Call("cudaMemsetAsync", lambda: rt.cudaMemsetAsync(self.pointer, 0, BYTES, stream), after=wait)
        copy = self.pointer, self.pointer + 8, BYTES, within, stream
        yield Call("cudaMemcpyAsync within", lambda: rt.cudaMemcpyAsync(*copy), after=wait)
        pinned = self.pointer, self.pinned, BYTES, to_device, stream
        yield Call("cudaMemcpyAsync pinned", lambda: rt.cudaMemcpyAsync(*pinned), after=wait)
        yield Call("launch_host_func", lambda: self.stream.launch_host_func(_nothing, None), after=wait)

        blocks: list[int] = []

        def allocate() -> None:
            blocks.append(check(rt.cudaMallocAsync(1024, stream)))

        def release() -> None:
            rt.cudaFreeAsync(blocks.pop(), stream)

        def fill() -> None:
            for _ in range(100):
                allocate()
            wait()

        def empty() -> None:
            while blocks:
                release()
            wait()

        fill()  # the pool's first blocks come from the device
        empty()
        yield Call("cudaMallocAsync", allocate, prepare=wait, after=empty)
        yield Call("cudaFreeAsync", release, prepare=fill, after=wait)

        target: dict[str, Any] = {}

        def begin() -> None:
            target["graph"] = self.graphs.GraphDefinition()
            target["node"] = target["graph"]

        def add_kernel() -> None:
            target["node"] = target["node"].launch(self.config, self.kernel, *self.arguments())

        def add_memset() -> None:
            target["node"] = target["node"].memset(self.pointer, 0, BYTES)

        def add_memcpy() -> None:
            target["node"] = target["node"].memcpy(self.pointer, self.pointer + 8, BYTES)

        yield Call("add kernel node", add_kernel, prepare=begin)
        yield Call("add memset node", add_memset, prepare=begin)
        yield Call("add memcpy node", add_memcpy, prepare=begin)
        yield from self._changes()

    def _changes(self) -> Iterator[Call]:
        graph, node = self.kernels(NODES)
        executable = graph.instantiate()
        handle = executable[node]
        yield Call(
            "update kernel node",
            lambda: handle.update(config=self.config, kernel=self.kernel, args=self.arguments()),
            nodes=NODES,
        )
        yield Call("disable node", handle.disable, nodes=NODES, after=handle.enable)
        definition = self.graphs.GraphDefinition()
        copied = definition.memcpy(self.pointer, self.pointer + 8, BYTES)
        copies = definition.instantiate()[copied]
        yield Call("update memcpy node", lambda: copies.update(dst=self.pointer, src=self.pointer + 8, size=BYTES))
        for n in SIZES:
            whole, _ = self.kernels(n)
            target = whole.instantiate()
            other, _ = self.kernels(n)
            yield Call("update graph", lambda target=target, other=other: target.update(other), 10, nodes=n)
            yield Call("clone graph", lambda whole=whole: check(self.rt.cudaGraphClone(int(whole.handle))), 10, nodes=n)
            fresh: list = []

            def make(whole=whole, fresh=fresh) -> None:
                fresh[:] = [whole.instantiate() for _ in range(5)]

            def upload(fresh=fresh) -> None:
                fresh.pop().upload(self.device.core.Stream.from_handle(self.stream.ptr))

            yield Call("upload graph", upload, 5, make, self.stream.synchronize, nodes=n)

    def node_kinds(self) -> Iterator[tuple[str, Any]]:
        """(kind, executable chain of NODES nodes of that kind)."""
        rt = self.rt
        yield "memset", self.chain(self.add_memset)
        yield "memcpy", self.chain(self.add_memcpy)
        yield "host", self.chain(self.add_host)
        yield "empty", self.chain(lambda g, behind: check(rt.cudaGraphAddEmptyNode(g, behind, len(behind))))
        event = check(rt.cudaEventCreate())
        yield "event record", self.chain(lambda g, behind: check(rt.cudaGraphAddEventRecordNode(g, behind, len(behind), event)))
        one, _ = self.kernels(1)
        yield (
            "graph",
            self.chain(lambda g, behind: check(rt.cudaGraphAddChildGraphNode(g, behind, len(behind), int(one.handle)))),
        )
        graph, _ = self.kernels(NODES)
        self._kept = graph.instantiate(), graph
        yield "kernel", int(self._kept[0].handle)

    def iterations(self) -> tuple[Any, Callable[[], None]]:
        """(a WHILE graph of NODES iterations of one kernel, what must be done before each launch)."""
        cuda, types = self.device.cuda, self.device.types
        set_condition = cuda.declare_device("cudaGraphSetConditional", types.void(types.uint64, types.uint32), abi="c")

        @cuda.jit(types.void(types.uint64, types.CPointer(types.float32)))
        def count_down(handle, p):
            p[0] -= 1
            set_condition(handle, 1 if p[0] > 0 else 0)

        graph = self.graphs.GraphDefinition()
        condition = graph.create_condition(default_value=1)
        loop = graph.while_loop(condition)
        import numpy as np

        loop.body.launch(self.config, self.device.as_kernel(count_down), np.uint64(int(condition.handle)), self.pointer)
        executable = graph.instantiate()
        self._keep_loop = graph, executable, condition, count_down

        def reset() -> None:
            self.array[0] = NODES
            self.cp.cuda.Device().synchronize()

        return int(executable.handle), reset


def _nothing(_) -> None:
    pass
