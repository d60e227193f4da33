"""Which device is chosen, and what is said when it is not the one that was hoped for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onelaunch import cli
from onelaunch.device import DeviceUnavailableError, Diagnosis, Found, choose, diagnose

ALL = {
    "numpy": "2.4.6", "cupy-cuda13x": "14.2.0", "numba": "0.68.0", "numba-cuda": "0.30.4", "cuda-core": "1.2.0",
    "cuda-bindings": "13.3.1",
}  # fmt: skip
H200 = Found(gpus=("NVIDIA H200",), driver="580.159.04", cuda_version=(13, 0), packages=ALL)


def without(*names):
    return {name: number for name, number in ALL.items() if name not in names}


def machine(**changes) -> Found:
    from dataclasses import replace

    return replace(H200, **changes)


CASES = {
    "ready": (H200, True, "", ""),
    "no driver": (Found(packages={"numpy": "2.4.6"}), False, "no NVIDIA driver", "simulated GPU"),
    "CuPy present, no GPU": (machine(gpus=(), driver=None, cuda_version=None), False, "no NVIDIA driver", "nothing to mend"),
    "driver without a GPU": (machine(gpus=()), False, "no GPU that it can use", "nvidia-smi"),
    "broken driver": (machine(driver_problem="cuInit fails with error 803"), False, "error 803", "repair the NVIDIA driver"),
    "CuPy absent": (
        machine(packages=without("cupy-cuda13x")),
        False,
        "CuPy is not installed",
        "uv run --extra cu13 jupyter lab",
    ),
    "Numba absent": (machine(packages=without("numba-cuda")), False, "numba-cuda is not installed", "--extra cu13"),
    "cuda.core absent": (machine(packages=without("cuda-core")), False, "cuda-core is not installed", "--extra cu13"),
    "driver too old for CUDA 13": (machine(cuda_version=(12, 8)), False, "needs CUDA 13", "--extra cu12"),
    "driver too old": (machine(cuda_version=(11, 8)), False, "supports CUDA 11.8", "update the NVIDIA driver"),
    "numpy too new": (machine(packages={**ALL, "numpy": "2.5.2"}), False, "numpy 2.5.2", "numpy<2.5"),
    "GPU too old for CUDA 13": (
        machine(compute_capability=(7, 0)),
        False,
        "compute capability 7.0; CUDA 13, which cupy-cuda13x needs, starts at 7.5",
        "--extra cu12",
    ),
    "GPU too old for CUDA 13, nothing installed": (
        machine(compute_capability=(6, 1), packages=without("cupy-cuda13x")),
        False,
        "CuPy is not installed",
        "--extra cu12",
    ),
    "CUDA 12 packages": (
        machine(
            cuda_version=(12, 4), compute_capability=(7, 0), packages={**without("cupy-cuda13x"), "cupy-cuda12x": "14.2.0"}
        ),
        True,
        "",
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_thing_in_the_way_is_named_with_its_mend(name):
    found, live, problem, mend = CASES[name]
    diagnosis = diagnose(found)
    assert diagnosis.live is live
    assert problem in diagnosis.problem
    assert mend in diagnosis.mend


def test_auto_without_a_gpu_is_the_simulated_device_and_says_nothing_more():
    device = choose("auto", Found())
    assert (device.kind, device.note) == ("simulated", "")
    assert device.banner() == (
        "No GPU in use: a simulated NVIDIA H200. Same cells, same errors; timings come from a model of one."
    )


def test_auto_with_a_gpu_that_cannot_be_used_says_why():
    device = choose("auto", machine(packages=without("numba-cuda")))
    assert device.kind == "simulated"
    assert "Not live: GPU NVIDIA H200, but numba-cuda is not installed. To mend it: uv run --extra cu13" in device.banner()


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if not case[1] and n != "no driver"])
def test_auto_says_what_is_in_the_way_of_a_gpu_that_was_meant_to_be_used(name):
    found, _, problem, mend = CASES[name]
    banner = choose("auto", found).banner()
    assert problem in banner
    assert mend in banner


def test_live_without_a_gpu_is_refused_with_the_reason():
    with pytest.raises(DeviceUnavailableError, match="ONELAUNCH_DEVICE=live, but no NVIDIA driver"):
        choose("live", Found())


@pytest.mark.parametrize("word", ["gpu", "", "LIVE", "simulated"])
def test_another_word_is_refused_with_the_three_allowed(word):
    with pytest.raises(ValueError, match="is not one of live, sim, auto"):
        choose(word, Found())


def python(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


def test_the_first_cell_of_a_notebook_refuses_a_bad_choice():
    done = python("from onelaunch import cp", ONELAUNCH_DEVICE="quantum")
    assert "ValueError: ONELAUNCH_DEVICE='quantum' is not one of live, sim, auto" in done.stderr


def test_names_of_the_face():
    code = (
        "import onelaunch as ol; from onelaunch import cp, cuda, time, types; import onelaunch.measure.sweeps; "
        "print(ol.device.kind, callable(ol.measure), callable(ol.predict), ol.explore.__name__, ol.check.__name__); "
        "print(cp.__name__, cuda.__name__, time.__name__, types.__name__); ol.nothing"
    )
    done = python(code, ONELAUNCH_DEVICE="sim")
    assert done.stdout.splitlines() == [
        "simulated True True onelaunch.explore onelaunch.check",
        "onelaunch.sim.cupy_face onelaunch.sim.numba_face onelaunch.sim.time_face onelaunch.sim.types_face",
    ]
    assert "module 'onelaunch' has no attribute 'nothing'" in done.stderr


@pytest.mark.gpu
def test_on_a_gpu_the_names_are_the_libraries():
    code = (
        "import cupy, numba.cuda, numba.types, time as t; from onelaunch import cp, cuda, time, types; "
        "print(cp is cupy, cuda is numba.cuda, types is numba.types, time is t)"
    )
    assert python(code, ONELAUNCH_DEVICE="live").stdout == "True True True True\n"


def test_importing_loads_no_plots_no_widgets_and_no_gpu_packages():
    heavy = ("matplotlib", "ipywidgets", "numba", "cupy", "IPython")
    code = f"import sys, onelaunch; from onelaunch import cp, cuda; print([m for m in {heavy!r} if m in sys.modules])"
    assert python(code, ONELAUNCH_DEVICE="sim").stdout == "[]\n"


# -- the shell --------------------------------------------------------------------------------------------------------


def test_doctor_lists_what_is_there_and_what_would_mend_it(capsys, monkeypatch):
    monkeypatch.setattr(cli, "find", lambda: machine(cuda_version=(12, 8)))
    monkeypatch.setattr(cli, "_version", lambda name: "1.0")
    monkeypatch.setattr(cli, "_kernel", lambda: ("python3 (here)", ""))
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for text in ("GPU", "NVIDIA H200", "580.159.04 (CUDA 12.8)", "cupy-cuda13x", "jupyterlab", "Jupyter kernel", "numpy"):
        assert text in out
    assert "needs CUDA 13" in out
    assert "To mend it: uv run --extra cu12" in out


def test_doctor_tries_the_gpu_packages_that_are_there(capsys, monkeypatch):
    """They may be installed and not work; then the notebooks fall back, and doctor must not say otherwise."""

    def broken(wanted, found):
        raise DeviceUnavailableError(
            Diagnosis(False, "the GPU packages are installed, but fail: OSError: libnvrtc", "reinstall")
        )

    monkeypatch.setattr(cli, "find", lambda: H200)
    monkeypatch.setattr(cli, "choose", broken)
    cli.main(["doctor"])
    assert "run on the simulated GPU: the GPU packages are installed, but fail: OSError: libnvrtc" in capsys.readouterr().out
    monkeypatch.setattr(cli, "choose", lambda wanted, found: None)
    cli.main(["doctor"])
    assert "The notebooks run live on this GPU." in capsys.readouterr().out


def test_doctor_fails_when_the_notebooks_cannot_run(capsys, monkeypatch):
    monkeypatch.setattr(cli, "NOTEBOOK_PACKAGES", (*cli.NOTEBOOK_PACKAGES, "not-a-package"))
    assert cli.main(["doctor"]) == 1
    assert "missing   -> uv sync" in capsys.readouterr().out


def test_doctor_names_a_kernel_of_another_python(capsys, monkeypatch):
    monkeypatch.setattr(cli, "_kernel", lambda: ("python3 runs another Python: elsewhere", "reinstall"))
    assert cli.main(["doctor"]) == 1
    assert "elsewhere   -> reinstall" in capsys.readouterr().out


def test_record_without_a_gpu_refuses_and_writes_nothing(capsys, monkeypatch, tmp_path):
    def refuse(wanted):
        return choose(wanted, Found())

    monkeypatch.setattr(cli, "choose", refuse)
    assert cli.main(["record", "-o", str(tmp_path / "r.json")]) == 2
    assert "a recording needs a live GPU: no NVIDIA driver on this machine" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_record_interrupted_leaves_no_half_file(capsys, monkeypatch, tmp_path, device):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "choose", lambda wanted: device)
    monkeypatch.setattr(cli.sweeps, "record", interrupted)
    assert cli.main(["record", "-o", str(tmp_path / "r.json")]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_record_refuses_no_rounds(capsys):
    assert cli.main(["record", "--rounds", "0"]) == 2
    assert "--rounds must be at least 1" in capsys.readouterr().err
