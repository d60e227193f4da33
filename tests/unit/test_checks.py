"""The lab checks: every wrong answer is rejected, and the verdict says what a learner needs."""

from __future__ import annotations

import importlib.util
import os
import statistics
from pathlib import Path

import nbformat
import numpy as np
import pytest

from onelaunch import check
from onelaunch.check.verdict import FAIL, NOT_ATTEMPTED, Verdict

LIVE = os.environ.get("ONELAUNCH_DEVICE") == "live"
THIS_COMPUTERS = {"this_computers_clock", "this_computers_clock_inside", "this_computers_counter"}  # right on a live GPU
ROOT = Path(__file__).parents[2]
SOLUTIONS = sorted((ROOT / "solutions").glob("lab*.ipynb"))
WRONG_ANSWERS = ROOT / "tests" / "wrong_answers"
WRONG = [path for path in sorted(WRONG_ANSWERS.glob("*/*/*.py")) if not (LIVE and path.stem in THIS_COMPUTERS)]


def load(path: Path):
    """The module of a wrong-answer file: a function named like its exercise (the folder), and the cause as its docstring."""
    spec = importlib.util.spec_from_file_location(f"wrong_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrong_answer(path: Path):
    return getattr(load(path), path.parent.name)


def exercises(solution: Path) -> list[str]:
    """The exercises of a lab, in order: the names of its solution cells."""
    cells = nbformat.read(solution, as_version=4).cells
    return [c.metadata.nbgrader.grade_id for c in cells if c.metadata.get("nbgrader", {}).get("solution")]


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda p: p.stem)
def test_every_exercise_has_three_wrong_answers_or_more(solution):
    lab = solution.stem.partition("_")[0]
    names = exercises(solution)
    assert len(names) >= 4
    for exercise in names:
        assert len(list((WRONG_ANSWERS / lab / exercise).glob("*.py"))) >= 3, exercise
    assert {path.parent.name for path in WRONG if path.parents[1].name == lab} == set(names)


def test_every_wrong_answer_belongs_to_a_lab():
    assert {path.parents[1].name for path in WRONG} == {solution.stem.partition("_")[0] for solution in SOLUTIONS}


@pytest.mark.parametrize("path", WRONG, ids=lambda p: f"{p.parents[1].name}-{p.parent.name}-{p.stem}")
def test_a_wrong_answer_is_rejected_and_its_misconception_is_named(path, capsys):
    lab = getattr(check, path.parents[1].name)
    verdict = getattr(lab, path.parent.name)(wrong_answer(path))
    assert verdict.status == FAIL, verdict
    assert verdict.expected
    assert verdict.got
    assert verdict.hint
    cause = load(path).__doc__
    assert cause
    assert cause in verdict.cause


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda p: p.stem)
def test_an_untouched_exercise_is_not_attempted(solution):
    lab = getattr(check, solution.stem.partition("_")[0])
    for exercise in exercises(solution):

        def answer(*arguments):
            raise NotImplementedError

        assert getattr(lab, exercise)(answer) == Verdict(exercise, NOT_ATTEMPTED)


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
    verdict = check.lab01.benchmark(wrong_answer(path))
    assert "import time" in verdict.cause
    assert verdict.hint == "from onelaunch import time"


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
