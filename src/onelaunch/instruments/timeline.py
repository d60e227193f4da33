"""`timeline`: the host's calls and the GPU's work as they happened, as a picture, a table, and a file for Perfetto."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onelaunch.charts.timeline import side_by_side, union
from onelaunch.device import Provenance, current
from onelaunch.measure.timing import usable_afterwards
from onelaunch.sim.gpu import Trace

from .advice import Advice, should_i_graph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LISTED = 12  # rows of the text
HOST = "host"
LAUNCHES = ("launch", "graph launch")


@dataclass(frozen=True)
class TimelineSpan:
    """One call of the host, or one piece of work of the GPU. Times in µs from the first call.

    `lane` is "host", or "GPU" ("GPU 1", "GPU 2", … where there are several streams). Work that a graph launched has `graph`, a
    number for the graph, and `node`, its number among the nodes of that graph which were seen.
    """

    name: str
    start_us: float
    end_us: float
    lane: str
    kind: str
    graph: int | None = None
    node: int | None = None

    @property
    def duration_us(self) -> float:
        return self.end_us - self.start_us

    @property
    def label(self) -> str:
        return self.name if self.node is None else f"{self.name} [{self.node}]"

    def __repr__(self) -> str:
        return f"{self.lane}: {self.label} ({self.kind}) from {self.start_us:,.1f} to {self.end_us:,.1f} µs"


@dataclass(frozen=True, eq=False, repr=False)
class Timeline:
    """What host and GPU did while a function ran: `spans`, in the order of their starts.

    `source` is who saw it: "CUPTI" (on a GPU), "virtual clock" (simulated), or "host only" where nobody saw the GPU; what it
    did is unknown then, and `note` says why. The function returned at `returned_us`; the wait behind it is the timeline's own.
    """

    spans: tuple[TimelineSpan, ...]
    source: str
    provenance: Provenance
    returned_us: float
    note: str = ""

    def __len__(self) -> int:
        return len(self.spans)

    def __iter__(self):
        return iter(self.spans)

    # -- measures -----------------------------------------------------------------------------------------------------

    @cached_property
    def host(self) -> tuple[TimelineSpan, ...]:
        """The host's calls."""
        return tuple(span for span in self.spans if span.lane == HOST)

    @cached_property
    def gpu(self) -> tuple[TimelineSpan, ...]:
        """The GPU's work."""
        return tuple(span for span in self.spans if span.lane != HOST)

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        """ "host", and one lane for each stream in which the GPU worked."""
        return (HOST, *sorted({span.lane for span in self.gpu}, key=lambda lane: (len(lane), lane)))

    @property
    def sees_gpu(self) -> bool:
        return self.source != "host only"

    @cached_property
    def gpu_busy_us(self) -> float | None:
        """How long the GPU did anything: time in which kernels overlap counts once. None where nobody saw it."""
        if not self.sees_gpu:
            return None
        return sum(end - start for start, end in union([(s.start_us, s.end_us) for s in self.gpu]))

    @cached_property
    def wall_us(self) -> float:
        """From the first call until the last call of the function has returned and the GPU's last work has ended: the closing
        wait counts as far as the GPU works (where nobody saw that, whole)."""
        own = [s.end_us for s in self.spans if s.lane != HOST or s.start_us < self.returned_us]
        return max(own if self.sees_gpu else [s.end_us for s in self.spans], default=0.0)

    @property
    def gpu_idle(self) -> float | None:
        """Share of `wall_us` in which the GPU did nothing, 0 to 1. None where nobody saw it."""
        if self.gpu_busy_us is None:
            return None
        return max(0.0, 1 - self.gpu_busy_us / self.wall_us) if self.wall_us else 0.0

    @property
    def launches(self) -> int | None:
        """The calls that launched a kernel or a graph; those that a capture recorded do not count. None where nobody saw
        them."""
        return sum(span.kind in LAUNCHES for span in self.host) if self.sees_gpu else None

    @property
    def advice(self) -> Advice | None:
        """Whether a graph is worth it, by these numbers (see `should_i_graph`); None without a launch or the numbers."""
        if not self.launches or not self.wall_us:
            return None
        return should_i_graph(self.launches, self.gpu_busy_us, self.wall_us)

    # -- text ---------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """The timeline in one line."""
        if not self.spans:
            return "no call, no work"
        if not self.sees_gpu:
            return f"{self.wall_us:,.1f} µs on the host; what the GPU did is unknown"
        graphs = sum(span.kind == "graph launch" for span in self.host)
        calls = [_count(self.launches - graphs, "kernel launch", "es")] if self.launches > graphs else []
        calls += [_count(graphs, "graph launch", "es")] if graphs else []
        launched = " and ".join(calls) or "no launch"
        return f"{launched}: the GPU idles {100 * self.gpu_idle:.0f} % of {self.wall_us:,.1f} µs"

    @property
    def totals(self) -> dict[str, tuple[int, float]]:
        """ "lane kind" → how many spans, and how long in all, in µs. All streams are one lane here."""
        counts: Counter[str] = Counter()
        times: Counter[str] = Counter()
        for span in self.spans:
            side = HOST if span.lane == HOST else "GPU"
            key = f"{side} {span.kind}"
            counts[key] += 1
            times[key] += span.duration_us
        return {key: (counts[key], times[key]) for key in counts}

    def __repr__(self) -> str:
        lines = [f"Timeline: {self.verdict}"]
        if self.spans:
            shown = self.spans[:LISTED]
            lane, name = (max(map(len, column)) for column in ([s.lane for s in shown], [s.label for s in shown]))
            lines += [
                f"  {s.lane:{lane}}  {s.label:{name}}  from {s.start_us:,.1f} µs for {s.duration_us:,.1f} µs" for s in shown
            ]
            if len(self) > LISTED:
                lines.append(f"  … {len(self) - LISTED:,} more")
            lines += [f"  in all {count:,} × {key}: {us:,.1f} µs" for key, (count, us) in self.totals.items()]
        lines.append(f"seen by: {self.source}" + (f" ({self.note})" if self.note else ""))
        return "\n".join([*lines, str(self.provenance)])

    # -- pictures and other forms -------------------------------------------------------------------------------------

    def figure(self) -> Figure:
        """Host above, GPU below, idle time hatched, as a matplotlib figure. Hundreds of spans are shown as shares of the time,
        with the beginning in detail."""
        from onelaunch.charts.timeline import draw

        return draw(self._view())

    def _view(self):
        from onelaunch.charts.timeline import Block, Row, View

        lanes = {lane: [] for lane in self.lanes}
        for s in self.spans:
            number = "" if s.node is None else str(s.node)
            lanes[s.lane].append(Block(s.start_us, s.end_us, s.kind, f"{s.name} {number}".rstrip(), number))
        rows = [Row(lane, blocks) for lane, blocks in lanes.items() if lane != HOST]
        verdict = self.verdict[:1].upper() + self.verdict[1:]
        return View(verdict, lanes[HOST], rows, "" if self.sees_gpu else "not seen")

    def png(self) -> bytes:
        """The figure as a PNG, with the provenance below."""
        from onelaunch.charts.style import with_caption
        from onelaunch.charts.timeline import png

        return with_caption(png(self.figure()), "", f"seen by {self.source} · {self.provenance}")

    def _repr_png_(self) -> bytes:
        return self.png()

    def _repr_mimebundle_(self, include=None, exclude=None, **_: Any) -> dict[str, Any]:
        return {"image/png": base64.b64encode(self.png()).decode("ascii"), "text/plain": repr(self)}

    def to_perfetto(self, path: str | os.PathLike[str]) -> Path:
        """Writes a trace that ui.perfetto.dev and chrome://tracing open (Chrome's trace event format); returns its path.

        The host is one process, the GPU another with a thread for each stream, and more where work of a stream overlaps.
        """
        path = Path(path)
        path.write_text(json.dumps(self._events(), ensure_ascii=False, indent=0), encoding="utf-8")
        return path

    def _events(self) -> dict[str, Any]:
        events: list[dict[str, Any]] = []
        for pid, name in ((1, "host"), (2, "GPU")):
            events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
            events.append({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}})
        for tid, (name, spans) in enumerate(self._threads(), start=1):
            at = {"pid": 1 if name.startswith(HOST) else 2, "tid": tid}
            events.append({"ph": "M", "name": "thread_name", **at, "args": {"name": name}})
            events.append({"ph": "M", "name": "thread_sort_index", **at, "args": {"sort_index": tid}})
            for s in spans:
                args = {"kind": s.kind} | ({} if s.node is None else {"graph": s.graph, "node": s.node})
                events.append(
                    {"ph": "X", "name": s.name, "cat": s.kind, "ts": s.start_us, "dur": s.duration_us, **at, "args": args}
                )
        about = {"source": self.source, "note": self.note, "provenance": str(self.provenance), "verdict": self.verdict}
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}

    def _threads(self) -> list[tuple[str, list[TimelineSpan]]]:
        """The lanes, and further ones for what overlaps in a lane (branches of a graph): a thread's events may not."""
        threads = []
        for lane in self.lanes:
            spans = [span for span in self.spans if span.lane == lane]
            for k, part in enumerate(side_by_side([(s.start_us, s.end_us) for s in spans]), start=1):
                threads.append((lane if k == 1 else f"{lane} ({k})", [spans[i] for i in part]))
        return threads


