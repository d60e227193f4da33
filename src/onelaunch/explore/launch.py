"""The explorers of chapters 00 and 01: launch loops, graphs of the same launches, and who pays."""

from __future__ import annotations

import numpy as np

from onelaunch.charts.bars import ApiCost, DecodeBudgetChart, LoopOrGraphChart, WhoPaysChart
from onelaunch.charts.launch_overhead import LaunchOverhead, LaunchOverheadChart, Timeline
from onelaunch.charts.style import microseconds
from onelaunch.device import API_LABELS, current
from onelaunch.measure.comparison import LoopOrGraph, comparison_on, recorded_totals
from onelaunch.measure.recording import Recording

from .base import Dial, Explorer, api_choice

CURVE_US = np.geomspace(0.5, 500, 61)
TIMELINE_LAUNCHES = 12  # as many as can be told apart
FEWEST_TO_BIND = 16  # below, the first launch and the last wait decide, not the slower of the two


def _times(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio < 10 else f"{ratio:.0f}×"


def _launches(count: int) -> str:
    return f"{count:,} launch{'' if count == 1 else 'es'}"


class LaunchOverheadExplorer(Explorer):
    """Launch count, kernel duration and API; see `launch_overhead`."""

    name = "Launch overhead"

    def __init__(self, launches: int, kernel_us: float, api: str | None):
        self._comparison = comparison_on(current())
        self.api = api_choice(self._comparison.apis, api)
        instant = current().is_instant
        self.launches = Dial("kernel count", launches, 0, 4096, scale="log2", continuous=instant)
        self.kernel_us = Dial(
            "kernel duration", kernel_us, 0, 500, unit="µs", scale="log10", step=0.5, whole=False, continuous=instant
        )
        self._chart = LaunchOverheadChart()
        self._recording = Recording.load()
        for dial in (self.launches, self.kernel_us):
            dial.on_change(self.redraw)
        self.api.observe(lambda _: self.redraw(), "value")
        super().__init__([self.launches.widget, self.kernel_us.widget, self.api])

    def settings(self) -> str:
        kernel = f"a {self.kernel_us.value:g} µs kernel" if self.kernel_us.value else "the shortest kernel"
        return f"{_launches(self.launches.value)} of {kernel} through {API_LABELS[self.api.value]}"

    def draw(self) -> tuple[bytes, str, str]:
        point, view = self._look()
        return self._chart.png(view), _verdict(point), str(point.provenance)

    def view(self) -> LaunchOverhead:
        """What the chart shows for the controls' values."""
        return self._look()[1]

    def _look(self) -> tuple[LoopOrGraph, LaunchOverhead]:
        api, n, us = self.api.value, self.launches.value, self.kernel_us.value
        point = self._comparison.at(api, n, us)
        slopes = point.slopes
        return point, LaunchOverhead(
            n,
            us,
            API_LABELS[api],
            *self._timelines(api, n, us),
            loop_total_us=point.loop.total_us,
            replay_total_us=point.replay.total_us,
            busy_us=point.busy_us,
            curves_x=CURVE_US,
            loop_curve=slopes.loop_total_us(n, CURVE_US),
            replay_curve=slopes.replay_total_us(n, CURVE_US),
            crossover_us=slopes.crossover_us if n >= FEWEST_TO_BIND else None,
            recorded_loop=recorded_totals(self._recording, api, n, "loop"),
            recorded_replay=recorded_totals(self._recording, api, n, "replay"),
        )

    def _timelines(self, api: str, n: int, us: float) -> tuple[Timeline, Timeline]:
        if n == 0:
            return Timeline(), Timeline()
        loop, replay = self._comparison.timelines(api, min(n, TIMELINE_LAUNCHES), us)
        return _timeline(loop), _timeline(replay)


def _timeline(trace) -> Timeline:
    """A trace from its first call on, without the host's last wait."""
    origin = min(span.start_us for span in trace.host)
    calls = [s for s in trace.host if s.name != "synchronize"]
    return Timeline(
        [(s.start_us - origin, s.end_us - origin) for s in calls],
        [(s.start_us - origin, s.end_us - origin) for s in trace.device],
    )


def _verdict(point: LoopOrGraph) -> str:
    if point.launches == 0:
        return "nothing launched: neither the host nor the GPU has anything to do"
    loop, replay = microseconds(point.loop.total_us), microseconds(point.replay.total_us)
    both = f"the loop takes {loop}, one graph replay {replay} ({_times(point.speed_up)})"
    if point.launches == 1:
        return f"a single launch: one call either way, and what differs is the price of that call; {both}"
    idles = f"the GPU idles {100 * point.idle_share:.0f} % of the loop"
    return {
        "host": f"host-bound: {idles}; {both}",
        "both": f"balanced: a kernel, with its start and end, takes about as long as its launch; {idles}; {both}",
        "GPU": f"GPU-bound: the kernels themselves take the time, and the graph saves little; {both}",
    }[point.slopes.bound_by(point.kernel_us)]


class LoopOrGraphExplorer(Explorer):
    """One slider; see `loop_or_graph`. `loop_us` and `replay_us` are the total times for the count that it opened with, so
    that a prediction can be compared with them wherever the slider stands."""

    name = "Loop or graph"

    def __init__(self, launches: int):
        self._comparison = comparison_on(current())
        self.launches = Dial("kernel count", launches, 0, 4096, scale="log2", continuous=current().is_instant)
        self.launches.on_change(self.redraw)
        self._chart = LoopOrGraphChart()
        point = self._comparison.at("rawkernel", launches, 0.0)
        self.loop_us, self.replay_us = point.loop.total_us, point.replay.total_us
        super().__init__([self.launches.widget])

    def settings(self) -> str:
        return f"{_launches(self.launches.value)} of the shortest kernel through {API_LABELS['rawkernel']}"

    def draw(self) -> tuple[bytes, str, str]:
        point = self._comparison.at("rawkernel", self.launches.value, 0.0)
        png = self._chart.png(point.launches, point.loop.total_us, point.replay.total_us)
        return png, self._verdict(point), str(point.provenance)

    @staticmethod
    def _verdict(point: LoopOrGraph) -> str:
        if point.launches == 0:
            return "nothing launched"
        if point.launches == 1:
            return "a single launch: one call either way, and what differs is the price of that call"
        if point.speed_up > 1:
            faster = f"the graph is {_times(point.speed_up)} as fast"
        else:
            faster = f"the graph takes {_times(1 / point.speed_up)} as long as the loop"
        return f"{faster}: the host launches once instead of {point.launches:,} times"


class DecodeBudgetExplorer(Explorer):
    """Arithmetic on four numbers; see `decode_budget`."""

    name = "Decode budget"

    def __init__(self, layers: int, kernels_per_layer: int, launch_us: float, target_ms: float):
        self.layers = Dial("layers", layers, 0, 128)
        self.kernels_per_layer = Dial("kernels a layer", kernels_per_layer, 0, 64)
        self.launch_us = Dial("cost of a launch", launch_us, 0, 50, unit="µs", step=0.5, whole=False)
        self.target_ms = Dial("token target", target_ms, 1, 100, unit="ms", step=0.5, whole=False)
        self._chart = DecodeBudgetChart()
        dials = (self.layers, self.kernels_per_layer, self.launch_us, self.target_ms)
        for dial in dials:
            dial.on_change(self.redraw)
        super().__init__([dial.widget for dial in dials])

    @property
    def launches(self) -> int:
        """Launches a token."""
        return self.layers.value * self.kernels_per_layer.value

    @property
    def spent_ms(self) -> float:
        """Host time for launching, a token, in ms."""
        return self.launches * self.launch_us.value / 1000

    def settings(self) -> str:
        return (
            f"{self.layers.value} layers × {self.kernels_per_layer.value} kernels, "
            f"{self.launch_us.value:g} microseconds a launch, a token every {self.target_ms.value:g} milliseconds"
        )

    def draw(self) -> tuple[bytes, str, str]:
        png = self._chart.png(self.launches, self.launch_us.value, self.target_ms.value)
        share = self.spent_ms / self.target_ms.value
        spent = f"{self.launches:,} launches cost the host {self.spent_ms:.2f} milliseconds a token"
        if share > 1:
            verdict = f"over budget: {spent}, {share:.1f} times the whole target, and no GPU is fast enough to make up for it"
        else:
            verdict = f"{spent}: {100 * share:.0f} percent of the budget is spent on launching"
        return png, verdict, "arithmetic on your four numbers; no device involved"


class WhoPaysExplorer(Explorer):
    """One slider over one bar an API; see `who_pays`."""

    name = "Who pays"

    def __init__(self, launches: int):
        self._comparison = comparison_on(current())
        self.launches = Dial("kernel count", launches, 1, 4096, scale="log2", continuous=current().is_instant)
        self.launches.on_change(self.redraw)
        self._chart = WhoPaysChart([API_LABELS[api] for api in current().apis])
        self.costs: dict[str, float] = {}
        super().__init__([self.launches.widget])

    def settings(self) -> str:
        rows = [f"  {API_LABELS[api]:16}{us:8.1f} µs a launch" for api, us in self.costs.items()]
        return "\n".join([f"{_launches(self.launches.value)} through each API", *rows])

    def draw(self) -> tuple[bytes, str, str]:
        self.costs = self._comparison.launch_costs(self.launches.value)
        node_us = self._comparison.slopes("rawkernel").node_us
        png = self._chart.png(self.launches.value, [ApiCost(API_LABELS[a], us) for a, us in self.costs.items()], node_us)
        verdict = f"dearest: {API_LABELS[max(self.costs, key=self.costs.get)]}"
        if min(self.costs.values()) > node_us:
            verdict = f"every launch costs the host more than the kernel costs the GPU; {verdict}"
        return png, verdict, str(current().provenance)


def launch_overhead(launches: int = 512, kernel_us: float = 1.0, api: str | None = None) -> LaunchOverheadExplorer:
    """Launches of a one-thread kernel, in a loop and as a graph: host lane and GPU lane, total times, idle share, verdict.

    `launches` 0 to 4096, `kernel_us` 0 to 500 µs, `api` one of those that this device has (CuPy's RawKernel by default).
    On a live GPU each released slider measures again; grey marks are the shipped recording of an H200, where it has that
    launch count. Raises ValueError for an API that is not here.
    """
    return LaunchOverheadExplorer(launches, kernel_us, api)


def loop_or_graph(launches: int = 512) -> LoopOrGraphExplorer:
    """The course's first slider: how long that many launches take in a loop, and in one replay of a graph."""
    return LoopOrGraphExplorer(launches)


def decode_budget(
    layers: int = 32, kernels_per_layer: int = 15, launch_us: float = 5.0, target_ms: float = 10.0
) -> DecodeBudgetExplorer:
    """What launching costs one decode step of a language model, against a target for each token.

    The defaults are the seed lesson's: 32 layers of 15 kernels are 480 launches; at 5 µs each they take 2.4 ms, 24 % of a
    10 ms target.
    """
    return DecodeBudgetExplorer(layers, kernels_per_layer, launch_us, target_ms)


def who_pays(launches: int = 512) -> WhoPaysExplorer:
    """The same tiny kernel launched through each API: what a launch costs the host."""
    return WhoPaysExplorer(launches)
