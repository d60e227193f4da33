"""A live NVIDIA GPU as a `Device`: the libraries themselves, and the yardstick launched through each of them."""

from __future__ import annotations

import ctypes
import datetime
import functools
import gc
import itertools
import shutil
import subprocess
import sys
import tempfile
import time as host_time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import cupy
import numba.cuda
import numpy as np
from cuda import core
from cuda.bindings import driver, runtime
from numba import types as numba_types

from onelaunch.sim.gpu import Span, Trace

from . import live_facts, live_timeline
from .base import API_LABELS, NEEDS_SIGNATURE, Device, HostTimes, Phases, Work
from .probe import find
from .provenance import Provenance

HERE = Path(__file__).parent
HEADER = 4  # int64 words before the stamps: see kernels.cu
MAX_STAMPS = 8192
ANSWER_LIMIT_US = 5e6
CHAIN_COLUMNS = (  # of sample_chain in reference.cu, named as NVIDIA's sample names them
    "capture", "instantiation", "first_launch_api", "first_launch_total",
    "repeat_launch_api", "repeat_launch_total", "repeat_launch_device",
)  # fmt: skip


def _check(result: tuple) -> Any:
    """The value of a cuda.bindings call; raises its error."""
    error, *values = result
    if error != runtime.cudaError_t.cudaSuccess:
        raise cupy.cuda.runtime.CUDARuntimeError(int(error))
    return values[0] if values else None


def declared_overload(kernel):
    """The one compiled form of a Numba kernel that was declared with a signature. Raises TypeError for another."""
    overloads = list(getattr(kernel, "overloads", {}).values())
    if len(overloads) != 1:
        raise TypeError(NEEDS_SIGNATURE)
    return overloads[0]


