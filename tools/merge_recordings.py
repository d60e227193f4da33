"""Merges recordings of one kind of GPU, with one driver and one set of packages: `merge_recordings.py OUT IN IN [IN ...]`.
`merge_recordings.py --join OUT BASE IN [IN ...]` joins sweeps that were recorded later to the recording that they belong to.

A host that is shared with others has its bad minutes, and a single session shows them. Each timing of the merged recording is
one session's, whole, with its spread: of three or more the session with the middle median, of two the one that scatters less.
Nothing is averaged. Configurations that only one session has are kept as they are.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from onelaunch.measure.recording import QUANTITIES, Point, Recording
from onelaunch.measure.sweeps import ADDITIONS
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
    if last.added:  # sessions of a sweep that was added later: the rest is one and the same in all of them
        added = {name: {**about, "sessions": len(recordings)} for name, about in last.added.items()}
        return replace(last, points=tuple(points), added=added)
    return replace(last, points=tuple(points), host={**last.host, "sessions": len(recordings)})


def join(base: Recording, additions: list[Recording]) -> Recording:
    """`base` with the sweeps that each addition added to it, or measured anew; its other points stay as they are.

    Raises ValueError for an addition to another recording, or with nothing new.
    """
    points, added = list(base.points), dict(base.added)
    later = [sweep for sweeps in ADDITIONS.values() for sweep in sweeps]
    for recording in additions:
        if recording.gpu != base.gpu or _without(later, recording) != _without(later, base):
            raise ValueError(f"{recording.path}: is no addition to {base.path}")
        new = [name for name in recording.added if _only(ADDITIONS[name], recording) != _only(ADDITIONS[name], base)]
        if not new:
            raise ValueError(f"{recording.path}: nothing was added to it")
        for name in new:
            points = [p for p in points if p.sweep not in ADDITIONS[name]] + _only(ADDITIONS[name], recording)
            added[name] = recording.added[name]
    return replace(base, points=tuple(points), added=added)


def _only(sweeps: Sequence[str], recording: Recording) -> list[Point]:
    return [p for p in recording.points if p.sweep in sweeps]


def _without(sweeps: Sequence[str], recording: Recording) -> list[Point]:
    return [p for p in recording.points if p.sweep not in sweeps]


if __name__ == "__main__":
    joins = sys.argv[1] == "--join"
    target, *sources = map(Path, sys.argv[2 if joins else 1 :])
    recordings = [Recording.load(source) for source in sources]
    merged = join(recordings[0], recordings[1:]) if joins else merge(recordings)
    merged.save(target)
    print(f"{merged!r}\nwritten to {target}")
