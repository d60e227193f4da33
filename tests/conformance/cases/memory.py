"""Memory: CuPy's pool, addresses baked into graphs, cudaMalloc, copies and sets, pinned memory, cudaMallocAsync."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from cases._common import (
    Capture,
    cupy_mode,
    host_view,
    kind,
    make_event,
    nodes,
    pinned,
    read,
    replay,
    shape,
    status,
    succeed,
    usable,
)
from harness import case

BIG = 64 << 20  # bytes: a mapping of its own


def block(lab, nbytes: int):
    """An uninitialised CuPy array of that many bytes."""
    return lab.cp.empty(nbytes // 4, dtype=lab.cp.float32)


def counts(lab, label: str) -> None:
    """Notes the default pool's bytes used, bytes held and free blocks."""
    pool = lab.cp.get_default_memory_pool()
    lab.log(label, [pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks()])


def device_bytes(lab, ptr: int, n: int) -> list[int]:
    """The first `n` bytes there."""
    target = np.zeros(n, np.uint8)
    succeed(lab.cudart.cudaMemcpy(target.ctypes.data, ptr, n, kind(lab, "d2h")))
    return target.tolist()


def device_memory(lab, values) -> int:
    """float32 values in memory of cudaMalloc."""
    source = np.asarray(values, np.float32)
    ptr = int(succeed(lab.cudart.cudaMalloc(source.nbytes)))
    succeed(lab.cudart.cudaMemcpy(ptr, source.ctypes.data, source.nbytes, kind(lab, "h2d")))
    return ptr


# -- CuPy's pool -------------------------------------------------------------------------------------------------------

for _size in (4, 512, 1000, 1 << 20, 1 << 24):

    @case(f"memory/pool/same-size/{_size}", size=_size)
    def freed_block_comes_back(lab, size):
        a = block(lab, size)
        ptr = a.data.ptr
        counts(lab, "a")
        del a
        counts(lab, "freed")
        b = block(lab, size)
        lab.log("same block", b.data.ptr == ptr)
        counts(lab, "b")


@case("memory/pool/rounding")
def rounding(lab):
    kept = []
    for nbytes in (4, 508, 512, 516, 1024, 1028):
        kept.append(block(lab, nbytes))
        counts(lab, f"{nbytes} bytes more")
    lab.log("aligned", [a.data.ptr % 512 for a in kept])


@case("memory/pool/nothing")
def empty_array(lab):
    a = block(lab, 0)
    lab.log("pointer", a.data.ptr)
    counts(lab, "after")


@case("memory/pool/streams")
def pools_of_streams(lab):
    s, other = lab.stream(), lab.stream()
    with s:
        a = block(lab, 4096)
    ptr = a.data.ptr
    del a
    with other:
        b = block(lab, 4096)
        lab.log("on another stream", b.data.ptr == ptr)
    c = block(lab, 4096)
    lab.log("on the default stream", c.data.ptr == ptr)
    with s:
        d = block(lab, 4096)
        lab.log("on the same stream", d.data.ptr == ptr)
    counts(lab, "after")


@case("memory/pool/freed-under-another-stream")
def freed_under_another_stream(lab):
    s, other = lab.stream(), lab.stream()
    with s:
        a = block(lab, 4096)
    ptr = a.data.ptr
    with other:
        del a
        b = block(lab, 4096)
        lab.log("to the stream it was freed under", b.data.ptr == ptr)
    with s:
        c = block(lab, 4096)
        lab.log("to the stream it was made for", c.data.ptr == ptr)


@case("memory/pool/split")
def split(lab):
    a = block(lab, 4096)
    ptr = a.data.ptr
    del a
    parts = []
    for nbytes in (1024, 512, 2000, 512, 512):
        parts.append(block(lab, nbytes))
        lab.log(f"offset of {nbytes}", parts[-1].data.ptr - ptr if 0 <= parts[-1].data.ptr - ptr < 4096 else "elsewhere")
        counts(lab, f"after {nbytes}")


@case("memory/pool/merge")
def merge(lab):
    a = block(lab, 4096)
    ptr = a.data.ptr
    del a
    parts = [block(lab, 1024) for _ in range(4)]
    counts(lab, "split")
    for i in (0, 2, 1, 3):
        parts[i] = None
        counts(lab, f"freed {i}")
    b = block(lab, 4096)
    lab.log("whole again", b.data.ptr == ptr)


@case("memory/pool/best-fit")
def best_fit(lab):
    sizes = (8192, 2048, 4096)
    arrays = [block(lab, size) for size in sizes]
    names = {a.data.ptr: size for a, size in zip(arrays, sizes, strict=True)}
    arrays.clear()
    for nbytes in (1536, 4096, 3000, 9000):
        arrays.append(block(lab, nbytes))
        lab.log(f"{nbytes} from", names.get(arrays[-1].data.ptr, "elsewhere"))
    counts(lab, "after")


@case("memory/pool/free-all-blocks")
def free_all_blocks(lab):
    pool = lab.cp.get_default_memory_pool()
    a, b = block(lab, 4096), block(lab, 8192)
    del a
    counts(lab, "one freed")
    pool.free_all_blocks()
    counts(lab, "given back")
    del b
    pool.free_all_blocks()
    counts(lab, "all given back")


