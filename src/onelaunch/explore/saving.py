"""The explorers of chapters 02 and 04: how many replays repay making a graph, and how much a graph can save."""

from __future__ import annotations

from onelaunch.charts.saving import BreakEvenChart, BreakEvenView, Row, SpeedUpChart, SpeedUpView, ordinal
from onelaunch.charts.style import microseconds
from onelaunch.device import API_LABELS, current
from onelaunch.measure.comparison import BALANCED, LoopOrGraph, comparison_on
from onelaunch.measure.saving import BreakEven, Shares, break_even_of, shares_of

from .base import Dial, Explorer, api_choice
from .launch import CURVE_US, FEWEST_TO_BIND, _launches


class BreakEvenExplorer(Explorer):
    """Kernel count, replays and API; see `break_even`. `measured` is what the picture shows."""

    name = "Break-even"

    def __init__(self, launches: int, replays: int, api: str | None):
        device = current()
        self._comparison = comparison_on(device)
        self._measured: BreakEven | None = None
        self.api = api_choice({api: API_LABELS[api] for api in device.apis}, api)
        self.launches = Dial("kernel count", launches, 1, 4096, scale="log2", continuous=device.is_instant)
        self.replays = Dial("replays", replays, 1, 100_000, scale="log10")
        self._chart = BreakEvenChart()
        self.launches.on_change(self._measure_again)
        self.replays.on_change(self.redraw)  # arithmetic alone
        self.api.observe(lambda _: self._measure_again(), "value")
        super().__init__([self.launches.widget, self.replays.widget, self.api])

    @property
    def measured(self) -> BreakEven:
        """The phases, the replay and the loop for the chosen kernel count and API; measured when first asked for."""
        if self._measured is None:
            self._measured = break_even_of(self._comparison, self.api.value, self.launches.value)
        return self._measured

    def _measure_again(self) -> None:
        self._measured = None
        self.redraw()

    def settings(self) -> str:
        replays = self.replays.value
        return (
            f"{_launches(self.launches.value)} of the shortest kernel through {API_LABELS[self.api.value]}, "
            f"{replays:,} replay{'' if replays == 1 else 's'}"
        )

    def draw(self) -> tuple[bytes, str, str]:
        found, replays = self.measured, self.replays.value
        view = BreakEvenView(
            found.launches, API_LABELS[found.api], replays, found.capture_us, found.instantiate_us, found.first_us,
            found.replay_us, found.loop_us, found.replays,
        )  # fmt: skip
        return self._chart.png(view), _pays(found, replays), str(found.provenance)


def _pays(found: BreakEven, replays: int) -> str:
    loop, replay = microseconds(found.loop_us), microseconds(found.replay_us)
    if found.replays is None:
        return f"never pays: a replay takes {replay}, the loop {loop}, so no number of replays repays capture and instantiation"
    once = f"capture, instantiation and first launch take {microseconds(found.once_us)}, one run of the loop {loop}"
    saved = microseconds(found.saving_us) if found.saving_us >= 0.05 else "less than 0.1 µs"
    later = f"every later replay saves {saved}"
    graph_us, loop_us = found.graph_total_us(replays), found.loop_total_us(replays)
    ahead = "the graph" if graph_us < loop_us else "the loop" if loop_us < graph_us else "neither"
    runs = "1 replay" if replays == 1 else f"{replays:,} replays"
    now = f"after {runs} {ahead} is ahead, by {microseconds(abs(loop_us - graph_us))}"
    return f"pays from the {ordinal(found.replays)} replay on: {once}; {later}; {now}"


