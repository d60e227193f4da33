"""Is a CUDA graph worth it? The bound on what it can save, from three numbers that any profiler gives."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

WORTH_FROM = 1.2  # times as fast at the most: less is not worth the work
GPU_BOUND_FROM = 0.9  # share of the time in which the GPU is busy


@dataclass(frozen=True)
class Advice:
    """What a graph could do for a piece of work. Times in µs; `ceiling` is the most that it can be faster, as a factor."""

    launches: int
    gpu_busy_us: float
    wall_us: float

    @property
    def busy_share(self) -> float:
        """Share of the time in which the GPU works; more than 1 where kernels overlap."""
        return self.gpu_busy_us / self.wall_us

    @property
    def ceiling(self) -> float:
        """wall / busy: a graph takes the host away, and the kernels stay as they are. (Infinite for work without any.)"""
        return self.wall_us / self.gpu_busy_us if self.gpu_busy_us else float("inf")

    @property
    def saving_us(self) -> float:
        """The most that a graph can save: the time in which the GPU waits."""
        return max(0.0, self.wall_us - self.gpu_busy_us)

    @property
    def worth_it(self) -> bool:
        return self.launches > 1 and self.ceiling >= WORTH_FROM

    @property
    def verdict(self) -> str:
        """One sentence: yes or no, and why."""
        idle = f"the GPU idles {100 * max(0.0, 1 - self.busy_share):.0f} % of the time"
        if self.launches < 2:
            return "no: a single launch is a single call already"
        if self.busy_share >= GPU_BOUND_FROM:
            return f"no: {idle}, so the kernels set the pace; make them faster, or fewer by fusing them"
        if not self.worth_it:
            return f"hardly: {idle}; a graph can be {self.ceiling:.2f}× as fast at the most"
        each = self.saving_us / self.launches
        return f"yes: {idle}, {each:.1f} µs for each launch; a graph can be up to {self.ceiling:.1f}× as fast"

    def __repr__(self) -> str:
        return (
            f"{self.verdict}\n"
            f"  {self.launches:,} launches, {self.gpu_busy_us:,.0f} µs of GPU work in {self.wall_us:,.0f} µs\n"
            "  (a bound: a replay has a launch of its own, and a little time between its nodes)"
        )


def should_i_graph(launches: int, gpu_busy_us: float, wall_us: float) -> Advice:
    """Whether capturing `launches` launches in a graph is worth it, that keep the GPU busy for `gpu_busy_us` of `wall_us`.

    The times are those of one iteration: `gpu_busy_us` the sum of the kernels' durations (Nsight Systems, torch.profiler,
    `ol.timeline`), `wall_us` from its first launch to the end of its last kernel. Raises ValueError for a count below 1, a
    negative time, or no time at all.
    """
    if not isinstance(launches, int) or launches < 1:
        raise ValueError(f"launches is a count of at least 1, not {launches!r}")
    for name, value in (("gpu_busy_us", gpu_busy_us), ("wall_us", wall_us)):
        if not isinstance(value, Real) or not 0 <= value < float("inf"):
            raise ValueError(f"{name} is a time in µs, not {value!r}")
    if not wall_us:
        raise ValueError("wall_us is 0: nothing took any time")
    return Advice(launches, float(gpu_busy_us), float(wall_us))
