"""CUDA's and the libraries' errors around capture and graphs, explained: what happened, why as a rule, and what mends it."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace

GUIDE = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/"
CAPTURE = "Creating a Graph Using Stream Capture"
PROHIBITED = "Prohibited and Unhandled Operations"
CROSS_STREAM = "Cross-stream Dependencies and Events"
INVALIDATION = "Invalidation"
UPDATING = "Updating Instantiated Graphs"
ASYNC = "Asynchronous Concurrent Execution"
ERRORS = "Error Checking"
MEMORY = "Device Memory"
MEMORY_NODES = "Graph Memory Nodes"


@dataclass(frozen=True)
class Explanation:
    """An error in words. `causes` come most usual first; `section` is of the CUDA Programming Guide."""

    error: str
    happened: str
    causes: tuple[str, ...]
    fix: str
    section: str

    def __repr__(self) -> str:
        causes = "\n".join(f"    {i}. {cause}" for i, cause in enumerate(self.causes, 1))
        return (
            f"{self.error}\n  what happened: {self.happened}\n  usual causes:\n{causes}\n  fix: {self.fix}\n"
            f"  CUDA Programming Guide: {self.section}"
        )

    def _repr_html_(self) -> str:
        causes = "".join(f"<li>{html.escape(c)}</li>" for c in self.causes)
        return (
            f"<b><code>{html.escape(self.error)}</code></b><p>{html.escape(self.happened)}</p>"
            f"<p><b>Usual causes</b></p><ol>{causes}</ol><p><b>Fix:</b> {html.escape(self.fix)}</p>"
            f'<p><a href="{GUIDE}">CUDA Programming Guide</a>: {html.escape(self.section)}</p>'
        )


_KNOWN = {
    "StreamCaptureUnsupported": (
        "A call was made that is not allowed while a stream captures; the capture is lost, and later calls in it fail too.",
        (
            "the host waits: stream.synchronize(), device synchronise, event.synchronize(), .get(), float(x)",
            "the host asks: stream.done or cudaStreamQuery, event queries",
            "memory is allocated or freed with cudaMalloc or cudaFree, often inside a library (a call that was not warmed up)",
            "a graph is launched on the capturing stream, or instantiated while a capture in global mode runs",
        ),
        "move the call out of the capture: allocate and warm up before it, synchronise and read results after the replay",
        PROHIBITED,
    ),
    "StreamCaptureInvalidated": (
        "An earlier call had already broken this capture; this one only tells.",
        ("the call that broke it raised an error that was caught or ignored", "a status query broke it silently (stream.done)"),
        "find the first illegal call (ol.trace_capture names its line), not this one",
        INVALIDATION,
    ),
    "StreamCaptureUnjoined": (
        "The capture was ended while a stream that had joined it still has work that the first stream does not wait for.",
        ("a fork (event recorded, other stream waits) without a way back", "the join was made before the fork's last launch"),
        "record an event in each forked stream after its last work; let the first stream wait for it before the capture ends",
        CROSS_STREAM,
    ),
    "StreamCaptureIsolation": (
        "Captured work was made to depend on work outside the capture, which a graph cannot hold.",
        (
            "a capturing stream waits for an event that was recorded before the capture, or in a stream outside it",
            "a CuPy array is handed to a Numba launch on the capturing stream, while CuPy's current stream is another one",
        ),
        "record the event inside the capture; make the capturing stream current (`with stream:`), or hand over "
        "cuda.as_cuda_array(x, sync=False), made before the capture",
        CROSS_STREAM,
    ),
    "StreamCaptureImplicit": (
        "Work for the legacy default stream would have to wait for a blocking stream that captures.",
        (
            "a launch or copy without a stream, while a blocking stream captures",
            "the capturing stream was created blocking (cp.cuda.Stream() is)",
        ),
        "capture on a non-blocking stream (cp.cuda.Stream(non_blocking=True)), and give every launch its stream",
        CROSS_STREAM,
    ),
    "StreamCaptureMerge": (
        "Two captures that were begun separately would have become one.",
        ("a stream of one capture waits for an event recorded in the other",),
        "capture them one after the other, or begin one capture and let the second stream join it through an event",
        CROSS_STREAM,
    ),
    "StreamCaptureUnmatched": (
        "The capture was ended on another stream than it began on.",
        ("end_capture on a forked stream",),
        "end the capture on the stream that began it",
        CAPTURE,
    ),
    "StreamCaptureWrongThread": (
        "A capture that is not relaxed was ended by another thread than began it.",
        ("a worker thread, or a callback, ends the capture",),
        "begin and end in one thread, or capture in relaxed mode",
        CAPTURE,
    ),
    "CapturedEvent": (
        "The event marks a place in a capture, which has no time and no host can wait for.",
        ("synchronising, querying or timing an event that was recorded in a capturing stream",),
        "use another event outside; to record one at every replay, record it with cudaEventRecordExternal",
        CROSS_STREAM,
    ),
    "IllegalState": (
        "The stream is not in the state that the call needs.",
        ("begin_capture on a stream that captures already", "end_capture on a stream that does not capture (any more)"),
        "one begin, one end; end a capture in `finally`, so that an error inside does not leave it open",
        CAPTURE,
    ),
    "IllegalAddress": (
        "A kernel touched memory that is not mapped. The context is dead: every later call gives this error again.",
        (
            "a graph was replayed after the memory that its nodes point to had really been freed",
            "an index out of bounds",
            "a pointer of the host, or of another device, as a kernel argument",
        ),
        "restart the process (in a notebook: Kernel ▸ Restart); keep alive what a graph points to, or update the graph",
        ERRORS,
    ),
    "MisalignedAddress": (
        "A kernel read or wrote at an address that is not a multiple of the element's size. The context is dead.",
        ("a pointer computed in bytes instead of elements",),
        "restart the process; align the pointer",
        ERRORS,
    ),
    "LaunchFailure": (
        "A kernel failed while it ran. The context is dead.",
        ("a wild pointer", "memory that was freed while a graph still ran"),
        "restart the process; compute-sanitizer names the kernel and the address",
        ERRORS,
    ),
    "MemoryAllocation": (
        "The device has no memory left for this.",
        ("arrays kept alive by name, by a notebook's outputs, or by private pools of graphs",),
        "drop what is not needed, then cp.get_default_memory_pool().free_all_blocks()",
        MEMORY,
    ),
    "InvalidValue": (
        "An argument is not one that the call can take.",
        (
            "a block of more than 1,024 threads, or a grid or block of 0",
            "a graph whose dependencies run in a circle, or an edge twice",
            "a graph with an unfreed allocation is launched again",
            "a node of another graph",
            "a free of what was not allocated",
        ),
        "check sizes against the limits; look at the graph with ol.graph_view",
        ERRORS,
    ),
    "InvalidResourceHandle": (
        "The handle stands for nothing.",
        (
            "a stream or event that was destroyed: in Python, its last reference went",
            "an event that was never recorded is timed",
        ),
        "keep the object in a variable as long as its handle is used",
        ERRORS,
    ),
    "NotReady": (
        "Not an error: the work that was asked about is not done yet.",
        ("a query right after a launch", "the time between two events of which one has not been reached"),
        "synchronise first, or ask again later",
        ASYNC,
    ),
    "NotPermitted": (
        "A host function called CUDA.",
        ("a callback (launch_host_func) launches, copies or synchronises",),
        "let the callback only signal; do the CUDA work in a thread of your own",
        ASYNC,
    ),
    "NotSupported": (
        "This cannot be done with such a graph.",
        (
            "a graph with memory or conditional nodes is cloned, or instantiated while another executable of it lives",
            "nodes or edges are taken out of a graph with memory nodes",
        ),
        "build the graph anew, or destroy its executable first",
        MEMORY_NODES,
    ),
    "GraphExecUpdateFailure": (
        "The executable graph was not changed: the other graph differs in more than parameters.",
        (
            "another number of nodes or other edges (topology changed)",
            "a node of another type in its place",
            "a copy between other kinds of memory, or a memset of other rows",
        ),
        "capture the same sequence of calls in the same order; instantiate again where the shape changes",
        UPDATING,
    ),
    "DevicesUnavailable": (
        "The device cannot be used by this process any more.",
        ("an earlier error killed the context", "another process holds the GPU exclusively"),
        "restart the process",
        ERRORS,
    ),
}

_BY_MESSAGE = (  # what the libraries say in their own words: (pattern, what it is, happened, causes, fix, section)
    (
        r"is capturing, so (D2H|H2D) transfers are disallowed",
        "CuPy: a copy while the current stream captures",
        "CuPy refused a copy between host and device on the capturing stream; the capture goes on.",
        (".get(), float(x), print(x) or cp.asnumpy inside the capture", "x.set(host array) inside the capture"),
        "copy before the capture, or after the replay",
        PROHIBITED,
    ),
    (
        r"was capturing, but an error has invalidated",
        "CuPy: the capture has been invalidated",
        *_KNOWN["StreamCaptureInvalidated"],
    ),
    (
        r"calling (cu\w+) API during stream capture",
        "CuPy: a library call in a capture",
        "CuPy refuses calls of this NVIDIA library while its current stream captures; the capture goes on without it.",
        ("a matrix product (@, cp.dot), random numbers, a linear solver inside the capture",),
        "do it before the capture, write it as a kernel, or capture with PyTorch, which supports cuBLAS in graphs",
        PROHIBITED,
    ),
    (
        r"_MemPool cannot perform memory operations on a capturing stream",
        "cuda.core: memory for a host array",
        "A host array was handed to a kernel, which needs device memory for it while the stream captures.",
        ("a NumPy array as a kernel argument",),
        "copy the array to the device before the capture, and hand over the device array",
        MEMORY_NODES,
    ),
    (
        r"NumPy only supports stream=None",
        "Numba: a host array on a stream",
        "A host array was handed to a launch on a stream of its own.",
        ("a NumPy array as a kernel argument, with a stream in the launch",),
        "copy the array to the device first, and hand over the device array",
        ASYNC,
    ),
    (
        r"cannot capture on the default \(legacy\) stream",
        "CuPy: a capture on the default stream",
        "The legacy default stream cannot capture.",
        ("begin_capture on cp.cuda.Stream.null, or on the current stream outside `with stream:`",),
        "make a stream: cp.cuda.Stream(non_blocking=True)",
        CAPTURE,
    ),
    (r"Out of memory allocating", "CuPy: out of memory", *_KNOWN["MemoryAllocation"]),
)


# What a call does in a capture that CUDA does not allow: (pattern of its source, why, fix).
_CALLS = (
    (
        r"\.done\b|Query\(|\.query\(",
        "it asks how far the work is, and captured work does not run: often nothing is raised, and the capture is lost",
        "ask outside the capture; inside, order work with events",
    ),
    (
        r"\b(float|int|bool|print)\(|\.(get|item|tolist)\(|asnumpy\(",
        "it copies to the host, which has to wait for work that is only being recorded",
        "read results after the replay",
    ),
    (
        r"ynchronize\(|\.sync\(",
        "the host would wait for work that is only being recorded",
        "synchronise before the capture, or after the replay",
    ),
    (
        r"\.launch\(|GraphLaunch\(|\.upload\(",
        "a graph cannot be launched on a stream that captures",
        "launch it outside, or make it a child node: graph.embed(other) when built by hand",
    ),
    (
        r"\b(malloc|to_device|empty|zeros|ones|full|array|arange|asarray|device_array)\w*\(",
        "it needs memory that no pool has free: cudaMalloc may wait for the device, which a capture forbids",
        "allocate before the capture, or warm up so that the pool has a block; or use cudaMallocAsync, which becomes a node",
    ),
    (
        r"\bfree\w*\(",
        "cudaFree waits for the device, which a capture forbids",
        "free before the capture or after it",
    ),
    (
        r"instantiate\(|Instantiate\(",
        "instantiating a graph may allocate, which a capture in this mode forbids",
        "instantiate before the capture, or capture in relaxed mode",
    ),
    (
        r"[-+*/%@]|\.(sum|sort|max|min|mean|copy|astype|dot|fft|random)\(|\bcp\.",
        "its result, or the library behind it, needs memory that no pool has free: cudaMalloc may wait for the device",
        "give it a place to write (out=), allocated before the capture, or call it once before, to warm up",
    ),
)


def explain_call(called: str, error: BaseException | str) -> Explanation:
    """What an error means at a call: as `explain`, with the reason that the call itself gives."""
    said = explain(error)
    if said.error == "cudaErrorStreamCaptureUnsupported":
        for pattern, why, fix in _CALLS:
            if re.search(pattern, called):
                return replace(said, happened=why, fix=fix)
    return said


def explain(error: BaseException | str | object) -> Explanation:
    """What a CUDA or capture error means: an exception of CuPy, Numba or cuda.core, a `cudaError_t`, or an error's name.

    Raises KeyError for an error that has nothing to do with CUDA, or that the course does not meet.
    """
    text = error if isinstance(error, str) else getattr(error, "name", None) or str(error)
    if not isinstance(error, str) and isinstance(error, BaseException):
        text = str(error)
    for pattern, title, *rest in _BY_MESSAGE:
        if re.search(pattern, text):
            return Explanation(title, *rest)
    bare = error_name(text)
    if bare is None:
        raise KeyError(f"no explanation for {text.splitlines()[0] if text else error!r}")
    return Explanation(f"cudaError{bare}", *_KNOWN[bare])


# The driver's own names, where they are not the runtime's spelled in the driver's way.
_DRIVER = {
    "OutOfMemory": "MemoryAllocation",
    "InvalidHandle": "InvalidResourceHandle",
    "LaunchFailed": "LaunchFailure",
    "DeviceUnavailable": "DevicesUnavailable",
}


def error_name(text: str) -> str | None:
    """The known error that a text names, without its prefix: "IllegalAddress"; None where there is none."""
    for found in re.findall(r"cudaError([A-Za-z]+)", text):
        if found in _KNOWN:
            return found
    for found in re.findall(r"CUDA_ERROR_([A-Z_]+)", text):
        camel = "".join(part.capitalize() for part in found.split("_"))
        camel = _DRIVER.get(camel, camel)
        if camel in _KNOWN:
            return camel
    return text if text in _KNOWN else None
