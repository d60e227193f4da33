"""Checks of lab 01, launch overhead."""

from __future__ import annotations

import itertools
import math
import numbers
import statistics
import time as real_time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onelaunch.device import current
from onelaunch.measure import measure

from .verdict import Failed, check

# -- exercise 1 -------------------------------------------------------------------------------------------------------

# (launches, µs a launch, µs a kernel)
LOOPS = (
    (512, 5.0, 1.0), (512, 5.0, 50.0), (4, 5.0, 30.0), (4, 30.0, 5.0), (2, 40.0, 35.0), (2, 5.0, 8.0),
    (4096, 3.4, 3.0), (4096, 5.0, 6.0), (64, 17.0, 12.0), (16, 3.4, 12.0), (300, 0.5, 0.8), (8, 10.0, 9.0),
    (512, 10.0, 10.1), (512, 10.0, 9.9),
)  # fmt: skip

BOTTLENECK_CAUSES: dict[str, Callable[[int, float, float], bool]] = {  # cause → whether it answers "host"
    "the two are the wrong way round": lambda n, launch, kernel: launch < kernel,
    "all launches are set against a single kernel": lambda n, launch, kernel: n * launch > kernel,
    "a single launch is set against all kernels": lambda n, launch, kernel: launch > n * kernel,
}


@check("bottleneck")
def bottleneck(answer) -> None:
    """`answer(launches, launch_us, kernel_us)` is "host" or "GPU": which of the two a loop of launches waits for."""
    right = [launch > kernel for _, launch, kernel in LOOPS]
    said = [answer(*loop) for loop in LOOPS]
    for (launches, launch_us, kernel_us), host, got in zip(LOOPS, right, said, strict=True):
        expected = "host" if host else "GPU"
        if got == expected:
            continue
        asked = f'"{expected}" for {launches} launches of {launch_us:g} µs each, of a {kernel_us:g} µs kernel'
        if got is None:
            raise Failed(asked, "None", "the function returns nothing", 'return "host" or "GPU": is there a return?')
        if got not in ("host", "GPU"):
            raise Failed(asked, repr(got), "the answer is another value than the two words", 'return "host" or "GPU"')
        hint = "for each kernel the host needs one launch: which of the two takes longer?"
        raise Failed(asked, repr(got), _bottleneck_cause([s == "host" for s in said]), hint)


def _bottleneck_cause(said_host: Sequence[bool]) -> str:
    """Which misconception gives all of these answers."""
    if len(set(said_host)) == 1:
        return "the answer is the same whatever the numbers are"
    for cause, rule in BOTTLENECK_CAUSES.items():
        if list(said_host) == [rule(*loop) for loop in LOOPS]:
            return cause
    for what, column in (("the kernel", 2), ("the launch", 1), ("the number of launches", 0)):
        hosts, others = (
            [loop[column] for loop, h in zip(LOOPS, said_host, strict=True) if h is side] for side in (True, False)
        )
        if max(hosts) < min(others) or min(hosts) > max(others):
            return f"{what} alone decides, against a fixed limit; only launch and kernel against each other tell"
    return "something else than one launch against one kernel decides"


# -- exercise 2 -------------------------------------------------------------------------------------------------------

OVERHEADS = ((5.0, 1.7), (16.5, 1.7), (3.4, 1.67), (1.0, 2.5), (8.0, 0.0))  # (µs a launch, µs of overhead)

CROSSOVER_CAUSES: dict[str, Callable[[float, float], float]] = {
    "the GPU's own overhead for each kernel is left out": lambda launch, overhead: launch,
    "the overhead was added: but it makes the GPU slower, so the kernel itself can be shorter": lambda launch, overhead: (
        launch + overhead
    ),
    "a kernel cannot take less than no time": lambda launch, overhead: launch - overhead,
    "the difference is the wrong way round": lambda launch, overhead: overhead - launch,
    "the difference is the wrong way round, and then cut off at zero": lambda launch, overhead: max(0.0, overhead - launch),
    "a launch cheaper than the overhead leaves nothing to make up for: the sign matters": lambda launch, overhead: abs(
        launch - overhead
    ),
}


