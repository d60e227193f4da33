"""The errors of the simulated device: the class names, error names and messages of the real libraries."""

from __future__ import annotations

import re

# Names, numbers and messages as the CUDA runtime gives them (cudaGetErrorName, cudaGetErrorString; CUDA 13.0).
RUNTIME_ERRORS: dict[str, tuple[int, str]] = {
    "cudaErrorInvalidValue": (1, "invalid argument"),
    "cudaErrorMemoryAllocation": (2, "out of memory"),
    "cudaErrorInvalidConfiguration": (9, "invalid configuration argument"),
    "cudaErrorDevicesUnavailable": (46, "CUDA-capable device(s) is/are busy or unavailable"),
    "cudaErrorInvalidDeviceFunction": (98, "invalid device function"),
    "cudaErrorInvalidDevice": (101, "invalid device ordinal"),
    "cudaErrorOperatingSystem": (304, "OS call failed or operation not supported on this OS"),
    "cudaErrorInvalidResourceHandle": (400, "invalid resource handle"),
    "cudaErrorIllegalState": (401, "the operation cannot be performed in the present state"),
    "cudaErrorNotReady": (600, "device not ready"),
    "cudaErrorIllegalAddress": (700, "an illegal memory access was encountered"),
    "cudaErrorMisalignedAddress": (716, "misaligned address"),
    "cudaErrorLaunchFailure": (719, "unspecified launch failure"),
    "cudaErrorNotPermitted": (800, "operation not permitted"),
    "cudaErrorNotSupported": (801, "operation not supported"),
    "cudaErrorStreamCaptureUnsupported": (900, "operation not permitted when stream is capturing"),
    "cudaErrorStreamCaptureInvalidated": (901, "operation failed due to a previous error during capture"),
    "cudaErrorStreamCaptureMerge": (902, "operation would result in a merge of separate capture sequences"),
    "cudaErrorStreamCaptureUnmatched": (903, "capture was not ended in the same stream as it began"),
    "cudaErrorStreamCaptureUnjoined": (904, "capturing stream has unjoined work"),
    "cudaErrorStreamCaptureIsolation": (905, "dependency created on uncaptured work in another stream"),
    "cudaErrorStreamCaptureImplicit": (
        906,
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    "cudaErrorCapturedEvent": (907, "operation not permitted on an event last recorded in a capturing stream"),
    "cudaErrorStreamCaptureWrongThread": (
        908,
        "attempt to terminate a thread-local capture sequence from another thread",
    ),
    "cudaErrorGraphExecUpdateFailure": (
        910,
        "the graph update was not performed because it included changes which violated constraints specific to instantiated "
        "graph update",
    ),
}

# What the driver's errors mean in the words of cuda.core 1.2.0, by the runtime's name (cuda.bindings 13.3, CUresult).
DRIVER_SENTENCES: dict[str, str] = {
    "cudaErrorInvalidValue": (
        "This indicates that one or more of the parameters passed to the API call is not within an acceptable range of values."
    ),
    "cudaErrorMemoryAllocation": (
        "The API call failed because it was unable to allocate enough memory or other resources to perform the requested "
        "operation."
    ),
    "cudaErrorInvalidConfiguration": (
        "This indicates that one or more of the parameters passed to the API call is not within an acceptable range of values."
    ),
    "cudaErrorInvalidDeviceFunction": (
        "This indicates that a resource handle passed to the API call was not valid. Resource handles are opaque types "
        "like CUstream and CUevent."
    ),
    "cudaErrorInvalidDevice": (
        "This indicates that the device ordinal supplied by the user does not correspond to a valid CUDA device or that "
        "the action requested is invalid for the specified device."
    ),
    "cudaErrorInvalidResourceHandle": (
        "This indicates that a resource handle passed to the API call was not valid. Resource handles are opaque types "
        "like CUstream and CUevent."
    ),
    "cudaErrorIllegalState": (
        "This indicates that a resource required by the API call is not in a valid state to perform the requested operation."
    ),
    "cudaErrorNotReady": (
        "This indicates that asynchronous operations issued previously have not completed yet. This result is not "
        "actually an error, but must be indicated differently than CUDA_SUCCESS (which indicates completion). Calls that "
        "may return this value include cuEventQuery() and cuStreamQuery()."
    ),
    "cudaErrorIllegalAddress": (
        "While executing a kernel, the device encountered a load or store instruction on an invalid memory address. This "
        "leaves the process in an inconsistent state and any further CUDA work will return the same error. To continue "
        "using CUDA, the process must be terminated and relaunched."
    ),
    "cudaErrorMisalignedAddress": (
        "While executing a kernel, the device encountered a load or store instruction on a memory address which is not "
        "aligned. This leaves the process in an inconsistent state and any further CUDA work will return the same error. "
        "To continue using CUDA, the process must be terminated and relaunched."
    ),
    "cudaErrorDevicesUnavailable": (
        "This indicates that requested CUDA device is unavailable at the current time. Devices are often unavailable due "
        "to use of CU_COMPUTEMODE_EXCLUSIVE_PROCESS or CU_COMPUTEMODE_PROHIBITED."
    ),
    "cudaErrorOperatingSystem": "This indicates that an OS call failed.",
    "cudaErrorLaunchFailure": (
        "An exception occurred on the device while executing a kernel. Common causes include dereferencing an invalid "
        "device pointer and accessing out of bounds shared memory. Less common cases can be system specific - more "
        "information about these cases can be found in the system specific user guide. This leaves the process in an "
        "inconsistent state and any further CUDA work will return the same error. To continue using CUDA, the process "
        "must be terminated and relaunched."
    ),
    "cudaErrorNotPermitted": "This error indicates that the attempted operation is not permitted.",
    "cudaErrorNotSupported": (
        "This error indicates that the attempted operation is not supported on the current system or device."
    ),
    "cudaErrorStreamCaptureUnsupported": (
        "This error indicates that the operation is not permitted when the stream is capturing."
    ),
    "cudaErrorStreamCaptureInvalidated": (
        "This error indicates that the current capture sequence on the stream has been invalidated due to a previous error."
    ),
    "cudaErrorStreamCaptureMerge": (
        "This error indicates that the operation would have resulted in a merge of two independent capture sequences."
    ),
    "cudaErrorStreamCaptureUnmatched": "This error indicates that the capture was not initiated in this stream.",
    "cudaErrorStreamCaptureUnjoined": (
        "This error indicates that the capture sequence contains a fork that was not joined to the primary stream."
    ),
    "cudaErrorStreamCaptureIsolation": (
        "This error indicates that a dependency would have been created which crosses the capture sequence boundary. Only "
        "implicit in-stream ordering dependencies are allowed to cross the boundary."
    ),
    "cudaErrorStreamCaptureImplicit": (
        "This error indicates a disallowed implicit dependency on a current capture sequence from cudaStreamLegacy."
    ),
    "cudaErrorCapturedEvent": (
        "This error indicates that the operation is not permitted on an event which was last recorded in a capturing stream."
    ),
    "cudaErrorStreamCaptureWrongThread": (
        "A stream capture sequence not initiated with the CU_STREAM_CAPTURE_MODE_RELAXED argument to cuStreamBeginCapture "
        "was passed to cuStreamEndCapture in a different thread."
    ),
    "cudaErrorGraphExecUpdateFailure": (
        "This error indicates that the graph update was not performed because it included changes which violated "
        "constraints specific to instantiated graph update."
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


class CURANDError(RuntimeError):
    """What CuPy raises for a failed call of cuRAND."""


class OutOfMemoryError(MemoryError):
    """What CuPy raises when the device is full, its own cache emptied, or the pool's limit is reached."""

    def __init__(self, size: int, total: int, limit: int = 0):
        set_to = f", limit set to: {limit:,} bytes" if limit else ""
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes{set_to}).")


# The driver's own name, where it is not the runtime's spelled in the driver's way.
_DRIVER_NAMES = {
    "DevicesUnavailable": "DEVICE_UNAVAILABLE",
    "MemoryAllocation": "OUT_OF_MEMORY",
    "InvalidConfiguration": "INVALID_VALUE",
    "InvalidDeviceFunction": "INVALID_HANDLE",
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
    """What cuda.core raises for a failed driver call; Numba launches its kernels through it. `text` replaces the words."""

    def __init__(self, name: str, text: str = ""):
        super().__init__(text or f"{driver_name(name)}: {DRIVER_SENTENCES[name]}")


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
