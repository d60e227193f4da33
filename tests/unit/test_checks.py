"""The lab checks: every wrong answer is rejected, and the verdict says what a learner needs."""

from __future__ import annotations

import importlib.util
import os
import statistics
from pathlib import Path

import numpy as np
import pytest

from onelaunch import check
from onelaunch.check.verdict import FAIL, NOT_ATTEMPTED, Verdict

LIVE = os.environ.get("ONELAUNCH_DEVICE") == "live"
THIS_COMPUTERS = {"this_computers_clock", "this_computers_clock_inside", "this_computers_counter"}  # right on a live GPU
WRONG = [
    path
    for path in sorted((Path(__file__).parents[1] / "wrong_answers").glob("*/*/*.py"))
    if not (LIVE and path.stem in THIS_COMPUTERS)
]
EXERCISES = ("bottleneck", "crossover_us", "benchmark", "decode_budget", "spread")


def load(path: Path):
    """The function in a wrong-answer file, which is named like its exercise (the folder)."""
    spec = importlib.util.spec_from_file_location(f"wrong_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, path.parent.name)


def test_every_exercise_has_three_wrong_answers_or_more():
    for exercise in EXERCISES:
        assert sum(path.parent.name == exercise for path in WRONG) >= 3, exercise
    assert {path.parent.name for path in WRONG} == set(EXERCISES)


@pytest.mark.parametrize("path", WRONG, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_wrong_answer_is_rejected_with_a_cause_and_a_hint(path):
    lab = getattr(check, path.parents[1].name)
    verdict = getattr(lab, path.parent.name)(load(path))
    assert verdict.status == FAIL, verdict
    assert verdict.expected
    assert verdict.got
    assert verdict.cause
    assert verdict.hint


CAUSES = {
    "bottleneck/all_launches_against_one_kernel": "all launches are set against a single kernel",
    "bottleneck/all_kernels_against_one_launch": "a single launch is set against all kernels",
    "bottleneck/wrong_way_round": "the wrong way round",
    "bottleneck/always_host": "the same whatever the numbers are",
    "bottleneck/fixed_limit": "the kernel alone decides, against a fixed limit",
    "bottleneck/the_number_of_launches": "the number of launches alone decides",
    "bottleneck/many_launches_are_host_bound": "something else than one launch against one kernel",
    "crossover_us/wrong_way_round": "the wrong way round, and then cut off at zero",
    "crossover_us/negative_difference": "the difference is the wrong way round",
    "crossover_us/absolute_difference": "the sign matters",
    "crossover_us/text": "text, not a number",
    "crossover_us/forgets_the_overhead": "overhead for each kernel is left out",
    "crossover_us/below_zero": "cannot take less than no time",
    "benchmark/no_synchronise": "before the GPU had finished",
    "benchmark/synchronises_after_the_clock": "before the GPU had finished",
    "benchmark/mean_after_warm_up": "a mean: one bad run spoils it",
    "benchmark/fastest_run": "the fastest run",
    "benchmark/slowest_run": "the slowest run",
    "benchmark/five_runs": "too few runs",
    "benchmark/no_warm_up": "no warm-up run, or only nine",
    "benchmark/waits_for_the_run_before": "not waited for, or only by the next one",
    "benchmark/warm_up_not_waited_for": "not waited for, or only by the next one",
    "benchmark/starts_the_clock_late": "the clock starts only after fn() was called",
    "benchmark/last_run": "the last run alone",
    "bottleneck/returns_nothing": "returns nothing",
    "crossover_us/rounded": "rounded",
    "crossover_us/an_array": "an array, not a number",
    "spread/stream_of_an_earlier_cell": "not given: one of an earlier cell",
    "spread/array_of_an_earlier_cell": "must be one of `arrays`",
    "benchmark/warm_up_counted": "the warm-up run is counted too",
    "benchmark/text": "text, not a number",
    "benchmark/seconds": "that is seconds",
    "benchmark/milliseconds": "that is milliseconds",
    "benchmark/sum_of_all_runs": "more than one run was counted",
    "decode_budget/percent": "share in percent",
    "decode_budget/microseconds": "not in milliseconds",
    "decode_budget/other_order": "in another order",
    "decode_budget/share_upside_down": "upside down",
    "spread/default_stream": "goes to the default stream",
    "spread/waits_in_the_loop": "synchronises between launches",
    "spread/waits_once_on_the_way": "synchronises between launches",
    "spread/waits_for_the_device_each_round": "synchronises between launches",
    "spread/backwards": "not in turn",
    "spread/one_launch_too_many": "more launches than asked for",
    "spread/a_block_of_threads": "more blocks or threads than one",
    "spread/never_waits": "returns before the GPU has finished",
    "spread/whole_rounds_only": "do not fill a whole round",
    "spread/first_array_for_all": "another stream's array",
}


@pytest.mark.parametrize(("name", "cause"), CAUSES.items())
def test_a_misconception_is_named(name, cause):
    path = next(p for p in WRONG if f"{p.parent.name}/{p.stem}" == name)
    assert cause in getattr(check.lab01, path.parent.name)(load(path)).cause


GOOD_BENCHMARKS = {  # (runs to warm up, timed runs)
    "as asked": (1, 10), "two to warm up": (2, 10), "more runs": (1, 20), "an odd number of runs": (1, 15),
}  # fmt: skip


@pytest.mark.parametrize(("warm", "runs"), GOOD_BENCHMARKS.values(), ids=GOOD_BENCHMARKS)
def test_more_runs_than_asked_for_are_welcome(device, warm, runs):
    def benchmark(fn, stream):
        times = []
        for _ in range(warm + runs):
            start = device.time.perf_counter()
            fn()
            stream.synchronize()
            times.append((device.time.perf_counter() - start) * 1e6)
        return statistics.median(times[warm:])

    assert check.lab01.benchmark(benchmark).passed


@pytest.mark.parametrize("wait", ["streams", "device"])
def test_either_way_of_waiting_is_right(cuda, wait):
    def spread(kernel, arrays, streams, launches):
        for i in range(launches):
            kernel[1, 1, streams[i % len(streams)]](arrays[i % len(streams)])
        if wait == "device":
            cuda.synchronize()
        else:
            for s in reversed(streams):
                s.synchronize()

    assert check.lab01.spread(spread).passed


@pytest.mark.parametrize("values", [list, np.array, iter, lambda v: dict(enumerate(v)).values()])
def test_three_numbers_in_any_container_are_three_numbers(values):
    def decode_budget(layers, kernels_per_layer, launch_us, target_ms):
        launch_ms = layers * kernels_per_layer * launch_us / 1000
        return values([layers * kernels_per_layer, launch_ms, round(launch_ms / target_ms, 4)])

    assert check.lab01.decode_budget(decode_budget).passed


def test_a_wait_before_the_first_launch_changes_nothing():
    def spread(kernel, arrays, streams, launches):
        for s in streams:
            s.synchronize()
        for i in range(launches):
            kernel[1, 1, streams[i % len(streams)]](arrays[i % len(streams)])
        for s in streams:
            s.synchronize()

    assert check.lab01.spread(spread).passed


@pytest.mark.skipif(LIVE, reason="kills the context")
def test_a_dead_device_is_named_and_how_to_go_on(gpu, cp, cuda):
    @cuda.jit
    def overrun(x):
        x[5] = 1

    def answer(launches, launch_us, kernel_us):
        overrun[1, 1](cuda.as_cuda_array(cp.zeros(1)))
        cp.cuda.Device().synchronize()

    verdict = check.lab01.bottleneck(answer)
    assert "IllegalAddress" in verdict.got
    assert "Kernel ▸ Restart" in verdict.hint


def test_a_call_without_a_configuration_is_explained():
    verdict = check.lab01.spread(lambda kernel, arrays, streams, launches: kernel(arrays[0]))
    assert "kernel[1, 1, stream](array)" in verdict.got


@pytest.mark.skipif(LIVE, reason="on a live GPU this computer's clock is the right one")
@pytest.mark.parametrize("name", sorted(THIS_COMPUTERS))
def test_this_computers_clock_is_named(name):
    path = next(p for p in WRONG if p.stem == name)
    verdict = check.lab01.benchmark(load(path))
    assert "import time" in verdict.cause
    assert verdict.hint == "from onelaunch import time"


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_untouched_exercise_is_not_attempted(exercise):
    def answer(*arguments):
        raise NotImplementedError

    assert getattr(check.lab01, exercise)(answer) == Verdict(exercise, NOT_ATTEMPTED)


def test_an_exception_is_reported_with_the_learners_line():
    def answer(launch_us, overhead_us):
        nothing = launch_us - launch_us
        return overhead_us / nothing

    verdict = check.lab01.crossover_us(answer)
    assert verdict.status == "error in your code"
    assert "ZeroDivisionError" in verdict.got
    assert "return overhead_us / nothing" in verdict.got


def test_a_not_implemented_error_of_a_library_is_an_error_not_an_untouched_exercise():
    def helper():
        raise NotImplementedError("elsewhere")

    def answer(*arguments):
        return helper()

    assert check.lab01.bottleneck(answer).status == "error in your code"


def test_what_is_no_function_is_refused():
    verdict = check.lab01.bottleneck("host")
    assert verdict.status == "error in your code"
    assert verdict.got == "a str, 'host'"


def test_a_verdict_reads_well():
    verdict = Verdict("spread", FAIL, "[2, 2]", "[4, 0]", "all on one stream", "deal out")
    assert repr(verdict).splitlines() == [
        "✗ spread: fail", "  expected: [2, 2]", "  got: [4, 0]", "  likely cause: all on one stream", "  hint: deal out",
    ]  # fmt: skip