@case("memory/pool/free-all-blocks-split")
def free_all_blocks_of_a_split_one(lab):
    pool = lab.cp.get_default_memory_pool()
    a = block(lab, 4096)
    del a
    b = block(lab, 1024)
    pool.free_all_blocks()
    counts(lab, "a part in use")
    del b
    pool.free_all_blocks()
    counts(lab, "none in use")


@case("memory/pool/free-all-blocks-of-a-stream")
def free_all_blocks_of_a_stream(lab):
    pool, s = lab.cp.get_default_memory_pool(), lab.stream()
    a = block(lab, 4096)
    with s:
        b = block(lab, 8192)
    del a, b
    pool.free_all_blocks(stream=s)
    counts(lab, "that of the stream given back")
    pool.free_all_blocks()
    counts(lab, "all given back")


@case("memory/pool/view-keeps-the-block")
def view_keeps_the_block(lab):
    a = block(lab, 4096)
    ptr, view = a.data.ptr, a[2:]
    lab.log("offset of the view", view.data.ptr - ptr)
    del a
    counts(lab, "the view is left")
    del view
    counts(lab, "nothing is left")


@case("memory/pool/limit")
def pool_limit(lab):
    pool = lab.cp.get_default_memory_pool()
    pool.set_limit(size=1 << 20)
    lab.log("limit", pool.get_limit())
    a = lab.attempt("within", block, lab, 1 << 19)
    lab.attempt("beyond", block, lab, 1 << 20)
    del a
    lab.attempt("within, after a free", lambda: block(lab, 1 << 20).nbytes, show=True)
    counts(lab, "after")


@case("memory/pool/out-of-memory")
def out_of_memory(lab):
    a = block(lab, 4096)
    lab.attempt("too much", block, lab, 1 << 50)
    counts(lab, "after")
    usable(lab, lab.stream())
    lab.log("still there", a.nbytes)


@case("memory/pool/rebinding")
def rebinding(lab):
    a = lab.zeros(256)
    ptr = a.data.ptr
    a = lab.zeros(256)  # the new one is made before the old one goes
    lab.log("same block", a.data.ptr == ptr)
    a = lab.zeros(256)
    lab.log("and back", a.data.ptr == ptr)


# -- addresses baked into graphs ---------------------------------------------------------------------------------------


def captured_add(lab, s, x, value: float = 1.0):
    """A CuPy graph that adds to x[0]; holds nothing of `x`."""
    lab.warm("add")
    s.begin_capture(cupy_mode(lab, "global"))
    try:
        lab.launch("add", s, x, value)
    finally:
        graph = s.end_capture()
    return graph


def play(s, graph) -> None:
    """One replay, waited for."""
    graph.launch(s)
    s.synchronize()


@case("memory/baked/same-size-takes-the-block")
def baked_into_the_next_array(lab):
    s, a = lab.stream(), lab.zeros(1000)
    graph = captured_add(lab, s, a)
    play(s, graph)
    read(lab, "a", a)
    ptr = a.data.ptr
    del a
    b = lab.zeros(1000)
    lab.log("same block", b.data.ptr == ptr)
    play(s, graph)
    read(lab, "b", b)


@case("memory/baked/rebound-during-capture")
def rebound_during_capture(lab):
    lab.warm("add")
    s, a = lab.stream(), lab.zeros(1000)
    s.begin_capture(cupy_mode(lab, "relaxed"))
    lab.launch("add", s, a, 1.0)
    old, a = a, lab.cp.zeros(1000, dtype=lab.cp.float32)  # on the legacy stream: not captured
    lab.launch("add", s, a, 10.0)
    graph = s.end_capture()
    play(s, graph)
    play(s, graph)
    read(lab, "old", old)
    read(lab, "a", a)


@case("memory/baked/graph-holds-nothing")
def graph_holds_nothing(lab):
    s, a = lab.stream(), lab.zeros(1 << 20)
    graph = captured_add(lab, s, a)
    before = lab.cp.get_default_memory_pool().used_bytes()
    nbytes = a.nbytes
    del a
    lab.log("given back", before - lab.cp.get_default_memory_pool().used_bytes() == nbytes)
    lab.log("nodes", len(nodes(lab, graph)))


@case("memory/baked/temporary-of-the-capture")
def temporary_of_the_capture(lab):
    s, x = lab.stream(), lab.zeros(1000)
    with s:
        s.begin_capture(cupy_mode(lab, "relaxed"))
        y = x + 3
        ptr = y.data.ptr
        del y
        graph = s.end_capture()
        z = lab.cp.zeros(1000, dtype=lab.cp.float32)
        lab.log("same block", z.data.ptr == ptr)
        play(s, graph)
    read(lab, "z", z, 3)


@case("memory/baked/new-array-new-values")
def values_are_read_at_the_replay(lab):
    s, a, b = lab.stream(), lab.zeros(4), lab.zeros(4)
    lab.warm("copy")
    with Capture(lab, s) as capture:
        lab.launch("copy", s, a, b)
    executable = succeed(lab.cudart.cudaGraphInstantiate(capture.graph, 0))
    for value in (3.0, 4.0):
        b.set(np.full(4, value, np.float32))
        lab.rt("cudaDeviceSynchronize")
        lab.rt("cudaGraphLaunch", executable, s.ptr)
        read(lab, "a", a)


