"""Runs every conformance case on a live GPU, in processes of their own, and writes the transcripts.

`python tools/record_conformance.py [-o FILE] [NAME-PREFIX ...]`. With prefixes, only those cases are run, and the others keep
what the transcripts have. A case that hangs for 60 s, or whose process dies, says so.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import itertools
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "conformance"), str(ROOT / "src")]
LIMIT_S = 60
PROCESSES = max(1, min(14, (os.cpu_count() or 4) - 2))
ALONE = ("legality/", "memory/", "streams/last-error", "streams/query", "streams/elapsed")  # what earlier cases could disturb
TOGETHER = 12  # other cases share a process, as long as each leaves it in order


def groups(names: list[str]) -> list[list[str]]:
    """The cases of each process."""
    alone = [[n] for n in names if n.startswith(ALONE)]
    others = [n for n in names if not n.startswith(ALONE)]
    return alone + [others[i : i + TOGETHER] for i in range(0, len(others), TOGETHER)]


def run_cases(names: list[str], target: Path) -> None:
    """In the child: the cases on a device that nothing has touched yet, until one leaves it in disorder."""
    from harness import observe

    from onelaunch.device.live import LiveLibraries

    with target.open("w", encoding="utf-8") as file:
        for name in names:
            signal.alarm(LIMIT_S)
            print(json.dumps([name, observe(name, LiveLibraries())], ensure_ascii=False), file=file, flush=True)
            if not in_order():
                break
    os._exit(0)


def in_order() -> bool:
    """Whether the next case would find everything as a new process does."""
    from cuda.bindings import runtime as cudart

    gc.collect()
    (error,) = cudart.cudaDeviceSynchronize()
    mode = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal
    _, before = cudart.cudaThreadExchangeStreamCaptureMode(mode)
    (last,) = cudart.cudaGetLastError()
    return int(error) == int(last) == 0 and before == mode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("prefixes", nargs="*")
    options = parser.parse_args()
    os.environ.setdefault("ONELAUNCH_DEVICE", "live")
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    from harness import TRANSCRIPTS, load_cases

    import onelaunch.device.live  # noqa: F401  imports the libraries before the fork; CUDA starts in the child

    names = [n for n in sorted(load_cases()) if not options.prefixes or n.startswith(tuple(options.prefixes))]
    results: dict[str, list] = {}
    if options.prefixes:
        before = json.loads(TRANSCRIPTS.read_text(encoding="utf-8"))["cases"]
        results = {n: r for n, r in before.items() if n in load_cases() and n not in names}
    running: dict[int, tuple[list[str], Path]] = {}
    folder = Path(tempfile.mkdtemp())
    todo, numbers = groups(names), itertools.count()
    while todo or running:
        while todo and len(running) < PROCESSES:
            group, target = todo.pop(0), folder / f"{next(numbers)}.json"
            pid = os.fork()
            if not pid:
                sys.stdout = sys.stderr = target.with_suffix(".log").open("w")
                run_cases(group, target)
            running[pid] = group, target
        pid, status = os.wait()
        group, target = running.pop(pid)
        lines = target.read_text(encoding="utf-8").splitlines() if target.exists() else []
        done = dict(json.loads(line) for line in lines)
        results |= done
        left = group[len(done) :]
        if status and left:
            died = left.pop(0)
            results[died] = [["the process", f"ended with {os.waitstatus_to_exitcode(status)} before the case did"]]
        if left:
            todo.append(left)
        if len(results) % 100 < len(done):
            print(len(results), "of", len(load_cases()), flush=True)
    from onelaunch.device import current

    provenance = current().provenance
    document = {
        "gpu": provenance.gpu, "driver": provenance.driver, "date": datetime.date.today().isoformat(),
        "versions": dict(current().versions), "cases": dict(sorted(results.items())),
    }  # fmt: skip
    target = options.output or TRANSCRIPTS
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"  {json.dumps(n)}: {json.dumps(r, ensure_ascii=False)}" for n, r in document.pop("cases").items()]
    head = json.dumps(document, ensure_ascii=False, indent=1)[:-2]
    target.write_text(head + ',\n "cases": {\n' + ",\n".join(lines) + "\n }\n}\n", encoding="utf-8")
    print(f"{len(names)} cases on {document['gpu']}: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
