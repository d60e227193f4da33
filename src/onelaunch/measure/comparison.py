"""A launch loop against a graph of the same launches: measured at one point, and drawn as curves through two slopes."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from onelaunch.device import API_LABELS, Device, HostTimes, Phases, Provenance, Work

from .capturing import captured, fork, join, prepare

BALANCED = 1.15  # up to this ratio neither side is said to be the slower one: runs differ by more
GRAPHS_KEPT = 8  # executable graphs of 4,096 nodes take megabytes


@dataclass(frozen=True)
class Slopes:
    """What one launch and one kernel cost on this device through one API, in µs. The kernel's own body comes on top.

    `launch_us`: host time for each launch in a loop; the first one costs `first_us` more. `queued_us`: device time for each
    kernel in a stream, beyond its body, when the host is ahead. `node_us`: the same for each node of a graph. `loop_tail_us`,
    `replay_us`: what a loop takes after its last launch call, and a replay beyond its nodes, until the stream is idle.
    """

    launch_us: float
    queued_us: float
    node_us: float
    loop_tail_us: float
    replay_us: float
    first_us: float = 0.0

    def loop_total_us(self, launches: int, kernel_us: float | np.ndarray) -> float | np.ndarray:
        """The loop: the first launch, then whichever is slower of host and device for each other one, and the last kernel."""
        each = np.maximum(self.launch_us, kernel_us + self.queued_us)
        loop = self.first_us + self.launch_us + (launches - 1) * each + kernel_us + self.loop_tail_us
        return loop if launches else 0.0 * np.asarray(kernel_us)

    def replay_total_us(self, launches: int, kernel_us: float | np.ndarray) -> float | np.ndarray:
        """The replay: the device, and one launch."""
        return self.replay_us + launches * (kernel_us + self.node_us) if launches else 0.0 * np.asarray(kernel_us)

    @property
    def crossover_us(self) -> float | None:
        """The kernel duration from which the device is slower than the host; None if it is slower with any kernel."""
        crossover = self.launch_us - self.queued_us
        return crossover if crossover > 0 else None

    def ceiling(self, launches: int, kernel_us: float | np.ndarray) -> float | np.ndarray:
        """How many times as fast a graph can be at the most: max(host, device) / device, which is the loop's total time over
        that of the kernels alone, as a graph runs them. What a replay costs beyond its nodes keeps it below."""
        busy = launches * np.maximum(kernel_us + self.node_us, 1e-9)
        return self.loop_total_us(launches, kernel_us) / busy if launches else 1.0 + 0.0 * np.asarray(kernel_us)

    def bound_by(self, kernel_us: float) -> str:
        """What a long loop of such kernels waits for: "host", "GPU", or "both" where the two are within 15 percent."""
        ratio = self.launch_us / max(kernel_us + self.queued_us, 1e-9)
        if 1 / BALANCED < ratio < BALANCED:
            return "both"
        return "host" if ratio > 1 else "GPU"


@dataclass(frozen=True)
class LoopOrGraph:
    """One configuration measured both ways."""

    api: str
    launches: int
    kernel_us: float
    loop: HostTimes
    replay: HostTimes
    slopes: Slopes
    provenance: Provenance

    @property
    def busy_us(self) -> float:
        """The device's own time for all the kernels, back to back as a graph runs them."""
        return self.launches * (self.kernel_us + self.slopes.node_us)

    @property
    def idle_share(self) -> float:
        """Which part of the loop's total time the device has nothing to do, 0 to 1."""
        return min(1.0, max(0.0, 1 - self.busy_us / self.loop.total_us)) if self.launches else 0.0

    @property
    def speed_up(self) -> float:
        """The loop's total time over the replay's; 1 for nothing launched."""
        return self.loop.total_us / self.replay.total_us if self.launches else 1.0


