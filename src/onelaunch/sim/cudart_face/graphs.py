"""Graphs: definitions and their nodes."""

from __future__ import annotations

from pathlib import Path

from .. import gpu as _gpu
from ..errors import CUDARuntimeError
from ..graph import Graph, Node
from ..kernel import KernelOp
from ..numba_face import kernel_operation
from ..ops import AllocOp, ChildOp, CopyOp, EmptyOp, FreeOp, HostOp, MemsetOp, RecordNodeOp, WaitNodeOp
from . import types
from .calls import address_of, call, edge_data, event_of, host_function, node_handle, node_list, nodes_of
from .types import NODE_TYPES, handle_of, resolve


@call(1)
def cudaGraphCreate(flags: int):
    if flags:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return handle_of(Graph(), types.cudaGraph_t)


@call()
def cudaGraphDestroy(graph):
    _gpu.current().destroy_graph(resolve(graph, Graph))


@call(1)
def cudaGraphClone(originalGraph):
    return handle_of(_gpu.current().clone(resolve(originalGraph, Graph)), types.cudaGraph_t)


@call(1)
def cudaGraphNodeFindInClone(originalNode, clonedGraph):
    twin = resolve(clonedGraph, Graph).twins.get(resolve(originalNode, Node))
    if twin is None or twin not in twin.graph.nodes:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return node_handle(twin)


def _add(graph, dependencies, count: int, op) -> types.cudaGraphNode_t:
    node = resolve(graph, Graph).add(op, nodes_of(dependencies, count))
    _gpu.current().charge_node("add", op.kind)
    return node_handle(node)


@call(1)
def cudaGraphAddKernelNode(graph, pDependencies, numDependencies: int, pNodeParams):
    return _add(graph, pDependencies, numDependencies, kernel_op(pNodeParams))


def kernel_op(params) -> KernelOp:
    grid, block = ((d.x, d.y, d.z) for d in (params.gridDim, params.blockDim))
    kernel = _gpu.current().objects.get(int(params.func))
    values = params.kernelParams[0] if params.kernelParams else ()
    if not hasattr(kernel, "py_func"):
        raise CUDARuntimeError("cudaErrorInvalidDeviceFunction")
    return kernel_operation(kernel, grid, block, values, params.sharedMemBytes)


@call(1)
def cudaGraphAddMemcpyNode1D(graph, pDependencies, numDependencies: int, dst, src, count: int, kind):
    op = copy_op(dst, src, count, kind)
    return _add(graph, pDependencies, numDependencies, op)


def copy_op(dst, src, count: int, kind) -> CopyOp:
    target, source = address_of(dst), address_of(src)
    _gpu.current().check_copy(target, source, count, _gpu.CopyKind(kind))
    if not count:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return _gpu.current().copy_op(target, source, count)


@call(1)
def cudaGraphAddMemsetNode(graph, pDependencies, numDependencies: int, pMemsetParams):
    return _add(graph, pDependencies, numDependencies, memset_op(pMemsetParams))


def memset_op(p) -> MemsetOp:
    if p.elementSize not in (1, 2, 4) or not p.width or not p.height or p.pitch < p.width * p.elementSize * (p.height > 1):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    op = MemsetOp(address_of(p.dst), p.value, p.elementSize, p.width, p.height, p.pitch)
    _gpu.current().check_known(op.address, op.pitch * (op.height - 1) + op.width * op.element_size)
    return op


@call(1)
def cudaGraphAddHostNode(graph, pDependencies, numDependencies: int, pNodeParams):
    op = HostOp(host_function(pNodeParams.fn, pNodeParams.userData))
    return _add(graph, pDependencies, numDependencies, op)


@call(1)
def cudaGraphAddChildGraphNode(graph, pDependencies, numDependencies: int, childGraph):
    return _add(graph, pDependencies, numDependencies, ChildOp(_gpu.current().clone(resolve(childGraph, Graph))))


@call(1)
def cudaGraphAddEmptyNode(graph, pDependencies, numDependencies: int):
    return _add(graph, pDependencies, numDependencies, EmptyOp())


@call(1)
def cudaGraphAddEventRecordNode(graph, pDependencies, numDependencies: int, event):
    return _add(graph, pDependencies, numDependencies, RecordNodeOp(event_of(event)))


@call(1)
def cudaGraphAddEventWaitNode(graph, pDependencies, numDependencies: int, event):
    return _add(graph, pDependencies, numDependencies, WaitNodeOp(event_of(event)))


@call(1)
def cudaGraphAddMemAllocNode(graph, pDependencies, numDependencies: int, nodeParams):
    location = nodeParams.poolProps.location
    if (
        nodeParams.poolProps.allocType != types.cudaMemAllocationType.cudaMemAllocationTypePinned
        or location.type != types.cudaMemLocationType.cudaMemLocationTypeDevice
        or location.id
        or not nodeParams.bytesize
    ):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    behind = nodes_of(pDependencies, numDependencies)
    node = _gpu.current().add_allocation(resolve(graph, Graph), behind, nodeParams.bytesize)
    nodeParams.dptr = node.op.address
    return node_handle(node)


@call(1)
def cudaGraphAddMemFreeNode(graph, pDependencies, numDependencies: int, dptr):
    behind = nodes_of(pDependencies, numDependencies)
    return node_handle(_gpu.current().add_free(resolve(graph, Graph), behind, int(dptr)))


