"""`onelaunch`: the course's shell commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onelaunch.device import DeviceUnavailableError, choose, diagnose, find
from onelaunch.device.probe import INSTALL_CUPTI
from onelaunch.measure import Recording, RecordingError, sweeps
from onelaunch.measure.recording import SHIPPED

NOTEBOOK_PACKAGES = ("onelaunch", "numpy", "matplotlib", "ipywidgets", "jupyterlab", "ipykernel")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="onelaunch", description="One Launch: an interactive course on CUDA Graphs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("doctor", help="what was found on this machine, what is missing, and how to mend it")
    record = commands.add_parser("record", help="measure this machine's GPU and write a recording (a few minutes)")
    record.add_argument("-o", "--output", type=Path, help="the file to write (default: recordings/GPU-DATE.json)")
    record.add_argument("--rounds", type=int, default=9, help="how often each case is sampled (default: 9; fewer is faster)")
    record.add_argument("--only", choices=[*sweeps.ADDITIONS], help="measure this part alone, and add it to a recording")
    record.add_argument("--into", type=Path, default=SHIPPED, help="the recording to add it to (default: the shipped H200's)")
    options = parser.parse_args(arguments)
    if options.command == "doctor":
        return doctor()
    return record_sweeps(options.output, options.rounds, options.only, options.into)


def doctor() -> int:
    """Prints what this machine offers the course. Returns 0 unless something that the notebooks need is missing."""
    found = find()
    diagnosis = diagnose(found)
    rows = [("GPU", ", ".join(found.gpus) or "none", "")]
    if found.cuda_version:
        rows.append(("NVIDIA driver", f"{found.driver} (CUDA {found.cuda_version[0]}.{found.cuda_version[1]})", ""))
    else:
        rows.append(("NVIDIA driver", found.driver_problem or "none", ""))
    missing = []
    for name in NOTEBOOK_PACKAGES:
        installed = _version(name)
        rows.append((name, installed or "missing", "" if installed else "uv sync"))
        if installed is None:
            missing.append(name)
    rows += [(name, number, "") for name, number in found.packages.items() if name not in NOTEBOOK_PACKAGES]
    if found.cupy and "cupti-python" not in found.packages:
        rows.append(("cupti-python", "missing: ol.timeline does not see the GPU", INSTALL_CUPTI))
    kernel, mend = _kernel()
    rows.append(("Jupyter kernel", kernel, mend))
    width = max(len(name) for name, _, _ in rows)
    for name, state, mend in rows:
        print(f"{name:{width}}  {state}" + (f"   -> {mend}" if mend else ""))
    print()
    problem, mend_it = diagnosis.problem, diagnosis.mend
    if diagnosis.live:
        try:
            choose("live", found)  # the packages are there; only using them shows whether they work
        except DeviceUnavailableError as error:
            problem, mend_it = error.diagnosis.problem, error.diagnosis.mend
    if problem:
        print(f"The notebooks run on the simulated GPU: {problem}.")
        print(f"To mend it: {mend_it}.")
    else:
        print("The notebooks run live on this GPU.")
    return 1 if missing or mend else 0


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _kernel() -> tuple[str, str]:
    """Which Python the notebooks' kernel `python3` runs, and how to mend it if it is another than this one."""
    install = "uv run python -m ipykernel install --sys-prefix --name python3"
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except (ImportError, NoSuchKernel):
        return "missing", install
    if command in ("python", "python3") or Path(command).resolve() == Path(sys.executable).resolve():
        return f"python3 ({sys.executable})", ""
    return f"python3 runs another Python: {command}", install


def record_sweeps(output: Path | None, rounds: int, only: str | None = None, into: Path = SHIPPED) -> int:
    """Records a live GPU: every sweep, or `only` one part, added to the recording `into`, which itself stays as it is.

    Returns 2 where there is no GPU or it is not the recording's, 130 if interrupted; nothing is written then.
    """
    from tqdm.auto import tqdm

    if rounds < 1:
        print(f"onelaunch record: --rounds must be at least 1, not {rounds}", file=sys.stderr)
        return 2
    try:
        device = choose("live")
    except DeviceUnavailableError as error:
        lacks = error.diagnosis
        print(f"onelaunch record: a recording needs a live GPU: {lacks.problem} ({lacks.mend})", file=sys.stderr)
        return 2

    def progress(plan: Sequence) -> Iterable:
        return tqdm(plan, unit="case", smoothing=0.02)

    try:
        if only:
            recording = sweeps.record_addition(only, device, Recording.load(into), rounds, progress)
        else:
            recording = sweeps.record(device, rounds, progress)
    except RecordingError as error:
        print(f"onelaunch record: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nonelaunch record: interrupted; nothing was written", file=sys.stderr)
        return 130
    name, date = recording.gpu.lower().replace(" ", "_"), recording.added[only]["date"] if only else recording.date
    output = output or Path("recordings") / f"{name}-{date}.json"
    recording.save(output)
    print(f"{recording!r}\nwritten to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