class Comparison:
    """Measures loops and replays on one device, on a stream of its own."""

    def __init__(self, device: Device):
        self.device = device
        self.stream = device.cp.cuda.Stream(non_blocking=True)
        self._streams, self._marks = [self.stream], []  # for branches: made when first asked for, since a second stream costs
        self._graphs: OrderedDict[tuple, Any] = OrderedDict()
        self._slopes: dict[str, Slopes] = {}

    @property
    def apis(self) -> dict[str, str]:
        """The launch APIs whose kernel can be made longer here: name → label."""
        return {api: API_LABELS[api] for api in self.device.apis if self.device.work(api).stretches}

    def at(self, api: str, launches: int, kernel_us: float) -> LoopOrGraph:
        """Both ways at one point. Zero launches take no time; raises ValueError for a negative count or duration."""
        if launches < 0 or kernel_us < 0:
            raise ValueError(f"neither {launches} launches nor a kernel of {kernel_us} µs can be measured")
        slopes = self.slopes(api)
        nothing = HostTimes(0.0, 0.0)
        loop = self.loop(api, launches, kernel_us) if launches else nothing
        replay = self.replay(api, launches, kernel_us) if launches else nothing
        return LoopOrGraph(api, launches, kernel_us, loop, replay, slopes, self.device.provenance)

    def loop(self, api: str, launches: int, kernel_us: float = 0.0) -> HostTimes:
        """A launch loop, after one warm-up run with the shortest kernels."""
        work = self._work(api, 0.0)
        work.run(launches, [self.stream])
        self._work(api, kernel_us)
        return self._middle(lambda: work.run(launches, [self.stream]), launches * kernel_us)

    def replay(self, api: str, launches: int, kernel_us: float = 0.0) -> HostTimes:
        """One replay of a captured graph of the same launches, likewise."""
        graph, work = self._graph(api, launches), self._work(api, 0.0)
        work.run_replays(graph, self.stream)
        self._work(api, kernel_us)
        return self._middle(lambda: work.run_replays(graph, self.stream), launches * kernel_us)

    def replay_branches(self, width: int, depth: int, kernel_us: float = 0.0) -> tuple[Any, HostTimes]:
        """One replay of a kernel, `width` branches of `depth` kernels behind it and a kernel behind them, likewise; the graph
        too."""
        graph, work = self._branches(width, depth), self._work("rawkernel", 0.0)
        work.run_replays(graph, self.stream)
        self._work("rawkernel", kernel_us)
        return graph, self._middle(lambda: work.run_replays(graph, self.stream), (depth + 2) * kernel_us)

    def phases(self, api: str, launches: int) -> Phases:
        """A graph of that many launches of the shortest kernel from its capture on: the median of each phase of a few graphs.

        Raises ValueError for a count below 1.
        """
        if launches < 1:
            raise ValueError(f"a graph of {launches} launches has no phases to measure")
        work = self._work(api, 0.0)
        warm_up, times = (0, 1) if self.device.is_instant else (1, 5)
        found = [self.device.measure_phases(work, launches, self.stream) for _ in range(warm_up + times)][warm_up:]

        def times_of(name: str) -> HostTimes:
            both = [getattr(phases, name) for phases in found]
            return HostTimes(median(t.host_us for t in both), median(t.total_us for t in both))

        capture, end, instantiate = (
            median(getattr(phases, name) for phases in found) for name in ("capture_us", "end_us", "instantiate_us")
        )
        return Phases(capture, end, instantiate, times_of("first"), times_of("replay"))

    def launch_costs(self, launches: int) -> dict[str, float]:
        """Host time for each of `launches` launches of the shortest kernel, for every API here, in µs."""
        costs = {}
        for api in self.device.apis:
            times = self.loop(api, max(1, launches))
            costs[api] = times.host_us / max(1, launches)
        return costs

    def slopes(self, api: str) -> Slopes:
        """This API's slopes, measured at the first call."""
        if api not in self._slopes:
            many, few, body_us = 320, 64, 20.0
            loop, one = self.loop(api, many), self.loop(api, 1)
            launch = max(0.0, (loop.host_us - one.host_us) / (many - 1))
            queued = (self.loop(api, few, body_us).total_us - self.loop(api, few // 2, body_us).total_us) / (few // 2) - body_us
            long, short = self.replay(api, many), self.replay(api, few)
            node = (long.total_us - short.total_us) / (many - few)
            self._slopes[api] = Slopes(
                launch_us=launch,
                queued_us=max(0.0, queued),
                node_us=max(0.0, node),
                loop_tail_us=loop.total_us - loop.host_us,
                replay_us=max(0.0, short.total_us - few * node),
                first_us=max(0.0, one.host_us - launch),
            )
        return self._slopes[api]

    def timelines(self, api: str, launches: int, kernel_us: float):
        """Traces of the loop and of the replay of at most `launches` launches, warmed up."""
        work = self._work(api, kernel_us)
        traces = []
        for trace in (work.trace, work.trace_replay):
            trace(launches, self.stream)
            traces.append(trace(launches, self.stream))
        work.set_kernel_us(0)
        work.count()
        return traces

    def _work(self, api: str, kernel_us: float) -> Work:
        work = self.device.work(api)
        if work.stretches:
            work.set_kernel_us(kernel_us)
        return work

    def _middle(self, run: Callable[[], HostTimes], device_us: float) -> HostTimes:
        """The run with the median total of a few; of one, where a run takes long or all runs are alike."""
        times = 1 if self.device.is_instant or device_us > 50_000 else 5
        runs = sorted((run() for _ in range(times)), key=lambda t: t.total_us)
        return HostTimes(median(r.host_us for r in runs), runs[len(runs) // 2].total_us)

    def _graph(self, api: str, launches: int) -> Any:
        work = self._work(api, 0.0)
        return self._kept((api, launches), [self.stream], lambda: work.issue(launches, [self.stream]), work)

    def _branches(self, width: int, depth: int) -> Any:
        cuda, work = self.device.cp.cuda, self._work("rawkernel", 0.0)
        while len(self._streams) < width:
            self._streams.append(cuda.Stream(non_blocking=True))
        while len(self._marks) < width:
            self._marks.append(cuda.Event(disable_timing=True))
        streams = self._streams[:width]

        def issue() -> None:
            work.issue(1, streams[:1])
            fork(streams, self._marks[0])
            work.issue(width * depth, streams)
            join(streams, self._marks[1:])
            work.issue(1, streams[:1])

        return self._kept(("branches", width, depth), streams, issue, work)

    def _kept(self, key: tuple, streams: Sequence[Any], issue: Callable[[], None], work: Work) -> Any:
        """The executable graph of what `issue` launches, captured and run once at the first call."""
        if key not in self._graphs:
            prepare(work, streams)
            self._graphs[key] = captured(self.stream, issue)
            while len(self._graphs) > GRAPHS_KEPT:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        return self._graphs[key]


@functools.cache
def comparison_on(device: Device) -> Comparison:
    """The one `Comparison` of a device, shared by the explorers."""
    return Comparison(device)


def recorded_totals(recording, api: str, launches: int, what: str) -> Sequence[tuple[float, float]]:
    """(kernel µs, total µs) of a recording's points for that many launches, "loop" or "replay"; empty where it has none."""
    points = recording.select(sweep="duration", what=what, api=api, launches=launches)
    return [(p.kernel_us, p.total_us.median_us) for p in points if p.total_us is not None]
