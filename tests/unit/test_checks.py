"""The lab checks: every wrong answer is rejected, and the verdict says what a learner needs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from onelaunch import check
from onelaunch.check.verdict import FAIL, NOT_ATTEMPTED, Verdict

WRONG = sorted((Path(__file__).parents[1] / "wrong_answers").glob("*/*/*.py"))
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
    "crossover_us/forgets_the_overhead": "overhead for each kernel is left out",
    "crossover_us/below_zero": "cannot take less than no time",
    "benchmark/no_synchronise": "before the GPU had finished",
    "benchmark/synchronises_after_the_clock": "before the GPU had finished",
    "benchmark/mean_after_warm_up": "a mean, or a maximum",
    "benchmark/seconds": "that is seconds",
    "benchmark/milliseconds": "that is milliseconds",
    "benchmark/sum_of_all_runs": "more than one run was counted",
    "decode_budget/percent": "share in percent",
    "decode_budget/microseconds": "not in milliseconds",
    "spread/default_stream": "goes to the default stream",
    "spread/waits_in_the_loop": "synchronises after each launch",
    "spread/never_waits": "returns before the GPU has finished",
    "spread/whole_rounds_only": "do not fill a whole round",
    "spread/first_array_for_all": "another stream's array",
}


@pytest.mark.parametrize(("name", "cause"), CAUSES.items())
def test_a_misconception_is_named(name, cause):
    path = next(p for p in WRONG if f"{p.parent.name}/{p.stem}" == name)
    assert cause in getattr(check.lab01, path.parent.name)(load(path)).cause


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