@check("crossover_us")
def crossover_us(answer) -> None:
    """`answer(launch_us, overhead_us)` is the kernel duration from which a launch loop is GPU-bound, never below zero."""
    said = [_number(answer(*case), "µs") for case in OVERHEADS]
    for (launch_us, overhead_us), got in zip(OVERHEADS, said, strict=True):
        expected = max(0.0, launch_us - overhead_us)
        if abs(got - expected) < 0.005:  # µs
            continue
        asked = f"{expected:g} µs, for launches of {launch_us:g} µs and {overhead_us:g} µs of overhead on the GPU"
        if all(abs(s - max(0.0, launch - overhead)) < 0.5 for s, (launch, overhead) in zip(said, OVERHEADS, strict=True)):
            raise Failed(
                asked, f"{got:g} µs", "rounded, or looked for in steps, too coarsely", "solve for the kernel, and round nothing"
            )
        cause = "the two sides of the balance are not the host's time and the GPU's time for one kernel"
        for known, rule in CROSSOVER_CAUSES.items():
            if all(_close(s, rule(*case)) for s, case in zip(said, OVERHEADS, strict=True)):
                cause = known
        hint = "at the crossover, launch = kernel + overhead: solve for the kernel; below zero there is nothing to find"
        raise Failed(asked, f"{got:g} µs", cause, hint)


# -- exercise 3 -------------------------------------------------------------------------------------------------------

RUNS = 10  # that the exercise asks for, after one to warm up


@check("benchmark")
def benchmark(answer) -> None:
    """`answer(fn, stream)` is the median total time of `fn`, in µs: warmed up, synchronised, repeated."""
    work = _Workload()
    reference = measure(work.long_kernels, stream=work.stream, repeats=5).total_us
    got = _number(answer(work.long_kernels, work.stream), "µs")
    _compare_times(answer, got, reference)

    kernel_ms = reference / work.LONG / 1000
    work.sleeps_ms.clear()
    got = _number(answer(work.uneven, work.stream), "µs") / 1000
    first, *runs = (ms + kernel_ms for ms in work.sleeps_ms or [0.0])
    if len(runs) < RUNS:
        asked, came = f"{1 + RUNS} calls of fn, one to warm up and {RUNS} to time", f"{len(work.sleeps_ms)} calls"
        short_by_one = "no warm-up run, or only nine that count"
        cause = short_by_one if len(runs) == RUNS - 1 else "too few runs for a median that can be trusted"
        raise Failed(asked, came, cause, f"repeat {RUNS} times, after the warm-up")
    if work.met_busy or not work.stream.done:
        raise Failed(
            "a stream that is idle before each run, and at the end", "a stream that still works on the run before",
            "a run was not waited for, or only by the next one", "synchronise after fn(), every time, after the warm-up too",
        )  # fmt: skip
    good = {statistics.median(runs), statistics.median(runs[-RUNS:])}
    if any(0.88 * ms < got < 1.12 * ms for ms in good):
        return
    wrong = {
        "the warm-up run is counted too, or the upper one of the two middle runs is taken": statistics.median([first, *runs]),
        "the lower one of the two middle runs is taken, or a run is missing or zero": statistics.median_low(runs),
        "the last run alone": runs[-1],
        "a mean: one bad run spoils it": statistics.mean(runs),
        "a mean, the warm-up run included: its one-time cost, or one bad run, spoils it": statistics.mean([first, *runs]),
        "the slowest run": max(runs),
        "the slowest run, which was the warm-up": first,
        "the fastest run: what the machine can do, not what it does": min(runs),
    }
    cause = next((c for c, ms in wrong.items() if 0.9 * ms < got < 1.1 * ms), "another number than the median of the runs")
    if got < 1.2 * kernel_ms:  # live, a launch takes its share of that time
        cause = "the clock starts only after fn() was called"
    took = ", ".join(f"{ms:.3g}" for ms in runs[:RUNS])
    asked = f"{statistics.median(runs):.3g} ms, the median: the runs took {took} ms"
    hint = "sort the runs (without the warm-up): the median lies in the middle, between the fifth and the sixth of ten"
    raise Failed(asked, f"{got:.3g} ms", cause, hint)


