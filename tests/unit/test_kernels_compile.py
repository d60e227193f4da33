"""Every kernel of the course: numba-cuda compiles it with no GPU, and Numba's own simulator agrees with the simulated device.

Kernels are found in the code (`cuda.jit` in notebooks, solutions and the package; the conformance harness's own), and typed and
run as the code launches them: `kernel_runs.py` does the work, each step in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import kernel_runs
import nbformat
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

# Of device/numba_kernels.py, and compiled only: they read clock64 and globaltimer through intrinsics that Numba's simulator
# does not have, nor the simulated device. (`stay_busy` is a device function, compiled with both.)
COMPILE_ONLY = {"stay_busy", "work", "work_stamped"}


@pytest.fixture(scope="module", autouse=True)
def compiler():
    """Skips without numba-cuda and NVIDIA's compiler; where ONELAUNCH_REQUIRE_COMPILER is set (CI), that is a failure."""
    if not all(map(importlib.util.find_spec, ("numba", "nvidia"))):
        if os.environ.get("ONELAUNCH_REQUIRE_COMPILER"):
            pytest.fail("no CUDA compiler, and ONELAUNCH_REQUIRE_COMPILER is set")
        pytest.skip("no CUDA compiler here: `uv sync --group compiler` installs one")


@dataclass(frozen=True, repr=False)
class Checked:
    """What the three steps made of a folder."""

    course: kernel_runs.Course
    compiled: list[kernel_runs.Compiled]
    simulated: list[list[bytearray] | str]

    def missing(self) -> set[str]:
        """Kernels, and functions for them, that nothing ran; a kernel with a declared signature runs all the same."""
        ran = {f.where for run in self.course.runs for f in run.function.all_functions()}
        return (self.course.kernels | self.course.devices) - ran - self.course.compile_only

    def refused(self) -> dict[str, str]:
        """where → what numba-cuda says, or lacks a PTX entry."""
        return {c.where: c.error for c in self.compiled if c.error or ".visible .entry" not in c.ptx}

    def idle(self) -> set[str]:
        """Kernels that changed no memory: a comparison of their results would show nothing."""
        return {run.function.where for run in self.course.runs if run.before == run.after}

    def differing(self) -> dict[str, str]:
        """where → how Numba's simulator differs."""
        return {
            run.function.where: difference
            for run, simulated in zip(self.course.runs, self.simulated, strict=True)
            if (difference := differs(run, simulated))
        }


def differs(run: kernel_runs.Run, simulated: list[bytearray] | str) -> str:
    """How a run's memory afterwards differs from that in Numba's simulator: "" if it does not."""
    if isinstance(simulated, str):
        return simulated
    for i, view in enumerate(a for a in run.arguments if isinstance(a, kernel_runs.View)):
        ours, numbas = view.of(run.after), view.of(simulated)
        if not np.allclose(ours, numbas, rtol=1e-6, atol=0, equal_nan=True):
            return f"array {i} is {ours} on the simulated device, {numbas} in Numba's simulator"
    return ""


