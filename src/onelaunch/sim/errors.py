"""The errors of the simulated device: the class names, error names and messages of the real libraries."""

from __future__ import annotations

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
}


class CUDARuntimeError(RuntimeError):
    """What CuPy raises for a failed runtime call: `cudaErrorName: message`, with the number in `status`."""

    def __init__(self, name: str):
        self.name = name
        self.status, message = RUNTIME_ERRORS[name]
        super().__init__(f"{name}: {message}")

    def __reduce__(self):
        return type(self), (self.name,)


class CudaAPIError(RuntimeError):
    """What Numba raises for a failed driver call."""


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
