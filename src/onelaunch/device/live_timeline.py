"""What host and GPU did while a function ran, on a live GPU: from CUPTI, else from two readings of the host's clock.

CUPTI's records turn to noise when they outlive the callback that hands them over, so it copies their fields. There is one
subscriber a process, so torch.profiler or Nsight Systems may be in the way. Tracing each node slows a graph down: measure
first, trace second.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onelaunch.sim.gpu import Span, Trace

from .calls import call_kind, plain_name
from .facts import kernel_name
from .probe import INSTALL_CUPTI

BUFFER_BYTES = 8 << 20
NS = 1e-3
MISSING = f"CUPTI's Python package is missing ({INSTALL_CUPTI}): nobody saw the GPU"
SLOWER = "tracing slows the host's calls and a graph's nodes: time first, trace second"
_busy = threading.Lock()  # CUPTI traces the whole process: one timeline at a time


@dataclass(frozen=True)
class Call:
    """A record of a call, copied. `correlation` is what the GPU's records of its work carry too."""

    runtime: bool
    cbid: int
    start_ns: int
    end_ns: int
    thread: int
    correlation: int


@dataclass(frozen=True)
class Activity:
    """A record of GPU work, copied. `graph` and `node` are 0 outside a graph."""

    kind: str
    name: str
    start_ns: int
    end_ns: int
    stream: int
    graph: int
    node: int
    correlation: int


class Records:
    """What CUPTI hands over between `start` and `stop`."""

    def __init__(self, cupti: Any):
        self.cupti = cupti
        self.calls: list[Call] = []
        self.activities: list[Activity] = []
        self.lost = ""  # what to say where records are missing
        self._enabled: list[Any] = []
        kinds = cupti.ActivityKind
        self._kinds = (kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMSET, kinds.RUNTIME, kinds.DRIVER)
        self._copies = {int(member): member.name.replace("TO", "to") for member in cupti.ActivityMemcpyKind}

    def start(self) -> None:
        """Raises what CUPTI refuses with; nothing is enabled then."""
        try:
            self.cupti.activity_register_callbacks(self._buffer, self._take)
            for kind in self._kinds:
                self.cupti.activity_enable(kind)
                self._enabled.append(kind)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """No further records; those there are have been taken."""
        for kind in reversed(self._enabled):
            with contextlib.suppress(Exception):
                self.cupti.activity_disable(kind)
        self._enabled.clear()
        try:
            self.cupti.activity_flush_all(int(self.cupti.ActivityFlag.FLUSH_FORCED))
        except Exception as error:
            self.lost = f"CUPTI kept some records to itself ({type(error).__name__}: {error})"

    @staticmethod
    def _buffer() -> tuple[int, int]:
        return BUFFER_BYTES, 0  # as many records as fit

    def _take(self, records: list) -> None:
        """Copies what is wanted and keeps none of the records. It may run in a thread of CUPTI's."""
        kinds = self.cupti.ActivityKind
        for record in records:
            kind = record.kind
            if kind in (kinds.RUNTIME, kinds.DRIVER):
                self.calls.append(
                    Call(
                        kind == kinds.RUNTIME, int(record.cbid), int(record.start), int(record.end), int(record.thread_id),
                        int(record.correlation_id),
                    )
                )  # fmt: skip
            elif kind in (kinds.CONCURRENT_KERNEL, kinds.KERNEL):
                self._add("kernel", kernel_name(str(record.name)), record)
            elif kind == kinds.MEMCPY:
                self._add("memcpy", f"memcpy {self._copies.get(int(record.copy_kind), '')}".rstrip(), record)
            elif kind == kinds.MEMSET:
                self._add("memset", "memset", record)
        records = record = None

    def _add(self, kind: str, name: str, record: Any) -> None:
        self.activities.append(
            Activity(
                kind, name, int(record.start), int(record.end), int(record.stream_id), int(record.graph_id),
                int(record.graph_node_id), int(record.correlation_id),
            )
        )  # fmt: skip

    def call_name(self, call: Call) -> str:
        domains = self.cupti.CallbackDomain
        try:
            return plain_name(
                self.cupti.get_callback_name(domains.RUNTIME_API if call.runtime else domains.DRIVER_API, call.cbid)
            )
        except Exception:  # a call newer than this CUPTI
            return f"{'runtime' if call.runtime else 'driver'} call {call.cbid}"