def _compare_times(answer: Callable, got: float, reference: float) -> None:
    asked = f"about {reference:,.0f} µs, what ol.measure finds for the same work"
    if reference / 1.5 < got < reference * 1.5:
        return
    if current().time is not real_time and _reads_real_clock(answer):
        raise Failed(
            asked, f"{got:,.1f} µs", "`import time` reads this computer's clock; the simulated GPU's host has its own",
            "from onelaunch import time",
        )  # fmt: skip
    for factor, unit in ((1e-6, "seconds"), (1e-3, "milliseconds"), (1e3, "nanoseconds")):
        if reference * factor / 1.5 < got < reference * factor * 1.5:
            raise Failed(asked, f"{got:g}", f"that is {unit}", "return microseconds")
    if got < reference / 1.5:
        raise Failed(
            asked, f"{got:,.1f} µs", "the clock was read before the GPU had finished: launches return at once",
            "synchronise the stream before you read the clock the second time",
        )  # fmt: skip
    raise Failed(asked, f"{got:,.1f} µs", "more than one run was counted, or time outside fn", "time each run on its own")


def _reads_real_clock(function: Callable) -> bool:
    """Whether a function names Python's own `time`, or something out of it, as a global or imported inside."""
    code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None:
        return False
    clocks = (real_time, real_time.perf_counter, real_time.perf_counter_ns, real_time.time, real_time.monotonic)
    named = any(known.get(name) is clock for name in code.co_names for clock in clocks)
    return named or ("time" in code.co_names and {"time", "perf_counter"} & set(code.co_varnames) != set())


class _Workload:
    """Functions to benchmark on a stream of their own: long kernels, and runs of uneven length."""

    FIRST_MS = 50.0
    CYCLE_MS = (20.0, 1.0, 4.0, 30.0, 6.0, 25.0, 40.0, 2.5, 2.0, 3.0)  # median 5: no run takes that long, no mean is near
    LONG = 8  # kernels

    def __init__(self) -> None:
        device = current()
        cp, cuda = device.cp, device.cuda
        self.stream = cp.cuda.Stream(non_blocking=True)
        self._time = device.time
        self.sleeps_ms: list[float] = []  # of each call of `uneven`
        self.met_busy = False  # whether such a call found the stream at work
        x = cp.zeros(1, dtype=cp.float32)
        cp.cuda.Device().synchronize()
        array, stream = cuda.as_cuda_array(x, sync=False), cuda.external_stream(self.stream.ptr)

        @cuda.jit
        def nap(x):
            cuda.nanosleep(500_000)
            x[0] += 1

        self._nap = lambda: nap[1, 1, stream](array)
        self._nap()
        self.stream.synchronize()

    def long_kernels(self) -> None:
        for _ in range(self.LONG):
            self._nap()

    def uneven(self) -> None:
        """Host time that differs from call to call, most in the first, and then one long kernel."""
        self.met_busy = self.met_busy or not self.stream.done
        i = len(self.sleeps_ms)
        self.sleeps_ms.append(self.CYCLE_MS[(i - 1) % len(self.CYCLE_MS)] if i else self.FIRST_MS)
        self._time.sleep(self.sleeps_ms[-1] / 1000)
        self._nap()


