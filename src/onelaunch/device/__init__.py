"""Which device this process uses. The one place that knows whether it is live or simulated."""

from __future__ import annotations

import functools
import os

from .base import API_LABELS, Device, HostTimes, Phases, Work
from .probe import Diagnosis, Found, diagnose, find, install_command
from .provenance import Provenance

__all__ = [
    "API_LABELS",
    "VARIABLE",
    "Device",
    "DeviceUnavailableError",
    "Diagnosis",
    "Found",
    "HostTimes",
    "Phases",
    "Provenance",
    "Work",
    "choose",
    "current",
    "diagnose",
    "find",
]

VARIABLE = "ONELAUNCH_DEVICE"
CHOICES = ("live", "sim", "auto")


class DeviceUnavailableError(RuntimeError):
    """A live GPU was asked for and cannot be used; says why and what mends it (`diagnosis`)."""

    def __init__(self, diagnosis: Diagnosis):
        self.diagnosis = diagnosis
        super().__init__(f"{VARIABLE}=live, but {diagnosis.problem}. To mend it: {diagnosis.mend}")


def choose(wanted: str, found: Found | None = None) -> Device:
    """The device for `wanted` ("live", "sim" or "auto"), given what was found on this machine.

    Raises ValueError for another word, DeviceUnavailableError if "live" cannot be had. "auto" falls back to the simulated
    device, and says why where a driver or CuPy shows that a GPU was meant to be used.
    """
    if wanted not in CHOICES:
        raise ValueError(f"{VARIABLE}={wanted!r} is not one of {', '.join(CHOICES)}")
    if wanted == "sim":
        return _simulated()
    found = found or find()
    diagnosis = diagnose(found)
    if diagnosis.live:
        # Numba warns of every kernel that leaves most of the GPU idle. The course's kernels do so on purpose.
        os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
        try:
            from .live import LiveDevice

            return LiveDevice()
        except Exception as error:  # whatever a half-installed GPU stack raises, the learner should hear it and go on
            problem = f"the GPU packages are installed, but fail: {type(error).__name__}: {error}"
            diagnosis = Diagnosis(False, problem, "reinstall them: " + install_command(found))
    if wanted == "live":
        raise DeviceUnavailableError(diagnosis)
    hoped = found.cupy or found.cuda_version or found.driver_problem  # somebody prepared this machine for a GPU
    return _simulated(f"Not live: {diagnosis.problem}. To mend it: {diagnosis.mend}" if hoped else "")


def _simulated(note: str = "") -> Device:
    from .simulated import SimulatedDevice

    return SimulatedDevice(note)


@functools.cache
def current() -> Device:
    """The device of this process, chosen at the first call by ONELAUNCH_DEVICE (auto by default)."""
    return choose(os.environ.get(VARIABLE, "auto"))
