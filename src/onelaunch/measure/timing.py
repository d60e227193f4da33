"""`measure`: how long a function that issues GPU work takes, for the host, in all, and on the device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onelaunch.device import Provenance, current


@dataclass(frozen=True)
class Stat:
    """The median and the interquartile range of `samples` timings, in µs."""

    median_us: float
    iqr_us: float
    samples: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Stat:
        q1, median, q3 = np.percentile(np.asarray(values, dtype=float), [25, 50, 75])
        return cls(float(median), float(q3 - q1), len(values))

    def __repr__(self) -> str:
        return f"{self.median_us:,.1f} µs (IQR {self.iqr_us:,.1f} µs)"


@dataclass(frozen=True)
class Timing:
    """What `measure` found, in µs: each a median with its interquartile range, and the first run apart.

    `host`: until the function returned. `total`: until the stream was idle again. `device`: between an event recorded just
    before the work and one just after it, so it includes the time in which the GPU waited for the host.
    """

    host: Stat
    total: Stat
    device: Stat
    first_host_us: float
    first_total_us: float
    warmup: int
    provenance: Provenance

    @property
    def host_us(self) -> float:
        return self.host.median_us

    @property
    def total_us(self) -> float:
        return self.total.median_us

    @property
    def device_us(self) -> float:
        return self.device.median_us

    def __repr__(self) -> str:
        rows = [
            f"host    {self.host!r}: until the call returned",
            f"total   {self.total!r}: until the stream was idle",
            f"device  {self.device!r}: between events around the work",
            f"first   {self.first_total_us:,.1f} µs in all: the run before any warm-up",
            f"median of {self.total.samples} runs after {self.warmup} to warm up",
            str(self.provenance),
        ]
        return "\n".join(rows)


def measure(fn: Callable[[], object], *, stream: Any = None, repeats: int = 20, warmup: int = 3) -> Timing:
    """Times `fn()`, which issues work on `stream` (a `cp.cuda.Stream`; the current one by default).

    The first run is timed apart, `warmup` runs are thrown away, `repeats` runs give host and total time, and as many again,
    between two events, the device time. On a live GPU the clocks are real; on the simulated one, virtual.

    Raises TypeError if `fn` is not callable or `stream` is no stream, ValueError if `repeats` < 1 or `warmup` < 0. What
    `fn` raises reaches the caller: the stream is drained first, and a capture that `fn` left open is ended.
    """
    if not callable(fn):
        raise TypeError(f"measure needs a function to call, not {type(fn).__name__} {fn!r}. Did you write fn() for fn?")
    for name, value, least in (("repeats", repeats, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    device = current()
    cp = device.cp
    stream = cp.cuda.get_current_stream() if stream is None else stream
    if not hasattr(stream, "synchronize") or not hasattr(stream, "ptr"):
        raise TypeError(f"stream must be a cp.cuda.Stream, not {type(stream).__name__} {stream!r}")

    with usable_afterwards(stream):
        stream.synchronize()
        first = device.time_calls(fn, stream.synchronize)
        for _ in range(warmup):
            fn()
        stream.synchronize()
        runs = [device.time_calls(fn, stream.synchronize) for _ in range(repeats)]
        before, after = cp.cuda.Event(), cp.cuda.Event()
        spans = []
        for _ in range(repeats):
            before.record(stream)
            fn()
            after.record(stream)
            stream.synchronize()
            spans.append(cp.cuda.get_elapsed_time(before, after) * 1e3)
    return Timing(
        host=Stat.of([run.host_us for run in runs]),
        total=Stat.of([run.total_us for run in runs]),
        device=Stat.of(spans),
        first_host_us=first.host_us,
        first_total_us=first.total_us,
        warmup=warmup,
        provenance=device.provenance,
    )


@contextlib.contextmanager
def usable_afterwards(stream: Any):
    """Leaves `stream` idle and out of any capture if the block raises."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # ends a capture, whatever became of it; there may be none
            stream.end_capture()
        with contextlib.suppress(Exception):  # a dead context stays dead: the caller gets the first error
            stream.synchronize()
        raise
