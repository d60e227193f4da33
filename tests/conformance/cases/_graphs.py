"""What the graph cases share: graphs drawn through cudart, cuda.core at hand, and what is logged of a graph."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import KERNELS


def ok(result: tuple) -> Any:
    """What a cudart call returned beside its error; raises RuntimeError with the error's name."""
    error, *values = result
    if error.name != "cudaSuccess":
        raise RuntimeError(error.name)
    return values[0] if len(values) == 1 else values


# -- what is logged of a graph ---------------------------------------------------------------------------------------------


def nodes(lab, graph) -> list:
    """The nodes of a cudart graph (or of any graph handle)."""
    count = ok(lab.cudart.cudaGraphGetNodes(graph))[-1]
    return list(ok(lab.cudart.cudaGraphGetNodes(graph, count))[0])


def edges(lab, graph) -> list[tuple[int, int]]:
    """Its edges, as pairs of node handles."""
    count = ok(lab.cudart.cudaGraphGetEdges(graph))[-1]
    sources, targets, *_ = ok(lab.cudart.cudaGraphGetEdges(graph, count))
    return [(int(a), int(b)) for a, b in zip(sources, targets, strict=True)]


def kind(lab, node) -> str:
    """The node's type without its prefix: "Kernel", "Memcpy", …"""
    return ok(lab.cudart.cudaGraphNodeGetType(node)).name.removeprefix("cudaGraphNodeType")


def kinds(lab, graph) -> list[str]:
    """The types of all nodes, sorted."""
    return sorted(kind(lab, n) for n in nodes(lab, graph))


def shape(lab, graph) -> list:
    """The types of all nodes, and how many edges."""
    return [kinds(lab, graph), len(edges(lab, graph))]


def dot_shape(text: str) -> list:
    """Of a DOT file: whether it begins as one, how many nodes, how many edges."""
    lines = [line.strip() for line in text.splitlines()]
    named = [line for line in lines if line.startswith('"') and "_node_" in line]
    arrows = [line for line in named if "->" in line]
    drawn = [line for line in named if "->" not in line and "[" in line]
    return [text.startswith("digraph"), len(drawn), len(arrows)]


# -- cudart ----------------------------------------------------------------------------------------------------------------


def memset_params(lab, target: Any, value: int, width: int, *, size: int = 1, height: int = 1, pitch: int = 0) -> Any:
    """cudaMemsetParams: `width` elements of `size` bytes, `height` rows `pitch` bytes apart."""
    params = lab.cudart.cudaMemsetParams()
    params.dst, params.value, params.elementSize = address(target), value, size
    params.width, params.height, params.pitch = width, height, pitch
    return params


def alloc_params(lab, size: int) -> Any:
    """cudaMemAllocNodeParams for `size` bytes on device 0."""
    cudart = lab.cudart
    params = cudart.cudaMemAllocNodeParams()
    params.poolProps.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
    params.poolProps.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
    params.poolProps.location.id = 0
    params.bytesize = size
    return params


HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def host_params(lab, function: Any, data: int = 0) -> Any:
    """cudaHostNodeParams for a `HOST_FUNCTION`, which the caller keeps alive."""
    params = lab.cudart.cudaHostNodeParams()
    params.fn = lab.cudart.cudaHostFn_t(ctypes.cast(function, ctypes.c_void_p).value)
    params.userData = data
    return params


def address(memory: Any) -> int:
    """The address of a CuPy array or of a NumPy array; an int is one already."""
    if isinstance(memory, int):
        return memory
    return memory.ctypes.data if isinstance(memory, np.ndarray) else memory.data.ptr


def copy_kind(lab, name: str = "DeviceToDevice") -> Any:
    return getattr(lab.cudart.cudaMemcpyKind, f"cudaMemcpy{name}")


def event(lab) -> Any:
    """A cudart event without timing."""
    return ok(lab.cudart.cudaEventCreateWithFlags(lab.cudart.cudaEventDisableTiming))


def float_bits(value: float) -> int:
    """A float32 as the 32 bits that a memset writes."""
    return struct.unpack("I", struct.pack("f", value))[0]


def float_bytes(value: float) -> bytes:
    return struct.pack("f", value)


