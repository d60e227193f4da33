"""Merges recordings of one kind of GPU, with one driver and one set of packages: `merge_recordings.py OUT IN IN [IN ...]`.

A host that is shared with others has its bad minutes, and a single session shows them. Each timing of the merged recording is
one session's, whole, with its spread: of three or more the session with the middle median, of two the one that scatters less.
Nothing is averaged. Configurations that only one session has are kept as they are.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from pathlib import Path

from onelaunch.measure.recording import QUANTITIES, Point, Recording
from onelaunch.measure.timing import Stat


def pick(stats: list[Stat]) -> Stat:
    """The timing that stands for several sessions' timings of the same thing."""
    if len(stats) == 2:
        return min(stats, key=lambda s: s.iqr_us / s.median_us)
    middle = statistics.median_low(s.median_us for s in stats)
    return next(s for s in stats if s.median_us == middle)


def merge(recordings: list[Recording]) -> Recording:
    """The merged recording, dated and described like the last one. Raises ValueError if the machines differ."""
    last = recordings[-1]
    for recording in recordings:
        for name in ("gpu", "driver", "versions"):
            if getattr(recording, name) != getattr(last, name):
                raise ValueError(f"{recording.path}: {name} is {getattr(recording, name)}, not {getattr(last, name)}")
    by_key: dict[tuple, list[Point]] = {}
    for recording in recordings:
        for point in recording.points:
            by_key.setdefault(point.key, []).append(point)
    # The last recording says which configurations, and which of their timings, the sweeps have now.
    points = []
    for point in last.points:
        sessions = by_key[point.key]
        wanted = [name for name in QUANTITIES if getattr(point, name)]
        stats = {name: pick([s for p in sessions if (s := getattr(p, name))]) for name in wanted}
        points.append(replace(point, **stats))
    return replace(last, points=tuple(points), host={**last.host, "sessions": len(recordings)})


if __name__ == "__main__":
    target, *sources = map(Path, sys.argv[1:])
    merged = merge([Recording.load(source) for source in sources])
    merged.save(target)
    print(f"{merged!r}\nwritten to {target}")
