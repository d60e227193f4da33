"""Runs random programs on a live GPU and on the simulated device, says where the two disagree, and writes what the GPU did.

`python tools/record_programs.py [--seeds 0:50000] [--limit-s S] [-o FILE]`. Many processes share the seeds; a program that
kills its process's context is reported, and the process starts anew behind it. `--simulated` compares the simulated device,
untraced, with itself, traced (no file); `--count-steps` says how much of the programs succeeds, and what fails. `--show SEED`
prints one program with both outcomes.
"""

from __future__ import annotations

import argparse
import base64
import collections
import datetime
import gzip
import json
import mmap
import os
import signal
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "conformance"), str(ROOT / "src")]
TRANSCRIPT = ROOT / "tests" / "conformance" / "transcripts" / "programs_h200.json.gz"
IN_FULL = 500  # seeds whose outcomes are written out; of all others, a digest
SHOWN = 20
PROGRAM_LIMIT_S = 30
SHRUNK = 4  # disagreements of different kinds that each process makes small


def features(program: list, outcomes: list[str]) -> set[str]:
    """What a program did, for the statistics."""
    found = set()
    replays = 0
    for step, outcome in zip(program, outcomes, strict=False):
        answer = outcome.partition(" [")[0].removeprefix("after a sync: ")
        did = answer.partition(",")[0]
        if did != "ok" and step[0] not in ("read", "inspect", "enable"):
            found.add(did)
        elif step[0] in ("read", "inspect", "enable") and ("skipped" in answer or "rror" in answer):
            found.add(answer)
        if step[0] == "graph" and did == "ok":
            inside = " [" in outcome and "A" in outcome.rpartition("[")[2]
            replays += not inside
            found.add("child graph or a launch beside a capture" if inside else "a replay")
        if step[0] in ("end", "update", "enable", "clone", "wait") and did.endswith("ok"):
            found.add(f"{step[0]} succeeds")
        if outcome.startswith("after a sync"):
            found.add("a sync was put before a step")
    if replays >= 2:
        found.add("two replays or more")
    return found


class Shared:
    """What the processes write where the parent sees it: the seed at hand, and the digest and state of each."""

    def __init__(self, processes: int, seeds: range):
        self.seeds, self.processes = seeds, processes
        self._map = mmap.mmap(-1, 8 * processes + 5 * max(1, len(seeds)))

    def start(self, worker: int, seed: int) -> None:
        struct.pack_into("<q", self._map, 8 * worker, seed)

    def current(self, worker: int) -> int:
        return struct.unpack_from("<q", self._map, 8 * worker)[0]

    def finish(self, seed: int, digest: int, agrees: bool) -> None:
        place = 8 * self.processes + 5 * (seed - self.seeds.start)
        struct.pack_into("<BI", self._map, place, 1 if agrees else 2, digest)

    def result(self, seed: int) -> tuple[int, int]:
        """(0 not run, 1 agrees, 2 disagrees, 3 died; the digest)"""
        return struct.unpack_from("<BI", self._map, 8 * self.processes + 5 * (seed - self.seeds.start))

    def died(self, seed: int) -> None:
        struct.pack_into("<BI", self._map, 8 * self.processes + 5 * (seed - self.seeds.start), 3, 0)