def start(what: str, root: Path, folder: Path, **environment: str) -> subprocess.Popen:
    inherited = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    fixed = {"ONELAUNCH_DEVICE": "sim", "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, kernel_runs.__file__, what, root, folder / "record", folder / what]
    return subprocess.Popen(
        command, cwd=folder, env=inherited | fixed | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def result(process: subprocess.Popen, path: Path):
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()  # a kernel that never ends
    assert process.returncode == 0, output
    return pickle.loads(path.read_bytes())


def check(root: Path, folder: Path) -> Checked:
    course = result(start("record", root, folder), folder / "record")
    both = start("compile", root, folder), start("simulate", root, folder, NUMBA_ENABLE_CUDASIM="1")
    return Checked(course, *(result(p, folder / w) for p, w in zip(both, ("compile", "simulate"), strict=True)))


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> Checked:
    return check(ROOT, tmp_path_factory.mktemp("kernels"))


def names(wheres: set[str]) -> set[str]:
    return {where.split()[-1] for where in wheres}


# -- the course -------------------------------------------------------------------------------------------------------


def test_kernels_are_found_wherever_the_course_has_some(checked):
    found = checked.course.kernels | checked.course.devices
    for folder in ("notebooks", "solutions", "src/onelaunch/check", "src/onelaunch/bench", "src/onelaunch/device", "tests"):
        assert any(where.startswith(f"{folder}/") for where in found), folder
    notebooks = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("solutions/*.ipynb")]
    written = decorators(notebooks, r'^ *" *@cuda\.jit') + decorators((ROOT / "src").rglob("*.py"), r"^ *@cuda\.jit")
    for_numbas_simulator = 1  # in a string of bench/speed.py
    decorated = {w for w in found if not w.startswith("tests/") and w.split()[-1] not in ("work", "work_stamped")}
    assert len(decorated) == written - for_numbas_simulator


def decorators(paths: Iterable[Path], pattern: str) -> int:
    return sum(len(re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)) for path in paths)


def test_every_kernel_is_launched_somewhere_or_declares_what_it_takes(checked):
    assert checked.course.problems == []
    assert checked.missing() == set(), "launch it in its notebook, or in kernel_runs.record"


def test_every_kernel_compiles_to_ptx(checked):
    assert {c.where for c in checked.compiled} == checked.course.kernels
    assert not checked.refused(), "\n".join(f"{where}: {error}" for where, error in checked.refused().items())


def test_a_kernel_that_sleeps_has_the_instruction(checked):
    ptx = {c.where: c.ptx for c in checked.compiled}
    sleepy = [
        run.function.where for run in checked.course.runs if any("nanosleep" in f.source for f in run.function.all_functions())
    ]
    assert len(sleepy) >= 5
    for where in ptx:
        assert bool(re.search(r"\bnanosleep\.u32\b", ptx[where])) == (where in sleepy), where


def test_numbas_simulator_gives_what_the_simulated_device_gives(checked):
    assert checked.idle() == set()
    assert checked.differing() == {}
    ran = {run.function.where for run in checked.course.runs}
    assert names(checked.course.kernels - ran) == COMPILE_ONLY - names(checked.course.devices)


def test_the_yardsticks_kernels_are_compiled_only(checked):
    assert names(checked.course.compile_only) == COMPILE_ONLY
    assert all(where.startswith("src/onelaunch/device/numba_kernels.py:") for where in checked.course.compile_only)
    for name, registers in {"work": {"clock64"}, "work_stamped": {"clock64", "globaltimer"}}.items():
        versions = [c for c in checked.compiled if c.where in checked.course.compile_only and c.where.endswith(f" {name}")]
        assert [c.signature.split(",")[0] for c in versions] == ["(Array(int64", "(int64*"]
        for compiled in versions:
            assert set(re.findall(r"%(clock64|globaltimer)\b", compiled.ptx)) == registers


# -- what is wrong is found -------------------------------------------------------------------------------------------

SETUP = """
import numpy as np
from onelaunch import cp, cuda, types
x = cp.zeros(1, dtype=cp.float32)
table = cp.zeros((3, 4), dtype=cp.int32)
long = cp.zeros(5000, dtype=cp.int32)
"""