@contextlib.contextmanager
def captured(lab, stream: Any = None) -> Iterator[list]:
    """Captures a stream through cudart: yields the list [stream handle], and appends the graph at the end."""
    held = [int(getattr(stream, "ptr", stream) or lab.stream().ptr)]
    ok(lab.cudart.cudaStreamBeginCapture(held[0], lab.cudart.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed))
    yield held
    held.append(ok(lab.cudart.cudaStreamEndCapture(held[0])))


class Drawing:
    """A cudart graph drawn by hand, its nodes by name. `after` names the nodes that a new one depends on: "a b"."""

    def __init__(self, lab: Any, *kernels: str):
        self.lab, self.cudart = lab, lab.cudart
        lab.warm(*kernels)
        self.graph = ok(self.cudart.cudaGraphCreate(0))
        self.named: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self.named[name]

    def _add(self, name: str, what: str, *params: Any, after: str) -> Any:
        needs = [self.named[n] for n in after.split()]
        self.named[name] = ok(getattr(self.cudart, f"cudaGraphAdd{what}")(self.graph, needs, len(needs), *params))
        return self.named[name]

    def kernel(self, name: str, kernel: str, *args: Any, after: str = "", grid: Any = 1, block: Any = 1) -> Any:
        """A kernel node, captured into the graph. The kernel must be warm."""
        before = {int(n) for n in nodes(self.lab, self.graph)}
        needs = [self.named[n] for n in after.split()]
        stream = self.lab.stream()
        mode = self.cudart.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
        ok(self.cudart.cudaStreamBeginCaptureToGraph(stream.ptr, self.graph, needs, None, len(needs), mode))
        self.lab.launch(kernel, stream, *args, grid=grid, block=block)
        ok(self.cudart.cudaStreamEndCapture(stream.ptr))
        [self.named[name]] = [n for n in nodes(self.lab, self.graph) if int(n) not in before]
        return self.named[name]

    def empty(self, name: str, *, after: str = "") -> Any:
        return self._add(name, "EmptyNode", after=after)

    def memset(self, name: str, target: Any, value: int, width: int, *, after: str = "", **layout: int) -> Any:
        return self._add(name, "MemsetNode", memset_params(self.lab, target, value, width, **layout), after=after)

    def fill(self, name: str, target: Any, value: float, *, after: str = "", n: int = 4) -> Any:
        """A memset node that writes `n` float32."""
        return self.memset(name, target, float_bits(value), n, size=4, after=after)

    def copy(self, name: str, target: Any, source: Any, size: int = 16, *, way: str = "DeviceToDevice", after: str = "") -> Any:
        params = address(target), address(source), size, copy_kind(self.lab, way)
        return self._add(name, "MemcpyNode1D", *params, after=after)

    def child(self, name: str, graph: Any, *, after: str = "") -> Any:
        return self._add(name, "ChildGraphNode", getattr(graph, "graph", graph), after=after)

    def record(self, name: str, happening: Any, *, after: str = "") -> Any:
        return self._add(name, "EventRecordNode", happening, after=after)

    def wait(self, name: str, happening: Any, *, after: str = "") -> Any:
        return self._add(name, "EventWaitNode", happening, after=after)

    def host(self, name: str, function: Any, *, after: str = "") -> Any:
        return self._add(name, "HostNode", host_params(self.lab, function), after=after)

    def alloc(self, name: str, size: int = 16, *, after: str = "") -> int:
        """An allocation node; returns the address."""
        params = alloc_params(self.lab, size)
        self._add(name, "MemAllocNode", params, after=after)
        return int(params.dptr)

    def free(self, name: str, pointer: int, *, after: str = "") -> Any:
        return self._add(name, "MemFreeNode", pointer, after=after)

    def link(self, *pairs: str) -> tuple:
        """The arguments of AddDependencies and RemoveDependencies for "a>b", …"""
        ends = [pair.split(">") for pair in pairs]
        sources, targets = [self.named[a] for a, _ in ends], [self.named[b] for _, b in ends]
        return self.graph, sources, targets, None, len(pairs)

    def edges(self) -> list[str]:
        """The edges as "a>b", sorted."""
        names = {int(node): name for name, node in self.named.items()}
        return sorted(f"{names.get(a, '?')}>{names.get(b, '?')}" for a, b in edges(self.lab, self.graph))

    def names_of(self, some: list) -> list[str]:
        """The names of nodes, sorted."""
        names = {int(node): name for name, node in self.named.items()}
        return sorted(names.get(int(n), "?") for n in some)

    def instantiate(self, flags: int = 0) -> Any:
        return ok(self.cudart.cudaGraphInstantiate(self.graph, flags))

    def run(self, times: int = 1) -> Any:
        """Instantiates, launches, waits; returns the executable graph."""
        executable = self.instantiate()
        run(self.lab, executable, times=times)
        return executable


