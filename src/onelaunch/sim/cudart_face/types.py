"""Handles, enumerations and parameter structures of `cuda.bindings.runtime`."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from .. import gpu as _gpu
from ..errors import RUNTIME_ERRORS, CUDARuntimeError, Partial

cudaError_t = IntEnum("cudaError_t", {"cudaSuccess": 0, **{name: number for name, (number, _) in RUNTIME_ERRORS.items()}})


class _Enum(IntEnum):
    """An enumeration whose members print as those of cuda.bindings."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value}>"


class cudaStreamCaptureMode(_Enum):
    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeThreadLocal = 1
    cudaStreamCaptureModeRelaxed = 2


class cudaStreamCaptureStatus(_Enum):
    cudaStreamCaptureStatusNone = 0
    cudaStreamCaptureStatusActive = 1
    cudaStreamCaptureStatusInvalidated = 2


class cudaMemcpyKind(_Enum):
    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaMemoryType(_Enum):
    cudaMemoryTypeUnregistered = 0
    cudaMemoryTypeHost = 1
    cudaMemoryTypeDevice = 2
    cudaMemoryTypeManaged = 3


class cudaMemAllocationType(_Enum):
    cudaMemAllocationTypeInvalid = 0
    cudaMemAllocationTypePinned = 1


class cudaMemLocationType(_Enum):
    cudaMemLocationTypeInvalid = 0
    cudaMemLocationTypeDevice = 1
    cudaMemLocationTypeHost = 2


class cudaGraphNodeType(_Enum):
    cudaGraphNodeTypeKernel = 0
    cudaGraphNodeTypeMemcpy = 1
    cudaGraphNodeTypeMemset = 2
    cudaGraphNodeTypeHost = 3
    cudaGraphNodeTypeGraph = 4
    cudaGraphNodeTypeEmpty = 5
    cudaGraphNodeTypeWaitEvent = 6
    cudaGraphNodeTypeEventRecord = 7
    cudaGraphNodeTypeMemAlloc = 10
    cudaGraphNodeTypeMemFree = 11
    cudaGraphNodeTypeConditional = 13


NODE_TYPES = {  # by the kind of a node's operation
    "kernel": cudaGraphNodeType.cudaGraphNodeTypeKernel,
    "memcpy": cudaGraphNodeType.cudaGraphNodeTypeMemcpy,
    "memset": cudaGraphNodeType.cudaGraphNodeTypeMemset,
    "host": cudaGraphNodeType.cudaGraphNodeTypeHost,
    "graph": cudaGraphNodeType.cudaGraphNodeTypeGraph,
    "empty": cudaGraphNodeType.cudaGraphNodeTypeEmpty,
    "event wait": cudaGraphNodeType.cudaGraphNodeTypeWaitEvent,
    "event record": cudaGraphNodeType.cudaGraphNodeTypeEventRecord,
    "memory allocation": cudaGraphNodeType.cudaGraphNodeTypeMemAlloc,
    "memory free": cudaGraphNodeType.cudaGraphNodeTypeMemFree,
    "conditional": cudaGraphNodeType.cudaGraphNodeTypeConditional,
}


class cudaGraphConditionalNodeType(_Enum):
    cudaGraphCondTypeIf = 0
    cudaGraphCondTypeWhile = 1
    cudaGraphCondTypeSwitch = 2


class cudaGraphExecUpdateResult(_Enum):
    cudaGraphExecUpdateSuccess = 0
    cudaGraphExecUpdateError = 1
    cudaGraphExecUpdateErrorTopologyChanged = 2
    cudaGraphExecUpdateErrorNodeTypeChanged = 3
    cudaGraphExecUpdateErrorFunctionChanged = 4
    cudaGraphExecUpdateErrorParametersChanged = 5
    cudaGraphExecUpdateErrorNotSupported = 6
    cudaGraphExecUpdateErrorUnsupportedFunctionChange = 7
    cudaGraphExecUpdateErrorAttributesChanged = 8


class cudaGraphInstantiateFlags(_Enum):
    cudaGraphInstantiateFlagAutoFreeOnLaunch = 1
    cudaGraphInstantiateFlagUpload = 2
    cudaGraphInstantiateFlagDeviceLaunch = 4
    cudaGraphInstantiateFlagUseNodePriority = 8


class cudaStreamUpdateCaptureDependenciesFlags(_Enum):
    cudaStreamAddCaptureDependencies = 0
    cudaStreamSetCaptureDependencies = 1


class cudaGraphDebugDotFlags(_Enum):
    cudaGraphDebugDotFlagsVerbose = 1
    cudaGraphDebugDotFlagsKernelNodeParams = 4
    cudaGraphDebugDotFlagsMemcpyNodeParams = 8
    cudaGraphDebugDotFlagsMemsetNodeParams = 16
    cudaGraphDebugDotFlagsHandles = 1024