RIGHT = """
STEP, big = 2, np.int32(7)

@cuda.jit(device=True)
def doubled(v):
    return STEP * v

@cuda.jit
def good(table, amount):
    i, j = cuda.grid(2)
    if i < table.shape[0] and j < table.shape[1]:
        table[i, j] += doubled(i + 10 * j) + amount + big

def with_step(step):
    @cuda.jit
    def closure(x):
        cuda.atomic.add(x, 0, step)
    return closure

@cuda.jit(types.void(types.CPointer(types.int32), types.int32))
def declared(p, n):
    i = cuda.grid(1)
    if i < n:
        p[i] *= n

@cuda.jit
def many(long):
    i = cuda.grid(1)
    if i < long.size:
        long[i] = i

@cuda.jit
def block_sum(x, long):
    part = cuda.shared.array(32, types.int32)
    i = cuda.threadIdx.x
    part[i] = long[i]
    cuda.syncthreads()
    if i == 0:
        for k in range(32):
            x[0] += part[k]

good[(2, 2), (2, 2)](table, 5)
with_step(4)[2, 8](x)
many[40, 128](long)
block_sum[1, 32](x, long)
"""

WRONG = """
def halved(v):
    return v / 2

@cuda.jit(device=True)
def unused(v):
    return v

@cuda.jit
def calls_python(x):
    x[0] = halved(x[0] + 1)

@cuda.jit
def looks_up(x):
    x[0] = {1: 2.0}[1]

@cuda.jit
def reads_an_array_of_the_host_program(out):
    out[0] = x[0] + 1

@cuda.jit
def first_comer(x):
    if cuda.threadIdx.x + cuda.threadIdx.y == 1 and x[0] < 1000:
        x[0] = 1000 + cuda.threadIdx.x

@cuda.jit
def does_nothing(x):
    i = cuda.grid(1)

@cuda.jit
def never_launched(x):
    x[0] += 1

calls_python[1, 1](x)
looks_up[1, 1](x)
reads_an_array_of_the_host_program[1, 1](x)
first_comer[1, (2, 2)](x)
does_nothing[1, 1](x)
"""

UNCLEAR = """
kernels = [with_step]
made = cuda.jit(kernels[0])
compiled = cuda.jit

@compiled
def in_disguise(x):
    x[0] += 1
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Iterator[Checked]:
    """A folder with one notebook: kernels as they should be, and kernels that are wrong, each in a way of its own."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "notebooks").mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in (SETUP, RIGHT, WRONG, UNCLEAR)])
    notebook.cells.append(nbformat.v4.new_code_cell("cp.cuda.Device().synchronize()"))
    nbformat.write(notebook, folder / "notebooks" / "other.ipynb")
    return check(folder, folder)


def test_a_new_notebook_is_covered_by_itself(other):
    right = {"good", "doubled", "closure", "declared", "many", "block_sum"}
    assert names(other.course.kernels | other.course.devices) >= right
    for wrong in (other.missing(), other.refused().keys(), other.idle(), other.differing().keys()):
        assert not right & names(set(wrong))


def test_a_kernel_that_is_never_launched_is_found(other):
    assert names(other.missing()) == {"never_launched", "unused"}


def test_a_kernel_that_numba_refuses_is_found(other):
    refused = {where.split()[-1]: error for where, error in other.refused().items()}
    assert refused.keys() == {"calls_python", "looks_up", "reads_an_array_of_the_host_program"}
    assert "halved" in refused["calls_python"]
    assert "`x`" in refused["reads_an_array_of_the_host_program"]


def test_a_result_that_differs_is_found(other):
    assert names(other.idle()) == {"does_nothing"}
    assert "1001" in other.differing()[next(w for w in other.differing() if w.endswith("first_comer"))]
    run = next(r for r in other.course.runs if r.function.name == "good")
    assert differs(run, run.after) == ""
    assert differs(run, run.before) != ""


def test_a_kernel_that_cannot_be_found_in_the_text_is_reported(other):
    unclear, made, disguised = sorted(other.course.problems, key=lambda p: ("in_disguise" in p, "with_step" in p))
    assert "which function is it? cuda.jit(kernels[0])" in unclear
    for problem, name in ((made, "with_step"), (disguised, "in_disguise")):
        assert problem.endswith(f" {name}: a kernel that was not found in the text")


def test_a_folder_without_kernels_has_none(tmp_path):
    assert result(start("record", tmp_path, tmp_path), tmp_path / "record").kernels == set()
