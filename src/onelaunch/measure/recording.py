"""Recordings: timings of one GPU and its host in a JSON file, with all that is needed to read them later."""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from onelaunch.device import Provenance

from .timing import Stat

SCHEMA = 1
SHIPPED = Path(__file__).parents[1] / "data" / "nvidia_h200_recording.json"
QUANTITIES = ("host_us", "total_us", "device_us")


class RecordingError(ValueError):
    """A recording that cannot be used: names the file and the field."""


@dataclass(frozen=True)
class Point:
    """One measured configuration: what was timed (`sweep`, `what`), of how many launches, and the timings in µs.

    `what` is loop, replay, or the name of a phase; `kernel_us` is how long each kernel's body stays busy; `replays` how
    many replays were queued behind each other; `streams` how many were used (by a replay: existed); `nbytes` the size of a
    copy; `arguments` those of the kernel, as "2 arrays".
    """

    sweep: str
    what: str
    api: str = ""
    launches: int = 1
    kernel_us: float = 0.0
    streams: int = 1
    replays: int = 1
    nbytes: int = 0
    arguments: str = ""
    host_us: Stat | None = None
    total_us: Stat | None = None
    device_us: Stat | None = None

    @property
    def key(self) -> tuple:
        """The configuration, without the timings."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.name not in QUANTITIES)

    def timings(self) -> Iterator[tuple[str, Stat]]:
        for name in QUANTITIES:
            if (stat := getattr(self, name)) is not None:
                yield name, stat


@dataclass(frozen=True)
class Recording:
    """What one machine measured."""

    gpu: str
    driver: str
    date: str
    versions: dict[str, str]
    host: dict[str, Any]
    points: tuple[Point, ...]
    reference: dict[str, Any] = field(default_factory=dict)  # C++ cross-checks that no model is fitted to
    added: dict[str, Any] = field(default_factory=dict)  # sweeps recorded later → their date, driver, versions, host
    schema: int = SCHEMA
    path: Path | None = field(default=None, compare=False)

    @property
    def provenance(self) -> Provenance:
        return Provenance("recorded", self.gpu, self.driver, self.date)

    def select(self, **wanted: Any) -> list[Point]:
        """The points whose fields have the wanted values, in order of launches and kernel duration."""
        found = [p for p in self.points if all(getattr(p, name) == value for name, value in wanted.items())]
        return sorted(found, key=lambda p: (p.launches, p.kernel_us, p.nbytes, p.replays))

    def __repr__(self) -> str:
        return f"Recording of {self.gpu} (driver {self.driver}, {self.date}): {len(self.points)} points"

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Writes the file whole or not at all: to a temporary file beside it, which then takes its name."""
        names = ("schema", "gpu", "driver", "date", "versions", "host", "reference", "added")
        data = {name: getattr(self, name) for name in names if name != "added" or self.added}
        data["points"] = [point_to_json(p) for p in self.points]
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            temporary.write_text(_dump(data), encoding="utf-8", newline="\n")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path | str = SHIPPED) -> Recording:
        """Reads and checks a recording. Raises RecordingError, which names the file and the field that is wrong."""
        path = Path(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise RecordingError(f"{path}: not whole JSON (was the file cut short?): {error}") from error
        return _Reader(path).recording(data)


def point_from_json(data: dict[str, Any]) -> Point:
    """A point as `point_to_json` writes it. Raises RecordingError if it is not one."""
    return _Reader(Path("(point)")).point("point", data)


def point_to_json(point: Point) -> dict[str, Any]:
    """The point as plain data: a timing as [median, IQR, samples] in µs, defaults left out."""
    out: dict[str, Any] = {}
    for f in fields(Point):
        value = getattr(point, f.name)
        if isinstance(value, Stat):
            out[f.name] = [round(value.median_us, 3), round(value.iqr_us, 3), value.samples]
        elif value != f.default:
            out[f.name] = value
    return out


def _dump(data: dict[str, Any]) -> str:
    """JSON with one point a line, so that two recordings can be compared by eye."""
    points = data.pop("points")
    head = json.dumps(data, indent=1, ensure_ascii=False)[:-2]
    lines = ",\n  ".join(json.dumps(p, ensure_ascii=False) for p in points)
    return f'{head},\n "points": [\n  {lines}\n ]\n}}\n'


class _Reader:
    """Checks a recording field by field."""

    def __init__(self, path: Path):
        self.path = path

    def fail(self, name: str, problem: str) -> RecordingError:
        return RecordingError(f"{self.path}: {name}: {problem}")

    def recording(self, data: Any) -> Recording:
        if not isinstance(data, dict):
            raise self.fail("(whole file)", "not a recording: a JSON object was expected")
        schema = data.get("schema")
        if schema != SCHEMA:
            raise self.fail("schema", f"is {schema!r}; this version of One Launch reads schema {SCHEMA}. Record again")
        for name, kind in {
            "gpu": str,
            "driver": str,
            "date": str,
            "versions": dict,
            "host": dict,
            "points": list,
        }.items():
            if not isinstance(data.get(name), kind):
                raise self.fail(name, f"must be a {kind.__name__}, and is {data.get(name)!r:.60}")
        try:
            datetime.date.fromisoformat(data["date"])
        except ValueError:
            raise self.fail("date", f"must be a date like 2026-12-01, and is {data['date']!r}") from None
        if not data["points"]:
            raise self.fail("points", "there are none")
        points = tuple(self.point(f"points[{i}]", p) for i, p in enumerate(data["points"]))
        if len({p.key for p in points}) != len(points):
            raise self.fail("points", "the same configuration is there twice")
        for name in ("reference", "added"):
            if not isinstance(data.get(name, {}), dict):
                raise self.fail(name, f"must be an object, and is {data[name]!r:.60}")
        head = (data[name] for name in ("gpu", "driver", "date", "versions", "host"))
        return Recording(*head, points, data.get("reference", {}), data.get("added", {}), schema, self.path)

    def point(self, where: str, data: Any) -> Point:
        if not isinstance(data, dict):
            raise self.fail(where, f"must be an object, and is {data!r:.60}")
        unknown = set(data) - {f.name for f in fields(Point)}
        if unknown:
            raise self.fail(f"{where}.{min(unknown)}", "is not a field of a point")
        values: dict[str, Any] = {}
        for f in fields(Point):
            value = data.get(f.name, f.default)
            name = f"{where}.{f.name}"
            if f.name in QUANTITIES:
                values[f.name] = None if value is None else self.stat(name, value)
            elif f.name in ("sweep", "what", "api", "arguments"):
                if not isinstance(value, str):
                    raise self.fail(name, f"must be text, and is {value!r:.60}")
                values[f.name] = value
            else:
                if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                    raise self.fail(name, f"must be a number of at least 0, and is {value!r:.60}")
                values[f.name] = value
        if not any(values[q] for q in QUANTITIES):
            raise self.fail(where, f"has no timing ({', '.join(QUANTITIES)})")
        return Point(**values)

    def stat(self, name: str, value: Any) -> Stat:
        if not isinstance(value, list) or len(value) != 3:
            raise self.fail(name, f"must be [median, IQR, samples], and is {value!r:.60}")
        for part, number in zip(("median", "IQR", "samples"), value, strict=True):
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
                raise self.fail(name, f"{part} must be a number of at least 0, and is {number!r:.60}")
        if value[0] == 0 or value[2] < 1:
            raise self.fail(name, f"a median of 0 or no samples: {value!r}")
        return Stat(float(value[0]), float(value[1]), int(value[2]))


def describe_host() -> dict[str, Any]:
    """What is known of the host: processor, cores, system, Python."""
    import platform

    cpu = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), cpu)
    except OSError:
        pass  # not Linux: platform's word must do
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}
