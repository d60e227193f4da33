"""The project itself: floors, README, environments, generated pages, and what must never be committed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import list_simulated  # noqa: E402


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_floors_import_only_from_floors_below():
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or shutil.which("lint-imports")
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 kept, 0 broken" in done.stdout


def test_only_the_device_floor_asks_which_device_it_is():
    asking = re.compile(r"\bif\b[^\n]*(simulated|\.kind\b|is_live)", re.IGNORECASE)
    for path in (ROOT / "src" / "onelaunch").rglob("*.py"):
        if "device" in path.parts or "sim" in path.parts:
            continue
        hits = [line for line in path.read_text(encoding="utf-8").splitlines() if asking.search(line)]
        assert hits == [], f"{path}: {hits}"


def test_the_list_of_what_is_simulated_is_up_to_date():
    assert list_simulated.TARGET.read_text(encoding="utf-8") == list_simulated.page()


def test_readmes_course_table_agrees_with_the_files():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    chapters = re.findall(
        r"^\| \[(\d\d) [^\]]+\]\((notebooks/[^)]+)\) \| (?:\[lab \d\d\]\((labs/[^)]+)\))?", readme, re.MULTILINE
    )
    assert [Path(name).name for _, name, _ in chapters] == sorted(p.name for p in (ROOT / "notebooks").glob("*.ipynb"))
    assert [Path(lab).name for *_, lab in chapters if lab] == sorted(p.name for p in (ROOT / "labs").glob("*.ipynb"))
    for number, name, _ in chapters:
        assert Path(name).name.startswith(number)
    for target in re.findall(r"\]\(((?!http)[^)#]+)\)", readme):
        assert (ROOT / target).exists(), target


def test_readme_opens_with_the_two_commands_that_ci_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```\n(.*?)```", readme, re.DOTALL).group(1).splitlines()
    assert first == ["uv run jupyter lab notebooks/00_start_here.ipynb", "uv run pytest"]
    assert "uv run pytest" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_readmes_example_prints_what_readme_says(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [(code, printed)] = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", readme, re.DOTALL)
    script = tmp_path / "step.py"
    script.write_text(code, encoding="utf-8")
    env = os.environ | {"ONELAUNCH_DEVICE": "sim", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_readme_names_every_instrument():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    modules = {p.stem for p in (ROOT / "src/onelaunch/instruments").glob("*.py")} - {"__init__", "handles"}
    assert len(set(re.findall(r"^\| `ol\.(\w+)\(", readme, re.MULTILINE))) == len(modules)


def test_notebook_links_lead_somewhere():
    import nbformat

    for path in [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "labs").glob("*.ipynb")]:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                for target in re.findall(r"\]\(((?!http)[^)#]+)\)", re.sub(r"`[^`]*`", "", cell.source)):
                    assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_environment_yml_installs(tmp_path):
    """The conda route's pip part, in an environment of its own (conda's channels are not asked)."""
    data = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert data["name"] == "onelaunch"
    assert any(str(d).startswith("python=") for d in data["dependencies"])
    (packages,) = [d["pip"] for d in data["dependencies"] if isinstance(d, dict)]
    assert packages == ["-e ."]
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the PATH")
    environment = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")}
    venv, requirements = tmp_path / "venv", tmp_path / "requirements.txt"
    requirements.write_text("\n".join(packages), encoding="utf-8")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, venv], check=True, env=environment)
    python = venv / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, "-r", requirements], check=True, cwd=ROOT, env=environment)
    code = (
        "import onelaunch as ol; from onelaunch import cp; print(float(cp.ones(3).sum()), ol.explore.decode_budget().launches)"
    )
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True, env={**environment, "ONELAUNCH_DEVICE": "sim"}
    )
    assert done.stdout == "3.0 480\n"


def test_the_wheel_carries_its_data_and_its_kernels(tmp_path):
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the PATH")
    subprocess.run([uv, "build", "-q", "--wheel", "-o", tmp_path, ROOT], check=True)
    import zipfile

    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "data/nvidia_h200_recording.json", "data/nvidia_h200_costs.json", "device/kernels.cu", "device/reference.cu",
    ):  # fmt: skip
        assert f"onelaunch/{name}" in names
    assert not [n for n in names if "labconfig" in n], "the learner's view is for this checkout only"


def test_pinned_versions_cover_the_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    assert set(extras) == {"cu13", "cu12", "torch"}
    pinned = {re.split(r"[=<>~]", c)[0] for c in project["tool"]["uv"]["constraint-dependencies"]}
    assert pinned >= {"numpy", "cupy-cuda13x", "cupy-cuda12x", "numba-cuda", "cuda-core", "jupyterlab", "ipywidgets", "nbval"}
    assert any(d.startswith("numpy") and "<2.5" in d for d in project["project"]["dependencies"])


def test_nothing_committed_names_a_host_of_packages_or_a_lock():
    assert "uv.lock" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    files = tracked()
    assert ROOT / "uv.lock" not in files
    for path in files:
        if path.suffix in (".py", ".md", ".toml", ".yml", ".json", ".ipynb", ".cfg", ".cu") or path.name == "run":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r'https?://[^ "]+\.(whl|tar\.gz)', text), path
            assert "/" + "work/main" not in text, path
            assert "/" + "root/" not in text, path
