"""The device, its errors and its memory."""

from __future__ import annotations

from .. import gpu as _gpu
from ..errors import RUNTIME_ERRORS, CUDARuntimeError
from . import types
from .calls import address_of, call, stream_of


@call()
def cudaSetDevice(device: int):
    if device != 0:
        raise CUDARuntimeError("cudaErrorInvalidDevice")


@call(1)
def cudaGetDevice():
    return 0


@call(1)
def cudaGetDeviceCount():
    return 1


@call()
def cudaDeviceSynchronize():
    _gpu.current().synchronize()


@call()
def cudaDeviceReset():
    _gpu.current().reset()


def cudaGetLastError():
    """The last error of this thread, which is forgotten; one that killed the context stays."""
    error = cudaPeekAtLastError()
    _gpu.current().thread.last_error = ""
    return error


def cudaPeekAtLastError():
    return (types.cudaError_t[_gpu.current().thread.last_error or "cudaSuccess"],)


def cudaGetErrorName(error):
    return types.cudaError_t.cudaSuccess, types.cudaError_t(error).name.encode()


def cudaGetErrorString(error):
    name = types.cudaError_t(error).name
    return types.cudaError_t.cudaSuccess, (RUNTIME_ERRORS[name][1] if name in RUNTIME_ERRORS else "no error").encode()


@call(1)
def cudaMalloc(size: int):
    return _gpu.current().malloc(size) if size else 0


@call()
def cudaFree(devPtr):
    _gpu.current().free(int(devPtr or 0))


@call(1)
def cudaMallocAsync(size: int, hStream):
    return _gpu.current().malloc_async(size, stream_of(hStream))


@call()
def cudaFreeAsync(devPtr, hStream):
    _gpu.current().free_async(int(devPtr), stream_of(hStream))


@call(1)
def cudaMallocHost(size: int):
    return _gpu.current().malloc_host(size)


@call(1)
def cudaHostAlloc(size: int, flags: int):
    if flags & ~7:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return _gpu.current().malloc_host(size)


@call()
def cudaFreeHost(ptr):
    _gpu.current().free_host(int(ptr or 0))


@call()
def cudaMemcpy(dst, src, count: int, kind):
    _gpu.current().memcpy(address_of(dst), address_of(src), count, _gpu.CopyKind(kind))


@call()
def cudaMemcpyAsync(dst, src, count: int, kind, stream):
    _gpu.current().memcpy_async(address_of(dst), address_of(src), count, _gpu.CopyKind(kind), stream_of(stream))


@call()
def cudaMemset(devPtr, value: int, count: int):
    _gpu.current().memset(address_of(devPtr), value, count)


@call()
def cudaMemsetAsync(devPtr, value: int, count: int, stream):
    _gpu.current().memset_async(address_of(devPtr), value, count, stream_of(stream))


@call()
def cudaMemset2D(devPtr, pitch: int, value: int, width: int, height: int):
    gpu = _gpu.current()
    gpu.memset_2d(address_of(devPtr), pitch, value, width, height, gpu.legacy)


@call()
def cudaMemset2DAsync(devPtr, pitch: int, value: int, width: int, height: int, stream):
    _gpu.current().memset_2d(address_of(devPtr), pitch, value, width, height, stream_of(stream))


@call(1)
def cudaHostGetDevicePointer(pHost, flags: int):
    """The device's address of page-locked memory: the host's own (unified addressing)."""
    address = address_of(pHost)
    if not _gpu.current().memory.is_pinned(address):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return address


@call(2)
def cudaMemGetInfo():
    gpu = _gpu.current()
    gpu.raise_fault()
    return gpu.memory.capacity - gpu.memory.mapped, gpu.memory.capacity


@call(1)
def cudaPointerGetAttributes(ptr):
    out, memory, address = types.cudaPointerAttributes(), _gpu.current().memory, address_of(ptr)
    if memory.is_device(address):
        if not memory.is_mapped(address):
            return out
        out.type, out.devicePointer = types.cudaMemoryType.cudaMemoryTypeDevice, address
    elif memory.is_pinned(address):
        out.type = types.cudaMemoryType.cudaMemoryTypeHost
        out.devicePointer = out.hostPointer = address
    else:
        out.device, out.hostPointer = -2, address
    return out
