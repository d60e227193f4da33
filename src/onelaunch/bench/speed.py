"""How fast the simulated device runs here, beside Numba's own simulator; and how long `import onelaunch` takes."""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

NUMBA_SIMULATOR = """
import time, warnings
warnings.simplefilter("ignore")
import numpy as np
from numba import cuda

@cuda.jit
def tiny(x):
    x[0] += 1.0

x = cuda.to_device(np.zeros(1, np.float32))
tiny[1, 1](x)
times = []
for _ in range(7):
    start = time.perf_counter()
    for _ in range(100):
        tiny[1, 1](x)
    times.append((time.perf_counter() - start) / 100 * 1e6)
print(sorted(times)[3])
"""


@dataclass(frozen=True)
class Speed:
    """Real time on this machine, in µs: one simulated launch, run; one replayed node; one launch of Numba's simulator."""

    launch_us: float
    node_us: float
    replays_s: float  # 512 launches captured once and replayed 1,000 times
    numba_us: float | None  # None where Numba is not installed


def simulated() -> tuple[float, float, float]:
    """(µs a launch, µs a replayed node, seconds for 512 × 1,000 replayed launches) of the simulated device."""
    from onelaunch.sim import cupy_face as cp
    from onelaunch.sim import numba_face as cuda

    @cuda.jit
    def tiny(x):
        x[0] += 1.0

    stream = cp.cuda.Stream(non_blocking=True)
    x = cp.zeros(1, dtype=cp.float32)
    array, target = cuda.as_cuda_array(x), cuda.external_stream(stream.ptr)

    def loop() -> None:
        for _ in range(512):
            tiny[1, 1, target](array)

    loop()
    stream.synchronize()
    launches = []
    for _ in range(7):
        start = time.perf_counter()
        loop()
        stream.synchronize()
        launches.append((time.perf_counter() - start) / 512 * 1e6)
    x.fill(0)
    cp.cuda.Device().synchronize()
    stream.begin_capture()
    loop()
    graph = stream.end_capture()
    start = time.perf_counter()
    for _ in range(1000):
        graph.launch(stream)
    stream.synchronize()
    seconds = time.perf_counter() - start
    if float(x[0]) != 512_000:
        raise AssertionError(f"512 × 1,000 launches that add 1 gave {float(x[0])}")
    return statistics.median(launches), seconds / 512_000 * 1e6, seconds


def numba_simulator() -> float | None:
    """µs a launch of Numba's own simulator, in a process of its own; None without Numba."""
    if importlib.util.find_spec("numba") is None:
        return None
    environment = dict(os.environ, NUMBA_ENABLE_CUDASIM="1")
    done = subprocess.run([sys.executable, "-c", NUMBA_SIMULATOR], capture_output=True, text=True, env=environment, check=True)
    return float(done.stdout)


def measure_speed() -> Speed:
    launch_us, node_us, seconds = simulated()
    return Speed(launch_us, node_us, seconds, numba_simulator())


def import_seconds(times: int = 5) -> float:
    """How long `import onelaunch` and the names of a notebook's first cell take, in fresh processes without a GPU (median)."""
    code = (
        "import time; start = time.perf_counter(); import onelaunch; from onelaunch import cp, cuda; "
        "print(time.perf_counter() - start)"
    )
    environment = dict(os.environ, ONELAUNCH_DEVICE="sim")
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        for _ in range(times)
    ]
    return statistics.median(float(run.stdout) for run in runs)