@case("memory/baked/small-freed")
def small_block_freed(lab):
    s = lab.stream()
    p, neighbour = device_memory(lab, [0, 0]), device_memory(lab, [5, 5])
    graph = captured_add(lab, s, p)
    lab.rt("cudaFree", p)
    lab.attempt("replay", play, s, graph)
    lab.log("neighbour", host_floats(lab, neighbour, 2))
    usable(lab, s)


def host_floats(lab, ptr: int, n: int) -> list[float]:
    """The first `n` floats there."""
    target = np.zeros(n, np.float32)
    succeed(lab.cudart.cudaMemcpy(target.ctypes.data, ptr, 4 * n, kind(lab, "d2h")))
    return target.tolist()


def kill_context(lab, s) -> None:
    """Replays a graph into a big block that was freed."""
    p = int(succeed(lab.cudart.cudaMalloc(BIG)))
    succeed(lab.cudart.cudaMemset(p, 0, BIG))
    graph = captured_add(lab, s, p)
    play(s, graph)
    lab.log("while it is there", host_floats(lab, p, 1))
    lab.rt("cudaFree", p)
    lab.attempt("replay", graph.launch, s)
    lab.rt("cudaStreamSynchronize", s.ptr)


DEAD: dict[str, Callable] = {
    "synchronize": lambda lab, k: lab.rt("cudaDeviceSynchronize"),
    "stream-synchronize": lambda lab, k: lab.rt("cudaStreamSynchronize", k["s"].ptr),
    "query": lambda lab, k: lab.rt("cudaStreamQuery", k["s"].ptr),
    "query-another": lambda lab, k: lab.rt("cudaStreamQuery", k["other"].ptr),
    "malloc": lambda lab, k: lab.rt("cudaMalloc", 1024),
    "free": lambda lab, k: lab.rt("cudaFree", k["p"]),
    "free-null": lambda lab, k: lab.rt("cudaFree", 0),
    "host-alloc": lambda lab, k: lab.rt("cudaHostAlloc", 1024, 0),
    "memset": lambda lab, k: lab.rt("cudaMemset", k["p"], 0, 8),
    "memcpy": lambda lab, k: lab.rt("cudaMemcpy", k["host"].ctypes.data, k["p"], 8, kind(lab, "d2h")),
    "stream-create": lambda lab, k: lab.rt("cudaStreamCreate"),
    "event-create": lambda lab, k: lab.rt("cudaEventCreate"),
    "event-record": lambda lab, k: lab.rt("cudaEventRecord", k["event"], k["s"].ptr),
    "event-query": lambda lab, k: lab.rt("cudaEventQuery", k["event"]),
    "wait-event": lambda lab, k: lab.rt("cudaStreamWaitEvent", k["s"].ptr, k["event"], 0),
    "begin-capture": lambda lab, k: lab.rt("cudaStreamBeginCapture", k["s"].ptr, k["mode"]),
    "is-capturing": lambda lab, k: status(lab, k["s"]),
    "graph-create": lambda lab, k: lab.rt("cudaGraphCreate", 0),
    "last-error": lambda lab, k: [lab.rt("cudaPeekAtLastError"), lab.rt("cudaGetLastError"), lab.rt("cudaGetLastError")],
    "get-device": lambda lab, k: lab.rt("cudaGetDevice"),
    "set-device": lambda lab, k: lab.rt("cudaSetDevice", 0),
    "mem-get-info": lambda lab, k: lab.rt("cudaMemGetInfo"),
    "cupy-empty": lambda lab, k: lab.attempt("empty", lab.cp.empty, 1 << 20, dtype=lab.cp.float32),
    "cupy-get": lambda lab, k: lab.attempt("get", k["x"].get),
    "cupy-synchronize": lambda lab, k: lab.attempt("synchronize", k["s"].synchronize),
    "cupy-device-synchronize": lambda lab, k: lab.attempt("synchronize", lab.cp.cuda.Device().synchronize),
    "cupy-done": lambda lab, k: lab.attempt("done", lambda: k["s"].done, show=True),
    "cupy-begin": lambda lab, k: lab.attempt("begin", k["s"].begin_capture),
    "cupy-stream": lambda lab, k: lab.attempt("stream", lab.cp.cuda.Stream, non_blocking=True),
    "numba-launch": lambda lab, k: lab.attempt("launch", lab.launch, "add", k["s"], k["x"], 1.0),
    "numba-synchronize": lambda lab, k: lab.attempt("synchronize", lab.cuda.synchronize),
    "numba-to-device": lambda lab, k: lab.attempt("to device", lab.cuda.to_device, k["host"]),
}
"""Calls in a context that an illegal address has killed."""

for _call in DEAD:

    @case(f"memory/dead-context/{_call}", call=_call)
    def call_in_a_dead_context(lab, call):
        s, other, x = lab.stream(), lab.stream(), lab.zeros(4)
        k = {"s": s, "other": other, "x": x, "p": device_memory(lab, [1, 2]), "host": np.zeros(2, np.float32)}
        k |= {"event": make_event(lab), "mode": lab.cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal}
        kill_context(lab, s)
        DEAD[call](lab, k)
        lab.rt("cudaDeviceSynchronize", label="later")


