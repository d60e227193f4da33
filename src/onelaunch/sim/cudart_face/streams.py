"""Streams, events and stream capture."""

from __future__ import annotations

from .. import gpu as _gpu
from ..capture import Mode, Status
from ..errors import CUDARuntimeError
from ..graph import Graph
from . import types
from .calls import call, event_of, host_function, node_list, nodes_of, stream_of
from .types import handle_of, resolve


@call(1)
def cudaStreamCreate():
    return types.cudaStream_t(_gpu.current().create_stream().handle)


@call(1)
def cudaStreamCreateWithFlags(flags: int):
    return _create_stream(flags, 0)


@call(1)
def cudaStreamCreateWithPriority(flags: int, priority: int):
    return _create_stream(flags, priority)


def _create_stream(flags: int, priority: int) -> types.cudaStream_t:
    if flags not in (0, 1):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    blocking, priority = flags == 0, max(GREATEST_PRIORITY, min(LEAST_PRIORITY, priority))
    return types.cudaStream_t(_gpu.current().create_stream(blocking=blocking, priority=priority).handle)


LEAST_PRIORITY, GREATEST_PRIORITY = 0, -5  # of an H200


@call(2)
def cudaDeviceGetStreamPriorityRange():
    return LEAST_PRIORITY, GREATEST_PRIORITY


@call(1)
def cudaStreamGetPriority(hStream):
    return stream_of(hStream).priority


@call(1)
def cudaStreamGetFlags(hStream):
    queue = stream_of(hStream)
    _gpu.current().forbid_in_capture(queue)
    return 0 if queue.blocking else 1


@call()
def cudaStreamDestroy(stream):
    queue = stream_of(stream)
    if queue in (_gpu.current().legacy, _gpu.current().thread.default):
        raise CUDARuntimeError("cudaErrorInvalidResourceHandle")
    _gpu.current().destroy_stream(queue)


@call()
def cudaStreamSynchronize(stream):
    _gpu.current().synchronize(stream_of(stream))


@call()
def cudaStreamQuery(stream):
    _gpu.current().query(stream_of(stream))


@call()
def cudaStreamWaitEvent(stream, event, flags: int):
    if flags & ~1:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    _gpu.current().wait_event(stream_of(stream), event_of(event), external=bool(flags & types.cudaEventWaitExternal))


@call()
def cudaLaunchHostFunc(stream, fn, userData):
    _gpu.current().launch_host_function(stream_of(stream), host_function(fn, userData))


@call(1)
def cudaEventCreate():
    return handle_of(_gpu.current().create_event(), types.cudaEvent_t)


@call(1)
def cudaEventCreateWithFlags(flags: int):
    timed, shared = not flags & types.cudaEventDisableTiming, flags & types.cudaEventInterprocess
    if flags & ~7 or (shared and timed):
        raise CUDARuntimeError("cudaErrorInvalidValue")
    return handle_of(_gpu.current().create_event(timed=timed), types.cudaEvent_t)


@call()
def cudaEventDestroy(event):
    _gpu.current().forget(event_of(event))


@call()
def cudaEventRecord(event, stream):
    _gpu.current().record(event_of(event), stream_of(stream))


@call()
def cudaEventRecordWithFlags(event, stream, flags: int):
    if flags & ~1:
        raise CUDARuntimeError("cudaErrorInvalidValue")
    _gpu.current().record(event_of(event), stream_of(stream), external=bool(flags & types.cudaEventRecordExternal))


@call()
def cudaEventQuery(event):
    _gpu.current().query_event(event_of(event))


@call()
def cudaEventSynchronize(event):
    _gpu.current().wait_for(event_of(event))


@call(1)
def cudaEventElapsedTime(start, end):
    return _gpu.current().elapsed_ms(event_of(start), event_of(end))


@call()
def cudaStreamBeginCapture(stream, mode):
    _gpu.current().begin_capture(stream_of(stream), Mode(mode))


@call()
def cudaStreamBeginCaptureToGraph(stream, graph, dependencies, dependencyData, numDependencies: int, mode):
    behind = nodes_of(dependencies, numDependencies)
    _gpu.current().begin_capture(stream_of(stream), Mode(mode), resolve(graph, Graph), behind)


@call(1)
def cudaStreamEndCapture(stream):
    return handle_of(_gpu.current().end_capture(stream_of(stream)), types.cudaGraph_t)


@call(1)
def cudaStreamIsCapturing(stream):
    return types.cudaStreamCaptureStatus(_gpu.current().capture_status(stream_of(stream)))


@call(6)
def cudaStreamGetCaptureInfo(stream):
    queue = stream_of(stream)
    status = types.cudaStreamCaptureStatus(_gpu.current().capture_status(queue))
    if status != Status.ACTIVE:
        return status, 0, types.cudaGraph_t(), [], [], 0
    tail = queue.capture_tail
    graph = handle_of(queue.capture.graph, types.cudaGraph_t)
    return status, queue.capture.id, graph, node_list(tail, len(tail)), [types.cudaGraphEdgeData() for _ in tail], len(tail)


@call()
def cudaStreamUpdateCaptureDependencies(stream, dependencies, dependencyData, numDependencies: int, flags: int):
    replace = flags == types.cudaStreamUpdateCaptureDependenciesFlags.cudaStreamSetCaptureDependencies
    _gpu.current().set_capture_tail(stream_of(stream), nodes_of(dependencies, numDependencies), replace=replace)


@call(1)
def cudaThreadExchangeStreamCaptureMode(mode):
    gpu = _gpu.current()
    before, gpu.thread.mode = gpu.thread.mode, Mode(mode)
    return types.cudaStreamCaptureMode(before)
