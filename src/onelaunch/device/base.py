"""What every device offers to the floors above, live or simulated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from onelaunch.sim.gpu import Trace

from .facts import NodeFacts
from .provenance import Provenance

API_LABELS = {
    "cpp": "C++ <<<>>>",
    "bindings": "cuda.bindings",
    "core": "cuda.core",
    "rawkernel": "CuPy RawKernel",
    "ufunc": "CuPy ufunc",
    "torch": "PyTorch op",
    "numba_ptr": "Numba, pointer",
    "numba": "Numba, array",
}


NEEDS_SIGNATURE = (
    "a kernel for a graph node needs one declared signature, with pointers for arrays: "
    "@cuda.jit(types.void(types.CPointer(types.float32), …))"
)


@dataclass(frozen=True)
class HostTimes:
    """One run as the host saw it, in µs from its start: when the last call returned, and when all streams were idle."""

    host_us: float
    total_us: float


@dataclass(frozen=True)
class Phases:
    """What one capture, instantiation, first launch and replay cost, in µs. `first` and `replay` come as host and total."""

    capture_us: float
    end_us: float
    instantiate_us: float
    first: HostTimes
    replay: HostTimes


class Work(ABC):
    """The course's yardstick: a one-thread kernel that adds 1 to a counter and then stays busy for `kernel_us`, launched
    through one API. With `kernel_us` 0 it is the shortest kernel there is.

    On several streams the launches go round robin, and each stream counts in memory of its own.
    """

    api: str
    stretches: bool  # whether set_kernel_us can make the kernel longer

    @property
    def label(self) -> str:
        return API_LABELS[self.api]

    @abstractmethod
    def set_kernel_us(self, us: float) -> None:
        """How long each later launch keeps its thread busy, captured ones included. Raises ValueError where it cannot."""

    @abstractmethod
    def prepare(self, streams: Sequence[Any]) -> None:
        """Compiles, allocates and warms up for `streams`: what must not happen in a capture. Waits."""

    @abstractmethod
    def issue(self, launches: int, streams: Sequence[Any]) -> None:
        """Launches, and does not wait. In a capture, `prepare` must have come before."""

    @abstractmethod
    def run(self, launches: int, streams: Sequence[Any]) -> HostTimes:
        """Launches and waits, timed on the clock of the API's own language."""

    @abstractmethod
    def run_replays(self, graph: Any, stream: Any, replays: int = 1) -> HostTimes:
        """Replays a graph that CuPy captured, queued behind each other, and waits; timed likewise."""

    @abstractmethod
    def count(self) -> int:
        """How many launches have run since the last `count` (waits for them)."""

    @abstractmethod
    def trace(self, launches: int, stream: Any) -> Trace:
        """Launches one by one, waits, and says when each call and each kernel began and ended."""

    @abstractmethod
    def trace_replay(self, launches: int, stream: Any) -> Trace:
        """Captures that many launches, warms the graph up, and traces one replay of it."""


class Device(ABC):
    """Which device this is, and the libraries that reach it.

    `cp` is CuPy, `cuda` is `numba.cuda`, `types` is `numba.types`, `core` is `cuda.core`, `cudart` is
    `cuda.bindings.runtime`, `time` the clock of the host that feeds the device: the libraries themselves on a live GPU, their
    stand-ins on the simulated one.
    """

    kind: str  # "live" or "simulated"
    gpu: str  # the GPU's name, or the name of the one simulated
    driver: str
    versions: dict[str, str]  # of the packages that reach the device
    cp: ModuleType
    cuda: ModuleType
    types: ModuleType
    core: ModuleType
    cudart: ModuleType
    time: ModuleType
    apis: tuple[str, ...]  # which of API_LABELS work here
    is_instant: bool  # whether a timing costs no real device time, so that a slider may ask for one at each step
    note: str = ""  # why this device was chosen, where that is not obvious

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}

    @property
    @abstractmethod
    def provenance(self) -> Provenance:
        """What a timing made now comes from."""

    @staticmethod
    @abstractmethod
    def as_kernel(kernel: Any) -> Any:
        """A Numba kernel with one declared signature as a `cuda.core.Kernel`, for graphs built by hand.

        Raises TypeError for a kernel without a declared signature (its arguments would be typed at the launch).
        """

    @abstractmethod
    def _make_work(self, api: str) -> Work: ...

    @abstractmethod
    def measure_phases(self, work: Work, launches: int, stream: Any) -> Phases:
        """Captures that many launches and takes the graph through its phases, each timed apart."""

    @abstractmethod
    def measure_visibility(self, stream: Any) -> float:
        """From the return of one launch until the host sees, without synchronising, that the kernel has run, in µs."""

    @staticmethod
    @abstractmethod
    def node_facts(node_handle: Any) -> NodeFacts:
        """What a node of a graph holds (a `cudaGraphNode_t`, a `CUgraphNode` or its number). Raises the device's error for a
        handle that is none."""

    @abstractmethod
    def record_timeline(self, fn: Callable[[], object], wait: Callable[[], object]) -> Trace:
        """Calls `fn()` and then `wait()`, which waits for its work, and says what host and GPU did meanwhile.

        Every span has a kind: of the host "launch", "captured launch", "graph launch", "memcpy", "memset", "synchronize", "host
        function" or "call"; of the GPU "kernel", "memcpy", "memset" or another kind of node. `source` says who saw it. Where
        nobody could see the GPU, `device` is empty, and `note` says why. What `fn` raises gets out, tracing is off then.
        """

    def reference_chain(self, length: int) -> dict[str, float] | None:
        """One captured chain of empty kernels from C++ (column → µs); None where there is no C++ compiler."""
        return None

    def work(self, api: str) -> Work:
        """The yardstick launched through `api`, made at the first use. Raises ValueError for an API that is not here."""
        if api not in self.apis:
            raise ValueError(f"no launch API {api!r} on this device; there are {', '.join(self.apis)}")
        if api not in self._works:
            self._works[api] = self._make_work(api)
        return self._works[api]

    def now_us(self) -> float:
        """The host's clock, in µs."""
        return self.time.perf_counter_ns() * 1e-3

    def time_calls(self, issue: Callable[[], object], synchronize: Callable[[], object]) -> HostTimes:
        """Times `issue()` and the wait after it."""
        start = self.now_us()
        issue()
        returned = self.now_us()
        synchronize()
        return HostTimes(returned - start, self.now_us() - start)

    def banner(self) -> str:
        """One or two lines for the top of a notebook: what the numbers below come from."""
        lines = {
            "live": f"Live on {self.gpu} (driver {self.driver}). Every number below is measured on it.",
            "simulated": f"No GPU in use: a simulated {self.gpu}. Same cells, same errors; timings come from a model of one.",
        }
        return lines[self.kind] + (f"\n{self.note}" if self.note else "")

    def __repr__(self) -> str:
        packages = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"Device: {self.kind} {self.gpu}\nDriver: {self.driver}\nPackages: {packages}"
