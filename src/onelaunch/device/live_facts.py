"""A node of a graph on a live GPU, read through the driver. Addresses and bytes are those that a replay will use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import cupy
from cuda.bindings import driver

from .facts import CopyFacts, MemsetFacts, NodeFacts, Pointer, kernel_name, words

KINDS = {  # CUgraphNodeType without its prefix → the kind as it is shown
    "KERNEL": "kernel", "MEMCPY": "memcpy", "MEMSET": "memset", "HOST": "host", "GRAPH": "child graph", "EMPTY": "empty",
    "WAIT_EVENT": "event wait", "EVENT_RECORD": "event record", "EXT_SEMAS_SIGNAL": "semaphore signal",
    "EXT_SEMAS_WAIT": "semaphore wait", "MEM_ALLOC": "allocation", "MEM_FREE": "free", "BATCH_MEM_OP": "memory operations",
    "CONDITIONAL": "conditional",
}  # fmt: skip
LOWEST_POINTER = 1 << 16  # no allocation starts below: such a word is a number, and needs no question to the driver
BODIES_SINCE = 13020  # the driver that tells the bodies of a conditional node (cuGraphNodeGetParams)
BUFFER_POINTER, BUFFER_SIZE = 1, 2  # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE


def _ok(result: tuple) -> Any:
    """The value of a driver call (a tuple where there are several). Raises its error."""
    error, *values = result
    if error != driver.CUresult.CUDA_SUCCESS:
        raise cupy.cuda.driver.CUDADriverError(int(error))
    return values[0] if len(values) == 1 else tuple(values)


def node_facts(handle: Any) -> NodeFacts:
    node = driver.CUgraphNode(int(handle))
    kind = _kind(node)
    read = _READERS.get(kind)
    return read(node) if read else NodeFacts(kind, kind)


def _kind(node) -> str:
    try:
        name = _ok(driver.cuGraphNodeGetType(node)).name.removeprefix("CU_GRAPH_NODE_TYPE_")
    except ValueError:  # a driver newer than the bindings
        return "unknown"
    return KINDS.get(name, "unknown")


# -- pointers ---------------------------------------------------------------------------------------------------------


def _memory_type(address: int) -> int:
    """What the driver knows of an address: a CUmemorytype as a number, 0 for one that it does not know."""
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    error, kind = driver.cuPointerGetAttribute(attribute, driver.CUdeviceptr(address))
    return int(kind) if error == driver.CUresult.CUDA_SUCCESS else 0


def _is_pointer(word: Pointer) -> bool:
    return word.address >= LOWEST_POINTER and _memory_type(word.address) != 0


def _on_device(address: int) -> bool:
    return _memory_type(address) == int(driver.CUmemorytype.CU_MEMORYTYPE_DEVICE)


# -- kinds of nodes ---------------------------------------------------------------------------------------------------


def _kernel(node) -> NodeFacts:
    params = _ok(driver.cuGraphKernelNodeGetParams(node))
    function = params.func if int(params.func) else _ok(driver.cuKernelGetFunction(params.kern))
    raw = _parameters(params, _layout(function))
    return NodeFacts(
        "kernel",
        kernel_name(_symbol(function)),
        (params.gridDimX, params.gridDimY, params.gridDimZ),
        (params.blockDimX, params.blockDimY, params.blockDimZ),
        params.sharedMemBytes,
        raw,
        tuple(word for word in words(raw) if _is_pointer(word)),
    )


def _symbol(function) -> str:
    error, name = driver.cuFuncGetName(function)
    if error != driver.CUresult.CUDA_SUCCESS:  # a CUkernel under the name of a CUfunction
        name = _ok(driver.cuKernelGetName(driver.CUkernel(int(function))))
    return name.decode() if isinstance(name, bytes) else str(name)


def _layout(function) -> list[tuple[int, int]]:
    """(offset, size) of each parameter: asked for one by one until the driver says that there is none."""
    out: list[tuple[int, int]] = []
    while True:
        error, offset, size = driver.cuFuncGetParamInfo(function, len(out))
        if error != driver.CUresult.CUDA_SUCCESS:
            return out
        out.append((int(offset), int(size)))


def _parameters(params, layout: list[tuple[int, int]]) -> tuple[bytes, ...]:
    """The node's own copy of the parameters: pointers to each, or one buffer with all (`extra`)."""
    if not layout:
        return ()
    if params.kernelParams:
        each = ctypes.cast(int(params.kernelParams), ctypes.POINTER(ctypes.c_void_p))
        return tuple(ctypes.string_at(each[i], size) for i, (_, size) in enumerate(layout))
    if params.extra:
        pairs = ctypes.cast(int(params.extra), ctypes.POINTER(ctypes.c_void_p))
        at = 0
        while pairs[at]:  # CU_LAUNCH_PARAM_END is 0
            if pairs[at] == BUFFER_POINTER:
                return tuple(ctypes.string_at(pairs[at + 1] + offset, size) for offset, size in layout)
            at += 2
    return ()


def _copy(node) -> NodeFacts:
    p = _ok(driver.cuGraphMemcpyNodeGetParams(node))
    nbytes = p.WidthInBytes * max(1, p.Height) * max(1, p.Depth)
    target, source = _end(p, "dst"), _end(p, "src")
    sides = [address is None or _on_device(address) for address in (target, source)]
    return NodeFacts("memcpy", "memcpy", copy=CopyFacts(target, source, nbytes, *sides))


def _end(p, side: str) -> int | None:
    """The first byte of one end of a copy; None for a CUDA array."""

    def field(name: str) -> Any:
        return getattr(p, side + name)

    memory = field("MemoryType")
    if memory == driver.CUmemorytype.CU_MEMORYTYPE_ARRAY:
        return None
    base = int(field("Host") or 0) if memory == driver.CUmemorytype.CU_MEMORYTYPE_HOST else int(field("Device"))
    pitch = field("Pitch")
    return base + field("XInBytes") + pitch * (field("Y") + field("Height") * field("Z"))


def _memset(node) -> NodeFacts:
    p = _ok(driver.cuGraphMemsetNodeGetParams(node))
    height = max(1, p.height)
    return NodeFacts(
        "memset",
        "memset",
        memset=MemsetFacts(int(p.dst), p.value, p.elementSize, p.width, height, p.pitch if height > 1 else 0),
    )


def _child(node) -> NodeFacts:
    return NodeFacts("child graph", "child graph", child=int(_ok(driver.cuGraphChildGraphNodeGetGraph(node))))


def _conditional(node) -> NodeFacts:
    if _ok(driver.cuDriverGetVersion()) < BODIES_SINCE or not hasattr(driver, "cuGraphNodeGetParams"):
        return NodeFacts("conditional", "conditional")
    params = _ok(driver.cuGraphNodeGetParams(node)).conditional
    form = params.type.name.rsplit("_", 1)[-1].lower()
    return NodeFacts("conditional", f"conditional {form}", bodies=tuple(int(g) for g in params.phGraph_out))


def _allocation(node) -> NodeFacts:
    p = _ok(driver.cuGraphMemAllocNodeGetParams(node))
    return NodeFacts("allocation", "allocation", memory=int(p.dptr), memory_bytes=int(p.bytesize))


def _free(node) -> NodeFacts:
    return NodeFacts("free", "free", memory=int(_ok(driver.cuGraphMemFreeNodeGetParams(node))))


_READERS: dict[str, Callable[[Any], NodeFacts]] = {
    "kernel": _kernel, "memcpy": _copy, "memset": _memset, "child graph": _child, "conditional": _conditional,
    "allocation": _allocation, "free": _free,
}  # fmt: skip