def run(lab, executable: Any, stream: Any = None, *, times: int = 1) -> None:
    """Launches an executable graph `times` times on a stream (one of its own by default), and waits."""
    stream = stream or lab.stream()
    for _ in range(times):
        ok(lab.cudart.cudaGraphLaunch(executable, stream.ptr))
    stream.synchronize()


# -- cuda.core -------------------------------------------------------------------------------------------------------------


class Kit:
    """cuda.core at hand: its device made current, a stream, three arrays x, y, z of four zeros, and a list of calls."""

    def __init__(self, lab: Any):
        self.lab, self.core = lab, lab.core
        self.x, self.y, self.z = lab.zeros(), lab.zeros(), lab.zeros()
        self.device = lab.core.Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.calls: list[str] = []
        self._kernels: dict[str, Any] = {}

    def graph(self) -> Any:
        """A new GraphDefinition."""
        return self.core.graph.GraphDefinition()

    def config(self, grid: Any = 1, block: Any = 1) -> Any:
        return self.core.LaunchConfig(grid=grid, block=block)

    def kernel(self, name: str) -> Any:
        if name not in self._kernels:
            self._kernels[name] = self.lab.core_kernel(name)
        return self._kernels[name]

    def launch(self, where: Any, kernel: str, *args: Any, grid: Any = 1, block: Any = 1) -> Any:
        """Adds a kernel after a definition or a node (returns the node), or launches it onto a stream or a builder."""
        config = self.config(grid, block)
        if isinstance(where, self.core.Stream | self.core.graph.GraphBuilder):
            return self.core.launch(where, config, self.kernel(kernel), *map(argument, args))
        return where.launch(config, self.kernel(kernel), *map(argument, args))

    def fill(self, where: Any, array: Any, value: float, n: int = 4) -> Any:
        """A memset node of `n` float32."""
        return where.memset(array.data.ptr, float_bytes(value), n)

    def copy(self, where: Any, target: Any, source: Any, size: int = 16) -> Any:
        return where.memcpy(address(target), address(source), size)

    def call(self, where: Any, name: str) -> Any:
        """A host callback that notes its name in `calls`."""
        return where.callback(lambda: self.calls.append(name))

    def ready(self) -> None:
        """Makes every kernel ready: what must not happen in a capture."""
        self.lab.warm(*KERNELS)
        for name in KERNELS:
            self.kernel(name)

    def builder(self) -> Any:
        """A new GraphBuilder, with the kernels ready."""
        self.ready()
        return self.device.create_graph_builder()

    def run(self, executable: Any, times: int = 1) -> None:
        for _ in range(times):
            executable.launch(self.stream)
        self.stream.sync()

    def contents(self) -> dict:
        """What the arrays hold, and the calls."""
        return {"x": self.x.get(), "y": self.y.get(), "z": self.z.get(), "calls": list(self.calls)}

    def clear(self) -> None:
        for array in (self.x, self.y, self.z):
            array.fill(0)
        self.lab.cp.cuda.Device().synchronize()
        self.calls.clear()


def argument(value: Any) -> Any:
    """A kernel argument for cuda.core: an array's address, a float as float32, an int as int32."""
    if isinstance(value, float):
        return ctypes.c_float(value)
    return ctypes.c_int32(value) if isinstance(value, int) else value.data.ptr


def type_names(some: Any) -> list[str]:
    """The class names of nodes, sorted."""
    return sorted(type(n).__name__ for n in some)


def core_shape(definition: Any) -> list:
    """The node classes of a GraphDefinition, and how many edges."""
    return [type_names(definition.nodes()), len(definition.edges())]
