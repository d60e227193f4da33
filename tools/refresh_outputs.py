"""Executes notebooks on a live GPU and stores their outputs, pictures included.

`python tools/refresh_outputs.py [NOTEBOOK ...]` (default: all of `notebooks/`). Widget views are taken out, since no viewer
can show them without the kernel; the picture beside each stays. The notebook's metadata says on which GPU its outputs were
recorded, and of which code cells (a hash that CI compares). With `--simulated`, the simulated device is used: for trying a
notebook out, never for committing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
CELL_SECONDS = 300


def code_hash(notebook: nbformat.NotebookNode) -> str:
    """SHA-256 of the notebook's code cells, in order."""
    digest = hashlib.sha256()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            digest.update(cell.source.encode() + b"\0")
    return digest.hexdigest()


def execute(path: Path, recorded_on: dict[str, str]) -> None:
    """Runs one notebook from top to bottom and writes it back with its outputs."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=folder).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # timestamps
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "onelaunch": {"code_sha256": code_hash(notebook), "outputs": recorded_on},
        }
    )
    nbformat.write(notebook, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of notebooks/")
    parser.add_argument("--simulated", action="store_true", help="use the simulated device (not for committing)")
    options = parser.parse_args()
    os.environ["ONELAUNCH_DEVICE"] = "sim" if options.simulated else "live"
    from onelaunch.device import current

    provenance = current().provenance
    recorded_on = {"kind": provenance.kind, "gpu": provenance.gpu, "driver": provenance.driver, "date": provenance.date}
    for path in options.notebooks or sorted((ROOT / "notebooks").glob("*.ipynb")):
        execute(path, recorded_on)
        print(f"executed on {provenance.gpu}: {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