# -- making one -------------------------------------------------------------------------------------------------------


def timeline(fn: Callable[[], object], *, stream: Any = None, warmup: bool = True) -> Timeline:
    """Runs `fn()` once and says what host and GPU did meanwhile, after one run to warm up (none with `warmup=False`).

    Behind `fn` it waits for `stream` (a `cp.cuda.Stream`), without one for the whole device; work in other streams is in the
    timeline as well. On a GPU, CUPTI's records slow the calls down, and a graph's nodes a little: time first (`ol.measure`),
    trace second.

    Raises TypeError if `fn` is not callable or `stream` is no stream. What `fn` raises gets out: a capture that it left open on
    `stream` is ended, and nothing is traced any more.
    """
    if not callable(fn):
        raise TypeError(f"timeline needs a function to call, not {type(fn).__name__} {fn!r}. Did you write fn() for fn?")
    if stream is not None and not (hasattr(stream, "synchronize") and hasattr(stream, "ptr")):
        raise TypeError(f"stream must be a cp.cuda.Stream, not {type(stream).__name__} {stream!r}")
    device = current()
    wait = device.cp.cuda.Device().synchronize if stream is None else stream.synchronize
    with usable_afterwards(stream or device.cp.cuda.get_current_stream()):
        if warmup:
            fn()
            device.cp.cuda.Device().synchronize()
        trace = device.record_timeline(fn, wait)
    return of_trace(trace, device.provenance)