def work(worker: int, seeds: list[int], shared: Shared, notes: Path, deadline: float, simulated_only: bool) -> None:
    """In a child: its seeds, one after the other."""
    import programs

    from onelaunch.device.simulated import SimulatedDevice
    from onelaunch.sim.gpu import Trace

    simulated = SimulatedDevice()
    live = simulated
    if not simulated_only:
        from onelaunch.device.live import LiveLibraries

        live = LiveLibraries()
    counts: collections.Counter[str] = collections.Counter()
    kinds: set[str] = set()
    log = notes.open("a", encoding="utf-8")

    def note(**what) -> None:
        log.write(json.dumps(what, ensure_ascii=False) + "\n")
        log.flush()

    def traced(gpu) -> None:
        gpu.trace = Trace()

    def on(device, program, prepare=None) -> list[str]:
        try:
            return programs.run(program, device, prepare)
        except programs.ContextDied:
            raise
        except Exception as error:
            return ["raised", f"{type(error).__name__}: {error}"]

    def both(program) -> tuple[list[str], list[str]]:
        """The GPU's outcomes and the simulated device's; or, without a GPU, the latter's, untraced and traced."""
        return on(live, program), on(simulated, program, traced if simulated_only else None)

    def wrong(outcomes, model) -> bool:
        return outcomes != model or model[:1] == ["raised"]

    try:
        for seed in seeds:
            if time.time() > deadline:
                break
            shared.start(worker, seed)
            signal.alarm(PROGRAM_LIMIT_S)
            program = programs.seeded(seed)
            outcomes, model = both(program)
            counts.update(features(program, outcomes))
            counts["steps"] += len(program)
            counts["programs"] += 1
            if seed < IN_FULL:
                note(full=seed, outcomes=outcomes)
            if wrong(outcomes, model):
                difference = programs.first_difference(program, outcomes, model) or f"both: {model[1]}"
                kind, small = difference.partition(": ")[2], program
                if kind not in kinds and len(kinds) < SHRUNK:
                    signal.alarm(4 * PROGRAM_LIMIT_S)
                    small = programs.shrink(program, lambda p: wrong(*both(p)))
                kinds.add(kind)
                one, other = both(small)
                note(disagrees=seed, difference=difference, small=small, live=one, simulated=other)
            shared.finish(seed, programs.digest(outcomes), not wrong(outcomes, model))
    except programs.ContextDied as error:
        note(died=shared.current(worker), why=str(error))
        note(counts=counts)
        os._exit(3)
    note(counts=counts)
    os._exit(0)


def run_all(seeds: range, processes: int, limit_s: float, simulated_only: bool) -> tuple[Shared, list[dict], float]:
    """All seeds in child processes; what they noted, and how long it took."""
    shared = Shared(processes, seeds)
    folder = Path(tempfile.mkdtemp(prefix="programs"))
    started = time.time()
    notes = [folder / f"{i}.jsonl" for i in range(processes)]
    running: dict[int, tuple[int, list[int]]] = {}
    extra: list[dict] = []

    def launch(worker: int, share: list[int]) -> None:
        if not share or time.time() > started + limit_s:
            return
        shared.start(worker, -1)
        pid = os.fork()
        if not pid:
            try:
                work(worker, share, shared, notes[worker], started + limit_s, simulated_only)
            except BaseException:
                traceback.print_exc()
            os._exit(4)
        running[pid] = worker, share

    for i in range(processes):
        launch(i, list(seeds)[i::processes])
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            time.sleep(0.05)
            if time.time() > started + limit_s + PROGRAM_LIMIT_S:
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
                extra += [{"hung": shared.current(worker)} for worker, _ in running.values()]
                break
            continue
        worker, share = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if not code:
            continue
        seed = shared.current(worker)
        extra.append({"lost": seed, "code": code})
        if seed < 0:  # it never began: nothing a fresh process would do better
            continue
        shared.died(seed)
        launch(worker, share[share.index(seed) + 1 :])
    took = time.time() - started
    said = [json.loads(line) for path in notes if path.exists() for line in path.read_text(encoding="utf-8").splitlines()]
    return shared, said + extra, took


