"""`python -m onelaunch.bench [speed] [import] [fidelity] [slider]`: without a name, all of it in one table of ratios."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from . import fidelity, slider, speed
from .browser import find_chromium

NAMES = ("speed", "import", "fidelity", "slider")
Row = tuple[str, str, str, str]  # what, measured, the bar, whether it holds


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m onelaunch.bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="which benchmarks (default: all)")
    names = parser.parse_args(arguments).names or NAMES
    rows: list[Row] = []
    for name in names:
        rows += {"speed": _speed, "import": _import, "fidelity": _fidelity, "slider": _slider}[name](detailed=len(names) == 1)
    _print([("what", "measured", "bar", ""), *rows])
    return 1 if any(row[3] == "MISSED" for row in rows) else 0


def _row(what: str, measured: str, bar: str, holds: bool) -> Row:
    return what, measured, bar, "ok" if holds else "MISSED"


def _speed(detailed: bool) -> list[Row]:
    s = speed.measure_speed()
    rows = [_row("512 × 1,000 replayed launches, simulated", f"{s.replays_s:.2f} s", "≤ 2 s", s.replays_s <= 2)]
    if s.numba_us is None:
        return [*rows, ("a launch, against Numba's simulator", "Numba is not installed", "≥ 50×", "-")]
    for what, us in (("a launch", s.launch_us), ("a replayed node", s.node_us)):
        ratio = s.numba_us / us
        measured = f"{ratio:.0f}×  ({us:.2f} µs; Numba's simulator {s.numba_us:.0f} µs)"
        rows.append(_row(f"{what}, against Numba's simulator", measured, "≥ 50×", ratio >= 50))
    return rows


def _import(detailed: bool) -> list[Row]:
    seconds = speed.import_seconds()
    return [_row("import onelaunch, without a GPU", f"{seconds:.2f} s", "≤ 0.7 s", seconds <= 0.7)]


def _fidelity(detailed: bool) -> list[Row]:
    judged = fidelity.judge_shipped()
    if detailed:
        _print(fidelity.table(judged))
        print()
    first, forked = ([100 * j.error for j in part] for part in (fidelity.first_light(judged), fidelity.branches(judged)))
    median, worst, fork_median = statistics.median(first), max(first), statistics.median(forked)
    fork_points = f"over {len(forked)}; worst {max(forked):.0f} %"
    return [
        _row("fidelity, median error", f"{median:.1f} %  (over {len(first)} recorded timings)", "≤ 5 %", median <= 5),
        _row("fidelity, worst error", f"{worst:.1f} %", "≤ 20 %", worst <= 20),
        _row("graphs of 1 to 8 branches, median error", f"{fork_median:.1f} %  ({fork_points})", "≤ 10 %", fork_median <= 10),
    ]


def _slider(detailed: bool) -> list[Row]:
    if find_chromium() is None:
        return [("slider to pixels", "no Chromium here", "≥ 2× interact", "-")]
    times = slider.measure_slider()
    return [
        _row("slider to pixels, against `interact`", f"{times.speed_up:.1f}×", "≥ 2×", times.speed_up >= 2),
        *((f"  {name}", f"{ms:.0f} ms  (IQR {times.iqr_ms[name]:.0f} ms)", "", "") for name, ms in times.median_ms.items()),
    ]


def _print(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for k, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if k == 0:
            print("  ".join("-" * width for width in widths))


if __name__ == "__main__":
    sys.exit(main())