def record(
    fn: Callable[[], object], wait: Callable[[], object], now_us: Callable[[], float], synchronize: Callable[[], object]
) -> Trace:
    """See `Device.record_timeline`. `now_us` is the host's clock, `synchronize` waits for the whole device."""
    synchronize()
    try:
        from cupti import cupti
    except Exception as error:  # missing, or made for another CUPTI
        why = MISSING if isinstance(error, ImportError) and error.name == "cupti" else f"CUPTI cannot be imported: {error}"
        return _host_only(fn, wait, now_us, why)
    if not _busy.acquire(blocking=False):
        return _host_only(fn, wait, now_us, "another timeline is being recorded in this process: nobody saw the GPU")
    try:
        records = Records(cupti)
        try:
            records.start()
            cupti.get_timestamp()
        except Exception as error:
            records.stop()
            why = f"CUPTI refuses ({type(error).__name__}: {error}); another profiler may hold it: nobody saw the GPU"
            return _host_only(fn, wait, now_us, why)
        try:
            began = cupti.get_timestamp()
            fn()
            returned = cupti.get_timestamp()
            wait()
            waited = cupti.get_timestamp()
            synchronize()  # for streams that `wait` left alone
        finally:
            records.stop()
    finally:
        _busy.release()
    trace = make_trace(records.calls, records.activities, records.call_name, began, returned, waited)
    if records.lost:
        trace.note = f"{records.lost}; {trace.note}"
    return trace


def make_trace(
    calls: list[Call], activities: list[Activity], call_name: Callable[[Call], str], began: int, returned: int, waited: int
) -> Trace:
    """A trace of the records between `began` and `waited`, in ns of CUPTI's clock, with its times from `began` on.

    (Nanoseconds since 1970 leave a float no room for fractions of a µs, so they are subtracted as they are.)
    """

    def us(ns: int) -> float:
        return (ns - began) * NS

    activities = [a for a in activities if a.start_ns >= began]
    worked = {a.correlation for a in activities if a.kind == "kernel"}
    answered = {a.correlation for a in activities}
    host, unseen = [], 0
    for call, correlations in outermost([c for c in calls if began <= c.start_ns and c.end_ns <= waited]):
        name = call_name(call)
        kind = call_kind(name)
        if kind == "launch" and not correlations & worked:
            kind = "captured launch"
        unseen += kind == "graph launch" and not correlations & answered
        host.append(Span(name, us(call.start_ns), us(call.end_ns), kind=kind))
    device = [
        Span(a.name, us(a.start_ns), us(a.end_ns), a.stream, a.kind, a.graph or None, a.node if a.graph else None)
        for a in activities
    ]
    trace = Trace(host, device, "CUPTI", SLOWER, us(returned))
    if any(s.kind == "launch" or s.kind == "graph launch" for s in host) and not device:
        trace.source, trace.note = "host only", "CUPTI saw the calls, but none of their work on the GPU"
    elif unseen:
        trace.note = f"CUPTI saw nothing of what {unseen} graph launch{'' if unseen == 1 else 'es'} ran; {SLOWER}"
    return trace


def outermost(calls: list[Call]) -> list[tuple[Call, set[int]]]:
    """The calls that no other call of their thread encloses (the runtime calls the driver), each with the correlations of all
    that it encloses, in the order of their starts."""
    out: list[tuple[Call, set[int]]] = []
    last: dict[int, tuple[Call, set[int]]] = {}
    for call in sorted(calls, key=lambda c: (c.start_ns, -c.end_ns, not c.runtime)):
        outer = last.get(call.thread)
        if outer is not None and call.end_ns <= outer[0].end_ns:
            outer[1].add(call.correlation)
            continue
        last[call.thread] = call, {call.correlation}
        out.append(last[call.thread])
    return out


def _host_only(fn: Callable[[], object], wait: Callable[[], object], now_us: Callable[[], float], why: str) -> Trace:
    """How long `fn` and the wait took, and no more."""
    start = now_us()
    fn()
    returned = now_us()
    wait()
    host = [Span("fn", start, returned, kind="call"), Span("synchronize", returned, now_us(), kind="synchronize")]
    return Trace(host, [], "host only", why, returned)