cudaStreamDefault, cudaStreamNonBlocking = 0, 1
cudaStreamLegacy, cudaStreamPerThread = 1, 2
cudaEventDefault, cudaEventBlockingSync, cudaEventDisableTiming, cudaEventInterprocess = 0, 1, 2, 4
cudaEventRecordDefault, cudaEventRecordExternal = 0, 1
cudaEventWaitDefault, cudaEventWaitExternal = 0, 1
cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped, cudaHostAllocWriteCombined = 0, 1, 2, 4
cudaGraphCondAssignDefault = 1


class Handle:
    """An opaque handle: a number that stands for something of the runtime's."""

    __slots__ = ("_value",)

    def __init__(self, init_value: int = 0):
        self._value = int(init_value)

    def __int__(self) -> int:
        return self._value

    __index__ = __int__

    def __eq__(self, other) -> bool:
        return isinstance(other, Handle) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._value:#x}>"


class cudaStream_t(Handle):
    __slots__ = ()


class cudaEvent_t(Handle):
    __slots__ = ()


class cudaGraph_t(Handle):
    __slots__ = ()


class cudaGraphExec_t(Handle):
    __slots__ = ()


class cudaGraphNode_t(Handle):
    __slots__ = ()


class cudaGraphConditionalHandle(Handle):
    __slots__ = ()


class cudaHostFn_t(Handle):
    """The address of a host function."""

    __slots__ = ()


def handle_of(thing: object, kind: type[Handle]) -> Handle:
    return kind(_gpu.current().handle_of(thing))


def resolve(handle: object, kind: type):
    """What a handle (or its number) stands for. Raises cudaErrorInvalidValue for one that is not, or no more, a `kind`."""
    thing = _gpu.current().objects.get(int(handle)) if handle is not None else None
    if not isinstance(thing, kind):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return thing


class Struct(Partial):
    """A parameter structure: its fields, and nothing else."""

    _fields: ClassVar[dict[str, object]] = {}

    def __init__(self) -> None:
        for name, default in self._fields.items():
            object.__setattr__(self, name, default() if callable(default) else default)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._fields:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return "\n".join(f"{name} : {getattr(self, name)}" for name in self._fields)


class dim3(Struct):
    _library = "cuda.bindings.runtime.dim3"
    _fields: ClassVar = {"x": 0, "y": 0, "z": 0}


def _one() -> dim3:
    extent = dim3()
    extent.x = extent.y = extent.z = 1
    return extent


class cudaKernelNodeParams(Struct):
    _library = "cuda.bindings.runtime.cudaKernelNodeParams"
    _fields: ClassVar = {"func": 0, "gridDim": _one, "blockDim": _one, "sharedMemBytes": 0, "kernelParams": 0, "extra": 0}


class cudaMemsetParams(Struct):
    _library = "cuda.bindings.runtime.cudaMemsetParams"
    _fields: ClassVar = {"dst": 0, "pitch": 0, "value": 0, "elementSize": 0, "width": 0, "height": 0}


class cudaHostNodeParams(Struct):
    _library = "cuda.bindings.runtime.cudaHostNodeParams"
    _fields: ClassVar = {"fn": None, "userData": 0}


class cudaMemLocation(Struct):
    _library = "cuda.bindings.runtime.cudaMemLocation"
    _fields: ClassVar = {"type": cudaMemLocationType.cudaMemLocationTypeInvalid, "id": 0}


class cudaMemPoolProps(Struct):
    _library = "cuda.bindings.runtime.cudaMemPoolProps"
    _fields: ClassVar = {
        "allocType": cudaMemAllocationType.cudaMemAllocationTypeInvalid, "handleTypes": 0, "location": cudaMemLocation,
        "win32SecurityAttributes": 0, "maxSize": 0,
    }  # fmt: skip


class cudaMemAllocNodeParams(Struct):
    _library = "cuda.bindings.runtime.cudaMemAllocNodeParams"
    _fields: ClassVar = {"poolProps": cudaMemPoolProps, "accessDescs": None, "accessDescCount": 0, "bytesize": 0, "dptr": 0}


class cudaGraphExecUpdateResultInfo(Struct):
    _library = "cuda.bindings.runtime.cudaGraphExecUpdateResultInfo"
    _fields: ClassVar = {
        "result": cudaGraphExecUpdateResult.cudaGraphExecUpdateSuccess,
        "errorNode": None,
        "errorFromNode": None,
    }


class cudaGraphInstantiateParams(Struct):
    _library = "cuda.bindings.runtime.cudaGraphInstantiateParams"
    _fields: ClassVar = {"flags": 0, "uploadStream": None, "errNode_out": None, "result_out": 0}


class cudaGraphEdgeData(Struct):
    _library = "cuda.bindings.runtime.cudaGraphEdgeData"
    _fields: ClassVar = {"from_port": 0, "to_port": 0, "type": 0}


class cudaPointerAttributes(Struct):
    _library = "cuda.bindings.runtime.cudaPointerAttributes"
    _fields: ClassVar = {"type": cudaMemoryType.cudaMemoryTypeUnregistered, "device": 0, "devicePointer": 0, "hostPointer": 0}
