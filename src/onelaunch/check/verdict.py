"""What a check says: a verdict, and on a failure what was expected, what came, the likely cause and the next hint."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PASS, FAIL, NOT_ATTEMPTED, ERROR = "pass", "fail", "not attempted", "error in your code"
_MARKS = {PASS: "✓", FAIL: "✗", NOT_ATTEMPTED: "–", ERROR: "!"}


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check. `status` is pass, fail, not attempted, or error in your code."""

    exercise: str
    status: str
    expected: str = ""
    got: str = ""
    cause: str = ""
    hint: str = ""

    @property
    def passed(self) -> bool:
        return self.status == PASS

    def __repr__(self) -> str:
        lines = [f"{_MARKS[self.status]} {self.exercise}: {self.status}"]
        for name in ("expected", "got", "cause", "hint"):
            if text := getattr(self, name):
                label = "likely cause" if name == "cause" else name
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)


class Failed(Exception):
    """Raised inside a check: the answer is wrong, and this is what to say."""

    def __init__(self, expected: str, got: str, cause: str, hint: str):
        super().__init__(cause)
        self.expected, self.got, self.cause, self.hint = expected, got, cause, hint


def check(exercise: str) -> Callable[[Callable[[Any], None]], Callable[[Any], Verdict]]:
    """Makes a check of a function that raises `Failed`, or nothing, for the learner's function.

    The learner's NotImplementedError means not attempted; any other exception of theirs is reported with their line.
    """

    def decorate(body: Callable[[Any], None]) -> Callable[[Any], Verdict]:
        @functools.wraps(body)
        def run(answer: Any) -> Verdict:
            if not callable(answer):
                got = f"a {type(answer).__name__}, {answer!r:.60}"
                return Verdict(exercise, ERROR, "a function", got, "the check wants the function itself", "pass it without ()")
            try:
                body(answer)
            except Failed as failed:
                return Verdict(exercise, FAIL, failed.expected, failed.got, failed.cause, failed.hint)
            except NotImplementedError as error:
                if _raised_in(answer, error):
                    return Verdict(exercise, NOT_ATTEMPTED)
                return _error(exercise, answer, error)
            except Exception as error:
                return _error(exercise, answer, error)
            return Verdict(exercise, PASS)

        return run

    return decorate


def _frames(answer: Callable, error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of the traceback that are in the learner's function or file."""
    code = getattr(answer, "__code__", None)
    filename = code.co_filename if code else None
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]


def _raised_in(answer: Callable, error: BaseException) -> bool:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and last.tb_frame.f_code is getattr(answer, "__code__", None)


def _error(exercise: str, answer: Callable, error: Exception) -> Verdict:
    frames = _frames(answer, error)
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames and frames[-1].line else ""
    got = f"{type(error).__name__}: {error}{where}"
    if re.search("Illegal_?Address|Launch_?Fail", str(error), re.IGNORECASE):
        cause = "a kernel reached outside its array, here or in a cell before; no later call on this GPU can work"
        return Verdict(
            exercise, ERROR, "", got, cause, "mend the kernel's arguments, then Kernel ▸ Restart and run the cells again"
        )
    return Verdict(exercise, ERROR, "", got, "your function raised an exception", "mend that line, then run the check again")