@call(1)
def cudaGraphConditionalHandleCreate(graph, defaultLaunchValue: int, flags: int):
    default = defaultLaunchValue if flags & types.cudaGraphCondAssignDefault else None
    return handle_of(resolve(graph, Graph).add_condition(default), types.cudaGraphConditionalHandle)


def _edges(from_, to, count: int) -> list[tuple[Node, Node]]:
    return list(zip(nodes_of(from_, count), nodes_of(to, count), strict=True))


@call()
def cudaGraphAddDependencies(graph, from_, to, edgeData, numDependencies: int):
    resolve(graph, Graph).add_edges(_edges(from_, to, numDependencies))


@call()
def cudaGraphRemoveDependencies(graph, from_, to, edgeData, numDependencies: int):
    resolve(graph, Graph).remove_edges(_edges(from_, to, numDependencies))


@call()
def cudaGraphDestroyNode(node):
    _gpu.current().destroy_node(resolve(node, Node))


@call(2)
def cudaGraphGetNodes(graph, numNodes: int = 0):
    nodes = resolve(graph, Graph).nodes
    return node_list(nodes, numNodes), min(numNodes, len(nodes)) if numNodes else len(nodes)


@call(2)
def cudaGraphGetRootNodes(graph, pNumRootNodes: int = 0):
    nodes = resolve(graph, Graph).roots()
    return node_list(nodes, pNumRootNodes), min(pNumRootNodes, len(nodes)) if pNumRootNodes else len(nodes)


@call(4)
def cudaGraphGetEdges(graph, numEdges: int = 0):
    edges = resolve(graph, Graph).edges()
    before, after = (node_list([e[side] for e in edges], numEdges) for side in (0, 1))
    return before, after, edge_data(numEdges), min(numEdges, len(edges)) if numEdges else len(edges)


@call(1)
def cudaGraphNodeGetType(node):
    return NODE_TYPES[resolve(node, Node).op.kind]


def _neighbours(nodes: list[Node], count: int):
    return node_list(nodes, count), edge_data(count), min(count, len(nodes)) if count else len(nodes)


@call(3)
def cudaGraphNodeGetDependencies(node, pNumDependencies: int = 0):
    return _neighbours(resolve(node, Node).dependencies, pNumDependencies)


@call(3)
def cudaGraphNodeGetDependentNodes(node, pNumDependentNodes: int = 0):
    return _neighbours(resolve(node, Node).dependents, pNumDependentNodes)


def op_of(node, kind: type):
    op = resolve(node, Node).op
    if not isinstance(op, kind):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return op


@call(1)
def cudaGraphKernelNodeGetParams(node):
    """Raises cudaErrorInvalidDeviceFunction: the runtime does not know the kernels that Numba loaded through the driver."""
    op_of(node, KernelOp)
    raise CUDARuntimeError("cudaErrorInvalidDeviceFunction")


@call()
def cudaGraphKernelNodeSetParams(node, pNodeParams):
    op_of(node, KernelOp)
    resolve(node, Node).op = kernel_op(pNodeParams)


@call()
def cudaGraphMemcpyNodeSetParams1D(node, dst, src, count: int, kind):
    op_of(node, CopyOp)
    resolve(node, Node).op = copy_op(dst, src, count, kind)


@call(1)
def cudaGraphMemsetNodeGetParams(node):
    op, out = op_of(node, MemsetOp), types.cudaMemsetParams()
    out.dst, out.value, out.elementSize = op.address, op.value, op.element_size
    out.width, out.height, out.pitch = op.width, op.height, op.pitch
    return out


@call()
def cudaGraphMemsetNodeSetParams(node, pNodeParams):
    op_of(node, MemsetOp)
    resolve(node, Node).op = memset_op(pNodeParams)


@call(1)
def cudaGraphChildGraphNodeGetGraph(node):
    return handle_of(op_of(node, ChildOp).graph, types.cudaGraph_t)


@call(1)
def cudaGraphEventRecordNodeGetEvent(node):
    return handle_of(op_of(node, RecordNodeOp).event, types.cudaEvent_t)


@call(1)
def cudaGraphEventWaitNodeGetEvent(node):
    return handle_of(op_of(node, WaitNodeOp).event, types.cudaEvent_t)


@call()
def cudaGraphEventRecordNodeSetEvent(node, event):
    op_of(node, RecordNodeOp)
    resolve(node, Node).op = RecordNodeOp(event_of(event))


@call()
def cudaGraphEventWaitNodeSetEvent(node, event):
    op_of(node, WaitNodeOp)
    resolve(node, Node).op = WaitNodeOp(event_of(event))


@call(1)
def cudaGraphMemAllocNodeGetParams(node):
    op, out = op_of(node, AllocOp), types.cudaMemAllocNodeParams()
    out.dptr, out.bytesize = op.address, op.nbytes
    return out


@call(1)
def cudaGraphMemFreeNodeGetParams(node):
    return op_of(node, FreeOp).address


@call()
def cudaGraphDebugDotPrint(graph, path, flags: int):
    """Writes the graph in Graphviz's language, child graphs and bodies as clusters."""
    text = resolve(graph, Graph).to_dot()
    try:
        Path(path.decode() if isinstance(path, bytes) else path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CUDARuntimeError("cudaErrorOperatingSystem") from error
