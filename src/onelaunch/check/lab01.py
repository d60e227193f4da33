"""Checks of lab 01, launch overhead."""

from __future__ import annotations

import math
from typing import Any

from onelaunch.device import current
from onelaunch.measure import measure

from .verdict import Failed, check


@check("bottleneck")
def bottleneck(answer) -> None:
    """`answer(launches, launch_us, kernel_us)` is "host" or "GPU": which of the two a loop of launches waits for."""
    cases = [
        (512, 5.0, 1.0, "host"), (512, 5.0, 50.0, "GPU"), (1, 5.0, 1.0, "host"), (4096, 3.4, 3.0, "host"),
        (64, 17.0, 12.0, "host"), (16, 3.4, 12.0, "GPU"), (2, 40.0, 35.0, "host"), (300, 0.5, 0.8, "GPU"),
    ]  # fmt: skip
    for launches, launch_us, kernel_us, expected in cases:
        got = answer(launches, launch_us, kernel_us)
        if got == expected:
            continue
        asked = f'"{expected}" for {launches} launches of {launch_us:g} µs each, of a {kernel_us:g} µs kernel'
        if got not in ("host", "GPU"):
            raise Failed(asked, repr(got), "the answer is another value than the two words", 'return "host" or "GPU"')
        host_total, kernel = launches * launch_us, kernel_us
        if expected == "GPU" and host_total > kernel:
            cause = "all launches are set against a single kernel, or the two are the wrong way round"
        elif expected == "host" and launch_us < 5 and kernel_us > 1:
            cause = "a fixed limit was used, where only the two durations against each other decide"
        else:
            cause = "the two are the wrong way round"
        hint = "for each kernel the host needs one launch: who is finished later, the one or the other?"
        raise Failed(asked, repr(got), cause, hint)


@check("crossover_us")
def crossover_us(answer) -> None:
    """`answer(launch_us, overhead_us)` is the kernel duration from which a launch loop is GPU-bound, never below zero."""
    for launch_us, overhead_us in ((5.0, 1.7), (16.5, 1.7), (3.4, 1.67), (1.0, 2.5), (8.0, 0.0)):
        expected = max(0.0, launch_us - overhead_us)
        got = _number(answer(launch_us, overhead_us), "µs")
        if math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-9):
            continue
        asked = f"{expected:g} µs, for launches of {launch_us:g} µs and {overhead_us:g} µs of overhead on the GPU"
        if math.isclose(got, launch_us):
            cause = "the GPU's own overhead for each kernel is left out"
        elif math.isclose(got, launch_us + overhead_us):
            cause = "the overhead was added: but it makes the GPU slower, so the kernel itself can be shorter"
        elif got < 0:
            cause = "a kernel cannot take less than no time"
        elif expected and math.isclose(got, -(launch_us - overhead_us)):
            cause = "the difference is the wrong way round"
        else:
            cause = "the two sides of the balance are not the host's time and the GPU's time for one kernel"
        raise Failed(asked, f"{got:g} µs", cause, "at the crossover, launch = kernel + overhead: solve for the kernel")


@check("benchmark")
def benchmark(answer) -> None:
    """`answer(fn, stream)` is the median total time of `fn`, in µs: warmed up, synchronised, repeated."""
    work = _Workload()
    reference = measure(work.long_kernels, stream=work.stream, repeats=5).total_us
    got = _number(answer(work.long_kernels, work.stream), "µs")
    _compare_times(got, reference)

    work.calls = 0
    warm = measure(work.short_kernels, stream=work.stream, repeats=5).total_us
    work.calls, work.slow_calls = 0, {1}
    got = _number(answer(work.slow_at_first, work.stream), "µs")
    if work.calls < 4:
        raise Failed(
            "several runs after a warm-up", f"{work.calls} calls of fn", "too few runs for a median", "repeat, say, 10 times"
        )
    if got > 5 * warm:
        raise Failed(
            f"about the time of a warm run ({warm:,.0f} µs)", f"{got:,.0f} µs",
            "the first run, with its one-time cost, was timed too", "call fn once (and synchronise) before you start the clock",
        )  # fmt: skip

    work.calls, work.slow_calls = 0, {4}
    got = _number(answer(work.slow_at_first, work.stream), "µs")
    if got > 3 * warm:
        raise Failed(
            f"about {warm:,.0f} µs, though one run was disturbed", f"{got:,.0f} µs",
            "a mean, or a maximum: one bad run spoils it", "take the median of the runs",
        )  # fmt: skip


