"""The simulated device as the CUDA runtime shows it: events, captures, graphs and memory over the engine.

Every call raises `CUDARuntimeError` with the name that the runtime's call would return; the faces turn that into what their
library raises or returns.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from enum import IntEnum

from .capture import Capture, Mode, Status
from .costs import Costs, Knots
from .engine import Engine, Span, Trace
from .errors import CUDARuntimeError, NotSimulatedError
from .graph import Graph, GraphExec, Node, Plan, check_instantiable
from .ops import AllocOp, Condition, CopyOp, FreeOp, HostOp, MemsetOp, RecordNodeOp, WaitNodeOp
from .stream import Effect, Event, RecordOp, Stream, WaitOp

__all__ = ["CopyKind", "Gpu", "Span", "Trace", "current", "swap"]


class CopyKind(IntEnum):
    """cudaMemcpyKind."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4


class Gpu(Engine):
    """One device and its host."""

    def __init__(self, costs: Costs | None = None):
        super().__init__(costs)
        self.loaded: set[object] = set()  # libraries that have been set up
        self.objects: dict[int, object] = {}  # what a runtime handle stands for
        self._handle_of: dict[int, int] = {}  # id of such an object → its handle

    # -- handles ------------------------------------------------------------------------------------------------------

    def handle_of(self, thing: object) -> int:
        """The number that stands for an event, a graph, a node or a kernel, or for a condition within its graph."""
        if isinstance(thing, Condition):
            return thing.number
        if id(thing) not in self._handle_of:
            handle = next(self._handles)
            self._handle_of[id(thing)], self.objects[handle] = handle, thing
        return self._handle_of[id(thing)]

    def forget(self, thing: object) -> None:
        """The handle stands for nothing any more."""
        self.objects.pop(self._handle_of.pop(id(thing), 0), None)

    def reset(self) -> None:
        """cudaDeviceReset in a dead context: what killed it is gone, and so is the device, for this process."""
        if self.fault is None:
            raise NotSimulatedError("cuda.bindings.runtime.cudaDeviceReset in a context that is alive")
        self.fault = "cudaErrorDevicesUnavailable"

    # -- events -------------------------------------------------------------------------------------------------------

    def record(self, event: Event, stream: Stream, *, external: bool = False) -> None:
        """`external` makes it a node in a capture; without, the event marks a place in the capture."""
        self.raise_fault()
        if external and stream.capture is None:
            raise CUDARuntimeError("cudaErrorIllegalState")
        self._charge_event(stream.capture is not None, "event record")
        if stream.capture is not None:
            if external:
                stream.capture.add(stream, RecordNodeOp(event))
                return
            stream.capture.require_valid()
            event.captured = (stream.capture, list(stream.capture_tail))
            return
        record = RecordOp()
        self.submit(stream, record)
        event.captured, event.record = None, record

    def wait_event(self, stream: Stream, event: Event, *, external: bool = False) -> None:
        """Later work in `stream` waits for `event`; in a capture this is an edge, and may join the stream to it."""
        self.raise_fault()
        if external and stream.capture is None:
            raise CUDARuntimeError("cudaErrorIllegalState")
        self._charge_event(stream.capture is not None or event.captured is not None, "event wait")
        if stream is self.legacy:
            self.forbid_implicit()
        if stream.capture is not None:
            stream.capture.require_valid()
        if external:
            stream.capture.add(stream, WaitNodeOp(event))
        elif event.captured is not None:
            try:
                capture = self._capture_of(event)
            except CUDARuntimeError:
                if stream.capture is not None:
                    stream.capture.valid = False
                raise
            if stream is self.legacy:
                capture.valid = False
                raise CUDARuntimeError("cudaErrorStreamCaptureImplicit")
            capture.join(stream, event)
        elif stream.capture is not None:
            stream.capture.require_valid()
            if event.record is not None:
                stream.capture.valid = False
                raise CUDARuntimeError("cudaErrorStreamCaptureIsolation")
        elif event.record is not None:
            self.submit(stream, WaitOp(event.record))

    def _charge_event(self, captured: bool, name: str) -> None:
        self.charge(self.costs.captured_event_us if captured else self.costs.event_record_us, name)

    def poll(self) -> None:
        """The host asks how far the device is: that takes a moment, in which the device works on."""
        self.charge(self.costs.sync_idle_us, "query")
        self.run_until(self.now_us)

    def wait_for(self, event: Event) -> None:
        """The host waits until the event's last record has been reached."""
        self.raise_fault()
        self._forbid_captured(event)
        self.forbid_unsafe()
        record = event.record
        while record is not None and record.time_us is None:
            if not self._step():
                raise RuntimeError("the event waits for something that will never happen")  # a fault of the simulator
        self.wait_until(record.time_us if record else 0.0)
        self.raise_fault()

    def query_event(self, event: Event) -> None:
        """Raises cudaErrorNotReady until the event's last record has been reached."""
        self.raise_fault()
        self._forbid_captured(event)
        self.forbid_unsafe()
        if event.record is None:
            return
        self.poll()
        self.raise_fault()
        if event.record.time_us is None or event.record.time_us > self.now_us:
            raise CUDARuntimeError("cudaErrorNotReady")

    def query(self, stream: Stream) -> None:
        """Raises cudaErrorNotReady while the stream has work. A capture is invalidated by the question."""
        self.raise_fault()
        if stream is self.legacy:
            self.forbid_implicit()
        self.forbid_in_capture(stream)
        self.forbid_unsafe()
        self.poll()
        self.raise_fault()
        asked = [s for s in self.streams.values() if s.blocking] if stream is self.legacy else [stream]
        if any(s.has_work(self.now_us) for s in asked):
            raise CUDARuntimeError("cudaErrorNotReady")

    def elapsed_ms(self, start: Event, end: Event) -> float:
        """Milliseconds between two reached events. Raises cudaErrorInvalidResourceHandle for one without a time."""
        self.raise_fault()
        for event in (start, end):
            if event.captured is not None:
                self._capture_of(event)
                raise CUDARuntimeError("cudaErrorCapturedEvent")
        if any(event.record is None or not event.timed for event in (start, end)):
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle")
        self.poll()
        self.raise_fault()
        if any(event.record.time_us is None or event.record.time_us > self.now_us for event in (start, end)):
            raise CUDARuntimeError("cudaErrorNotReady")
        return (end.record.time_us - start.record.time_us) * 1e-3

    @staticmethod
    def _capture_of(event: Event) -> Capture:
        """The running capture that the event marks a place in. Raises cudaErrorInvalidValue once it has ended or failed."""
        capture = event.captured[0]
        if capture.ended or not capture.valid:
            raise CUDARuntimeError("cudaErrorInvalidValue")
        return capture

    def _forbid_captured(self, event: Event) -> None:
        if event.captured is not None:
            self._capture_of(event).valid = False
            raise CUDARuntimeError("cudaErrorCapturedEvent")

    # -- capture ------------------------------------------------------------------------------------------------------

    def begin_capture(self, stream: Stream, mode: Mode, graph: Graph | None = None, behind: Iterable[Node] = ()) -> None:
        """Starts a capture, into a graph of its own or behind nodes of `graph`."""
        self.raise_fault()
        if stream is self.legacy:
            self.forbid_implicit()
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")
        if stream.capture is not None:
            raise CUDARuntimeError("cudaErrorIllegalState")
        behind = list(behind)
        if any(node.graph is not graph for node in behind):
            raise CUDARuntimeError("cudaErrorInvalidValue")
        self.charge(self.costs.begin_capture_us, "begin capture")
        self.captures.append(Capture(stream, mode, self.thread.token, graph, behind))

    def end_capture(self, stream: Stream) -> Graph:
        """The captured graph. Raises cudaErrorIllegalState where nothing is captured, or why the capture failed."""
        graph = self._end_capture(stream)
        self.charge(self.costs.end_capture(len(graph.nodes)), "end capture")
        return graph

    def end_and_instantiate(self, stream: Stream) -> tuple[Graph, GraphExec]:
        """Both, as CuPy does at once. Raises what `end_capture` and `instantiate` do."""
        graph = self._end_capture(stream)
        return graph, self._instantiate(graph, self.costs.end_and_instantiate, "end capture, instantiate")

    def _end_capture(self, stream: Stream) -> Graph:
        if stream is self.legacy:
            self.forbid_implicit()
        capture = stream.capture
        if capture is None:
            raise CUDARuntimeError("cudaErrorIllegalState")
        if capture.origin is not stream:
            capture.valid = False
            raise CUDARuntimeError("cudaErrorStreamCaptureUnmatched")
        if capture.mode is not Mode.RELAXED and capture.thread is not self.thread.token:
            self.abandon(capture)
            raise CUDARuntimeError("cudaErrorStreamCaptureWrongThread")
        self.captures.remove(capture)
        return capture.end()

    def capture_status(self, stream: Stream) -> Status:
        """Raises cudaErrorStreamCaptureImplicit for the legacy stream while a blocking stream captures."""
        self.raise_fault()
        if stream is self.legacy and any(s.blocking for c in self.captures for s in c.streams):
            raise CUDARuntimeError("cudaErrorStreamCaptureImplicit")
        return Status.NONE if stream.capture is None else stream.capture.status

    def set_capture_tail(self, stream: Stream, nodes: list[Node], *, replace: bool) -> None:
        """What the next node captured from `stream` depends on."""
        if stream.capture is None:
            raise CUDARuntimeError("cudaErrorIllegalState")
        stream.capture.require_valid()
        if any(node.graph is not stream.capture.graph for node in nodes):
            raise CUDARuntimeError("cudaErrorInvalidValue")
        if replace:
            stream.capture.give_up(set(stream.capture_tail) - set(nodes))
        stream.capture_tail = list(dict.fromkeys(nodes if replace else [*stream.capture_tail, *nodes]))

    def abandon(self, capture: Capture) -> None:
        """Ends a capture without a graph."""
        capture.leave()
        if capture in self.captures:
            self.captures.remove(capture)

    def forbid_in_capture(self, *streams: Stream) -> None:
        """For a call that waits: illegal on a capturing stream, or on the whole device while any stream captures."""
        hit = [c for c in self.captures if not streams or any(s.capture is c for s in streams)]
        self._invalidate(hit)

    def forbid_implicit(self) -> None:
        """For work in the legacy stream: illegal while a blocking stream captures."""
        captures = [c for c in self.captures if any(s.blocking for s in c.streams)]
        for capture in captures:
            capture.valid = False
        if captures:
            raise CUDARuntimeError("cudaErrorStreamCaptureImplicit")

    def forbid_unsafe(self) -> None:
        """For a call that may synchronise under the hood (cudaMalloc): illegal while this thread captures in a mode that is not
        relaxed, or another thread in the global one, unless the thread's own mode says otherwise."""
        mine, mode = self.thread.token, self.thread.mode
        self._invalidate(
            [
                c for c in self.captures
                if c.mode is not Mode.RELAXED and mode is not Mode.RELAXED
                and (c.thread is mine or (c.mode is Mode.GLOBAL and mode is Mode.GLOBAL))
            ]
        )  # fmt: skip

    @staticmethod
    def _invalidate(captures: list[Capture]) -> None:
        for capture in captures:
            capture.valid = False
        if captures:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")

    # -- graphs -------------------------------------------------------------------------------------------------------

    def instantiate(
        self, graph: Graph, *, auto_free: bool = False, device_launch: bool = False, node_priority: bool = False
    ) -> GraphExec:
        """Raises what `check_instantiable` does. (The simulated device launches no graph from a kernel.)"""
        options = {"auto_free": auto_free, "node_priority": node_priority}
        return self._instantiate(graph, self.costs.instantiate, "instantiate", device_launch, **options)

    def _instantiate(self, graph: Graph, cost: Knots, name: str, device_launch: bool = False, **options: bool) -> GraphExec:
        self.raise_fault()
        self.forbid_unsafe()
        further_roots = max(0, len(graph.roots()) - 1)
        self.charge(cost(len(graph.nodes)) + further_roots * self.costs.root_instantiate_us, name)
        check_instantiable(graph, device_launch=device_launch)
        return GraphExec(graph, **options)

    def upload(self, executable: GraphExec, stream: Stream) -> None:
        """Does the first launch's upload ahead of it."""
        self.raise_fault()
        self.forbid_in_capture(stream)
        if executable.launches == 0 and not executable.uploaded:
            self.charge_call("upload graph", len(executable.nodes))
        executable.uploaded = True

    def launch_graph(self, executable: GraphExec, stream: Stream, caller: str = "cupy") -> None:
        """One replay, not on a capturing stream. The first one uploads the graph, which takes the host longer than the start
        of its first node."""
        self.raise_fault()
        self.forbid_in_capture(stream)
        if stream is self.legacy:
            self.forbid_implicit()
        nodes = len(executable.nodes)
        executable.on_launch(self)
        replay = executable.replay
        if not replay.plan.ops:
            self.charge_call("launch empty graph")
        elif executable.launches == 0 and not executable.uploaded:
            ready_us = self.now_us + self.costs.first_launch_start(nodes)
            self.charge(self.costs.first_launch_host(nodes) + replay.host_us(self), "graph launch (first)")
        else:  # the device starts while the host still issues what `replay.host_us` is for
            first = self._replay_host_us(replay.plan, nodes, caller)
            ready_us = self.now_us + first + self.costs.graph_latency_us
            self.charge(first + replay.host_us(self), "graph launch")
        if replay.plan.ops:  # without any it is no work: nothing waits for it, nor it for anything
            executable.queue.append(stream.handle)
            self.submit(stream, replay, ready_us)
        executable.launches += 1
        self._waited_us = None
        self._last_was_graph = True

    def _replay_host_us(self, plan: Plan, nodes: int, caller: str) -> float:
        if caller == "runtime" and "kernel" not in plan.kinds:
            caller = "cupy"  # which was recorded with kernels that CuPy had compiled
        alone = self.costs.replay_host[caller](nodes / len(plan.roots))
        if self._waited_us is None:
            return max(0.1, alone - self.costs.replay_queued_saves(nodes))
        other = 0.0 if self._last_was_graph else self.costs.replay_after_kernels_us
        return alone + other + self.costs.replay_after_wait[caller](self._waited_us)

    def clone(self, graph: Graph) -> Graph:
        """Raises cudaErrorNotSupported for a graph that allocates memory or decides (CUDA Runtime API, cudaGraphClone)."""
        if any(n.op.kind in ("memory allocation", "memory free", "conditional") for n in graph.everything()):
            raise CUDARuntimeError("cudaErrorNotSupported")
        self.charge_call("clone graph", len(graph.nodes))
        return graph.clone()

    def update(self, executable: GraphExec, graph: Graph) -> tuple[str, Node | None]:
        """cudaGraphExecUpdate: see `GraphExec.update`."""
        self.charge_call("update graph", len(graph.nodes))
        return executable.update(graph)

    def add_allocation(self, graph: Graph, behind: Iterable[Node], nbytes: int) -> Node:
        """A memory allocation node: its address is settled now, its memory is there once the node has run."""
        self.charge_node("add", AllocOp.kind)
        return graph.add(AllocOp(self.memory.reserve(nbytes), nbytes), behind)

    # -- host functions -----------------------------------------------------------------------------------------------

    def launch_host_function(self, stream: Stream, function: Callable[[], object]) -> None:
        """`function` is called once the stream's work so far is done, and later work waits for it."""
        self.charge_call("launch_host_func")
        self.submit(stream, HostOp(function))

    def call_host(self, function: Callable[[], object]) -> None:
        """Calls a host function, from which no CUDA call is permitted. What it raises is printed: nobody would catch it."""
        self.in_host_function = True
        try:
            function()
        except Exception:
            traceback.print_exc()
        finally:
            self.in_host_function = False

    # -- memory -------------------------------------------------------------------------------------------------------

    def malloc(self, nbytes: int) -> int:
        """cudaMalloc. Raises cudaErrorMemoryAllocation."""
        self.raise_fault()
        self.forbid_unsafe()
        self.charge(self.costs.cuda_malloc_us, "cudaMalloc")
        return self._with_room(lambda: self.memory.allocate(nbytes))

    def _with_room(self, allocate: Callable[[], int]) -> int:
        """Tries again with what `cudaFreeAsync` has left, if the device is full."""
        try:
            return allocate()
        except CUDARuntimeError:
            self.wait_for_device()
            self.memory.trim_async()
            return allocate()

    def free(self, address: int) -> None:
        """cudaFree, which waits for the whole device; of 0 it does nothing."""
        self.raise_fault()
        self.forbid_unsafe()
        if address:
            self.wait_for_device("cudaFree")
            self.raise_fault()
            self.memory.free(address)

    def malloc_async(self, nbytes: int, stream: Stream) -> int:
        """cudaMallocAsync: memory in stream order; in a capture a node. No bytes are at address 0."""
        self.raise_fault()
        if stream is self.legacy:
            self.forbid_implicit()
        if stream.capture is None:
            self.forbid_unsafe()
        if not nbytes:
            return 0
        self.charge_call("cudaMallocAsync")
        if stream.capture is not None:
            stream.capture.require_valid()
            address = self.memory.reserve(nbytes)
            stream.capture.add(stream, AllocOp(address, nbytes))
            return address
        return self._with_room(lambda: self.memory.allocate_async(nbytes, stream.handle))

    def free_async(self, address: int, stream: Stream) -> None:
        """cudaFreeAsync; in a capture a node, and only for memory that a graph allocates."""
        self.raise_fault()
        if stream is self.legacy:
            self.forbid_implicit()
        if stream.capture is None:
            self.forbid_unsafe()
        if not address:
            return
        self.charge_call("cudaFreeAsync")
        if stream.capture is not None:
            stream.capture.require_valid()
            self.memory.require_freeable(address)
        else:
            self.memory.release_async(address, stream.handle)
        self.submit(stream, FreeOp(address))
        if stream.capture is not None:
            self.memory.graph_frees.add(address)

    def add_free(self, graph: Graph, behind: Iterable[Node], address: int) -> Node:
        """A free node. Raises cudaErrorInvalidValue for what no allocation node has, or a free node already."""
        self.memory.require_freeable(address)
        node = graph.add(FreeOp(address), behind)
        self.memory.graph_frees.add(address)
        return node

    def destroy_graph(self, graph: Graph) -> None:
        """The definition is gone; what was instantiated from it stays."""
        for node in list(graph.everything()):
            if isinstance(node.op, FreeOp):
                self.memory.graph_frees.discard(node.op.address)
            self.forget(node)
        self.forget(graph)

    def destroy_node(self, node: Node) -> None:
        """Raises cudaErrorInvalidValue while a capture is about to add behind it."""
        if any(node in s.capture_tail for c in self.captures for s in c.streams):
            raise CUDARuntimeError("cudaErrorInvalidValue")
        node.graph.destroy_node(node)
        self.forget(node)

    def destroy_executable(self, executable: GraphExec) -> None:
        self.raise_fault()
        self.forbid_unsafe()
        executable.closed = True
        self.forget(executable)

    def create_event(self, *, timed: bool = True) -> Event:
        self.raise_fault()
        return Event(timed=timed)

    def malloc_host(self, nbytes: int) -> int:
        """cudaMallocHost: page-locked host memory."""
        self.raise_fault()
        self.forbid_unsafe()
        self.charge(self.costs.cuda_malloc_us, "cudaMallocHost")
        return self.memory.pin(nbytes)

    def register_host(self, buffer) -> int:
        """Page-locks a ctypes array, for as long as it lives; returns its address."""
        self.raise_fault()
        self.forbid_unsafe()
        self.charge(self.costs.cuda_malloc_us, "cudaHostRegister")
        return self.memory.register(buffer, keep=False)

    def free_host(self, address: int) -> None:
        """cudaFreeHost, which waits for the whole device; of 0 it does nothing."""
        self.forbid_unsafe()
        if address:
            self.wait_for_device("cudaFreeHost")
            self.memory.unpin(address)

    def allocate(self, nbytes: int, stream: Stream):
        """A chunk from CuPy's pool, `cudaMalloc` behind it where the pool has none (illegal in most captures)."""
        self.raise_fault()
        if self.captures and not self.pool.has(nbytes, stream.handle):
            self.forbid_unsafe()
        chunk, pooled = self.pool.malloc(nbytes, stream.handle)
        self.charge(*((self.costs.pool_alloc_us,) if pooled else (self.costs.cuda_malloc_us, "cudaMalloc")))
        return chunk

    def copy(self, name: str, stream: Stream, host_us: float, effect: Callable[[], object]) -> None:
        """A synchronous copy of pageable memory: after the stream's work, and back `host_us` later."""
        self.forbid_in_capture(stream)
        self._order_with_legacy(stream)
        end = self.drain(stream)
        self.raise_fault()
        started = self.now_us
        self.now_us = max(self.now_us, end) + host_us
        self.run_until(self.now_us)
        effect()
        stream.free_at = max(stream.free_at, self.now_us - self.costs.sync_return_us)
        stream.ends.clear()
        self._waited_us = self.now_us - started
        if self.trace is not None:
            self._trace_copy(name, stream, started, max(started, end), host_us)

    def _trace_copy(self, name: str, stream: Stream, started: float, begin: float, host_us: float) -> None:
        """A copy that the host waited for: the device has it in hand for as long as it takes beyond the shortest such copy, and
        until the host begins to return."""
        costs, direction = self.costs, {"copy to host": " DtoH", "copy to device": " HtoD"}.get(name, "")
        shortest = (costs.copy_to_device if name == "copy to device" else costs.copy_to_host)(0)
        moved = stream.free_at - max(costs.nodes["memcpy"], host_us - shortest)
        self.trace.host.append(Span(name, started, self.now_us))
        self.trace.device.append(Span(f"memcpy{direction}", max(begin, moved), stream.free_at, stream.handle, "memcpy"))

    def memcpy(self, target: int, source: int, nbytes: int, kind: CopyKind) -> None:
        """cudaMemcpy: in the legacy stream, and the host waits. Raises cudaErrorInvalidValue for addresses of another kind."""
        self.check_copy(target, source, nbytes, kind)
        self.forbid_implicit()
        if self.memory.is_device(target) and self.memory.is_device(source):  # which the host does not wait for
            self.memcpy_async(target, source, nbytes, kind, self.legacy)
            return
        self.copy(
            "memcpy", self.legacy, self._copy_host_us(target, source, nbytes), CopyOp(target, source, nbytes).at_once(self)
        )

    def memcpy_async(self, target: int, source: int, nbytes: int, kind: CopyKind, stream: Stream) -> None:
        """cudaMemcpyAsync. From pageable memory the source is read at once, to pageable memory the host waits (CUDA Runtime
        API, API synchronization behavior); in a capture a node."""
        self.check_copy(target, source, nbytes, kind)
        op = self.copy_op(target, source, nbytes)
        to_device, from_device = op.sides
        if stream.capture is not None or (to_device and from_device) or not nbytes:
            self._charge_copy(stream, op)
        elif (not to_device and not from_device) or (from_device and not self.memory.is_pinned(target)):
            self.copy("memcpy", stream, self.costs.copy_to_host(nbytes), op.at_once(self))
        elif to_device and not self.memory.is_pinned(source):
            data = bytes(self.memory.at(source, nbytes))
            self.charge(self.costs.copy_to_device(nbytes), "memcpy")
            self.submit(stream, Effect("memcpy", "memcpy", 0.0, lambda: self.memory.write(target, data)))
        else:
            self._charge_copy(stream, op)

    def copy_op(self, target: int, source: int, nbytes: int) -> CopyOp:
        """A copy that remembers which of its sides is page-locked now."""
        return CopyOp(target, source, nbytes, pinned=tuple(a for a in (target, source) if self.memory.is_pinned(a)))

    def _charge_copy(self, stream: Stream, op: CopyOp) -> None:
        self.charge_call("cudaMemcpyAsync within" if all(op.sides) else "cudaMemcpyAsync pinned")
        if op.nbytes:
            self.submit(stream, op)

    def memset(self, address: int, value: int, nbytes: int) -> None:
        """cudaMemset: in the legacy stream, without waiting."""
        self.forbid_implicit()
        self.memset_async(address, value, nbytes, self.legacy)

    def memset_2d(self, address: int, pitch: int, value: int, width: int, height: int, stream: Stream) -> None:
        """cudaMemset2DAsync. Raises cudaErrorInvalidValue for rows wider than the pitch."""
        if width > pitch:
            raise CUDARuntimeError("cudaErrorInvalidValue")
        self.charge_call("cudaMemsetAsync")
        if width and height:
            self.check_known(address, pitch * (height - 1) + width)
            self.submit(stream, MemsetOp(address, value, 1, width, height, pitch))

    def memset_async(self, address: int, value: int, nbytes: int, stream: Stream) -> None:
        """cudaMemsetAsync; in a capture a node."""
        self.charge_call("cudaMemsetAsync")
        if nbytes:
            self.check_known(address, nbytes)
            self.submit(stream, MemsetOp(address, value, 1, nbytes))

    def _copy_host_us(self, target: int, source: int, nbytes: int) -> float:
        if self.memory.is_device(source):
            return self.costs.copy_to_host(nbytes)
        return self.costs.copy_to_device(nbytes)

    def check_copy(self, target: int, source: int, nbytes: int, kind: CopyKind) -> None:
        self.raise_fault()
        if not nbytes:
            return
        sides = self.memory.is_device(target), self.memory.is_device(source)
        wanted = {
            CopyKind.HOST_TO_HOST: (False, False), CopyKind.HOST_TO_DEVICE: (True, False),
            CopyKind.DEVICE_TO_HOST: (False, True), CopyKind.DEVICE_TO_DEVICE: (True, True),
        }.get(kind, sides)  # fmt: skip
        if sides != wanted or not target or not source:
            raise CUDARuntimeError("cudaErrorInvalidValue")
        for address, on_device in zip((target, source), sides, strict=True):
            if on_device or self.memory.is_pinned(address):
                self.check_known(address, nbytes)

    def check_known(self, address: int, nbytes: int) -> None:
        """Raises cudaErrorInvalidValue unless the runtime knows all these bytes as one allocation, of the device or pinned."""
        if not (self.memory.is_allocated(address, nbytes) or self.memory.is_pinned(address, nbytes)):
            raise CUDARuntimeError("cudaErrorInvalidValue")


_current: Gpu | None = None


def current() -> Gpu:
    """The device that the faces use."""
    global _current
    if _current is None:
        _current = Gpu()
    return _current


def swap(gpu: Gpu | None) -> Gpu | None:
    """Makes `gpu` the device that the faces use (None: a fresh one at the next use); returns the one before."""
    global _current
    before, _current = _current, gpu
    return before