class LiveWork(Work):
    """The yardstick through one Python API. A subclass says how one launch is made."""

    stretches = True

    def __init__(self, device: LiveDevice):
        self._device = device
        self._cycles = 0
        self._arrays: list = []
        self._launchers: dict[tuple, Callable[[], object]] = {}
        self._graphs: dict[tuple, Any] = {}

    def launcher(self, x, stream, stamped: bool) -> Callable[[], object]:
        """A function without arguments that launches the kernel once on `stream`, counting in `x`."""
        raise NotImplementedError

    def stream_context(self, stream):
        """What must be entered around launches on `stream`."""
        return nullcontext()

    def _x(self, k: int):
        while len(self._arrays) <= k:
            x = cupy.zeros(HEADER + 2 * MAX_STAMPS, dtype=cupy.int64)
            x[1] = self._cycles
            cupy.cuda.Device().synchronize()
            self._arrays.append(x)
        return self._arrays[k]

    def _launch_on(self, k: int, stream, stamped: bool = False) -> Callable[[], object]:
        key = (k, stream.ptr, stamped)
        if key not in self._launchers:
            self._launchers[key] = self.launcher(self._x(k), stream, stamped)
            self._rewind(k, stream)  # a stamped launch writes where the count says
            with self.stream_context(stream):
                self._launchers[key]()  # compiles and loads the kernel
            self._rewind(k, stream)
        return self._launchers[key]

    def set_kernel_us(self, us: float) -> None:
        if us < 0:
            raise ValueError(f"a kernel cannot take {us} µs")
        cycles = round(us * self._device.cycles_per_us)
        if cycles == self._cycles:
            return
        self._cycles = cycles
        for x in self._arrays:
            x[1] = self._cycles
        cupy.cuda.Device().synchronize()

    def prepare(self, streams: Sequence[Any]) -> None:
        for k, stream in enumerate(streams):
            self._launch_on(k, stream)

    def issue(self, launches: int, streams: Sequence[Any]) -> None:
        calls = [self._launch_on(k, s) for k, s in enumerate(streams)]
        self._issue(launches, streams, calls)

    def _issue(self, launches: int, streams: Sequence[Any], calls: list) -> None:
        with self.stream_context(streams[0]):
            if len(calls) == 1:
                call = calls[0]
                for _ in range(launches):
                    call()
            else:
                width = len(calls)
                for i in range(launches):
                    calls[i % width]()

    def run(self, launches: int, streams: Sequence[Any]) -> HostTimes:
        calls = [self._launch_on(k, s) for k, s in enumerate(streams)]
        return self._device.time_calls(
            lambda: self._issue(launches, streams, calls), lambda: [s.synchronize() for s in streams]
        )

    def run_replays(self, graph: Any, stream: Any, replays: int = 1) -> HostTimes:
        launch, many = graph.launch, range(replays)

        def issue() -> None:
            for _ in many:
                launch(stream)

        return self._device.time_calls(issue, stream.synchronize)

    def count(self) -> int:
        cupy.cuda.Device().synchronize()
        total = sum(int(x[0]) for x in self._arrays)
        for x in self._arrays:
            x[0] = 0
        cupy.cuda.Device().synchronize()
        return total

    # -- tracing ------------------------------------------------------------------------------------------------------

    def trace(self, launches: int, stream: Any) -> Trace:
        launches = min(launches, MAX_STAMPS)
        call = self._launch_on(0, stream, stamped=True)
        self._rewind(0, stream)
        with self.stream_context(stream):
            for _ in range(3):  # the path from Python to the driver is warm in a loop
                call()
        self._rewind(0, stream)
        begin, end = self._stamped_calls(launches, stream)
        waiting = self._device.now_us()
        stream.synchronize()
        back = self._device.now_us()
        host = [Span("launch", b, e) for b, e in zip(begin, end, strict=True)] + [Span("synchronize", waiting, back)]
        return Trace(host, self._stamps(launches, stream))

    def _stamped_calls(self, launches: int, stream) -> tuple[list[float], list[float]]:
        call, now = self._launch_on(0, stream, stamped=True), self._device.now_us
        marks = []
        with self.stream_context(stream):
            for _ in range(launches):
                marks.append(now())
                call()
        marks.append(now())
        return marks[:-1], marks[1:]

    def trace_replay(self, launches: int, stream: Any) -> Trace:
        launches = min(launches, MAX_STAMPS)
        key = (launches, stream.ptr)
        if key not in self._graphs:
            call = self._launch_on(0, stream, stamped=True)
            stream.begin_capture()
            with self.stream_context(stream):
                for _ in range(launches):
                    call()
            self._graphs = {key: stream.end_capture()}  # only the last: a learner's slider makes many
        graph = self._graphs[key]
        for _ in range(2):  # the first launch uploads
            self._rewind(0, stream)
            start = self._device.now_us()
            graph.launch(stream)
            returned = self._device.now_us()
            stream.synchronize()
            back = self._device.now_us()
        host = [Span("graph launch", start, returned), Span("synchronize", returned, back)]
        return Trace(host, self._stamps(launches, stream))

    def _rewind(self, k: int, stream) -> None:
        """Sets a counter to 0: no more than MAX_STAMPS stamped launches may follow."""
        cupy.cuda.Device().synchronize()  # other streams may still be counting
        cupy.cuda.runtime.memsetAsync(self._x(k).data.ptr, 0, 8, stream.ptr)
        stream.synchronize()

    def _stamps(self, launches: int, stream) -> list[Span]:
        """Begin and end of each kernel on the host's clock, the device's own cost of starting a kernel included."""
        offset = self._device.host_clock_minus_globaltimer_us()
        words = cupy.asnumpy(self._x(0)[HEADER : HEADER + 2 * launches]).reshape(-1, 2) * 1e-3 + offset
        lead = self._device.kernel_overhead_us
        return [Span("work", float(b) - lead, float(e), stream.ptr) for b, e in words]


class RawKernelWork(LiveWork):
    api = "rawkernel"

    def launcher(self, x, stream, stamped):
        kernel, one, arguments = self._device.kernel("work_stamped" if stamped else "work"), (1,), (x,)
        return lambda: kernel(one, one, arguments, stream=stream)


class BindingsWork(LiveWork):
    api = "bindings"

    def launcher(self, x, stream, stamped):
        function = self._device.kernel("work_stamped" if stamped else "work").kernel.ptr
        arguments, handle, launch = ((x.data.ptr,), (ctypes.c_void_p,)), stream.ptr, driver.cuLaunchKernel
        return lambda: launch(function, 1, 1, 1, 1, 1, 1, 0, handle, arguments, 0)


class CoreWork(LiveWork):
    api = "core"

    def launcher(self, x, stream, stamped):
        core.Device(0).set_current()
        kernel = core.Kernel.from_handle(int(self._device.kernel("work_stamped" if stamped else "work").kernel.ptr))
        config, target, launch, address = (
            core.LaunchConfig(grid=1, block=1),
            core.Stream.from_handle(stream.ptr),
            core.launch,
            x.data.ptr,
        )
        return lambda: launch(target, config, kernel, address)


