"""The simulated device as a `Device`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from onelaunch.sim import core_face, cudart_face, cupy_face, numba_face, time_face, types_face
from onelaunch.sim import gpu as sim_gpu
from onelaunch.sim.kernel import KernelOp
from onelaunch.sim.stream import Op

from . import simulated_facts
from .base import API_LABELS, NEEDS_SIGNATURE, Device, HostTimes, Phases, Work
from .calls import call_kind
from .provenance import Provenance


def work(x):
    x[0] += 1


class _Launch(Op):
    """One launch of the yardstick, with the duration that its `SimulatedWork` has when it runs."""

    kind = "kernel"
    name = "work"

    def __init__(self, owner: SimulatedWork, x):
        self.owner = owner
        self.op = KernelOp(work, (1, 1, 1), (1, 1, 1), (x.ref,))

    def gap_us(self, gpu) -> float:
        return gpu.costs.stream_gap_us

    def duration_us(self, gpu) -> float:
        return gpu.costs.kernel_us(self.owner.kernel_us)

    def effect(self, gpu) -> None:
        self.op.run(gpu, 0.0)


class SimulatedWork(Work):
    """The yardstick on the virtual device: the host pays what `api` costs there, the device runs the kernel."""

    def __init__(self, device: SimulatedDevice, api: str):
        self.api, self.kernel_us = api, 0.0
        self.stretches = api not in ("ufunc", "torch")  # a library's own kernel is as long as it is
        self._device = device
        self._launches: list[_Launch] = []
        self._arrays: list = []

    def set_kernel_us(self, us: float) -> None:
        if us < 0:
            raise ValueError(f"a kernel cannot take {us} µs")
        if us and not self.stretches:
            raise ValueError(f"{self.label} launches a library's own kernel: its duration cannot be set")
        self.kernel_us = us

    def _launch_on(self, k: int) -> _Launch:
        while len(self._arrays) <= k:
            x = cupy_face.zeros(1, "int64")
            cupy_face.cuda.Device().synchronize()
            self._arrays.append(x)
            self._launches.append(_Launch(self, x))
        return self._launches[k]

    def prepare(self, streams: Sequence[Any]) -> None:
        for k in range(len(streams)):
            self._launch_on(k)

    def issue(self, launches: int, streams: Sequence[Any]) -> None:
        gpu, width = sim_gpu.current(), len(streams)
        pairs = [(gpu.stream(s.ptr), self._launch_on(k)) for k, s in enumerate(streams)]
        for i in range(launches):
            stream, launch = pairs[i % width]
            gpu.charge_launch(self.api, stream)
            gpu.submit(stream, launch)

    def run(self, launches: int, streams: Sequence[Any]) -> HostTimes:
        self.prepare(streams)
        return self._device.time_calls(lambda: self.issue(launches, streams), lambda: [s.synchronize() for s in streams])

    def run_replays(self, graph: Any, stream: Any, replays: int = 1) -> HostTimes:
        gpu, raw, caller = (
            sim_gpu.current(),
            sim_gpu.current().stream(stream.ptr),
            "cpp" if self.api == "cpp" else "cupy",
        )

        def issue() -> None:
            for _ in range(replays):
                gpu.launch_graph(graph._executable, raw, caller)

        return self._device.time_calls(issue, stream.synchronize)

    def count(self) -> int:
        cupy_face.cuda.Device().synchronize()
        total = sum(int(x[0]) for x in self._arrays)
        for x in self._arrays:
            x.fill(0)
        return total

    def trace(self, launches: int, stream: Any) -> sim_gpu.Trace:
        self.prepare([stream])
        return self._traced(lambda: self.issue(launches, [stream]), stream)

    def trace_replay(self, launches: int, stream: Any) -> sim_gpu.Trace:
        self.prepare([stream])
        stream.begin_capture()
        self.issue(launches, [stream])
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
        return self._traced(lambda: graph.launch(stream), stream)

    @staticmethod
    def _traced(issue, stream) -> sim_gpu.Trace:
        gpu = sim_gpu.current()
        gpu.trace = trace = sim_gpu.Trace()
        try:
            issue()
            stream.synchronize()
        finally:
            gpu.trace = None
        return trace


class SimulatedDevice(Device):
    """A simulated NVIDIA H200: the course's part of CuPy and Numba, on virtual clocks fitted to a recording."""

    kind = "simulated"
    is_instant = True
    node_facts = staticmethod(simulated_facts.node_facts)
    cp, cuda, types, core, cudart, time = cupy_face, numba_face, types_face, core_face, cudart_face, time_face

    def __init__(self, note: str = ""):
        super().__init__()
        self.note = note
        self.versions = {"numpy": version("numpy")}

    @staticmethod
    def as_kernel(kernel) -> core_face.Kernel:
        if getattr(kernel, "signature", None) is None:
            raise TypeError(NEEDS_SIGNATURE)
        return core_face.Kernel._of(kernel)

    @property
    def _costs(self):
        return sim_gpu.current().costs

    @property
    def gpu(self) -> str:
        return self._costs.gpu

    @property
    def driver(self) -> str:
        return "none (simulated)"

    @property
    def apis(self) -> tuple[str, ...]:
        return tuple(api for api in API_LABELS if api in self._costs.launch)

    @property
    def provenance(self) -> Provenance:
        costs = self._costs
        return Provenance("modelled", costs.gpu, costs.driver, costs.date, costs.provenance)

    def _make_work(self, api: str) -> SimulatedWork:
        return SimulatedWork(self, api)

    def measure_phases(self, work: SimulatedWork, launches: int, stream: Any) -> Phases:
        gpu, raw = sim_gpu.current(), sim_gpu.current().stream(stream.ptr)
        work.prepare([stream])
        marks = [self.now_us()]
        stream.begin_capture()
        work.issue(launches, [stream])
        marks.append(self.now_us())
        graph = gpu.end_capture(raw)
        marks.append(self.now_us())
        executable = gpu.instantiate(graph)
        marks.append(self.now_us())
        first, replay = (
            self.time_calls(lambda: gpu.launch_graph(executable, raw), stream.synchronize) for _ in ("first", "replay")
        )
        capture, end, instantiate = (b - a for a, b in itertools.pairwise(marks))
        return Phases(capture, end, instantiate, first, replay)

    def record_timeline(self, fn: Callable[[], object], wait: Callable[[], object]) -> sim_gpu.Trace:
        gpu = sim_gpu.current()
        gpu.wait_for_device()
        before, gpu.trace = gpu.trace, sim_gpu.Trace(source="virtual clock")
        trace = gpu.trace
        try:
            fn()
            trace.returned_us = gpu.now_us
            wait()
            waited = len(trace.host)
            gpu.wait_for_device()  # for streams that `wait` left alone
            del trace.host[waited:]
        finally:
            gpu.trace = before
        trace.host = [replace(span, kind=span.kind or call_kind(span.name)) for span in trace.host]
        return trace

    def measure_visibility(self, stream: Any) -> float:
        gpu, raw = sim_gpu.current(), sim_gpu.current().stream(stream.ptr)
        work = self.work("rawkernel")
        work.prepare([stream])
        work.issue(1, [stream])
        start = self.now_us()
        visible = gpu.drain(raw) - start
        stream.synchronize()
        return visible