@case("memory/dead-context/by-a-kernel")
def killed_by_a_kernel(lab):
    s = lab.stream()
    lab.warm("add")
    lab.attempt("launch", lab.launch, "add", s, 0, 1.0)  # a null pointer
    lab.attempt("synchronize", s.synchronize)
    lab.attempt("launch again", lab.launch, "add", s, 0, 1.0)
    lab.rt("cudaDeviceSynchronize")


@case("memory/dead-context/reset")
def reset_a_dead_context(lab):
    """Through the runtime alone: CuPy and Numba do not know that their handles are gone."""
    rt, s = lab.cudart, lab.stream()
    kill_context(lab, s)
    lab.rt("cudaDeviceReset")
    lab.rt("cudaGetLastError")
    pointer = lab.rt("cudaMalloc", 1024)
    if pointer is None:
        return
    lab.rt("cudaMemset", pointer, 7, 1024)
    host = np.zeros(4, np.uint8)
    lab.rt("cudaMemcpy", host.ctypes.data, pointer, 4, rt.cudaMemcpyKind.cudaMemcpyDeviceToHost)
    lab.log("bytes", host)
    lab.rt("cudaDeviceSynchronize")


@case("memory/dead-context/misaligned")
def killed_by_a_misaligned_address(lab):
    s, x = lab.stream(), lab.zeros(4)
    lab.warm("add")
    lab.attempt("launch", lab.launch, "add", s, x.data.ptr + 2, 1.0)
    lab.rt("cudaStreamSynchronize", s.ptr)
    lab.rt("cudaDeviceSynchronize")


# -- cudaMalloc and cudaFree -------------------------------------------------------------------------------------------


@case("memory/malloc/small-blocks")
def small_blocks(lab):
    ptrs = [int(lab.rt("cudaMalloc", n)) for n in (1, 4, 100, 256, 257, 511, 512, 513, 1024)]
    lab.log("aligned to 256", [p % 256 for p in ptrs])
    lab.log("distinct", len(set(ptrs)))
    lab.log("apart", all(b - a >= 256 for a, b in itertools.pairwise(sorted(ptrs))))
    for i, p in enumerate(ptrs):
        lab.rt("cudaMemset", p, i, 1)
    lab.log("each its own", [device_bytes(lab, p, 1)[0] for p in ptrs])


@case("memory/malloc/nothing")
def malloc_nothing(lab):
    ptr = lab.rt("cudaMalloc", 0)
    lab.log("null", not int(ptr or 0))


for _name, _nbytes in {"1-PiB": 1 << 50, "1-TiB": 1 << 40, "2-64-less-1": (1 << 64) - 1}.items():

    @case(f"memory/malloc/out-of-memory/{_name}", nbytes=_nbytes)
    def malloc_too_much(lab, nbytes):
        lab.rt("cudaMalloc", nbytes)
        lab.rt("cudaMallocAsync", nbytes, lab.stream().ptr)
        lab.attempt("cupy", lab.cp.cuda.runtime.malloc, nbytes)
        lab.rt("cudaMalloc", 1024, label="a small one")
        lab.rt("cudaDeviceSynchronize")


@case("memory/malloc/out-of-memory/host")
def host_alloc_too_much(lab):
    lab.rt("cudaHostAlloc", 1 << 50, 0)
    lab.rt("cudaHostAlloc", 1024, 0, label="a small one")


def _kit(lab) -> dict:
    """Pointers of every kind."""
    small, big = int(succeed(lab.cudart.cudaMalloc(1024))), int(succeed(lab.cudart.cudaMalloc(BIG)))
    array = np.zeros(4, np.float32)
    pooled = int(succeed(lab.cudart.cudaMallocAsync(1024, 0)))
    lab.cp.cuda.Device().synchronize()
    return {
        "null": 0, "wild": 0xDEAD0000, "small": small, "big": big, "inside-small": small + 256, "inside-big": big + 4096,
        "pinned": pinned(lab)[0], "pageable": array.ctypes.data, "pooled": pooled, "array": array,
    }  # fmt: skip


for _name in ("null", "wild", "small", "big", "inside-small", "inside-big", "pinned", "pageable", "pooled"):

    @case(f"memory/free/{_name}", what=_name)
    def free_pointer(lab, what):
        kit = _kit(lab)
        lab.rt("cudaFree", kit[what])
        lab.rt("cudaFree", kit[what], label="again")
        usable(lab, lab.stream())

    @case(f"memory/free-host/{_name}", what=_name)
    def free_host_pointer(lab, what):
        kit = _kit(lab)
        lab.rt("cudaFreeHost", kit[what])
        lab.rt("cudaFreeHost", kit[what], label="again")
        usable(lab, lab.stream())

    @case(f"memory/free-async/{_name}", what=_name)
    def free_async_pointer(lab, what):
        kit, s = _kit(lab), lab.stream()
        lab.rt("cudaFreeAsync", kit[what], s.ptr)
        lab.rt("cudaStreamSynchronize", s.ptr)
        usable(lab, s)

    @case(f"memory/attributes/{_name}", what=_name)
    def pointer_attributes(lab, what):
        kit = _kit(lab)
        attributes = lab.rt("cudaPointerGetAttributes", kit[what])
        if attributes is not None:
            lab.log("type", attributes.type.name)


