"""What each operation costs in virtual time: parameters fitted to a recording (see `onelaunch.measure.calibrate`)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Knots:
    """A cost that is not a straight line in `x`: linear between measured knots, and beyond the last at its last slope."""

    x: tuple[float, ...]
    us: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.us) or len(self.x) < 2 or any(b <= a for a, b in zip(self.x, self.x[1:], strict=False)):
            raise ValueError(f"knots need two or more ascending x, one value each: {self.x}, {self.us}")

    def __call__(self, x: float) -> float:
        """The cost at `x`, in µs, never below zero."""
        i = min(max(bisect_right(self.x, x), 1), len(self.x) - 1)
        x0, x1, y0, y1 = self.x[i - 1], self.x[i], self.us[i - 1], self.us[i]
        return max(0.0, y0 + (y1 - y0) * (x - x0) / (x1 - x0))


@dataclass(frozen=True)
class LaunchCost:
    """Host time of one kernel launch through one API, in µs."""

    per_launch_us: float
    after_wait: Knots  # against how long the host has just waited: what the first launch costs more, gone cold
    in_capture: Knots  # against the nodes so far: what that many launches cost in a capture, in all


@dataclass(frozen=True)
class Costs:
    """All that the virtual clocks know of one GPU and its host. Times in µs, rates in bytes per µs.

    `launch` is keyed by API: cpp, bindings, core, rawkernel, ufunc, numba, numba_ptr, torch.
    """

    gpu: str
    driver: str
    date: str  # of the recording that these were fitted to
    median_error: float  # of the fit over every recorded point, as a fraction
    worst_error: float
    launch: Mapping[str, LaunchCost]
    numba_array_us: float  # each array argument after the first
    numba_scalar_us: float  # each scalar argument
    numba_foreign_us: float  # an array of another library (CuPy's), instead of a Numba device array
    queue_depth: int  # launches a stream holds before the next one blocks the host
    launch_latency_us: float  # from the end of the launch call to the start on an idle GPU
    kernel_overhead_us: float  # what any kernel takes on the device: its start, its end, one read and one write of memory
    second_stream_us: float  # between two nodes of a graph, once the process has created a second stream
    stream_gap_us: float  # between two kernels of a stream, beyond what a graph has between two nodes
    sync_return_us: float  # from the end of the work to the return of synchronize
    sync_idle_us: float  # synchronize with nothing to wait for
    event_record_us: float
    captured_event_us: float  # recording an event, or waiting for one, in a capture
    event_gap_us: float  # from the end of work to the event behind it
    begin_capture_us: float
    end_capture: Knots  # against nodes
    instantiate: Knots
    end_and_instantiate: Knots  # both in one call, as CuPy makes it
    root_instantiate_us: float  # more for each root after the first
    first_launch_host: Knots  # the first launch of an executable graph uploads it
    first_launch_start: Knots  # from that call to the start of its first node
    replay_host: Mapping[str, Knots]  # a replay after a wait of 10 µs, against nodes a root, by caller: cpp, cupy or runtime
    replay_after_wait: Mapping[str, Knots]  # against the wait: what a replay after a longer one costs the host more
    replay_after_kernels_us: float  # what a replay costs the host more when it last launched a kernel, not a graph
    replay_queued_saves: Knots  # against nodes: what a replay right behind a launch costs the host less
    graph_latency_us: float  # from the end of a replay's host call to the start of its first node
    graph_gap_us: float  # between two replays queued behind each other
    root_us: float  # from one root of a graph to the next: what it costs the host more, and how much later it starts
    dispatch_us: float  # the least time between two starts by the dispatcher of a graph with branches
    contention_us: float  # how long it has a node in hand: one of another branch that comes meanwhile waits for half of that
    join_us: float  # how much later a node starts for each further branch that it waits for
    pool_alloc_us: float
    cuda_malloc_us: float
    copy_to_device: Knots  # against bytes, pageable memory, until the call returns
    copy_to_host: Knots
    elementwise_body: Knots  # against the bytes that an elementwise kernel reads and writes
    calls: Mapping[str, float]  # host time of single calls, named as in the sweep of that name (measure/calls.py)
    graph_calls: Mapping[str, Knots]  # of calls that work on a whole graph, against its nodes
    nodes: Mapping[str, float]  # device time of a node that is no kernel, by kind; "while iteration": without its body
    node_host: Mapping[str, float]  # what each node of a kind costs the host at a replay, where the host issues it

    def kernel_us(self, body_us: float = 0.0) -> float:
        """How long a kernel whose slowest thread stays busy for `body_us` keeps the GPU busy."""
        return self.kernel_overhead_us + body_us

    def copy_us(self, nbytes: int) -> float:
        """How long a copy within the device keeps it busy."""
        return self.nodes["memcpy"] + self._moving_us(2 * nbytes)

    def memset_us(self, nbytes: int) -> float:
        """How long setting `nbytes` keeps the device busy."""
        return self.nodes["memset"] + self._moving_us(nbytes)

    def _moving_us(self, nbytes: int) -> float:
        """How much longer than the shortest an operation takes that reads and writes `nbytes` in all."""
        return max(0.0, self.elementwise_body(nbytes) - self.elementwise_body.us[0])

    @property
    def provenance(self) -> str:
        """One line: what these numbers are fitted to, and how well."""
        return (
            f"simulated {self.gpu}, calibrated on a recording of {self.date} "
            f"(median error {100 * self.median_error:.1f} %, worst {100 * self.worst_error:.0f} %)"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Costs:
        if missing := {f.name for f in fields(cls)} - set(data):
            names = ", ".join(sorted(missing))
            raise ValueError(f"costs without {names}: fitted by an older version; run tools/calibrate.py again")
        values = dict(data)
        values["launch"] = {
            api: LaunchCost(cost["per_launch_us"], _knots(cost["after_wait"]), _knots(cost["in_capture"]))
            for api, cost in data["launch"].items()
        }
        for name, value in data.items():
            if isinstance(value, dict) and set(value) == {"x", "us"}:
                values[name] = _knots(value)
        for name in ("replay_host", "replay_after_wait", "graph_calls"):
            values[name] = {key: _knots(value) for key, value in data[name].items()}
        return cls(**values)

    @classmethod
    def load(cls, path: Path | None = None) -> Costs:
        """The costs in `path`; without one, those of the H200 that ships with the package."""
        path = path or Path(__file__).parents[1] / "data" / "nvidia_h200_costs.json"
        return cls.from_json(json.loads(path.read_text(encoding="utf-8")))


def _knots(value: dict[str, list[float]]) -> Knots:
    return Knots(tuple(value["x"]), tuple(value["us"]))