class SpeedUpExplorer(Explorer):
    """Kernel count, kernel duration and API; see `speed_up`."""

    name = "Speed-up"

    def __init__(self, launches: int, kernel_us: float, api: str | None):
        device = current()
        self._comparison = comparison_on(device)
        self.api = api_choice(self._comparison.apis, api)
        instant = device.is_instant
        self.launches = Dial("kernel count", launches, 1, 4096, scale="log2", continuous=instant)
        self.kernel_us = Dial(
            "kernel duration", kernel_us, 0.5, 500, unit="µs", scale="log10", step=0.5, whole=False, continuous=instant
        )
        self._chart = SpeedUpChart()
        for dial in (self.launches, self.kernel_us):
            dial.on_change(self.redraw)
        self.api.observe(lambda _: self.redraw(), "value")
        super().__init__([self.launches.widget, self.kernel_us.widget, self.api])

    def settings(self) -> str:
        kernel = f"a {self.kernel_us.value:g} µs kernel"
        return f"{_launches(self.launches.value)} of {kernel} through {API_LABELS[self.api.value]}"

    def draw(self) -> tuple[bytes, str, str]:
        point = self._comparison.at(self.api.value, self.launches.value, self.kernel_us.value)
        return self._chart.png(self._view_of(point)), _floor(point), str(point.provenance)

    def view(self) -> SpeedUpView:
        """What the chart shows for the controls' values."""
        return self._view_of(self._comparison.at(self.api.value, self.launches.value, self.kernel_us.value))

    def _view_of(self, point: LoopOrGraph) -> SpeedUpView:
        n, slopes = point.launches, point.slopes
        loop, replay = shares_of(self._comparison, point)
        note = ["gap: a kernel's start, its end, and the way to the next"]
        if loop.python_us is not None:
            note.insert(0, "CUDA: what the same launch costs from C++")
        if loop.python_us:
            note.insert(1, f"Python: what {API_LABELS[point.api]} adds to that")
        return SpeedUpView(
            n,
            point.kernel_us,
            API_LABELS[point.api],
            durations_us=CURVE_US,
            speed_up=slopes.loop_total_us(n, CURVE_US) / slopes.replay_total_us(n, CURVE_US),
            ceiling=slopes.ceiling(n, CURVE_US),
            here=point.speed_up,
            crossover_us=slopes.crossover_us if n >= FEWEST_TO_BIND else None,
            totals_us=(loop.total_us, replay.total_us),
            note="\n".join(note),
            rows=(_host_row(loop, "call"), _gpu_row(loop), _host_row(replay, "one call"), _gpu_row(replay)),
        )


def _host_row(shares: Shares, name: str) -> Row:
    rest = ("waits", shares.waits_us)
    if shares.python_us is None:
        return Row([(name, shares.call_us)], rest)
    parts = [("CUDA", shares.call_us - shares.python_us), ("Python", shares.python_us)]
    return Row([part for part in parts if part[1]], rest)


def _gpu_row(shares: Shares) -> Row:
    return Row([("kernel", shares.kernel_us), ("gap", shares.gap_us)], ("idle", shares.idle_us))


def _floor(point: LoopOrGraph) -> str:
    n, slopes, us = point.launches, point.slopes, point.kernel_us
    here = f"{point.speed_up:.2f}×"
    if n == 1:
        return f"no: a single launch is a single call either way, and what differs is the price of that call; here {here}"
    host, gpu = microseconds(slopes.launch_us), microseconds(us + slopes.queued_us)
    most, bound = float(slopes.ceiling(n, us)), slopes.bound_by(us)
    each = f"a launch costs the host {host}, a kernel the GPU {gpu}"
    few = " (with so few launches, the first call and the last wait count as much)" if n < FEWEST_TO_BIND else ""
    if bound == "host":
        return (
            f"host-bound: {each}, so the host sets the floor; a graph lowers it to the GPU's, "
            f"and can be {most:.2f}× as fast at the most; here {here}{few}"
        )
    if bound == "both":
        return (
            f"hardly: {each}, so neither waits for the other; a graph can be {most:.2f}× as fast at the most; here {here}{few}"
        )
    no = "no" if most < BALANCED else "hardly"
    return (
        f"{no}: GPU-bound: {each}, so the kernels set the floor, and a graph runs the same kernels; "
        f"closer together, they are {most:.2f}× as fast at the most; here {here}{few}"
    )


def break_even(launches: int = 512, replays: int = 1000, api: str | None = None) -> BreakEvenExplorer:
    """How many replays repay making a graph: capture, instantiation, first launch and later replays beside the launch loop.

    `launches` 1 to 4096 of the shortest kernel, `replays` 1 to 100,000 (the first launch is the first of them, and each is
    waited for), `api` one of those that this device has (CuPy's RawKernel by default). On a live GPU a released slider of
    the kernel count, or another API, measures again; the number of replays is arithmetic. Raises ValueError for an API that
    is not here.
    """
    return BreakEvenExplorer(launches, replays, api)


def speed_up(launches: int = 512, kernel_us: float = 1.0, api: str | None = None) -> SpeedUpExplorer:
    """How many times as fast a graph is, against the kernel's duration, under the ceiling max(host, device) / device.

    Below it, where the time of one launch goes, with the host's part split by what the
    same launch costs from C++ where the device has that. `launches` 1 to 4096, `kernel_us` 0.5 to 500 µs, `api` one whose
    kernel can be made longer. On a live GPU each released slider measures again. Raises ValueError for an API that is not here.
    """
    return SpeedUpExplorer(launches, kernel_us, api)