@case("memory/free/reuse")
def freed_memory_is_reused(lab):
    p = int(lab.rt("cudaMalloc", BIG))
    lab.rt("cudaFree", p)
    q = int(lab.rt("cudaMalloc", BIG))
    lab.rt("cudaMemset", q, 1, 16)
    lab.log("usable", device_bytes(lab, q, 2))


@case("memory/free/waits-for-the-device")
def free_waits(lab):
    lab.warm("nap")
    s, x = lab.stream(), lab.zeros()
    p = int(lab.rt("cudaMalloc", BIG))
    for _ in range(40):
        lab.launch("nap", s, x, 1.0)
    lab.rt("cudaFree", p)
    lab.rt("cudaStreamQuery", s.ptr)
    lab.rt("cudaStreamSynchronize", s.ptr)


# -- copies and sets ---------------------------------------------------------------------------------------------------

PLACES = ("device", "pinned", "pageable")
TRUE_KIND = {p: "d" if p == "device" else "h" for p in PLACES}


def place(lab, where: str, values) -> tuple[int, Callable[[], list]]:
    """Memory with those floats there: the address, and how to read it (which keeps it, too)."""
    values = np.asarray(values, np.float32)
    if where == "device":
        ptr = device_memory(lab, values)
        return ptr, lambda: host_floats(lab, ptr, values.size)
    if where == "pinned":
        ptr, view = pinned(lab, values.size)
        view[:] = values
        return ptr, view.tolist
    array = values.copy()
    return array.ctypes.data, array.tolist


for _source in PLACES:
    for _target in PLACES:
        for _how in ("true", "default"):

            @case(f"memory/memcpy/{_source}-to-{_target}/{_how}", source=_source, target=_target, how=_how)
            def memcpy(lab, source, target, how):
                s = lab.stream()
                (src, unchanged), (dst, result) = place(lab, source, [1, 2, 3, 4]), place(lab, target, [9, 9, 9, 9])
                direction = kind(lab, f"{TRUE_KIND[source]}2{TRUE_KIND[target]}" if how == "true" else "default")
                lab.rt("cudaMemcpy", dst, src, 8, direction)
                lab.log("half", result())
                lab.rt("cudaMemcpyAsync", dst + 8, src, 8, direction, s.ptr)
                lab.rt("cudaStreamSynchronize", s.ptr)
                lab.log("again", result())
                lab.log("source", unchanged())


MEMCPY_ERRORS: dict[str, tuple] = {
    "nothing": ("small", "other", 0),
    "nothing-from-null": ("small", "null", 0),
    "nothing-to-null": ("null", "small", 0),
    "from-null": ("small", "null", 16),
    "to-null": ("null", "small", 16),
    "from-wild": ("small", "wild", 16),
    "to-wild": ("wild", "small", 16),
    "to-itself": ("small", "small", 16),
    "past-the-end": ("small", "big", 1 << 22),
    "freed": ("small", "freed", 16),
}
"""(to, from, bytes) of a device-to-device copy."""

for _name, (_to, _from, _nbytes) in MEMCPY_ERRORS.items():

    @case(f"memory/memcpy/error/{_name}", to=_to, source=_from, nbytes=_nbytes)
    def memcpy_error(lab, to, source, nbytes):
        s, rt = lab.stream(), lab.cudart
        kit = {"null": 0, "wild": 0xDEAD0000, "small": device_memory(lab, [1] * 8), "other": device_memory(lab, [2] * 8)}
        kit |= {name: int(succeed(rt.cudaMalloc(BIG))) for name in ("big", "freed")}
        succeed(rt.cudaFree(kit["freed"]))
        lab.rt("cudaMemcpy", kit[to], kit[source], nbytes, kind(lab, "d2d"))
        lab.rt("cudaMemcpyAsync", kit[to], kit[source], nbytes, kind(lab, "d2d"), s.ptr)
        lab.rt("cudaStreamSynchronize", s.ptr)
        with Capture(lab, s):
            lab.rt("cudaMemcpyAsync", kit[to], kit[source], nbytes, kind(lab, "d2d"), s.ptr)
            status(lab, s)
        lab.rt("cudaDeviceSynchronize")


@case("memory/memcpy/part")
def memcpy_part(lab):
    source, target = device_memory(lab, range(8)), device_memory(lab, [0] * 8)
    lab.rt("cudaMemcpy", target + 8, source + 16, 12, kind(lab, "d2d"))
    lab.log("target", host_floats(lab, target, 8))


for _value in (0, 1, 0x7F, 0xFF, 0x100, 0x1FF, -1):

    @case(f"memory/memset/value/{_value}", value=_value)
    def memset_value(lab, value):
        s, p = lab.stream(), device_memory(lab, [1, 2, 3, 4])
        lab.rt("cudaMemset", p, value, 3)
        lab.log("bytes", device_bytes(lab, p, 8))
        lab.rt("cudaMemsetAsync", p + 4, value, 2, s.ptr)
        lab.rt("cudaStreamSynchronize", s.ptr)
        lab.log("bytes", device_bytes(lab, p, 8))


