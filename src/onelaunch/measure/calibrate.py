"""Fits the simulated device's costs to a recording, and judges the fit over every point of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from onelaunch.sim import gpu as sim_gpu
from onelaunch.sim.costs import Costs, Knots, LaunchCost
from onelaunch.sim.graph import QUEUES

from .recording import Point, Recording
from .sweeps import GRID_KERNEL_US, GRID_LAUNCHES, Sweeps, run_cases

GRAPH_CALLS = ("update graph", "clone graph", "upload graph")  # whose cost depends on the graph's size
ISSUED_US = 0.1  # host time of a replayed node from which on the host issues nodes of that kind itself
CPP_COLD = 0.25  # how much less than Python a long wait costs C++, which has no interpreter to go cold (from the recording)
HELD_OUT_LAUNCHES = (2, 8, 32, 128)  # of the ladder, the phases, and a branch
HELD_OUT_WIDTHS = (4, 32)  # of the diamonds
SETTLED = 16  # launches in a branch from which on the pace of fork/join graphs is steady


def is_held_out(point: Point) -> bool:
    """Whether the fit may not see this point; it is judged on it all the same. About two fifths of a recording."""
    if point.sweep == "duration":
        return (GRID_LAUNCHES.index(point.launches) + GRID_KERNEL_US.index(point.kernel_us)) % 2 == 1
    if point.sweep in ("copies", "elementwise"):
        return point.nbytes in (64, 2 * 64, 4096, 2 * 4096)
    rules: dict[str, Callable[[], bool]] = {
        "ladder": lambda: point.launches in (*HELD_OUT_LAUNCHES, 2048),
        "phases": lambda: point.launches in HELD_OUT_LAUNCHES or (point.what == "capture" and point.launches == 64),
        "streams": lambda: point.launches == 512 or point.streams > 1,
        "one stream": lambda: point.launches in (64, 512),
        "replays": lambda: point.replays in (10, 1000),
        "arguments": lambda: point.launches == 512,
        "forkjoin": lambda: point.launches // point.streams in HELD_OUT_LAUNCHES or point.kernel_us > 0,
        "branches": lambda: True,
        "diamonds": lambda: point.streams in HELD_OUT_WIDTHS,
        "calls": lambda: point.launches == 16,
    }
    return rules.get(point.sweep, lambda: False)()


def calibrate(recording: Recording) -> Costs:
    """The costs that fit a recording, from the points that are not held out. Raises ValueError if a sweep is missing."""
    return _Fit(recording).costs()


class _Fit:
    """One fit. Every method returns one parameter (or a few that belong together), in µs."""

    def __init__(self, recording: Recording):
        self.recording = recording

    def points(self, sweep: str, what: str, **wanted) -> list[Point]:
        found = [p for p in self.recording.select(sweep=sweep, what=what, **wanted) if not is_held_out(p)]
        if not found:
            raise ValueError(f"{self.recording.path or 'recording'}: no points of sweep {sweep!r}, {what!r} {wanted or ''}")
        return found

    def primitive(self, what: str) -> float:
        return self.points("primitives", what)[0].host_us.median_us

    def costs(self) -> Costs:
        # The device: how long kernels take, and what lies between them.
        alone_in_process, _ = self._replay_line(self.points("one stream", "replay"))
        shortest, _ = self._replay_line(self.points("phases", "replay"))
        second_stream = shortest - alone_in_process
        _, replay_tail = self._replay_line([*self.points("duration", "replay"), *self.points("phases", "replay")])
        node, overhead = shortest, alone_in_process
        # The way there and back: from the end of a launch call to the end of synchronize, less the kernel.
        ladder = [p for p in self.points("ladder", "loop") if p.launches < 512]
        tail = statistics.median(p.total_us.median_us - p.host_us.median_us for p in ladder)
        latency = max(0.0, self.primitive("launch to visible") - overhead)
        sync_return = tail - latency - overhead
        launch = {api: self._launch(api) for api in dict.fromkeys(p.api for p in ladder)}
        base = self._argument("1 array")
        waits = {"cupy": self._after_wait("replay", 0.0), "cpp": self._after_wait("replay", 0.0, CPP_COLD)}
        replay_host = {"cupy": self._replay_host("rawkernel", waits["cupy"])}
        replay_host["cpp"] = self._replay_host("cpp", waits["cpp"]) if "cpp" in launch else replay_host["cupy"]
        graph_latency = max(0.0, replay_tail - replay_host["cupy"](64) - sync_return)
        waits["runtime"], replay_host["runtime"] = waits["cupy"], self._runtime_host(replay_host["cupy"])
        outside, captured = graph_latency + sync_return, launch["rawkernel"].in_capture
        after_kernels = self._after_kernels(replay_host["cupy"])
        r = self.recording
        return Costs(
            gpu=r.gpu,
            driver=r.driver,
            date=r.date,
            median_error=0.0,
            worst_error=0.0,
            launch=launch,
            numba_array_us=(self._argument("3 arrays") - base) / 2,
            numba_scalar_us=(self._argument("1 array, 2 scalars") - base) / 2,
            numba_foreign_us=self._argument("1 CuPy array") - base,
            queue_depth=self._queue_depth(launch),
            launch_latency_us=latency,
            kernel_overhead_us=overhead,
            second_stream_us=second_stream,
            stream_gap_us=self._stream_gap(overhead),
            sync_return_us=sync_return,
            sync_idle_us=self.primitive("synchronize idle"),
            event_record_us=self.primitive("event record"),
            captured_event_us=self._captured_event(captured),
            event_gap_us=self._event_gap(replay_host["cupy"], graph_latency - latency, overhead, second_stream),
            begin_capture_us=self.primitive("begin capture"),
            end_capture=self._phase("end capture"),
            instantiate=self._phase("instantiate"),
            end_and_instantiate=self._end_and_instantiate(),
            root_instantiate_us=self._root_instantiate(),
            first_launch_host=self._first_host(),
            first_launch_start=self._first_start(node, sync_return),
            replay_host=replay_host,
            replay_after_wait=waits,
            replay_after_kernels_us=after_kernels,
            replay_queued_saves=self._queued_saves(replay_host["cupy"]),
            graph_latency_us=graph_latency,
            graph_gap_us=self._graph_gap(),
            root_us=self._root(),
            **self._branches(),
            pool_alloc_us=self.primitive("pool allocation"),
            cuda_malloc_us=self.primitive("cudaMalloc"),
            copy_to_device=self._copies("to device"),
            copy_to_host=self._copies("to host"),
            elementwise_body=self._elementwise(launch["ufunc"], latency + overhead + sync_return),
            calls=self._calls(),
            graph_calls=self._graph_calls(),
            **self._node_kinds(replay_host["cupy"], after_kernels, outside, second_stream, overhead),
        )

    # -- the host -----------------------------------------------------------------------------------------------------

    def _launch(self, api: str) -> LaunchCost:
        points = self.points("ladder", "loop", api=api)
        if api == "rawkernel":  # a single launch after a short wait, which the waits sweep measured as well
            points += [p for p in self.points("waits", "loop") if p.kernel_us == 10]
        n = np.array([p.launches for p in points], dtype=float)
        host = np.array([p.host_us.median_us for p in points])
        cold, per_launch = (max(0.0, float(x)) for x in _relative_fit(np.column_stack([np.ones_like(n), n]), host))
        scale = CPP_COLD if api == "cpp" else 1.0
        captured = self.points("phases", "capture", api=api)
        return LaunchCost(
            per_launch,
            self._after_wait("loop", cold, scale),
            Knots(tuple(float(p.launches) for p in captured), tuple(p.host_us.median_us for p in captured)),
        )

    def _after_wait(self, what: str, least: float, scale: float = 1.0) -> Knots:
        """What the first call costs more after a wait: `least` after the shortest; from there as recorded, scaled."""
        points = self.points("waits", what)
        waits = sorted({p.kernel_us for p in points})
        shortest = {p.launches: p.host_us.median_us for p in points if p.kernel_us == waits[0]}
        rise = [statistics.mean(p.host_us.median_us - shortest[p.launches] for p in points if p.kernel_us == w) for w in waits]
        rise = np.maximum.accumulate(np.maximum(rise, 0.0))
        return Knots(tuple(float(w) for w in waits), tuple(least + scale * float(x) for x in rise))

    def _argument(self, arguments: str) -> float:
        point = self.points("arguments", "loop", arguments=arguments)[0]
        return point.host_us.median_us / point.launches

    def _queue_depth(self, launch: dict[str, LaunchCost]) -> int:
        """From loops that blocked the host: the last call returns when the launch `depth` places before it has ended."""
        depths = []
        for p in self.points("duration", "loop"):
            if p.launches >= 2048 and p.kernel_us >= 20 and p.host_us is not None:
                period = p.total_us.median_us / p.launches
                depths.append(p.launches - (p.host_us.median_us - launch[p.api].per_launch_us) / period)
        return round(statistics.median(depths))

    # -- the device ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _replay_line(points: Iterable[Point]) -> tuple[float, float]:
        """From replays: what each node takes beyond its kernel's body, and what a replay takes beyond its nodes."""
        points = [p for p in points if p.launches > 1]
        n = np.array([p.launches for p in points], dtype=float)
        total = np.array([p.total_us.median_us for p in points])
        rest = total - n * np.array([p.kernel_us for p in points])
        per_node, tail = _relative_fit(np.column_stack([n, np.ones_like(n)]), rest, total)
        return float(per_node), float(tail)

    def _stream_gap(self, overhead: float) -> float:
        """From loops in which the device was the slower one."""
        points = [p for p in self.points("duration", "loop") if p.kernel_us >= 10 and p.launches >= 4]
        n = np.array([p.launches for p in points], dtype=float)
        total = np.array([p.total_us.median_us for p in points])
        rest = total - n * (np.array([p.kernel_us for p in points]) + overhead)
        gap, _ = _relative_fit(np.column_stack([n - 1, np.ones_like(n)]), rest, total)
        return float(gap)

    def _first_host(self) -> Knots:
        """As for replays, the middle one of the sweeps that launch chains for the first time."""
        knots, chains = self._phase("first launch"), self._forks("first launch", streams=1)
        other = {p.launches: p.host_us.median_us for p in chains}
        return Knots(knots.x, tuple(statistics.median((us, other.get(n, us))) for n, us in zip(knots.x, knots.us, strict=True)))

    def _first_start(self, node: float, sync_return: float) -> Knots:
        points = self.points("phases", "first launch")
        starts = [max(0.0, p.total_us.median_us - p.launches * node - sync_return) for p in points]
        return Knots(tuple(float(p.launches) for p in points), tuple(starts))

    def _graph_gap(self) -> float:
        """From replays queued behind each other: what each takes beyond its nodes."""
        points = [p for p in self.points("replays", "replay") if p.replays >= 100]
        n, each = _columns(points, lambda p: (p.launches, p.total_us.median_us / p.replays))
        _, gap = _relative_fit(np.column_stack([n, np.ones_like(n)]), each)
        return max(0.0, float(gap))

    # -- branches -----------------------------------------------------------------------------------------------------

    def _forks(self, what: str = "replay", **wanted) -> list[Point]:
        return self.points("forkjoin", what, **{"replays": 1, **wanted})

    def _pace(self, width: int) -> float:
        """How long one launch in each of `width` branches takes."""
        points = [p for p in self._forks(streams=width) if p.launches >= SETTLED * width]
        length, total = _columns(points, lambda p: (p.launches / width, p.total_us.median_us))
        pace, _ = _relative_fit(np.column_stack([length, np.ones_like(length)]), total)
        return float(pace)

    def _branches(self) -> dict[str, float]:
        """With many branches only the dispatcher's pace counts. With few, a node that comes while another is in hand waits for
        half of that: on average c / 2 · min(1, c · others / node), which is solved for c at each width."""
        widths = sorted({p.streams for p in self._forks()})
        pace = {width: self._pace(width) for width in widths}
        dispatch = statistics.mean(pace[w] / w for w in widths if w > QUEUES)
        late = {w: max(0.0, pace[w] - pace[1]) for w in widths if 1 < w < QUEUES}
        contention = statistics.mean(max(2 * us, math.sqrt(2 * us * pace[1] / (w - 1))) for w, us in late.items())
        further, rest = [], []  # branches that a diamond joins, and what it takes beyond two nodes and the starts
        for width in sorted({p.streams for p in self.points("diamonds", "replay")}):
            points = self.points("diamonds", "replay", streams=width)
            if len(points) > 1:
                count, total = _columns(points, lambda p, w=width: ((p.launches - 1) / (w + 1), p.total_us.median_us))
                each, _ = _relative_fit(np.column_stack([count, np.ones_like(count)]), total)
                further.append(min(width, QUEUES) - 1)
                rest.append(each - 2 * pace[1] - (width - 1) * dispatch)
        join = float(np.dot(further, rest) / np.dot(further, further))
        return {"dispatch_us": dispatch, "contention_us": contention, "join_us": max(0.0, join)}

    def _root(self) -> float:
        """From what replays of several branches cost the host more than replays of one of them."""
        alone = {p.launches: p.host_us.median_us for p in self._forks(kernel_us=0, streams=1)}
        points = [p for p in self._forks(kernel_us=0) if p.streams > 1 and p.launches // p.streams in alone]
        return statistics.median((p.host_us.median_us - alone[p.launches // p.streams]) / (p.streams - 1) for p in points)

    def _captured_event(self, in_capture: Knots) -> float:
        """A fork and a join of w branches are 3 w - 2 calls. From short captures: in long ones the launches outweigh them."""
        points = [p for p in self._forks("capture") if p.streams > 1 and p.launches <= 4 * p.streams]
        return _mean_of(points, lambda p: (3 * p.streams - 2, p.host_us.median_us - in_capture(p.launches)))

    def _end_and_instantiate(self) -> Knots:
        """As recorded for chains; beyond the longest of those as the two calls, made apart, go on."""
        points = self._forks("end and instantiate", streams=1)
        n, us = [p.launches for p in points], [p.host_us.median_us for p in points]
        end, instantiate = self._phase("end capture"), self._phase("instantiate")
        scale = us[-1] / (end(n[-1]) + instantiate(n[-1]))
        further = [x for x in instantiate.x if x > n[-1]]
        us += [scale * (end(x) + instantiate(x)) for x in further]
        return Knots((*map(float, n), *further), tuple(us))

    def _root_instantiate(self) -> float:
        knots = self._end_and_instantiate()
        points = [p for p in self._forks("end and instantiate") if p.streams > 1 and p.launches <= 16 * p.streams]
        return _mean_of(points, lambda p: (p.streams - 1, p.host_us.median_us - knots(p.launches)))

    # -- single calls, kinds of nodes ---------------------------------------------------------------------------------

    def _calls(self) -> dict[str, float]:
        recorded = [p for p in self.recording.select(sweep="calls") if p.what not in GRAPH_CALLS]
        calls = {p.what: p.host_us.median_us for p in recorded}
        calls["launch empty graph"] = self.points("nodes", "empty")[0].host_us.median_us
        return calls

    def _graph_calls(self) -> dict[str, Knots]:
        points = {what: self.points("calls", what) for what in GRAPH_CALLS}
        return {
            what: Knots(tuple(float(p.launches) for p in found), tuple(p.host_us.median_us for p in found))
            for what, found in points.items()
        }

    def _runtime_host(self, cupy: Knots) -> Knots:
        """Replays through the runtime of kernels that CuPy did not compile were recorded at one length only."""
        point = self.points("nodes", "kernel")[0]
        more = max(0.0, point.host_us.median_us - cupy(point.launches))
        return Knots(cupy.x, tuple(us + more for us in cupy.us))

    def _node_kinds(
        self, host: Knots, after_kernels: float, outside: float, gap: float, overhead: float
    ) -> dict[str, dict[str, float]]:
        """From chains of one kind: what each node takes on the device, and what it costs the host beyond a kernel.

        The device starts while the host still issues such nodes, so it has all but the first part of the host's time.
        """
        nodes: dict[str, float] = {}
        node_host: dict[str, float] = {}
        for kind in ("memset", "memcpy", "host", "event record"):
            p = self.points("nodes", kind)[0]
            nodes[kind] = max(0.0, (p.total_us.median_us - host(p.launches) - outside + gap) / p.launches - gap)
            more = (p.host_us.median_us - host(p.launches)) / p.launches
            if more > ISSUED_US:
                node_host[kind] = more
        loop = self.points("nodes", "while iteration")[0]
        first = host(1) + after_kernels  # that the loop's counter was set before
        nodes["while iteration"] = (loop.total_us.median_us - first - outside) / loop.launches - overhead
        node_host["conditional"] = max(0.0, loop.host_us.median_us - first)
        return {"nodes": nodes, "node_host": node_host}

    # -- curves -------------------------------------------------------------------------------------------------------

    def _phase(self, what: str) -> Knots:
        points = self.points("phases", what)
        return Knots(tuple(float(p.launches) for p in points), tuple(p.host_us.median_us for p in points))

    def _replay_host(self, api: str, wait: Knots) -> Knots:
        """What a replay costs the host after a wait of 10 µs, against its nodes: the middle one of all sweeps with chains.

        From session to session the same chain costs the host a fifth more or less.
        """
        points = self.points("phases", "replay", api=api)
        lengths = [p.launches for p in points]
        if api == "rawkernel":
            points += [*self.points("one stream", "replay"), *self._forks(streams=1, kernel_us=0)]
        costs = [(p.launches, p.host_us.median_us - wait(p.total_us.median_us - p.host_us.median_us)) for p in points]
        middle = [statistics.median(us for launches, us in costs if launches == n) for n in lengths]
        return Knots(tuple(map(float, lengths)), tuple(float(x) for x in np.maximum.accumulate(middle)))

    def _after_kernels(self, alone: Knots) -> float:
        """From replays that followed a kernel launch and a short wait."""
        points = [p for p in self.points("waits", "replay") if p.kernel_us <= 100]
        return max(0.0, statistics.mean(p.host_us.median_us - alone(p.launches) for p in points))

    def _event_gap(self, host: Knots, latency: float, overhead: float, second_stream: float) -> float:
        """From the device times of replays of few nodes: what the events around them see beyond the nodes."""
        gaps = []
        for p in self.points("phases", "replay", api="rawkernel"):
            if p.launches <= 64:
                nodes = p.launches * (overhead + second_stream) - second_stream
                gaps.append(p.device_us.median_us - host(p.launches) - latency - nodes)
        return max(0.0, statistics.median(gaps))

    def _queued_saves(self, alone: Knots) -> Knots:
        points = self.points("replays", "replay", replays=100)
        saves = [max(0.0, alone(p.launches) - p.host_us.median_us / p.replays) for p in points]
        return Knots(tuple(float(p.launches) for p in points), tuple(saves))

    def _copies(self, what: str) -> Knots:
        points = self.points("copies", what)
        return Knots(tuple(float(p.nbytes) for p in points), tuple(p.host_us.median_us for p in points))

    def _elementwise(self, launch: LaunchCost, around: float) -> Knots:
        points = self.points("elementwise", "loop")
        host = launch.per_launch_us + launch.after_wait(0)
        body = np.maximum.accumulate([max(0.0, p.total_us.median_us - host - around) for p in points])
        return Knots(tuple(float(p.nbytes) for p in points), tuple(float(x) for x in body))


def _columns(things: Iterable, row: Callable[..., Iterable[float]]) -> np.ndarray:
    """`row(thing)` for each thing, turned into columns."""
    return np.array([row(thing) for thing in things], dtype=float).T


def _mean_of(points: Iterable[Point], row: Callable[[Point], tuple[float, float]]) -> float:
    """What each of `count` costs, where `row` gives (count, µs of all); at least 0."""
    count, us = _columns(points, row)
    return max(0.0, float(count @ us / (count @ count)))


def _relative_fit(columns: np.ndarray, y: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
    """Least squares on relative errors: each row weighs by 1 / `scale` (by 1 / y without one)."""
    weight = 1.0 / (y if scale is None else scale)
    return np.linalg.lstsq(columns * weight[:, None], y * weight, rcond=None)[0]


@dataclass(frozen=True)
class Judgement:
    """One recorded timing and the simulated device's, in µs."""

    point: Point
    quantity: str
    recorded_us: float
    modelled_us: float

    @property
    def error(self) -> float:
        """The absolute error as a fraction of the recorded timing."""
        return abs(self.modelled_us - self.recorded_us) / self.recorded_us


def judge(costs: Costs, recording: Recording) -> list[Judgement]:
    """Runs the recording's own sweeps on a simulated device with these costs, and puts every timing beside the recorded one.

    Raises ValueError if a recorded point is one that the sweeps no longer have.
    """
    from onelaunch.device.simulated import SimulatedDevice

    kept = sim_gpu.swap(sim_gpu.Gpu(costs))
    try:
        sweeps = Sweeps(SimulatedDevice())
        modelled = {p.key: p for cases in sweeps.stages() for p in run_cases(cases, rounds=1)}
    finally:
        sim_gpu.swap(kept)
    missing = [p for p in recording.points if p.key not in modelled]
    if missing:
        raise ValueError(f"{recording.path}: {len(missing)} recorded points are in no sweep, such as {missing[0]}")
    return [
        Judgement(point, quantity, stat.median_us, getattr(modelled[point.key], quantity).median_us)
        for point in recording.points
        for quantity, stat in point.timings()
    ]


def fit(recording: Recording) -> tuple[Costs, list[Judgement]]:
    """Costs fitted to a recording, with their error over every point of it, and the judgement of each."""
    costs = calibrate(recording)
    judged = judge(costs, recording)
    errors = [j.error for j in judged]
    return replace(costs, median_error=statistics.median(errors), worst_error=max(errors)), judged