def report(seeds: range, shared: Shared, said: list[dict], took: float, count_steps: bool) -> int:
    """Prints what happened; returns how many programs disagreed, died or never ran."""
    states = collections.Counter(shared.result(seed)[0] for seed in seeds)
    ran = states[1] + states[2]
    print(
        f"{ran} programs in {took:.1f} s, {ran / took:.0f} a second: {states[1]} agree, {states[2]} disagree, "
        f"{states[3]} ended their process, {states[0]} not run"
    )
    for what in [n for n in said if {"died", "lost", "hung"} & set(n)][:SHOWN]:
        print("  ", what)
    disagreements = sorted((n for n in said if "disagrees" in n), key=lambda n: (len(n["small"]), n["disagrees"]))
    if disagreements:
        print("kinds, by the first difference:")
        kinds = collections.Counter(n["difference"].partition(": ")[2] for n in disagreements)
        for kind, times in kinds.most_common(SHOWN):
            print(f"  {times} × {kind}")
    for n in disagreements[:SHOWN]:
        print(f"seed {n['disagrees']}: {n['difference']}")
        width = len(n["small"])
        for i in range(max(len(n["live"]), len(n["simulated"]))):
            a, b = (n[k][i] if i < len(n[k]) else "nothing" for k in ("live", "simulated"))
            step = str(tuple(n["small"][i])) if i < width else "end"
            print(f"    {step:32} {a}" + ("" if a == b else f"   <<< simulated: {b}"))
    if count_steps:
        counts: collections.Counter[str] = collections.Counter()
        for n in said:
            counts.update(n.get("counts", {}))
        programs, steps = max(1, counts.pop("programs", 1)), counts.pop("steps", 0)
        print(f"{steps / programs:.1f} steps a program; programs in which there is")
        for feature, times in counts.most_common():
            print(f"  {100 * times / programs:6.2f} %  {feature}")
    return states[2] + states[3]


def write(target: Path, seeds: range, shared: Shared, said: list[dict]) -> None:
    """The transcript: what the GPU did with every seed."""
    import programs

    from onelaunch.device import current

    device = current()
    full = {n["full"]: n["outcomes"] for n in said if "full" in n}
    results = [shared.result(seed) for seed in seeds]
    document = {
        "gpu": device.provenance.gpu, "driver": device.provenance.driver, "date": datetime.date.today().isoformat(),
        "versions": dict(device.versions), "grammar": programs.grammar_version(), "first_seed": seeds.start,
        "not_run": [seed for seed, (state, _) in zip(seeds, results, strict=True) if state in (0, 3)],
        "digests": base64.b64encode(b"".join(struct.pack("<I", d) for _, d in results)).decode(),
        "outcomes": {str(seed): full[seed] for seed in sorted(full)},
    }  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    target.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{target}: {len(seeds)} seeds, {target.stat().st_size / 1024:.0f} KiB")


def show(seed: int, simulated_only: bool) -> None:
    """One program, step by step."""
    import programs

    from onelaunch.device.simulated import SimulatedDevice

    program = programs.seeded(seed)
    runs = [programs.run(program, SimulatedDevice())]
    if not simulated_only:
        from onelaunch.device.live import LiveLibraries

        runs.insert(0, programs.run(program, LiveLibraries()))
    for i in range(max(map(len, runs))):
        outcomes = [run[i] if i < len(run) else "nothing" for run in runs]
        mark = "" if len(set(outcomes)) == 1 else f"   <<< simulated: {outcomes[-1]}"
        print(f"{i:3} {program[i] if i < len(program) else 'end'!s:32} {outcomes[0]}{mark}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, help="where to write; nothing is written without it")
    parser.add_argument("--seeds", default="0:50000", help="A:B, from A up to B")
    parser.add_argument("--limit-s", type=float, default=540)
    parser.add_argument("--processes", type=int, default=max(1, min(12, (os.cpu_count() or 4) - 2)))
    parser.add_argument("--count-steps", action="store_true")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--show", type=int)
    options = parser.parse_args()
    os.environ.setdefault("ONELAUNCH_DEVICE", "sim" if options.simulated else "live")
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    if options.show is not None:
        show(options.show, options.simulated)
        return 0
    import programs  # noqa: F401

    import onelaunch.device.simulated

    if not options.simulated:
        import onelaunch.device.live  # noqa: F401  imports the libraries before the fork; CUDA starts in the child
    start, _, stop = options.seeds.partition(":")
    seeds = range(int(start), int(stop))
    shared, said, took = run_all(seeds, options.processes, options.limit_s, options.simulated)
    wrong = report(seeds, shared, said, took, options.count_steps)
    if options.output and not options.simulated:
        write(options.output, seeds, shared, said)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
