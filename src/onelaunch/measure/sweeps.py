"""The sweeps of a recording: what is timed, on whichever device is current.

A case is one configuration and a function that takes one sample of it. Cases are run in rounds, each round in another
order: a host whose speed drifts shifts every case alike, and a median over the rounds forgets it. A host that is shared
with others has slow spells as well, in which plain Python takes twice as long: a fixed loop is timed before and after each
sample, and samples whose loop was slow are thrown away, and taken again.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onelaunch.device import VARIABLE, Device, Work, current

from .calls import NODES, Calls
from .capturing import captured, fork, join, prepare
from .recording import Point, Recording, RecordingError, describe_host, point_from_json, point_to_json
from .timing import Stat

Sample = dict[str, float]  # quantity → µs

LADDER = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
LAUNCH_US = {"numba": 18, "numba_ptr": 14, "ufunc": 10, "torch": 9}  # roughly, for estimates; the others about 6
LONG_US = 30_000  # of device time: longer runs are sampled a few times only, too few to say what the host paid
QUEUE = 1500  # launches that no stream's queue holds
GRID_LAUNCHES = (1, 4, 16, 64, 256, 1024, 2048, 4096)
GRID_KERNEL_US = (1, 2, 5, 10, 20, 50, 100, 200, 500)
GRID_MOST_US = 60_000  # longer points would take most of the recording and say nothing new
STREAMS = (1, 2, 4, 8)
CAPTURE_LAUNCHES = (1, 16, 64, 256, 1024, 4096)
FORK_WIDE = (16, 32)  # branches: fewer lengths of them
FORK_LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # launches in each branch
FORK_MOST = 4096  # nodes
DIAMONDS = (1, 4, 16, 64)
COPY_BYTES = tuple(4**k for k in range(1, 14))  # 4 bytes to 64 MiB
SAMPLE_LENGTHS = (1, 64, 127, 190, 253, 316, 379, 442, 505, 568, 631, 694, 757, 820, 883, 946, 1009)


@dataclass(frozen=True)
class Case:
    """One configuration; `sample` times it once; `estimate_us` says how long that will take, roughly.

    `warm_up` runs the same code just before (by default, `sample` itself).
    """

    point: Point
    sample: Callable[[], Sample]
    estimate_us: float
    warm_up: Callable[[], object] | None = None

    @property
    def is_long(self) -> bool:
        """Whether the host's own speed hardly matters to it."""
        return self.estimate_us > 100_000

    @property
    def enough(self) -> int:
        """How many samples on a quiet host will do."""
        return 5 if self.estimate_us <= LONG_US else 3

    def rounds(self, most: int) -> int:
        """Long cases vary less: fewer rounds are enough."""
        return min(most, 2 if self.is_long else 5 if self.estimate_us > LONG_US else most)

    def samples(self) -> list[tuple[float, Sample]]:
        """The samples of one round (more if it is short), each with the calibration loop's time around it (µs)."""
        (self.warm_up or self.sample)()
        times = 15 if self.estimate_us < 1000 else 4 if self.estimate_us < 20_000 else 1
        return [_calibrated(self.sample) for _ in range(times)]


def calibration_us() -> float:
    """How long a fixed loop of plain Python takes now: a measure of the host alone."""
    start = time.perf_counter_ns()
    total = 0
    for i in range(1000):
        total += i
    return (time.perf_counter_ns() - start) * 1e-3


def _calibrated(sample: Callable[[], Sample]) -> tuple[float, Sample]:
    before = calibration_us()
    taken = sample()
    return (before + calibration_us()) / 2, taken


