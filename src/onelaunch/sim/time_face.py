"""`time` of the simulated device: the clocks that the course uses, on the simulated host's virtual clock."""

from __future__ import annotations

from . import gpu
from .errors import not_simulated

__all__ = ["perf_counter", "perf_counter_ns", "sleep"]


def perf_counter() -> float:
    """Virtual host time, in seconds. Only CUDA calls and `sleep` move it: Python in between is free."""
    return gpu.current().now_us * 1e-6


def perf_counter_ns() -> int:
    """Virtual host time, in nanoseconds."""
    return round(gpu.current().now_us * 1e3)


def sleep(seconds: float) -> None:
    """The host waits `seconds` of virtual time; the device works on."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    gpu.current().now_us += seconds * 1e6


def __getattr__(name: str):
    raise not_simulated("time", name)