class UfuncWork(LiveWork):
    """One elementwise `cp.add` on one element: as short as it gets, and never longer."""

    api = "ufunc"
    stretches = False

    def launcher(self, x, stream, stamped):
        element, add = x[:1], cupy.add
        return lambda: add(element, 1, out=element)

    def stream_context(self, stream):
        return stream

    def set_kernel_us(self, us: float) -> None:
        if us:
            raise ValueError(f"{self.label} launches a library's own kernel: its duration cannot be set")


class TorchWork(UfuncWork):
    """One `tensor.add_(1)` on one element."""

    api = "torch"

    def launcher(self, x, stream, stamped):
        import torch

        element = torch.as_tensor(x[:1], device="cuda")
        return lambda: element.add_(1)

    def stream_context(self, stream):
        import torch

        return torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr))


class NumbaWork(LiveWork):
    api = "numba"

    def launcher(self, x, stream, stamped):
        kernel, array = self._device.numba_kernels["array"][stamped], numba.cuda.as_cuda_array(x, sync=False)
        target = numba.cuda.external_stream(stream.ptr)
        return lambda: kernel[1, 1, target](array)


class NumbaPointerWork(LiveWork):
    api = "numba_ptr"

    def launcher(self, x, stream, stamped):
        kernel, address = self._device.numba_kernels["pointer"][stamped], x.data.ptr
        target = numba.cuda.external_stream(stream.ptr)
        return lambda: kernel[1, 1, target](address)


class CppWork(LiveWork):
    """Launched and timed in C++ (`reference.cu`)."""

    api = "cpp"

    def __init__(self, device: LiveDevice):
        super().__init__(device)
        self._pointers: dict[tuple, tuple] = {}

    def launcher(self, x, stream, stamped):
        handle, address = ctypes.c_void_p(stream.ptr), ctypes.c_void_p(x.data.ptr)
        reference = self._device.reference
        if stamped:
            return lambda: self._checked(reference.issue_stamped(1, handle, address))
        handles, addresses = (ctypes.c_void_p * 1)(stream.ptr), (ctypes.c_void_p * 1)(x.data.ptr)
        return lambda: self._checked(reference.issue(1, 1, handles, addresses))

    def _arrays_of(self, streams) -> tuple:
        key = tuple(s.ptr for s in streams)
        if key not in self._pointers:
            self.prepare(streams)
            handles = (ctypes.c_void_p * len(streams))(*key)
            addresses = (ctypes.c_void_p * len(streams))(*(self._x(k).data.ptr for k in range(len(streams))))
            self._pointers[key] = handles, addresses
        return self._pointers[key]

    def issue(self, launches, streams):
        self._checked(self._device.reference.issue(launches, len(streams), *self._arrays_of(streams)))

    def run(self, launches, streams):
        out = (ctypes.c_double * 2)()
        self._checked(self._device.reference.run(launches, len(streams), *self._arrays_of(streams), out))
        return HostTimes(*out)

    def run_replays(self, graph, stream, replays=1):
        out = (ctypes.c_double * 2)()
        executable, handle = ctypes.c_void_p(graph.graphExec), ctypes.c_void_p(stream.ptr)
        self._checked(self._device.reference.replay(executable, handle, replays, out))
        return HostTimes(*out)

    def _stamped_calls(self, launches, stream):
        begin, end = (ctypes.c_double * launches)(), (ctypes.c_double * launches)()
        reference = self._device.reference
        shift = self._clock_shift_us()
        handle, address = ctypes.c_void_p(stream.ptr), ctypes.c_void_p(self._x(0).data.ptr)
        self._checked(reference.run_stamped(launches, handle, address, begin, end))
        return [b + shift for b in begin], [e + shift for e in end]

    def _clock_shift_us(self) -> float:
        """What to add to the C++ clock to get the host's clock here, from the tightest of ten readings."""
        readings = []
        for _ in range(10):
            before, there, after = self._device.now_us(), self._device.reference.clock_us(), self._device.now_us()
            readings.append((after - before, (before + after) / 2 - there))
        return min(readings)[1]

    @staticmethod
    def _checked(error: int) -> None:
        if error:
            raise cupy.cuda.runtime.CUDARuntimeError(error)


WORKS = {w.api: w for w in (CppWork, BindingsWork, CoreWork, RawKernelWork, UfuncWork, TorchWork, NumbaPointerWork, NumbaWork)}


class LiveLibraries:
    """The libraries themselves, and the one bridge between them that they lack."""

    cp, cuda, types, core, cudart, time = cupy, numba.cuda, numba_types, core, runtime, host_time

    @staticmethod
    def as_kernel(kernel) -> core.Kernel:
        handle = declared_overload(kernel)._codelibrary.get_cufunc().handle
        return core.Kernel.from_handle(int(handle))


