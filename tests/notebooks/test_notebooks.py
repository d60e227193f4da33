"""The notebooks: outputs that are fresh and from a real GPU, held against a run on the device under test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from make_labs import lab_of, stale_labs  # noqa: E402
from refresh_outputs import WIDGET_VIEW, code_hash  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
SANITIZE = Path(__file__).with_name("sanitize.cfg")


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def ids(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def test_there_are_notebooks_and_labs():
    assert len(NOTEBOOKS) >= 2
    assert len(SOLUTIONS) >= 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids(NOTEBOOKS))
def test_outputs_are_those_of_a_live_gpu_and_of_these_cells(path):
    metadata = read(path).metadata["onelaunch"]
    assert metadata["code_sha256"] == code_hash(read(path)), "code cells changed: run tools/refresh_outputs.py on a GPU"
    assert metadata["outputs"]["kind"] == "live"
    assert metadata["outputs"]["gpu"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids(NOTEBOOKS))
def test_stored_outputs_show_without_a_kernel(path):
    outputs = [output for cell in read(path).cells for output in cell.get("outputs", [])]
    assert outputs
    assert not [o for o in outputs if WIDGET_VIEW in o.get("data", {})], "a reader would see 'model not found'"
    explorers = [c for c in read(path).cells if c.cell_type == "code" and "ol.explore." in c.source]
    assert explorers
    for cell in explorers:
        assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.source
    assert "widgets" not in read(path).metadata


@pytest.mark.parametrize("path", NOTEBOOKS + SOLUTIONS, ids=ids(NOTEBOOKS + SOLUTIONS))
def test_cells_are_short(path):
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            assert len(cell.source.split()) <= 120, cell.source
        else:
            assert len(cell.source.splitlines()) <= 20, cell.source


def test_there_are_few_sanitising_rules():
    rules = re.findall(r"^regex: (.*)\n^replace: (.*)$", SANITIZE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert 1 <= len(rules) <= 8
    for pattern, _ in rules:
        # Words, verdicts and whole results are never sanitised.
        assert not re.fullmatch(pattern, "host-bound: the GPU idles")
        assert not re.search(pattern, "[512.]")
        assert not re.search(pattern, "True")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids(NOTEBOOKS))
def test_strict_nbval_holds_a_run_against_the_stored_outputs(path):
    command = [
        sys.executable, "-m", "pytest", "--nbval", f"--nbval-sanitize-with={SANITIZE}", "--nbval-cell-timeout=120",
        "--nbval-current-env", "-p", "no:cacheprovider", "-q", "-c", os.devnull, f"--rootdir={ROOT}", str(path),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    cells = sum(cell.cell_type == "code" for cell in read(path).cells)
    assert f"{cells} passed" in done.stdout


def run(path_or_text: Path | str, folder: Path) -> nbformat.NotebookNode:
    """Executes a notebook in `folder` and returns it with its outputs."""
    from nbclient import NotebookClient

    notebook = read(path_or_text) if isinstance(path_or_text, Path) else nbformat.reads(path_or_text, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return notebook


def verdicts(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Exercise → status, from the outputs of the check cells."""
    found = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith("ol.check."):
            text = "".join(output["data"]["text/plain"] for output in cell.outputs if "data" in output)
            exercise, _, status = text.splitlines()[0][2:].partition(": ")
            found[exercise] = status
    return found


def test_labs_are_what_their_solutions_make():
    assert stale_labs() == []


@pytest.mark.parametrize("path", SOLUTIONS, ids=ids(SOLUTIONS))
def test_a_solution_passes_every_check_and_its_lab_runs_clean(path, tmp_path):
    solved = verdicts(run(path, tmp_path))
    assert len(solved) >= 4
    assert set(solved.values()) == {"pass"}
    untouched = verdicts(run(lab_of(path), tmp_path))
    assert untouched == dict.fromkeys(solved, "not attempted")


def test_stale_labs_are_found(tmp_path):
    for folder in ("solutions", "labs"):
        (tmp_path / folder).mkdir()
    assert stale_labs(tmp_path) == ["solutions/ holds no notebook"]
    (tmp_path / "solutions" / "a.ipynb").write_text(SOLUTIONS[0].read_text(encoding="utf-8"), encoding="utf-8")
    assert stale_labs(tmp_path) == ["labs/a.ipynb is missing"]
    (tmp_path / "labs" / "a.ipynb").write_text(lab_of(SOLUTIONS[0]).replace("Lab:", "Lab "), encoding="utf-8")
    assert stale_labs(tmp_path) == ["labs/a.ipynb is not what solutions/a.ipynb makes"]
