"""How far the simulated device's timings are from the recording that it was fitted to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from onelaunch.measure.calibrate import Judgement, is_held_out, judge
from onelaunch.measure.recording import Recording
from onelaunch.measure.sweeps import ADDITIONS
from onelaunch.sim.costs import Costs


def judge_shipped() -> list[Judgement]:
    """Every recorded timing of the shipped recording beside the shipped model's."""
    return judge(Costs.load(), Recording.load())


def first_light(judged: Sequence[Judgement]) -> list[Judgement]:
    """Those of the sweeps that every recording has: loops, chains, copies."""
    later = {sweep for sweeps in ADDITIONS.values() for sweep in sweeps}
    return [j for j in judged if j.point.sweep not in later]


def branches(judged: Sequence[Judgement]) -> list[Judgement]:
    """Those of graphs with one to eight branches."""
    return [j for j in judged if j.point.sweep in ADDITIONS["forkjoin"] and j.point.streams <= 8]


def table(judged: Sequence[Judgement]) -> list[tuple[str, ...]]:
    """Rows of text: sweep, what, quantity; points and median and worst error; the same of the points held out of the fit."""
    groups: dict[tuple[str, str, str], list[Judgement]] = {}
    for j in judged:
        groups.setdefault((j.point.sweep, j.point.what, j.quantity.removesuffix("_us")), []).append(j)
    rows = [("sweep", "what", "time", "points", "median", "worst", "held out", "median", "worst")]
    rows += [(*key, *_errors(group)) for key, group in groups.items()]
    rows.append(("all", "", "", *_errors(judged)))
    return rows


def _errors(group: Sequence[Judgement]) -> tuple[str, ...]:
    held = [j.error for j in group if is_held_out(j.point)]
    return *_summary([j.error for j in group]), *_summary(held)


def _summary(errors: Sequence[float]) -> tuple[str, str, str]:
    if not errors:
        return "0", "-", "-"
    return str(len(errors)), f"{100 * statistics.median(errors):.1f} %", f"{100 * max(errors):.1f} %"
