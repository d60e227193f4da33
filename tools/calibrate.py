"""Fits the simulated device to a recording: `uv run python tools/calibrate.py [RECORDING]` (default: the shipped one).

Writes the costs beside it (`*_recording.json` -> `*_costs.json`) and prints the fit's error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from onelaunch.measure import Recording
from onelaunch.measure.calibrate import fit
from onelaunch.measure.recording import SHIPPED


def main(path: Path) -> None:
    costs, _ = fit(Recording.load(path))
    target = path.with_name(path.name.replace("_recording", "").removesuffix(".json") + "_costs.json")
    target.write_text(json.dumps(_rounded(costs.to_json()), indent=1) + "\n", encoding="utf-8")
    print(f"{costs.provenance}\nwritten to {target}")


def _rounded(value):
    """Four significant digits: more than the recording has."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return value


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED)