class LiveDevice(LiveLibraries, Device):
    """The first NVIDIA GPU of this machine."""

    kind = "live"
    is_instant = False
    node_facts = staticmethod(live_facts.node_facts)

    def __init__(self) -> None:
        super().__init__()
        found = find()
        if not cupy.cuda.is_available():
            raise RuntimeError("CuPy finds no GPU")
        self.gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        self.driver = found.driver or "unknown"
        major, minor = divmod(cupy.cuda.runtime.driverGetVersion(), 1000)
        names = (found.cupy or "cupy", "numba", "numba-cuda", "cuda-core", "cuda-bindings", "torch", "numpy")
        self.versions = {
            "CUDA driver API": f"{major}.{minor // 10}",
            **{n: found.packages[n] for n in names if n in found.packages},
        }
        self._has_torch = "torch" in found.packages
        self.kernel("work")  # compiles: what is missing for that should be heard now

    def record_timeline(self, fn: Callable[[], object], wait: Callable[[], object]) -> Trace:
        return live_timeline.record(fn, wait, self.now_us, cupy.cuda.runtime.deviceSynchronize)

    @property
    def provenance(self) -> Provenance:
        return Provenance("live", self.gpu, self.driver, datetime.date.today().isoformat())

    @functools.cached_property
    def apis(self) -> tuple[str, ...]:
        missing = set()
        if self.reference is None:
            missing.add("cpp")
        if not self._torch_works():
            missing.add("torch")
        return tuple(api for api in API_LABELS if api not in missing)

    def _torch_works(self) -> bool:
        if not self._has_torch:
            return False
        import torch

        return torch.cuda.is_available()

    def _make_work(self, api: str) -> LiveWork:
        return WORKS[api](self)

    # -- kernels ------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _module(self):
        return cupy.RawModule(code=(HERE / "kernels.cu").read_text(encoding="utf-8"), options=("-std=c++17",))

    def kernel(self, name: str):
        """A kernel of kernels.cu, compiled by NVRTC."""
        return self._module.get_function(name)

    @functools.cached_property
    def numba_kernels(self) -> dict:
        """The yardstick written in Python: `numba_kernels["array" or "pointer"][stamped]`."""
        from .numba_kernels import array_kernels, pointer_kernels

        return {"array": array_kernels(), "pointer": pointer_kernels()}

    @functools.cached_property
    def reference(self) -> ctypes.CDLL | None:
        """The C++ reference, compiled by nvcc; None where there is no nvcc (or it fails, with a warning)."""
        nvcc = shutil.which("nvcc")
        if nvcc is None:
            return None
        self._build = tempfile.TemporaryDirectory(prefix="onelaunch-", ignore_cleanup_errors=True)
        target = Path(self._build.name) / ("reference.dll" if sys.platform == "win32" else "reference.so")
        pic = [] if sys.platform == "win32" else ["-Xcompiler", "-fPIC"]
        command = [nvcc, "-O2", "-shared", *pic, "-arch=native", "-o", str(target), str(HERE / "reference.cu")]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            warnings.warn(f"nvcc could not build the C++ reference: {built.stderr.strip()[-400:]}", stacklevel=2)
            return None
        library = ctypes.CDLL(str(target))
        library.clock_us.restype = ctypes.c_double
        return library

    # -- clocks -------------------------------------------------------------------------------------------------------

    def time_calls(self, issue, synchronize) -> HostTimes:
        enabled = gc.isenabled()
        gc.disable()  # as timeit does: a collection in the middle of a loop is not a launch cost
        try:
            return super().time_calls(issue, synchronize)
        finally:
            if enabled:
                gc.enable()

    def _stamp_once(self, cycles: int) -> tuple[float, float, float, float]:
        """One stamped kernel of `cycles`: host clock before and after (µs), its own begin and end (ns, %globaltimer)."""
        x = cupy.zeros(HEADER + 2, dtype=cupy.int64)
        x[1] = cycles
        cupy.cuda.Device().synchronize()
        before = self.now_us()
        self.kernel("work_stamped")((1,), (1,), (x,))
        cupy.cuda.Device().synchronize()
        after = self.now_us()
        begin, end = (int(v) for v in cupy.asnumpy(x[HEADER:]))
        return before, after, begin, end

    @functools.cached_property
    def cycles_per_us(self) -> float:
        """The SM clock under load, from a 10 ms kernel that reads both clocks."""
        rates = []
        for _ in range(5):
            *_, begin, end = self._stamp_once(20_000_000)
            rates.append(20_000_000 / ((end - begin) * 1e-3))
        return float(np.median(rates))

    def host_clock_minus_globaltimer_us(self) -> float:
        """What to add to %globaltimer (µs) to get the host's clock: the tightest of 20 calls that a waiting kernel answers.

        Right to within half a round trip over PCIe, about 1 µs.
        """
        called = np.frombuffer(self._pinned, dtype=np.int32, count=2)
        when = np.frombuffer(self._pinned, dtype=np.int64, count=2)[1:]
        kernel, stream = self.kernel("answer"), cupy.cuda.Stream.null
        arguments = np.uint64(self._pinned.ptr), np.uint64(self._pinned.ptr + 8)
        answers = []
        for _ in range(20):
            called[:] = 0
            kernel((1,), (1,), arguments, stream=stream)
            try:
                host_time.sleep(100e-6)  # the kernel is waiting by now
                start = self.now_us()
                called[0] = 1
                while not called[1]:
                    if self.now_us() - start > ANSWER_LIMIT_US:
                        raise RuntimeError(f"the GPU did not answer within {ANSWER_LIMIT_US * 1e-6:.0f} s")
                end = self.now_us()
            finally:
                called[0] = 1  # whatever happens here, the kernel must not wait for ever
            stream.synchronize()
            answers.append((end - start, (start + end) / 2 - int(when[0]) * 1e-3))
        return min(answers)[1]

    @functools.cached_property
    def kernel_overhead_us(self) -> float:
        """What the device spends on a kernel beyond its body: the period of a graph's chain, less that body."""
        stream, body_us, n = cupy.cuda.Stream(non_blocking=True), 10.0, 64
        work = RawKernelWork(self)  # not the shared one, whose duration somebody has set
        work.prepare([stream])
        work.set_kernel_us(body_us)
        stream.begin_capture()
        work.issue(n, [stream])
        graph = stream.end_capture()
        before, after = cupy.cuda.Event(), cupy.cuda.Event()
        times = []
        for _ in range(7):
            before.record(stream)
            graph.launch(stream)
            after.record(stream)
            stream.synchronize()
            times.append(cupy.cuda.get_elapsed_time(before, after) * 1e3)
        return max(0.0, float(np.median(times)) / n - body_us)

    def measure_visibility(self, stream: Any) -> float:
        seen = np.frombuffer(self._pinned, dtype=np.int32, count=1)
        seen[0] = 0
        kernel, arguments = self.kernel("flag"), (np.uint64(self._pinned.ptr),)
        kernel((1,), (1,), arguments, stream=stream)
        start = self.now_us()
        while not seen[0]:
            if self.now_us() - start > ANSWER_LIMIT_US:
                raise RuntimeError(f"the GPU did not answer within {ANSWER_LIMIT_US * 1e-6:.0f} s")
        visible = self.now_us() - start
        stream.synchronize()
        return visible

    @functools.cached_property
    def _pinned(self):
        return cupy.cuda.alloc_pinned_memory(4096)

    def reference_chain(self, length: int) -> dict[str, float] | None:
        if self.reference is None:
            return None
        out = (ctypes.c_double * len(CHAIN_COLUMNS))()
        if error := self.reference.sample_chain(length, out):
            raise cupy.cuda.runtime.CUDARuntimeError(error)
        return dict(zip(CHAIN_COLUMNS, out, strict=True))

    # -- graphs -------------------------------------------------------------------------------------------------------

    def measure_phases(self, work: LiveWork, launches: int, stream: Any) -> Phases:
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
        work.prepare([stream])
        handle = stream.ptr
        marks = [self.now_us()]
        _check(runtime.cudaStreamBeginCapture(handle, mode))
        work.issue(launches, [stream])
        marks.append(self.now_us())
        graph = _check(runtime.cudaStreamEndCapture(handle))
        marks.append(self.now_us())
        executable = _check(runtime.cudaGraphInstantiate(graph, 0))
        marks.append(self.now_us())
        launch, results = runtime.cudaGraphLaunch, []

        def issue() -> None:
            results.append(launch(executable, handle))

        first, replay = (self.time_calls(issue, stream.synchronize) for _ in ("first", "replay"))
        for result in results:
            _check(result)
        _check(runtime.cudaGraphExecDestroy(executable))
        _check(runtime.cudaGraphDestroy(graph))
        capture, end, instantiate = (b - a for a, b in itertools.pairwise(marks))
        return Phases(capture, end, instantiate, first, replay)
