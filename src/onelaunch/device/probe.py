"""What is here: the NVIDIA driver, the GPUs, the packages; and whether a live GPU can be used, else why not."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

OLDEST_FOR_CUDA_13 = (7, 5)  # CUDA 13.0 release notes: Maxwell, Pascal and Volta dropped
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
PACKAGES = ("numpy", *CUPY, "numba", "numba-cuda", "cuda-core", "cuda-bindings", "cupti-python", "torch")

# CUPTI's Python package reads records of its own version of CUPTI, so both are named.
INSTALL_CUPTI = "uv pip install 'cupti-python==13.0.*' 'nvidia-cuda-cupti==13.0.*'"


@dataclass(frozen=True)
class Found:
    """The facts about a machine. Versions are (major, minor): `cuda_version` is the newest CUDA that the driver supports,
    `compute_capability` that of the first GPU."""

    gpus: tuple[str, ...] = ()
    driver: str | None = None
    cuda_version: tuple[int, int] | None = None
    compute_capability: tuple[int, int] | None = None
    driver_problem: str | None = None
    packages: dict[str, str] = field(default_factory=dict)

    @property
    def cupy(self) -> str | None:
        """The CuPy distribution that is installed."""
        return next((name for name in CUPY if name in self.packages), None)


@dataclass(frozen=True)
class Diagnosis:
    """Whether a live GPU can be used; if not, the first thing in the way and the command (or step) that mends it."""

    live: bool
    problem: str = ""
    mend: str = ""


def find() -> Found:
    """Looks at this machine. Imports none of the GPU packages."""
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return Found(packages=packages, **_driver())


def diagnose(found: Found) -> Diagnosis:
    """The first thing that keeps a live GPU from being used, in the order in which a learner would mend them."""
    if found.driver_problem is not None:
        return Diagnosis(False, found.driver_problem, "install or repair the NVIDIA driver, then restart")
    if found.cuda_version is None:
        return Diagnosis(False, "no NVIDIA driver on this machine", "nothing to mend: the course runs on the simulated GPU")
    if not found.gpus:
        return Diagnosis(False, "an NVIDIA driver, but no GPU that it can use", "check nvidia-smi and CUDA_VISIBLE_DEVICES")
    return _diagnose_packages(found)


def _diagnose_packages(found: Found) -> Diagnosis:
    major, minor = found.cuda_version
    supports = f"the driver ({found.driver}) supports CUDA {major}.{minor}"
    if major < 12:
        return Diagnosis(False, f"{supports}, and the course needs CUDA 12 or 13", "update the NVIDIA driver")
    install = install_command(found)
    if found.cupy is None:
        return Diagnosis(False, f"GPU {found.gpus[0]}, but CuPy is not installed", install)
    needs = 13 if found.cupy == "cupy-cuda13x" else 12
    if needs > major:
        return Diagnosis(False, f"{supports}, but the installed {found.cupy} needs CUDA {needs}", install)
    if needs == 13 and _is_too_old_for_13(found):
        capability = ".".join(map(str, found.compute_capability))
        problem = f"GPU {found.gpus[0]} has compute capability {capability}; CUDA 13, which {found.cupy} needs, starts at 7.5"
        return Diagnosis(False, problem, install)
    for name in ("numba-cuda", "cuda-core", "cuda-bindings"):
        if name not in found.packages:
            return Diagnosis(False, f"GPU {found.gpus[0]}, but {name} is not installed", install)
    if tuple(int(x) for x in found.packages["numpy"].split(".")[:2]) >= (2, 5):
        problem = f"numpy {found.packages['numpy']} is installed, and numba-cuda needs numpy < 2.5"
        return Diagnosis(False, problem, "uv pip install 'numpy<2.5'")
    return Diagnosis(True)


def install_command(found: Found) -> str:
    """The command that installs the GPU packages for this driver and GPU, and starts the course with them."""
    extra = "cu13" if (found.cuda_version or (0, 0)) >= (13, 0) and not _is_too_old_for_13(found) else "cu12"
    return f"uv run --extra {extra} jupyter lab notebooks/00_start_here.ipynb"


def _is_too_old_for_13(found: Found) -> bool:
    return found.compute_capability is not None and found.compute_capability < OLDEST_FOR_CUDA_13


def _library(linux: str, windows: str) -> ctypes.CDLL | None:
    try:
        return ctypes.WinDLL(windows) if sys.platform == "win32" else ctypes.CDLL(linux)
    except OSError:
        return None


def _driver() -> dict:
    """The driver's facts through its own libraries (libcuda and NVML), as fields of `Found`."""
    cuda = _library("libcuda.so.1", "nvcuda.dll")
    if cuda is None:
        return {}
    number = ctypes.c_int()
    error = cuda.cuInit(0)
    if error == 100:  # CUDA_ERROR_NO_DEVICE
        cuda.cuDriverGetVersion(ctypes.byref(number))
        return {"cuda_version": _cuda_version(number.value), "driver": _driver_version()}
    if error != 0:
        return {"driver_problem": f"the NVIDIA driver is installed, but cuInit fails with error {error}"}
    cuda.cuDriverGetVersion(ctypes.byref(number))
    cuda_version = _cuda_version(number.value)
    cuda.cuDeviceGetCount(ctypes.byref(number))
    gpus = []
    for i in range(number.value):
        name = ctypes.create_string_buffer(256)
        cuda.cuDeviceGetName(name, 256, i)
        gpus.append(name.value.decode(errors="replace"))
    capability = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        failed = cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0)
        capability += [] if failed else [number.value]
    return {
        "cuda_version": cuda_version, "gpus": tuple(gpus), "driver": _driver_version(),
        "compute_capability": tuple(capability) if len(capability) == 2 else None,
    }  # fmt: skip


def _cuda_version(number: int) -> tuple[int, int]:
    return number // 1000, number % 1000 // 10


def _driver_version() -> str:
    nvml = _library("libnvidia-ml.so.1", "nvml.dll")
    if nvml is None or nvml.nvmlInit_v2() != 0:
        return "unknown"
    text = ctypes.create_string_buffer(96)
    nvml.nvmlSystemGetDriverVersion(text, 96)
    nvml.nvmlShutdown()
    return text.value.decode(errors="replace") or "unknown"