# -- exercise 4 -------------------------------------------------------------------------------------------------------


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
        three = tuple(got) if isinstance(got, Iterable) and not isinstance(got, str | dict) else ()
        if len(three) != 3:
            hint = "return launches, launch_ms, share" + (": is there a return?" if got is None else "")
            raise Failed(asked, repr(got), "not three values", hint)
        values = tuple(_number(v, name) for v, name in zip(three, ("launches", "ms", "as a share"), strict=True))
        if all(map(_close, values, expected)):
            continue
        cause, hint = _budget_cause(values, expected)
        raise Failed(asked, "(" + ", ".join(f"{v:g}" for v in values) + ")", cause, hint)


def _budget_cause(got: tuple[float, ...], expected: tuple[float, ...]) -> tuple[str, str]:
    """(cause, hint) for three numbers that are not the three expected."""
    if any(all(map(_close, order, expected)) for order in itertools.permutations(got)):
        return "the three numbers are right, and in another order", "return launches, launch_ms, share"
    launches, spent_ms, share = expected
    if not _close(got[0], launches):
        return "the number of launches for one token is not right", "every layer launches all its kernels"
    if not _close(got[1], spent_ms):
        if any(_close(got[1], spent_ms * 1000.0**k) for k in (-2, -1, 1, 2)):
            return "the time is not in milliseconds", "1 ms is 1,000 µs"
        return "not launches × cost of a launch", "1 ms is 1,000 µs"
    hint = "the share is a fraction: 0.24 for 24 percent, 1.5 for half as much again as there is"
    if _close(got[2], 100 * share):
        return "that is the share in percent", hint
    if _close(got[2], 1 / share):
        return "the share is upside down", hint
    return "the share is not spent time over the target, both in one unit", hint


# -- exercise 5 -------------------------------------------------------------------------------------------------------


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

    for launches, naps in ((8, (1, 8)), (7, (8, 1, 1)), (4, (1, 1, 8, 1)), (9, (8, 1, 1, 1))):
        width = len(naps)
        cupy_streams = [cp.cuda.Stream(non_blocking=True) for _ in range(width)]
        streams = [cuda.external_stream(s.ptr) for s in cupy_streams]
        memory = [cp.asarray([0, n], dtype=cp.float32) for n in naps]
        arrays = [cuda.as_cuda_array(x, sync=False) for x in memory]
        nap[1, 1, streams[0]](arrays[0])  # compiles
        cp.cuda.Device().synchronize()
        memory[0][0] = 0
        cp.cuda.Device().synchronize()
        spy = _Spy(nap, cupy_streams, streams, arrays, longest=naps.index(max(naps)))
        answer(spy, arrays, streams, launches)
        idle = [s.done for s in cupy_streams]
        cp.cuda.Device().synchronize()
        _judge_spread(spy, idle, [int(x[0]) for x in memory], width, launches)