def _compare_times(got: float, reference: float) -> None:
    asked = f"about {reference:,.0f} µs, what ol.measure finds for the same work"
    if reference / 1.5 < got < reference * 1.5:
        return
    for factor, unit in ((1e-6, "seconds"), (1e-3, "milliseconds"), (1e3, "nanoseconds")):
        if reference * factor / 1.5 < got < reference * factor * 1.5:
            raise Failed(asked, f"{got:g}", f"that is {unit}", "return microseconds")
    if got < reference / 1.5:
        raise Failed(
            asked, f"{got:,.1f} µs", "the clock was read before the GPU had finished: launches return at once",
            "synchronise the stream before you read the clock the second time",
        )  # fmt: skip
    raise Failed(asked, f"{got:,.1f} µs", "more than one run was counted, or time outside fn", "time each run on its own")


class _Workload:
    """Functions to benchmark on a stream of their own: long kernels, short ones, and runs that are slow on purpose."""

    SLOW_S = 0.05

    def __init__(self) -> None:
        device = current()
        cp, cuda = device.cp, device.cuda
        self.stream = cp.cuda.Stream(non_blocking=True)
        self._time = device.time
        self.calls, self.slow_calls = 0, set()
        x = cp.zeros(1, dtype=cp.float32)
        cp.cuda.Device().synchronize()
        array, stream = cuda.as_cuda_array(x, sync=False), cuda.external_stream(self.stream.ptr)

        @cuda.jit
        def nap(x):
            cuda.nanosleep(500_000)
            x[0] += 1

        @cuda.jit
        def tiny(x):
            x[0] += 1

        self._nap = lambda: nap[1, 1, stream](array)
        self._tiny = lambda: tiny[1, 1, stream](array)
        self._nap()
        self._tiny()
        self.stream.synchronize()

    def long_kernels(self) -> None:
        for _ in range(8):
            self._nap()

    def short_kernels(self) -> None:
        for _ in range(8):
            self._tiny()

    def slow_at_first(self) -> None:
        """Short kernels; the calls named in `slow_calls` take 50 ms of host time more."""
        self.calls += 1
        if self.calls in self.slow_calls:
            self._time.sleep(self.SLOW_S)
        self.short_kernels()


@check("decode_budget")
def decode_budget(answer) -> None:
    """`answer(layers, kernels_per_layer, launch_us, target_ms)` is (launches, ms of launching, share of the target)."""
    for layers, kernels, launch_us, target_ms in (
        (32, 15, 5.0, 10.0),
        (80, 12, 3.4, 25.0),
        (1, 1, 16.5, 1.0),
        (48, 14, 9.0, 5.0),
    ):
        launches = layers * kernels
        spent_ms = launches * launch_us / 1000
        expected = launches, spent_ms, spent_ms / target_ms
        budget = f"{layers} × {kernels} kernels, {launch_us:g} µs, {target_ms:g} ms"
        asked = f"({launches}, {spent_ms:g} ms, {expected[2]:.4g}) for {budget}"
        got = answer(layers, kernels, launch_us, target_ms)
        if not isinstance(got, tuple | list) or len(got) != 3:
            raise Failed(asked, repr(got), "not three values", "return launches, launch_ms, share")
        values = [_number(v, name) for v, name in zip(got, ("launches", "ms", "as a share"), strict=True)]
        if not math.isclose(values[0], launches):
            raise Failed(
                asked, _tuple(got), "the number of launches for one token is not right", "every layer launches all its kernels"
            )
        if not math.isclose(values[1], spent_ms, rel_tol=1e-6):
            cause = (
                "the time is not in milliseconds" if _power_of_1000(values[1] / spent_ms) else "not launches × cost of a launch"
            )
            raise Failed(asked, _tuple(got), cause, "1 ms is 1,000 µs")
        if not math.isclose(values[2], expected[2], rel_tol=1e-6):
            percent = math.isclose(values[2], 100 * expected[2], rel_tol=1e-6)
            cause = (
                "that is the share in percent" if percent else "the share is not spent time over the target, both in one unit"
            )
            raise Failed(asked, _tuple(got), cause, "the share is a fraction: 0.24 for 24 percent")