MEMSET_2D: dict[str, tuple[int, int, int]] = {
    "columns": (8, 3, 4),
    "whole-rows": (8, 8, 3),
    "one-row": (8, 5, 1),
    "no-width": (8, 0, 4),
    "no-height": (8, 3, 0),
    "wider-than-the-pitch": (8, 9, 2),
}
"""name → (pitch, width, height) in bytes."""

for _name, (_pitch, _width, _height) in MEMSET_2D.items():

    @case(f"memory/memset/2d/{_name}", pitch=_pitch, width=_width, height=_height)
    def memset_2d(lab, pitch, width, height):
        s, p = lab.stream(), device_memory(lab, [0] * 8)
        lab.rt("cudaMemset2D", p, pitch, 7, width, height)
        lab.log("bytes", device_bytes(lab, p, 32))
        succeed(lab.cudart.cudaMemset(p, 0, 32))
        with Capture(lab, s) as capture:
            lab.rt("cudaMemset2DAsync", p, pitch, 7, width, height, s.ptr)
        if capture.graph is not None:
            replay(lab, capture.graph, s)
        lab.log("bytes of a replay", device_bytes(lab, p, 32))


@case("memory/memset/errors")
def memset_errors(lab):
    p = device_memory(lab, [1, 2])
    for label, ptr, n in (("nothing", p, 0), ("null", 0, 4), ("nothing at null", 0, 0), ("wild", 0xDEAD0000, 4)):
        lab.rt("cudaMemset", ptr, 0, n, label=label)
    lab.log("floats", host_floats(lab, p, 2))


# -- pinned memory -----------------------------------------------------------------------------------------------------

for _name, _flags in {"default": 0, "portable": 1, "mapped": 2, "write-combined": 4}.items():

    @case(f"memory/pinned/host-alloc/{_name}", flags=_flags)
    def host_alloc(lab, flags):
        lab.warm("add")
        s, address = lab.stream(), int(lab.rt("cudaHostAlloc", 16, flags))
        view = host_view(address, 4)
        view[:] = 1
        lab.launch("add", s, address, 2.0)
        lab.rt("cudaStreamSynchronize", s.ptr)
        lab.log("host", view)
        lab.log("same address", int(lab.rt("cudaHostGetDevicePointer", address, 0)) == address)
        lab.rt("cudaFreeHost", address)


@case("memory/pinned/malloc-host")
def malloc_host(lab):
    address = int(lab.rt("cudaMallocHost", 16))
    host_view(address, 4)[:] = 3
    p = device_memory(lab, [0] * 4)
    lab.rt("cudaMemcpy", p, address, 16, kind(lab, "h2d"))
    lab.log("device", host_floats(lab, p, 4))
    lab.rt("cudaFreeHost", address)


@case("memory/pinned/cupy")
def cupy_pinned(lab):
    s, a = lab.stream(), lab.zeros(4)
    memory = lab.cp.cuda.alloc_pinned_memory(16)
    host = np.frombuffer(memory, np.float32, 4)
    host[:] = [1, 2, 3, 4]
    a.set(host, stream=s)
    s.synchronize()
    lab.log("device", a.get())
    host[:] = 0
    a.get(stream=s, out=host)
    lab.log("host", host)
    lab.log("type", lab.rt("cudaPointerGetAttributes", memory.ptr).type.name)


@case("memory/pinned/host-read-at-the-replay")
def pinned_source_of_a_graph(lab):
    s, (address, host), p = lab.stream(), pinned(lab), device_memory(lab, [0] * 4)
    with Capture(lab, s) as capture:
        lab.rt("cudaMemcpyAsync", p, address, 16, kind(lab, "h2d"), s.ptr)
    executable = succeed(lab.cudart.cudaGraphInstantiate(capture.graph, 0))
    for value in (1, 2):
        host[:] = value
        lab.rt("cudaGraphLaunch", executable, s.ptr)
        lab.rt("cudaStreamSynchronize", s.ptr)
        lab.log("device", host_floats(lab, p, 4))


@case("memory/pageable/host-read-at-the-replay")
def pageable_source_of_a_graph(lab):
    s, host, p = lab.stream(), np.ones(4, np.float32), device_memory(lab, [0] * 4)
    with Capture(lab, s) as capture:
        lab.rt("cudaMemcpyAsync", p, host.ctypes.data, 16, kind(lab, "h2d"), s.ptr)
    executable = succeed(lab.cudart.cudaGraphInstantiate(capture.graph, 0))
    for value in (5, 6):
        host[:] = value
        lab.rt("cudaGraphLaunch", executable, s.ptr)
        lab.rt("cudaStreamSynchronize", s.ptr)
        lab.log("device", host_floats(lab, p, 4))


