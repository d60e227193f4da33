"""Executable graphs: instantiated, launched, changed."""

from __future__ import annotations

from .. import gpu as _gpu
from ..errors import CUDARuntimeError
from ..graph import Graph, GraphExec, InstantiateError, Node
from ..kernel import KernelOp
from ..ops import ChildOp, CopyOp, HostOp, MemsetOp, RecordNodeOp, WaitNodeOp
from . import types
from .calls import call, event_of, host_function, stream_of
from .graphs import copy_op, kernel_op, memset_op, op_of
from .types import handle_of, resolve


@call(1)
def cudaGraphInstantiate(graph, flags: int):
    return handle_of(_instantiate(graph, flags), types.cudaGraphExec_t)


def _instantiate(graph, flags: int, also: int = 0) -> GraphExec:
    """Raises cudaErrorInvalidValue for flags that are unknown or exclude each other; `also` are allowed as well."""
    known = types.cudaGraphInstantiateFlags
    auto_free, device = (
        bool(flags & f) for f in (known.cudaGraphInstantiateFlagAutoFreeOnLaunch, known.cudaGraphInstantiateFlagDeviceLaunch)
    )
    priority = bool(flags & known.cudaGraphInstantiateFlagUseNodePriority)
    if flags & ~(1 | 4 | 8 | also) or (auto_free and device):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    executable = _gpu.current().instantiate(
        resolve(graph, Graph), auto_free=auto_free, device_launch=device, node_priority=priority
    )
    executable.flags = flags & ~known.cudaGraphInstantiateFlagUseNodePriority  # which is not given back
    return executable


def cudaGraphInstantiateWithParams(graph, instantiateParams):
    """As cudaGraphInstantiate, and `result_out` says what was wrong."""

    @call(1)
    def instantiate():
        try:
            upload = types.cudaGraphInstantiateFlags.cudaGraphInstantiateFlagUpload
            executable = _instantiate(graph, instantiateParams.flags, also=upload)
        except InstantiateError as error:
            instantiateParams.result_out = int(error.result)
            raise
        if instantiateParams.flags & upload:
            _gpu.current().upload(executable, stream_of(instantiateParams.uploadStream))
        return handle_of(executable, types.cudaGraphExec_t)

    return instantiate()


@call(1)
def cudaGraphExecGetFlags(graphExec):
    return int(resolve(graphExec, GraphExec).flags)


cudaGraphInstantiateWithFlags = cudaGraphInstantiate


@call()
def cudaGraphExecDestroy(graphExec):
    _gpu.current().destroy_executable(resolve(graphExec, GraphExec))


@call()
def cudaGraphUpload(graphExec, stream):
    _gpu.current().upload(resolve(graphExec, GraphExec), stream_of(stream))


@call()
def cudaGraphLaunch(graphExec, stream):
    _gpu.current().launch_graph(resolve(graphExec, GraphExec), stream_of(stream), "runtime")


def cudaGraphExecUpdate(hGraphExec, hGraph):
    """`(error, info)`; a refusal comes without info, as the bindings give it."""

    @call(1)
    def update():
        result, _ = _gpu.current().update(resolve(hGraphExec, GraphExec), resolve(hGraph, Graph))
        if result != "Success":
            raise CUDARuntimeError("cudaErrorGraphExecUpdateFailure")
        return types.cudaGraphExecUpdateResultInfo()

    return update()


def _set(graphExec, node, kind: type, op) -> None:
    op_of(node, kind)
    resolve(graphExec, GraphExec).set_op(resolve(node, Node), op)
    _gpu.current().charge_node("update", op.kind)


@call()
def cudaGraphExecKernelNodeSetParams(hGraphExec, node, pNodeParams):
    _set(hGraphExec, node, KernelOp, kernel_op(pNodeParams))


@call()
def cudaGraphExecMemcpyNodeSetParams1D(hGraphExec, node, dst, src, count: int, kind):
    if kind == types.cudaMemcpyKind.cudaMemcpyDefault:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    _set(hGraphExec, node, CopyOp, copy_op(dst, src, count, kind))


@call()
def cudaGraphExecMemsetNodeSetParams(hGraphExec, node, pNodeParams):
    _set(hGraphExec, node, MemsetOp, memset_op(pNodeParams))


@call()
def cudaGraphExecHostNodeSetParams(hGraphExec, node, pNodeParams):
    _set(hGraphExec, node, HostOp, HostOp(host_function(pNodeParams.fn, pNodeParams.userData)))


@call()
def cudaGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph):
    _set(hGraphExec, node, ChildOp, ChildOp(resolve(childGraph, Graph)))


@call()
def cudaGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event):
    _set(hGraphExec, hNode, RecordNodeOp, RecordNodeOp(event_of(event)))


@call()
def cudaGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event):
    _set(hGraphExec, hNode, WaitNodeOp, WaitNodeOp(event_of(event)))


@call()
def cudaGraphNodeSetEnabled(hGraphExec, hNode, isEnabled: int):
    resolve(hGraphExec, GraphExec).set_enabled(resolve(hNode, Node), bool(isEnabled))
    _gpu.current().charge_call("disable node")


@call(1)
def cudaGraphNodeGetEnabled(hGraphExec, hNode):
    return int(resolve(hGraphExec, GraphExec).is_enabled(resolve(hNode, Node)))