def _judge_spread(spy: _Spy, idle: list[bool], counts: list[int], width: int, launches: int) -> None:
    in_turn = "launch i goes to stream i % len(streams)"
    expected = [launches // width + (k < launches % width) for k in range(width)]
    asked = f"{launches} launches over {width} streams: {expected}"
    used = [spy.streams.count(k) for k in range(width)]
    if None in spy.streams:
        cause = "a launch that names no stream goes to the default stream"
        raise Failed(asked, "a launch on the default stream", cause, "kernel[1, 1, stream](array)")
    if FOREIGN in spy.streams:
        cause = "a stream that the function was not given: one of an earlier cell?"
        raise Failed(asked, "a launch on a stream that is not in `streams`", cause, in_turn)
    if len(spy.streams) != launches:
        if len(spy.streams) > launches:
            cause = "more launches than asked for"
        elif len(spy.streams) == launches // width * width:
            cause = "launches that do not fill a whole round are missing"
        else:
            cause = "not every launch was made, or with another kernel than the one given"
        raise Failed(asked, f"{len(spy.streams)} launches: {used}", cause, in_turn)
    if spy.streams != [i % width for i in range(launches)]:
        cause = "all on one stream" if max(used) == launches else "not in turn"
        raise Failed(f"the streams {[i % width for i in range(launches)]}", f"the streams {spy.streams}", cause, in_turn)
    if shapes := [s for s in spy.shapes if s != (1, 1)]:
        cause = "more blocks or threads than one: they all add to the same number"
        raise Failed(
            "one block of one thread", f"kernel[{shapes[0][0]}, {shapes[0][1]}, …]", cause, "kernel[1, 1, stream](array)"
        )
    if counts != expected:
        asked = f"each array counts its stream's launches: {expected}"
        raise Failed(asked, str(counts), "a stream got another stream's array", "arrays[k] goes with streams[k]")
    if spy.waited:
        asked, got = "launches that wait for nothing", "a wait before the last launch"
        raise Failed(asked, got, "the loop synchronises between launches", "synchronise once, after the loop")
    if not all(idle):
        got = f"{idle.count(False)} of {width} still working"
        cause = "the function returns before the GPU has finished"
        raise Failed("all streams idle at the end", got, cause, "synchronise every stream, after the loop")


FOREIGN = -1


class _Spy:
    """Stands for a kernel: launches it, and notes how, on which stream, and whether anything was waited for in between.

    `longest` is the stream that, once it has work, stays busy for longer than the host needs for all launches.
    """

    def __init__(self, kernel, cupy_streams: list, streams: list, arrays: list, longest: int):
        self._kernel, self._cupy, self._arrays, self._longest = kernel, cupy_streams, arrays, longest
        self.streams: list[int | None] = []
        self.shapes: list[tuple] = []
        self.waited = False
        self._synchronised = False
        for stream in streams:
            self._watch(stream)

    def _watch(self, stream) -> None:
        """Notes each `synchronize` of a stream that the learner gets."""
        original = type(stream)

        def synchronize(this) -> None:
            self._synchronised = bool(self.streams)  # before the first launch it changes nothing
            original.synchronize(this)

        stream.__class__ = type(original.__name__, (original,), {"synchronize": synchronize})

    def __getitem__(self, configuration):
        launch = self._kernel[configuration]
        handle = int(configuration[2]) if len(configuration) > 2 and configuration[2] else None
        index = next((k for k, s in enumerate(self._cupy) if s.ptr == handle), FOREIGN if handle else None)
        shape = tuple(math.prod(d) if isinstance(d, tuple | list) else int(d) for d in configuration[:2])

        def call(*args: Any) -> None:
            if len(args) != 1 or not any(args[0] is array for array in self._arrays):  # it might be too small for the kernel
                got = f"{len(args)} arguments" if len(args) != 1 else f"another array: {args[0]!r:.60}"
                cause = "the kernel takes one array, and it must be one of `arrays`"
                raise Failed("arrays[k] as the only argument", got, cause, "arrays[k] goes with streams[k]")
            idle = self._longest in self.streams and self._cupy[self._longest].done
            self.waited = self.waited or self._synchronised or idle
            self.streams.append(index)
            self.shapes.append(shape)
            launch(*args)

        return call

    def __call__(self, *args: Any) -> None:
        raise TypeError("a kernel is launched with its configuration: kernel[1, 1, stream](array)")


# -- shared -----------------------------------------------------------------------------------------------------------


def _number(value: Any, unit: str) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    cause, hint = "the function returns no number", "return the number itself: is there a return?"
    if isinstance(value, str):
        cause = "the function returns text, not a number"
    elif hasattr(value, "shape"):
        cause, hint = "the function returns an array, not a number", "return the number in it, with .item()"
    raise Failed(f"a number ({unit})", repr(value), cause, hint)


def _close(got: float, expected: float) -> bool:
    """Equal, but for rounding to four digits."""
    return math.isclose(got, expected, rel_tol=1e-3, abs_tol=1e-9)