def of_trace(trace: Trace, provenance: Provenance) -> Timeline:
    """A trace with its times from the first call on, lanes for its streams, and its graphs and nodes numbered from 0."""
    every = [*trace.host, *trace.device]
    origin = min((s.start_us for s in trace.host or every), default=0.0)
    device = sorted(trace.device, key=lambda s: (s.start_us, s.end_us))
    streams = list(dict.fromkeys(s.stream for s in device))
    lanes = {stream: "GPU" if len(streams) == 1 else f"GPU {k}" for k, stream in enumerate(streams, start=1)}
    graphs = list(dict.fromkeys(s.graph for s in device if s.graph is not None))
    nodes = {graph: sorted({s.node for s in device if s.graph == graph}) for graph in graphs}
    numbers = {(graph, node): k for graph in graphs for k, node in enumerate(nodes[graph])}
    spans = [TimelineSpan(s.name, s.start_us - origin, s.end_us - origin, HOST, s.kind) for s in trace.host]
    spans += [
        TimelineSpan(
            s.name, s.start_us - origin, s.end_us - origin, lanes[s.stream], s.kind,
            None if s.graph is None else graphs.index(s.graph), None if s.graph is None else numbers[s.graph, s.node],
        )
        for s in device
    ]  # fmt: skip
    spans.sort(key=lambda s: (s.start_us, s.lane != HOST))
    return Timeline(tuple(spans), trace.source, provenance, trace.returned_us - origin, trace.note)


def _count(n: int, noun: str, plural: str = "s") -> str:
    return f"{n:,} {noun}{'' if n == 1 else plural}"
