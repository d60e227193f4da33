"""What a graph saves: how many replays repay making it, and where the time of one launch goes with and without it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from onelaunch.device import Phases, Provenance

from .comparison import Comparison, LoopOrGraph


@dataclass(frozen=True)
class BreakEven:
    """A graph from its capture on, against the loop of the same launches. Times in µs, each until the stream is idle.

    The graph's first launch does the work like any later one: it is replay number 1. Host and stream wait for each other
    after each replay, and after each run of the loop.
    """

    api: str
    launches: int
    capture_us: float  # from begin to end
    instantiate_us: float
    first_us: float  # the first launch, which uploads the graph
    replay_us: float  # each later one
    loop_us: float  # the same launches one by one
    provenance: Provenance

    @property
    def once_us(self) -> float:
        """What the graph has cost when its first launch has run."""
        return self.capture_us + self.instantiate_us + self.first_us

    @property
    def saving_us(self) -> float:
        """What each later replay saves against one run of the loop; negative where it costs more."""
        return self.loop_us - self.replay_us

    def graph_total_us(self, replays: float) -> float:
        """Capture, instantiation, and that many replays (an array gives an array)."""
        return self.once_us + (replays - 1) * self.replay_us

    def loop_total_us(self, replays: float) -> float:
        """As many runs of the loop."""
        return replays * self.loop_us

    @property
    def replays(self) -> int | None:
        """The smallest number of replays with which the graph has taken less time than the loop; None if a replay is no faster.

        Exact: the times are taken as they are, and nothing is rounded on the way.
        """
        capture, instantiate, first, replay, loop = (
            Fraction(us) for us in (self.capture_us, self.instantiate_us, self.first_us, self.replay_us, self.loop_us)
        )
        if replay >= loop:
            return None
        # once + (n - 1) * replay < n * loop
        return max(1, (capture + instantiate + first - replay) // (loop - replay) + 1)


def break_even_of(comparison: Comparison, api: str, launches: int) -> BreakEven:
    """Measures all of it for that many launches of the shortest kernel. Raises ValueError for a count below 1."""
    phases: Phases = comparison.phases(api, launches)
    return BreakEven(
        api,
        launches,
        capture_us=phases.capture_us + phases.end_us,
        instantiate_us=phases.instantiate_us,
        first_us=phases.first.total_us,
        replay_us=comparison.replay(api, launches).total_us,
        loop_us=comparison.loop(api, launches).total_us,
        provenance=comparison.device.provenance,
    )


@dataclass(frozen=True)
class Shares:
    """One way's time for each launch, in µs: what the host does in it, what the GPU does in it. The two overlap.

    `call_us` is the host's own time, `python_us` the part of it that C++ does not need (None where that is not known);
    `kernel_us` the kernel's body, `gap_us` its start, its end and the gap to the next one.
    """

    total_us: float
    call_us: float
    python_us: float | None
    kernel_us: float
    gap_us: float

    @property
    def waits_us(self) -> float:
        """How long the host waits."""
        return max(0.0, self.total_us - self.call_us)

    @property
    def idle_us(self) -> float:
        """How long the GPU has nothing to do."""
        return max(0.0, self.total_us - self.kernel_us - self.gap_us)


def shares_of(comparison: Comparison, point: LoopOrGraph) -> tuple[Shares, Shares]:
    """Loop and replay at `point`, for each launch on average. Raises ValueError where nothing was launched."""
    n, slopes = point.launches, point.slopes
    if n < 1:
        raise ValueError("nothing was launched, so no launch has a share of anything")
    call = slopes.launch_us + slopes.first_us / n
    python = None
    if "cpp" in comparison.device.apis:
        cpp = comparison.slopes("cpp")
        python = 0.0 if point.api == "cpp" else max(0.0, call - cpp.launch_us - cpp.first_us / n)
    loop = Shares(point.loop.total_us / n, call, python, point.kernel_us, slopes.queued_us)
    replay = Shares(point.replay.total_us / n, point.replay.host_us / n, None, point.kernel_us, slopes.node_us)
    return loop, replay