class Sweeps:
    """Every case of a recording, for one device."""

    def __init__(self, device: Device):
        self.device = device
        self.cp = device.cp
        self.stream = self.cp.cuda.Stream(non_blocking=True)
        self.streams = [self.stream]
        self._graphs: dict[tuple, Any] = {}
        self._events = self.cp.cuda.Event(), self.cp.cuda.Event()
        self._marks = [self.cp.cuda.Event(disable_timing=True) for _ in range(max(FORK_WIDE))]

    @property
    def _grid_apis(self) -> list[str]:
        return [api for api in ("cpp", "rawkernel") if api in self.device.apis]

    def stages(self) -> Iterator[list[Case]]:
        """The cases in three stages: replays while the process has one stream, everything with several, wide graphs.

        On an H200 the nodes of a graph follow each other more slowly once the process has a second stream, used or not.
        """
        yield [*self.one_stream()]
        self._add_streams(max(STREAMS))
        yield [
            *self.ladder(), *self.duration(), *self.concurrency(), *self.phases(), *self.captures(), *self.queued_replays(),
            *self.waits(), *self.arguments(), *self.copies(), *self.elementwise(), *self.primitives(),
        ]  # fmt: skip
        yield [*self.forkjoin()]
        yield [*self.calls()]

    def _add_streams(self, wanted: int) -> None:
        self.streams += [self.cp.cuda.Stream(non_blocking=True) for _ in range(wanted - len(self.streams))]

    # -- launches -----------------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Half a second of work, so that the GPU's clock has risen before the first sample."""
        work = self.device.work("rawkernel")
        work.set_kernel_us(500)
        work.run(1000, [self.stream])
        work.set_kernel_us(0)
        work.count()

    def ladder(self) -> Iterator[Case]:
        """The shortest kernel through every API: host and total time, and (but for C++) device time between two events."""
        for api in self.device.apis:
            for n in LADDER:
                yield Case(Point("ladder", "loop", api, n), self._loop(api, n, device=api != "cpp"), n * LAUNCH_US.get(api, 6))

    def duration(self) -> Iterator[Case]:
        """Launch count × kernel duration: the loop, and one replay of a graph of the same launches."""
        for api in self._grid_apis:
            for n in GRID_LAUNCHES:
                for us in GRID_KERNEL_US:
                    estimate = n * (us + 5)
                    if estimate > GRID_MOST_US:
                        continue
                    yield self._case(Point("duration", "loop", api, n, us), estimate)
                    yield self._case(Point("duration", "replay", api, n, us, streams=2), estimate)

    def concurrency(self) -> Iterator[Case]:
        """The same launches, round robin over several streams."""
        for width in STREAMS:
            for n in (64, 512, 2048):
                for us in (0, 5, 20, 100):
                    yield self._case(Point("streams", "loop", "rawkernel", n, us, width), n * (us / width + 5))

    def one_stream(self) -> Iterator[Case]:
        """Replays of the shortest kernels while the process has one stream only."""
        for n in (1, 16, 64, 256, 512, 1024, 4096):
            yield self._case(Point("one stream", "replay", "rawkernel", n), n * 3)

    def _case(self, point: Point, estimate_us: float) -> Case:
        """A loop or a replay; a long one warms up with the shortest kernels, which is as good for the host."""
        make = {
            "loop": lambda us: self._loop(point.api, point.launches, us, point.streams),
            "replay": lambda us: self._replay(self._chain(point.api, point.launches), point.api, point.launches * us, us),
        }[point.what]
        return Case(point, make(point.kernel_us), estimate_us, make(0) if estimate_us > LONG_US else None)

    def _loop(self, api: str, n: int, us: float = 0, width: int = 1, device: bool = False) -> Callable[[], Sample]:
        blocks = n > QUEUE * width  # then the device decides the host's time too
        takes_long = n * us / width > LONG_US

        def sample() -> Sample:
            work, streams = self._work(api, us), self.streams[:width]
            times = work.run(n, streams)
            out = {"total_us": times.total_us}
            if blocks or not takes_long:
                out["host_us"] = times.host_us
            if device:
                out["device_us"] = self._between_events(lambda: work.issue(n, streams))
            return out

        return sample

    def _replay(
        self, graph: Callable[[], Any], api: str, takes_us: float = 0, us: float = 0, replays: int = 1
    ) -> Callable[[], Sample]:
        """Replays of `graph()`, whose kernels' bodies are busy for `us` each, and for `takes_us` in all."""

        def sample() -> Sample:
            executable = graph()
            work = self._work(api, us)
            times = work.run_replays(executable, self.stream, replays)
            out = {"total_us": times.total_us}
            if us == 0:  # it is the same for longer kernels, but for what the wait before adds: see waits()
                out["host_us"] = times.host_us
            if replays == 1 and takes_us <= LONG_US:
                out["device_us"] = self._between_events(lambda: executable.launch(self.stream))
            return out

        return sample

    def _work(self, api: str, us: float):
        work = self.device.work(api)
        if work.stretches:
            work.set_kernel_us(us)
        return work

    def _chain(self, api: str, n: int) -> Callable[[], Any]:
        """The graph of n launches on one stream, captured at the first call."""
        work = self.device.work(api)
        return self._kept(("chain", api, n), work, [self.stream], lambda: work.issue(n, [self.stream]))

    def _kept(self, key: tuple, work: Work, streams: Sequence[Any], issue: Callable[[], object]) -> Callable[[], Any]:
        def graph() -> Any:
            if key not in self._graphs:
                prepare(work, streams)
                self._graphs[key] = captured(self.stream, issue)
            return self._graphs[key]

        return graph

    def _between_events(self, issue: Callable[[], object]) -> float:
        before, after = self._events
        before.record(self.stream)
        issue()
        after.record(self.stream)
        self.stream.synchronize()
        return self.cp.cuda.get_elapsed_time(before, after) * 1e3

    # -- graphs -------------------------------------------------------------------------------------------------------

    def phases(self) -> Iterator[Case]:
        """Capture, instantiation, first launch and replay against the number of launches."""
        for api in self._grid_apis:
            for n in LADDER:
                point = Point("phases", "replay", api, n, streams=2)
                yield Case(point, self._replay(self._chain(api, n), api), n * 3)
        work = self.device.work("rawkernel")
        for n in LADDER:
            latest: dict[str, Any] = {}

            def measure(n=n, latest=latest) -> None:
                work.set_kernel_us(0)
                latest["phases"] = self.device.measure_phases(work, n, self.stream)

            def first(n=n, latest=latest, measure=measure) -> Sample:
                measure()
                return {"host_us": latest["phases"].first.host_us, "total_us": latest["phases"].first.total_us}

            def end(latest=latest, measure=measure) -> Sample:
                measure()
                return {"host_us": latest["phases"].end_us}

            def instantiate(latest=latest, measure=measure) -> Sample:
                measure()
                return {"host_us": latest["phases"].instantiate_us}

            for what, sample in (("end capture", end), ("instantiate", instantiate), ("first launch", first)):
                yield Case(Point("phases", what, "rawkernel", n), sample, n * 12)

    def captures(self) -> Iterator[Case]:
        """Recording n launches into a capture, for each API."""
        for api in self.device.apis:
            for n in CAPTURE_LAUNCHES:
                if n > 1024 and api not in ("cpp", "rawkernel", "numba"):
                    continue

                def sample(api=api, n=n) -> Sample:
                    work = self.device.work(api)
                    work.prepare([self.stream])
                    self.stream.begin_capture()
                    start = self.device.now_us()
                    work.issue(n, [self.stream])
                    elapsed = self.device.now_us() - start
                    self.stream.end_capture()
                    return {"host_us": elapsed}

                yield Case(Point("phases", "capture", api, n), sample, n * LAUNCH_US.get(api, 6))

    def queued_replays(self) -> Iterator[Case]:
        """Replays queued behind each other."""
        for n in (16, 64, 512):
            for replays in (2, 10, 100, 1000, 2000):
                if replays * n > GRID_MOST_US:
                    continue
                point = Point("replays", "replay", "rawkernel", n, streams=2, replays=replays)
                chain = self._chain("rawkernel", n)
                sample, warm_up = (self._replay(chain, "rawkernel", replays=k) for k in (replays, 1))
                yield Case(point, sample, replays * (n + 2), warm_up)

    def waits(self) -> Iterator[Case]:
        """The first call after the host has waited: one launch, and one replay."""
        for wait_us in (10, 100, 1000, 10_000):

            def wait(wait_us=wait_us) -> None:
                self._work("rawkernel", wait_us).run(1, [self.stream])

            def loop(wait=wait) -> Sample:
                wait()
                times = self.device.work("rawkernel").run(1, [self.stream])
                return {"host_us": times.host_us}

            yield Case(Point("waits", "loop", "rawkernel", 1, wait_us), loop, 2 * wait_us)

            def replay(wait=wait) -> Sample:
                graph = self._chain("rawkernel", 64)()
                wait()
                start = self.device.now_us()
                graph.launch(self.stream)
                elapsed = self.device.now_us() - start
                self._work("rawkernel", 0)
                self.stream.synchronize()
                return {"host_us": elapsed}

            yield Case(Point("waits", "replay", "rawkernel", 64, wait_us), replay, 2 * wait_us)

    # -- forks and joins ----------------------------------------------------------------------------------------------

    def forkjoin(self) -> Iterator[Case]:
        """Graphs with parallel branches, captured by fork and join from one stream.

        "forkjoin": `streams` branches of kernels, with nothing before the fork and behind the join, as in NVIDIA's sample
        cudaGraphsPerfScaling. "branches": the same, captured one branch after the other, as that sample does, not in turns.
        "diamonds": one kernel, a branch of one kernel on each of `streams` streams, and so on, and one kernel at the end.
        """
        self._add_streams(max(FORK_WIDE))
        for width in STREAMS:
            for length in FORK_LENGTHS:
                if width * length <= FORK_MOST:
                    yield self._fork_replay("forkjoin", width, length)
                    yield from self._fork_phases(width, length)
            for length in (8, 64):
                yield self._fork_replay("forkjoin", width, length, us=10)
            for length in (1, 8, 64):
                yield self._fork_replay("forkjoin", width, length, replays=50)
            if width > 1:
                for length in (64, 256):
                    yield self._fork_replay("branches", width, length)
                for count in DIAMONDS:
                    yield self._fork_replay("diamonds", width, count)
        for width in FORK_WIDE:
            for length in (1, 16, 64):
                yield self._fork_replay("forkjoin", width, length)
            yield self._fork_replay("diamonds", width, 16)

    def _fork_replay(self, sweep: str, width: int, length: int, us: float = 0, replays: int = 1) -> Case:
        work, streams = self.device.work("rawkernel"), self.streams[:width]
        pattern = {"forkjoin": self._in_turns, "branches": self._by_branch, "diamonds": self._diamonds}[sweep]
        graph = self._kept((sweep, width, length), work, streams, lambda: pattern(work, streams, length))
        nodes = length * (width + 1) + 1 if sweep == "diamonds" else length * width
        point = Point(sweep, "replay", "rawkernel", nodes, us, width, replays)
        sample = self._replay(graph, "rawkernel", us * length, us, replays)
        return Case(point, sample, replays * (10 + nodes + us * length))

    def _fork_phases(self, width: int, length: int) -> Iterator[Case]:
        """Capture (events included), end and instantiation (CuPy does both in one call), and first launch."""
        work, streams = self.device.work("rawkernel"), self.streams[:width]
        taken: dict[str, float] = {}

        def take() -> Any:
            self._work("rawkernel", 0)
            prepare(work, streams)
            self.stream.begin_capture()
            marks = [self.device.now_us()]
            self._in_turns(work, streams, length)
            marks.append(self.device.now_us())
            graph = self.stream.end_capture()
            marks.append(self.device.now_us())
            taken["capture"], taken["end and instantiate"] = (b - a for a, b in itertools.pairwise(marks))
            return graph

        def phase(what: str) -> Callable[[], Sample]:
            def sample() -> Sample:
                take()
                return {"host_us": taken[what]}

            return sample

        def first() -> Sample:
            graph = take()
            times = self.device.time_calls(lambda: graph.launch(self.stream), self.stream.synchronize)
            return {"host_us": times.host_us, "total_us": times.total_us}

        samples = {what: phase(what) for what in ("capture", "end and instantiate")} | {"first launch": first}
        for what, sample in samples.items():
            point = Point("forkjoin", what, "rawkernel", width * length, streams=width)
            yield Case(point, sample, 50 + 10 * width * length)

    def _in_turns(self, work: Work, streams: Sequence[Any], length: int) -> None:
        fork(streams, self._marks[0])
        work.issue(length * len(streams), streams)
        join(streams, self._marks[1:])

    def _by_branch(self, work: Work, streams: Sequence[Any], length: int) -> None:
        """All branches count in the same memory: only the order of the launches differs from `_in_turns`."""
        fork(streams, self._marks[0])
        for stream in streams:
            work.issue(length, [stream])
        join(streams, self._marks[1:])

    def _diamonds(self, work: Work, streams: Sequence[Any], count: int) -> None:
        for _ in range(count):
            work.issue(1, streams[:1])
            fork(streams, self._marks[0])
            work.issue(len(streams), streams)
            join(streams, self._marks[1:])
        work.issue(1, streams[:1])

    # -- arguments, copies, primitives --------------------------------------------------------------------------------

    def arguments(self) -> Iterator[Case]:
        """What a Numba launch costs with other arguments."""
        cuda = self.device.cuda
        x, y, z = (self.cp.zeros(1, dtype=self.cp.float32) for _ in range(3))
        self.cp.cuda.Device().synchronize()
        a, b, c = (cuda.as_cuda_array(array, sync=False) for array in (x, y, z))
        stream = cuda.external_stream(self.stream.ptr)
        kernels = _argument_kernels(cuda)
        for name, args in {
            "1 array": (a,), "2 arrays": (a, b), "3 arrays": (a, b, c),
            "1 array, 1 scalar": (a, 1.0), "1 array, 2 scalars": (a, 1.0, 1.0), "1 CuPy array": (x,),
        }.items():  # fmt: skip
            for n in (64, 512):

                def issue(kernel=kernels[name], args=args, n=n) -> None:
                    for _ in range(n):
                        kernel[1, 1, stream](*args)

                def sample(issue=issue) -> Sample:
                    times = self.device.time_calls(issue, self.stream.synchronize)
                    return {"host_us": times.host_us, "total_us": times.total_us}

                yield Case(Point("arguments", "loop", "numba", n, arguments=name), sample, n * 30)

    def copies(self) -> Iterator[Case]:
        """Synchronous copies of pageable host memory."""
        import numpy as np

        for nbytes in COPY_BYTES:
            host = np.ones(nbytes, dtype=np.uint8)
            array = self.cp.asarray(host)

            def to_device(array=array, host=host) -> Sample:
                start = self.device.now_us()
                array.set(host)
                return {"host_us": self.device.now_us() - start}

            def to_host(array=array) -> Sample:
                start = self.device.now_us()
                array.get()
                return {"host_us": self.device.now_us() - start}

            estimate = 10 + nbytes / 2_000
            yield Case(Point("copies", "to device", nbytes=nbytes), to_device, estimate)
            yield Case(Point("copies", "to host", nbytes=nbytes), to_host, estimate)

    def elementwise(self) -> Iterator[Case]:
        """One `cp.add` of 1 to an array, into another."""
        cp = self.cp
        for nbytes in COPY_BYTES:
            a, out = (cp.ones(nbytes // 4, dtype=cp.float32) for _ in range(2))

            def sample(a=a, out=out) -> Sample:
                with self.stream:
                    times = self.device.time_calls(lambda: cp.add(a, 1, out=out), self.stream.synchronize)
                return {"total_us": times.total_us}

            yield Case(Point("elementwise", "loop", "ufunc", nbytes=2 * nbytes), sample, 20 + nbytes / 1e6)

    def primitives(self) -> Iterator[Case]:
        """Single calls, each repeated 100 times."""
        cp, runtime, stream = self.cp, self.cp.cuda.runtime, self.stream
        event = cp.cuda.Event()

        def begin_capture() -> Sample:
            start = self.device.now_us()
            stream.begin_capture()
            elapsed = self.device.now_us() - start
            stream.end_capture()
            return {"host_us": elapsed}

        yield Case(Point("primitives", "begin capture"), begin_capture, 20)

        keep = []

        def allocate() -> None:
            keep.append(runtime.malloc(4 * 1024**2))

        def release() -> None:
            for pointer in keep:
                runtime.free(pointer)
            keep.clear()

        yield Case(Point("primitives", "launch to visible"), lambda: {"host_us": self.device.measure_visibility(stream)}, 500)
        for name, call, after in (
            ("event record", lambda: event.record(stream), stream.synchronize),
            ("synchronize idle", stream.synchronize, None),
            ("pool allocation", lambda: cp.empty(1), None),
            ("cudaMalloc", allocate, release),
        ):

            def sample(call=call, after=after) -> Sample:
                stream.synchronize()
                start = self.device.now_us()
                for _ in range(100):
                    call()
                elapsed = (self.device.now_us() - start) / 100
                if after:
                    after()
                return {"host_us": elapsed}

            yield Case(Point("primitives", name), sample, 500)

    def calls(self) -> Iterator[Case]:
        """Single calls (see `calls.py`): the host's time of each; and replays of chains whose nodes are of one kind."""
        calls = Calls(self.device, self.stream)
        for call in calls.host_calls():

            def sample(call=call) -> Sample:
                call.prepare()
                self.stream.synchronize()
                start = self.device.now_us()
                for _ in range(call.batch):
                    call.run()
                elapsed = self.device.now_us() - start
                call.after()
                return {"host_us": elapsed / call.batch}

            yield Case(Point("calls", call.name, launches=call.nodes), sample, 1000)
        for kind, executable in calls.node_kinds():
            yield Case(Point("nodes", kind, launches=NODES), self._runtime_replay(executable), 200)
        executable, reset = calls.iterations()
        yield Case(Point("nodes", "while iteration", launches=NODES), self._runtime_replay(executable, reset), 500)

    def _runtime_replay(self, executable: Any, prepare: Callable[[], object] = lambda: None) -> Callable[[], Sample]:
        """A replay through the runtime, without CuPy's graph object."""
        launch, stream = self.device.cudart.cudaGraphLaunch, self.stream

        def sample() -> Sample:
            prepare()
            times = self.device.time_calls(lambda: launch(executable, stream.ptr), stream.synchronize)
            return {"host_us": times.host_us, "total_us": times.total_us}

        return sample


def _argument_kernels(cuda) -> dict[str, Any]:
    @cuda.jit
    def one(x):
        x[0] += 1

    @cuda.jit
    def two(x, y):
        x[0] += y[0]

    @cuda.jit
    def three(x, y, z):
        x[0] += y[0] + z[0]

    @cuda.jit
    def scalar(x, a):
        x[0] += a

    @cuda.jit
    def scalars(x, a, b):
        x[0] += a * b

    return {
        "1 array": one, "2 arrays": two, "3 arrays": three,
        "1 array, 1 scalar": scalar, "1 array, 2 scalars": scalars, "1 CuPy array": one,
    }  # fmt: skip


SLOW_HOST = 1.2  # times the fastest tenth of the calibrations


def run_cases(
    cases: Sequence[Case], rounds: int, progress: Callable[[Sequence], Iterable] = iter, seed: int = 0
) -> tuple[Point, ...]:
    """Samples every case in `rounds` rounds (fewer for long ones) and returns their points, timed.

    Samples taken while the host was slow are dropped; a case that is not long and has too few left is sampled again, once.
    """
    order = random.Random(seed)
    taken: list[list[tuple[float, Sample]]] = [[] for _ in cases]
    todo = [(i, case.rounds(rounds)) for i, case in enumerate(cases)]
    for _ in range(2):
        plan: list[int] = []
        for k in range(rounds):
            this = [i for i, most in todo if k < most]
            order.shuffle(this)
            plan += this
        for i in progress(plan):
            taken[i] += cases[i].samples()
        limit = SLOW_HOST * _fastest(taken)
        todo = [
            (i, rounds)
            for i, case in enumerate(cases)
            if rounds > 1 and not case.is_long and sum(c <= limit for c, _ in taken[i]) < case.enough
        ]
        if not todo:
            break
    return tuple(_point(case, samples, limit) for case, samples in zip(cases, taken, strict=True))


def _fastest(taken: Sequence[Sequence[tuple[float, Sample]]]) -> float:
    calibrations = sorted(c for samples in taken for c, _ in samples)
    return calibrations[len(calibrations) // 10]


def _point(case: Case, samples: Sequence[tuple[float, Sample]], limit: float) -> Point:
    """The case's point, from its samples on a quiet host; from its quietest few where there were hardly any."""
    quiet = [s for c, s in samples if c <= limit or case.is_long]
    if len(quiet) < min(case.enough, len(samples)):
        quiet = [s for _, s in sorted(samples, key=lambda cs: cs[0])[: case.enough]]
    return replace(case.point, **{name: Stat.of([s[name] for s in quiet]) for name in quiet[0]})


def record(device: Device, rounds: int = 9, progress: Callable[[Sequence], Iterable] = iter) -> Recording:
    """Runs every sweep on `device`. Takes a few minutes on a live GPU."""
    points = _one_stream_elsewhere(rounds)
    sweeps = Sweeps(device)
    sweeps.warm_up()
    for cases in itertools.islice(sweeps.stages(), 1, None):
        points += run_cases(cases, rounds, progress)
    return Recording(
        gpu=device.gpu, driver=device.driver, date=datetime.date.today().isoformat(), versions=dict(device.versions),
        host=describe_host(), points=tuple(points), reference=reference_chains(device),
    )  # fmt: skip


ADDITIONS = {
    "forkjoin": ("forkjoin", "branches", "diamonds"),
    "calls": ("calls", "nodes"),
}  # what can be recorded alone → the sweeps that it is made of


def record_addition(
    name: str, device: Device, base: Recording, rounds: int = 9, progress: Callable[[Sequence], Iterable] = iter
) -> Recording:
    """`base` with one part of the sweeps measured anew on `device`, a GPU of the same kind; `added` says when and where.

    Raises RecordingError for another kind of GPU.
    """
    if device.gpu != base.gpu:
        raise RecordingError(f"{base.path}: gpu: is {base.gpu}, and this one is {device.gpu}")
    sweeps = Sweeps(device)
    sweeps.warm_up()
    points = run_cases([*getattr(sweeps, name)()], rounds, progress)
    added = {
        "date": datetime.date.today().isoformat(), "driver": device.driver, "versions": dict(device.versions),
        "host": describe_host(),
    }  # fmt: skip
    kept = tuple(p for p in base.points if p.sweep not in ADDITIONS[name])
    return replace(base, points=(*kept, *points), added={**base.added, name: added})


def _one_stream_elsewhere(rounds: int) -> list[Point]:
    """The first stage, in a process of its own: in this one there may have been other streams before."""
    code = f"from onelaunch.measure.sweeps import print_one_stream; print_one_stream({rounds})"
    command, environment = [sys.executable, "-W", "ignore", "-c", code], {**os.environ, VARIABLE: "live"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"the one-stream sweep failed: {done.stderr.strip()[-600:]}")
    return [point_from_json(json.loads(line)) for line in done.stdout.splitlines()]


def print_one_stream(rounds: int) -> None:
    """Runs the first stage on this process's device and prints a point a line."""
    cases = next(Sweeps(current()).stages())
    for point in run_cases(cases, rounds):
        print(json.dumps(point_to_json(point)))


def reference_chains(device: Device, trials: int = 30) -> dict[str, Any]:
    """Chains of empty kernels, launched from C++, at the lengths of NVIDIA's sample cudaGraphsPerfScaling (µs, medians).

    Empty where there is no C++ compiler. Not part of the model: a cross-check of it against somebody else's program.
    """
    taken: dict[int, list[dict[str, float]]] = {length: [] for length in SAMPLE_LENGTHS}
    for _ in range(trials):
        for length, rows in taken.items():
            row = device.reference_chain(length)
            if row is None:
                return {}
            rows.append(row)
    columns = list(next(iter(taken.values()))[0])
    medians = [
        [length, *(round(statistics.median(row[c] for row in rows), 3) for c in columns)] for length, rows in taken.items()
    ]
    return {"nvidia_sample": {"columns": ["length", *columns], "rows": medians}}
