# `jupyter lab notebooks/00_start_here.ipynb` would serve `notebooks/` alone, and its links to the labs would lead nowhere.
from pathlib import Path

if Path("notebooks", "00_start_here.ipynb").exists():
    c.ServerApp.root_dir = str(Path.cwd())  # noqa: F821
