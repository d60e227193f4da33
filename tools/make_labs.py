"""Generates `labs/` from `solutions/` with nbgrader's own preprocessors.

`uv run python tools/make_labs.py` writes; with `--check` it only compares, and fails if a lab is not what its solution makes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat
from nbgrader.preprocessors import ClearOutput, ClearSolutions
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
CONFIG = Config(ClearSolutions={"code_stub": {"python": "raise NotImplementedError"}})


def lab_of(solution: Path) -> str:
    """The text of the lab that a solution notebook makes: solutions replaced by a stub, outputs cleared."""
    notebook = nbformat.read(solution, as_version=4)
    resources: dict = {}
    for preprocessor in (ClearSolutions(config=CONFIG), ClearOutput(config=CONFIG)):
        notebook, resources = preprocessor.preprocess(notebook, resources)
    notebook.metadata.pop("celltoolbar", None)
    return nbformat.writes(notebook) + "\n"


def stale_labs(root: Path = ROOT) -> list[str]:
    """What is wrong with `labs/`, one line for each lab: missing, not up to date, or without a solution."""
    problems = []
    solutions = sorted((root / "solutions").glob("*.ipynb"))
    for solution in solutions:
        lab = root / "labs" / solution.name
        if not lab.exists():
            problems.append(f"labs/{solution.name} is missing")
        elif lab.read_text(encoding="utf-8") != lab_of(solution):
            problems.append(f"labs/{solution.name} is not what solutions/{solution.name} makes")
    names = {solution.name for solution in solutions}
    problems += [f"labs/{lab.name} has no solution" for lab in (root / "labs").glob("*.ipynb") if lab.name not in names]
    if not solutions:
        problems.append("solutions/ holds no notebook")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if a lab is stale")
    if parser.parse_args().check:
        problems = stale_labs()
        print("\n".join(problems) or "labs are up to date")
        return 1 if problems else 0
    for solution in sorted((ROOT / "solutions").glob("*.ipynb")):
        lab = ROOT / "labs" / solution.name
        lab.parent.mkdir(exist_ok=True)
        lab.write_text(lab_of(solution), encoding="utf-8", newline="\n")
        print(f"written: labs/{lab.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
