"""The errors of the simulated device: the class names, error names and messages of the real libraries."""

from __future__ import annotations

import re

# Names, numbers and messages as the CUDA runtime gives them (cudaGetErrorName, cudaGetErrorString; CUDA 13.0).
RUNTIME_ERRORS: dict[str, tuple[int, str]] = {
    "cudaErrorInvalidValue": (1, "invalid argument"),
    "cudaErrorMemoryAllocation": (2, "out of memory"),
    "cudaErrorInvalidConfiguration": (9, "invalid configuration argument"),
    "cudaErrorInvalidResourceHandle": (400, "invalid resource handle"),
    "cudaErrorIllegalState": (401, "the operation cannot be performed in the present state"),
    "cudaErrorNotReady": (600, "device not ready"),
    "cudaErrorIllegalAddress": (700, "an illegal memory access was encountered"),
    "cudaErrorLaunchFailure": (719, "unspecified launch failure"),
    "cudaErrorStreamCaptureUnsupported": (900, "operation not permitted when stream is capturing"),
    "cudaErrorStreamCaptureInvalidated": (901, "operation failed due to a previous error during capture"),
    "cudaErrorStreamCaptureUnjoined": (904, "capturing stream has unjoined work"),
    "cudaErrorStreamCaptureIsolation": (905, "dependency created on uncaptured work in another stream"),
    "cudaErrorStreamCaptureImplicit": (
        906,
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    "cudaErrorCapturedEvent": (907, "operation not permitted on an event last recorded in a capturing stream"),
}


class CUDARuntimeError(RuntimeError):
    """What CuPy raises for a failed runtime call: `cudaErrorName: message`, with the number in `status`."""

    def __init__(self, name: str):
        self.name = name
        self.status, message = RUNTIME_ERRORS[name]
        super().__init__(f"{name}: {message}")

    def __reduce__(self):
        return type(self), (self.name,)


class OutOfMemoryError(MemoryError):
    """What CuPy raises when the device is full, its own cache emptied."""

    def __init__(self, size: int, total: int):
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes).")


# The driver's own name, where it is not the runtime's spelled in the driver's way.
_DRIVER_NAMES = {
    "MemoryAllocation": "OUT_OF_MEMORY",
    "InvalidResourceHandle": "INVALID_HANDLE",
    "LaunchFailure": "LAUNCH_FAILED",
}


def driver_name(name: str) -> str:
    """The driver's name for a runtime error: CUDA_ERROR_ILLEGAL_ADDRESS for cudaErrorIllegalAddress."""
    bare = name.removeprefix("cudaError")
    return "CUDA_ERROR_" + _DRIVER_NAMES.get(bare, re.sub(r"(?<!^)(?=[A-Z])", "_", bare).upper())


class CudaAPIError(RuntimeError):
    """What Numba raises for a failed driver call of its own."""


class CUDAError(Exception):
    """What cuda.core raises for a failed driver call; Numba launches its kernels through it."""

    def __init__(self, name: str):
        super().__init__(f"{driver_name(name)}: {RUNTIME_ERRORS[name][1]}")


class NotSimulatedError(AttributeError, NotImplementedError):
    """A part of a library that the simulated device does not offer. Names the call, and where the list of what it offers is."""

    def __init__(self, call: str, instead: str = ""):
        self.call = call
        hint = f" {instead}" if instead else ""
        super().__init__(
            f"{call} is not part of the simulated device.{hint} What it offers is listed in docs/simulated_device.md; "
            "all of the library is there on a live GPU (ONELAUNCH_DEVICE=live)."
        )


def not_simulated(module: str, name: str) -> AttributeError:
    """The error for the missing attribute `name` of a face; a plain AttributeError for what only Python asks for."""
    if name.startswith("_"):
        return AttributeError(name)
    return NotSimulatedError(f"{module}.{name}")


class Partial:
    """A class of a face: what it lacks of the library's own is named, with the list of what there is."""

    _library = ""  # the class in the library, as "cupy.ndarray"

    def __getattr__(self, name: str):
        raise not_simulated(self._library, name)