@case("memory/pageable/target-of-a-graph")
def pageable_target_of_a_graph(lab):
    s, host, p = lab.stream(), np.zeros(4, np.float32), device_memory(lab, [1, 2, 3, 4])
    with Capture(lab, s) as capture:
        lab.rt("cudaMemcpyAsync", host.ctypes.data, p, 16, kind(lab, "d2h"), s.ptr)
    lab.log("captured only", host)
    replay(lab, capture.graph, s)
    lab.log("replayed", host)


# -- cudaMallocAsync ---------------------------------------------------------------------------------------------------


@case("memory/malloc-async/outside")
def malloc_async_outside(lab):
    lab.warm("add", "copy")
    s, x = lab.stream(), lab.zeros()
    p = int(lab.rt("cudaMallocAsync", 1024, s.ptr))
    lab.rt("cudaMemsetAsync", p, 0, 1024, s.ptr)
    lab.launch("add", s, p, 3.0)
    lab.launch("copy", s, x, p)
    lab.rt("cudaFreeAsync", p, s.ptr)
    lab.rt("cudaStreamSynchronize", s.ptr)
    read(lab, "x", x)


@case("memory/malloc-async/nothing")
def malloc_async_nothing(lab):
    s = lab.stream()
    ptr = lab.rt("cudaMallocAsync", 0, s.ptr)
    lab.log("null", not int(ptr or 0))


@case("memory/malloc-async/freed-by-cudaFree")
def malloc_async_freed_by_free(lab):
    s = lab.stream()
    p = int(lab.rt("cudaMallocAsync", 1024, s.ptr))
    lab.rt("cudaStreamSynchronize", s.ptr)
    lab.rt("cudaFree", p)
    lab.rt("cudaFreeAsync", p, s.ptr)


@case("memory/malloc-async/cupy")
def cupy_malloc_async(lab):
    s, runtime = lab.stream(), lab.cp.cuda.runtime
    p = runtime.mallocAsync(1024, s.ptr)
    runtime.memsetAsync(p, 1, 16, s.ptr)
    s.synchronize()
    lab.log("bytes", device_bytes(lab, p, 2))
    lab.attempt("free", runtime.freeAsync, p, s.ptr)
    s.synchronize()


def capture_allocation(lab, s, x, free: bool):
    """A graph that allocates, fills with 2.0, adds to it, copies to x[0], and perhaps frees; and the address."""
    with Capture(lab, s) as capture:
        p = int(lab.rt("cudaMallocAsync", 1024, s.ptr))
        lab.rt("cudaMemsetAsync", p, 0, 1024, s.ptr)
        lab.launch("add", s, p, 2.0)
        lab.launch("copy", s, x, p)
        if free:
            lab.rt("cudaFreeAsync", p, s.ptr)
    return capture.graph, p


@case("memory/malloc-async/captured")
def malloc_async_captured(lab):
    lab.warm("add", "copy")
    s, x = lab.stream(), lab.zeros()
    graph, _ = capture_allocation(lab, s, x, free=True)
    replay(lab, graph, s, 3)
    read(lab, "x", x)
    lab.rt("cudaGraphInstantiate", graph, 0, label="a second executable graph")
    lab.rt("cudaGraphClone", graph, label="clone")


for _name, _flags in {"plain": 0, "auto-free": 1}.items():

    @case(f"memory/malloc-async/captured-unfreed/{_name}", flags=_flags)
    def malloc_async_captured_unfreed(lab, flags):
        lab.warm("add", "copy")
        s, x = lab.stream(), lab.zeros()
        graph, p = capture_allocation(lab, s, x, free=False)
        executable = lab.rt("cudaGraphInstantiate", graph, flags)
        for label in ("first launch", "second launch"):
            lab.rt("cudaGraphLaunch", executable, s.ptr, label=label)
            lab.rt("cudaStreamSynchronize", s.ptr)
        lab.log("what it left", host_floats(lab, p, 1))
        lab.rt("cudaFreeAsync", p, s.ptr)
        lab.rt("cudaGraphLaunch", executable, s.ptr, label="launch after a free")
        lab.rt("cudaStreamSynchronize", s.ptr)
        lab.rt("cudaFree", p)
        lab.rt("cudaGraphLaunch", executable, s.ptr, label="launch after cudaFree")
        lab.rt("cudaStreamSynchronize", s.ptr)


@case("memory/malloc-async/freed-before-the-launch")
def graph_allocation_freed_before_the_launch(lab):
    lab.warm("add", "copy")
    s, x = lab.stream(), lab.zeros()
    graph, p = capture_allocation(lab, s, x, free=False)
    lab.rt("cudaFreeAsync", p, s.ptr)
    lab.rt("cudaGraphInstantiate", graph, 0)
    usable(lab, s)


@case("memory/malloc-async/freed-twice-in-capture")
def freed_twice_in_capture(lab):
    s = lab.stream()
    with Capture(lab, s):
        p = int(lab.rt("cudaMallocAsync", 1024, s.ptr))
        lab.rt("cudaFreeAsync", p, s.ptr)
        lab.rt("cudaFreeAsync", p, s.ptr, label="free again")
        status(lab, s)