@check("spread")
def spread(answer) -> None:
    """`answer(kernel, arrays, streams, launches)` launches `kernel` in turn over the streams, then waits for all."""
    device = current()
    cp, cuda = device.cp, device.cuda

    @cuda.jit
    def nap(x):  # x[1] times as long as a nap: so that one stream is busy long after the others
        for _ in range(int(x[1])):
            cuda.nanosleep(800_000)
        x[0] += 1

    for launches, naps in ((8, (1, 8)), (7, (8, 1, 1)), (4, (1, 1, 8, 1))):
        width = len(naps)
        cupy_streams = [cp.cuda.Stream(non_blocking=True) for _ in range(width)]
        streams = [cuda.external_stream(s.ptr) for s in cupy_streams]
        memory = [cp.asarray([0, n], dtype=cp.float32) for n in naps]
        arrays = [cuda.as_cuda_array(x, sync=False) for x in memory]
        nap[1, 1, streams[0]](arrays[0])  # compiles
        cp.cuda.Device().synchronize()
        memory[0][0] = 0
        cp.cuda.Device().synchronize()
        spy = _Spy(nap, cupy_streams)
        answer(spy, arrays, streams, launches)
        idle = [s.done for s in cupy_streams]
        cp.cuda.Device().synchronize()
        _judge_spread(spy, idle, [int(x[0]) for x in memory], width, launches)


def _judge_spread(spy: _Spy, idle: list[bool], counts: list[int], width: int, launches: int) -> None:
    expected = [launches // width + (k < launches % width) for k in range(width)]
    asked = f"{launches} launches over {width} streams: {expected}"
    used = [spy.streams.count(k) for k in range(width)]
    if None in spy.streams:
        raise Failed(
            asked,
            "a launch on another stream",
            "a launch that names no stream goes to the default stream",
            "kernel[1, 1, stream]",
        )
    if sum(used) != launches:
        cause = (
            "launches that do not fill a whole round are missing"
            if sum(used) == launches // width * width
            else "not every launch was made"
        )
        raise Failed(asked, f"{sum(used)} launches: {used}", cause, "launch i goes to stream i % len(streams)")
    if used != expected:
        cause = "all on one stream" if max(used) == launches else "not in turn: some stream got more than its share"
        raise Failed(asked, str(used), cause, "launch i goes to stream i % len(streams)")
    if counts != expected:
        raise Failed(
            f"each array counts its stream's launches: {expected}",
            str(counts),
            "a stream got another stream's array",
            "arrays[k] goes with streams[k]",
        )
    if spy.waited:
        raise Failed(
            "launches that do not wait for each other",
            "each launch found its stream idle",
            "the loop synchronises after each launch",
            "synchronise once, after the loop",
        )
    if not all(idle):
        raise Failed(
            "all streams idle at the end",
            f"{idle.count(False)} of {width} still working",
            "the function returns before the GPU has finished",
            "synchronise every stream, after the loop",
        )


class _Spy:
    """Stands for a kernel: launches it, and notes on which stream, and whether that stream had been waited for."""

    def __init__(self, kernel, streams: list):
        self._kernel, self._cupy = kernel, streams
        self.streams: list[int | None] = []
        self._idle: list[bool] = []

    def __getitem__(self, configuration):
        handle = int(configuration[2]) if isinstance(configuration, tuple) and len(configuration) > 2 else None
        index = next((k for k, s in enumerate(self._cupy) if s.ptr == handle), None)
        launch = self._kernel[configuration]

        def call(*args: Any) -> None:
            if index is not None and index in self.streams:
                self._idle.append(self._cupy[index].done)
            self.streams.append(index)
            launch(*args)

        return call

    @property
    def waited(self) -> bool:
        """Whether every launch after a stream's first found that stream idle."""
        return bool(self._idle) and all(self._idle)


def _number(value: Any, unit: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Failed(f"a number ({unit})", repr(value), "the function returns no number", "is there a return?") from None


def _power_of_1000(ratio: float) -> bool:
    return ratio > 0 and any(math.isclose(ratio, 1000.0**k, rel_tol=1e-6) for k in (-2, -1, 1, 2))


def _tuple(values: Any) -> str:
    return "(" + ", ".join(f"{float(v):g}" for v in values) + ")"