@case("memory/malloc-async/freed-in-another-graph")
def freed_in_another_graph(lab):
    lab.warm("add", "copy")
    s, x = lab.stream(), lab.zeros()
    graph, p = capture_allocation(lab, s, x, free=False)
    with Capture(lab, s) as freeing:
        lab.rt("cudaFreeAsync", p, s.ptr)
        status(lab, s)
    first = lab.rt("cudaGraphInstantiate", graph, 0)
    second = lab.rt("cudaGraphInstantiate", freeing.graph, 0) if freeing.graph is not None else None
    for _ in range(2):
        lab.rt("cudaGraphLaunch", first, s.ptr, label="allocate")
        if second is not None:
            lab.rt("cudaGraphLaunch", second, s.ptr, label="free")
    lab.rt("cudaStreamSynchronize", s.ptr)
    read(lab, "x", x)


@case("memory/malloc-async/outside-pointer-freed-in-capture")
def outside_pointer_freed_in_capture(lab):
    s = lab.stream()
    p = int(lab.rt("cudaMallocAsync", 1024, s.ptr))
    lab.rt("cudaStreamSynchronize", s.ptr)
    with Capture(lab, s):
        lab.rt("cudaFreeAsync", p, s.ptr)
        status(lab, s)
    lab.rt("cudaFreeAsync", p, s.ptr, label="free afterwards")
    lab.rt("cudaStreamSynchronize", s.ptr)


@case("memory/malloc-async/addresses-in-one-capture")
def two_allocations_in_a_capture(lab):
    s = lab.stream()
    with Capture(lab, s):
        a, b = int(lab.rt("cudaMallocAsync", 1024, s.ptr)), int(lab.rt("cudaMallocAsync", 1024, s.ptr))
        lab.log("distinct while both live", a != b)
        lab.rt("cudaFreeAsync", a, s.ptr)
        lab.rt("cudaFreeAsync", b, s.ptr)


# -- arrays of CuPy in and out of captures -----------------------------------------------------------------------------


def _fill(lab, a):
    a.fill(5)


def _write_element(lab, a):
    a[0] = 5


def _write_array(lab, a):
    a[...] = lab.cp.ones(4, dtype=lab.cp.float32)


ARRAYS: dict[str, Callable] = {
    "get": lambda lab, a: a.get(),
    "asnumpy": lambda lab, a: lab.cp.asnumpy(a),
    "set": lambda lab, a: a.set(np.ones(4, np.float32)),
    "asarray": lambda lab, a: lab.cp.asarray(np.ones(4, np.float32)),
    "item": lambda lab, a: a[1].item(),
    "bool": lambda lab, a: bool(a[0] == 0),
    "fill": _fill,
    "write-element": _write_element,
    "write-array": _write_array,
    "zeros": lambda lab, a: lab.cp.zeros(4, dtype=lab.cp.float32),
    "empty": lambda lab, a: lab.cp.empty(4, dtype=lab.cp.float32),
    "copy": lambda lab, a: a.copy(),
    "add": lambda lab, a: a + 1,
    "view": lambda lab, a: a[1:],
}
"""What is done with an array `a` of four zeros, on the capturing stream."""

for _name in ARRAYS:
    for _mode in ("global", "relaxed"):
        for _warm in (True, False):

            @case(f"memory/array/in-capture/{_mode}/{'warm' if _warm else 'cold'}/{_name}", use=_name, mode=_mode, warm=_warm)
            def array_in_capture(lab, use, mode, warm):
                s, a = lab.stream(), lab.zeros(4)
                with s:
                    if warm:
                        ARRAYS[use](lab, a)
                        s.synchronize()
                    s.begin_capture(cupy_mode(lab, mode))
                    graph = None
                    try:
                        kept = lab.attempt("operation", ARRAYS[use], lab, a)
                        lab.log("gives", type(kept).__name__)
                        lab.attempt("is capturing", s.is_capturing, show=True)
                    finally:
                        graph = lab.attempt("end", s.end_capture)
                if graph is not None:
                    lab.log("graph", shape(lab, graph))
                usable(lab, s)

    @case(f"memory/array/outside/{_name}", use=_name)
    def array_outside(lab, use):
        s, a = lab.stream(), lab.zeros(4)
        with s:
            result = lab.attempt("operation", ARRAYS[use], lab, a)
            s.synchronize()
            if use != "empty" and result is not None:
                lab.log("gives", result.get() if hasattr(result, "get") else result)
        read(lab, "a", a, 4)


@case("memory/array/get-after-a-replay")
def get_after_a_replay(lab):
    lab.warm("nap")
    s, a = lab.stream(), lab.zeros(4)
    s.begin_capture(cupy_mode(lab, "global"))
    lab.launch("nap", s, a, 1.0)
    graph = s.end_capture()
    with s:
        for _ in range(2):
            graph.launch(s)
            lab.log("get waits", a.get())
            graph.launch()
            lab.log("float waits", float(a[0]))
    graph.launch(s)
    lab.log("asnumpy on that stream waits", lab.cp.asnumpy(a, stream=s))


@case("memory/array/set-then-replay")
def set_then_replay(lab):
    lab.warm("add")
    s, a = lab.stream(), lab.zeros(4)
    graph = captured_add(lab, s, a)
    with s:
        for value in (1.0, 5.0):
            a.set(np.full(4, value, np.float32))
            graph.launch(s)
            lab.log("a", a.get())
