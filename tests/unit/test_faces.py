"""The faces of the simulated device: what the libraries' calls return and refuse there."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from onelaunch.sim import core_face as core
from onelaunch.sim import cudart_face as cudart
from onelaunch.sim import cupy_face as cp
from onelaunch.sim import numba_face as cuda
from onelaunch.sim import time_face as time
from onelaunch.sim import types_face as types
from onelaunch.sim.errors import CudaAPIError, CUDAError, NotSimulatedError, driver_name


@cuda.jit
def add_one(x):
    x[0] += 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: cp.linalg, "cupy.linalg"),
        (lambda: cp.RawKernel, "cupy.RawKernel"),
        (lambda: cp.cuda.UnownedMemory, "cupy.cuda.UnownedMemory"),
        (lambda: cuda.shfl_sync, "numba.cuda.shfl_sync"),
        (lambda: cuda.shared.matrix, "numba.cuda.shared.matrix"),
        (lambda: time.strftime, "time.strftime"),
        (lambda: cp.cuda.Stream().attach, "cupy.cuda.Stream.attach"),
        (lambda: cp.cuda.Event(interprocess=True), "cupy.cuda.Event(interprocess=True)"),
        (lambda: cp.zeros(3).dot, "cupy.ndarray.dot"),
        (lambda: cuda.to_device([1]).split, "numba.cuda.DeviceNDArray.split"),
        (lambda: cp.zeros(3)[[0, 1]], "cupy.ndarray indexing"),
        (lambda: cp.zeros(3).sum(axis=0), "cupy.ndarray.sum(axis=…)"),
        (lambda: cp.cuda.runtime.memcpyPeer, "cupy.cuda.runtime.memcpyPeer"),
        (lambda: cuda.atomic.xor, "numba.cuda.atomic.xor"),
        (lambda: cudart.cudaIpcOpenMemHandle, "cuda.bindings.runtime.cudaIpcOpenMemHandle"),
        (lambda: core.Program, "cuda.core.Program"),
    ],
)
def test_what_is_not_simulated_names_the_call_and_the_list(gpu, call, name):
    with pytest.raises(NotSimulatedError, match=r"docs/simulated_device\.md") as caught:
        call()
    assert name in str(caught.value)


def test_a_raw_kernel_points_to_numba():
    with pytest.raises(NotSimulatedError, match=r"numba's cuda\.jit"):
        cp.RawKernel  # noqa: B018


@pytest.mark.parametrize(
    ("launch", "error", "message"),
    [
        (lambda k, a: k[1](a), TypeError, r"object of type 'int' has no len"),
        (lambda k, a: k(a), ValueError, "launch configuration"),
        (lambda k, a: k[0, 1](a), ValueError, r"LaunchConfig\.grid values must be >= 1 \(got \(0, 1, 1\)\)"),
        (lambda k, a: k[1, 1025](a), CUDAError, "CUDA_ERROR_INVALID_VALUE"),
        (lambda k, a: k[-1, 1](a), ValueError, r"LaunchConfig\.grid values must be >= 1"),
        (lambda k, a: k[1, 1](), TypeError, "takes 1 arguments, 0 given"),
        (lambda k, a: k["1", 1](a), TypeError, r"griddim must be a sequence of integers, got \['1'\]"),
        (lambda k, a: k[1, 1, 12345](a), TypeError, "Expected a Stream object, .*, or 0, got int"),
        (lambda k, a: k[1, 1, cp.cuda.Stream()](a), TypeError, r"cuda\.external_stream\(s\.ptr\)"),
        (lambda k, a: k[1, 1, cuda.external_stream(12345)](a), CUDAError, "CUDA_ERROR_INVALID_HANDLE"),
    ],
)
def test_a_wrong_launch_is_refused(gpu, launch, error, message):
    x = cp.zeros(1)
    with pytest.raises(error, match=message):
        launch(add_one, cuda.as_cuda_array(x))


def test_arrays_do_not_mix_with_host_arrays(gpu):
    with pytest.raises(TypeError, match="Unsupported type"):
        cp.zeros(3) + np.ones(3)
    with pytest.raises(TypeError, match="Implicit conversion to a NumPy array is not allowed"):
        np.asarray(cp.zeros(3))


# -- arrays -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def m(gpu):
    """A 3 × 4 array of the numbers from 0 to 11."""
    return cp.arange(12, dtype=cp.float32).reshape(3, 4)


def test_views_share_memory(m):
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view in (lambda a: a.T[1, 2], lambda a: a.T[1:, ::2], lambda a: a[1], lambda a: a[..., 2], lambda a: a[-1, None, -1]):
        assert np.array_equal(view(m).get(), view(host))
    m.T[1, 2] = 100
    assert float(m[2, 1]) == 100
    assert m[1:].data.ptr == m.data.ptr + 16


def test_empty_arrays_have_no_address(gpu):
    empty = cp.zeros(0)
    assert (empty.data.ptr, empty.nbytes) == (0, 0)
    assert empty.ravel().get().tolist() == []
    assert (empty + 1).get().tolist() == []


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda a: a + 1, np.add),
        (lambda a: a - 1, np.subtract),
        (lambda a: a * 1, np.multiply),
        (lambda a: a / 1, np.true_divide),
        (lambda a: a // 1, np.floor_divide),
        (lambda a: a % 1, np.remainder),
        (lambda a: a**1, np.power),
    ],
)
def test_operators_compute(gpu, call, expected):
    a = cp.arange(5, dtype=cp.int32)
    got = call(a).get()
    want = expected(np.arange(5, dtype=np.int32), 1)
    assert got.tolist() == want.tolist()
    assert got.dtype == want.dtype


def test_a_division_by_zero_says_nothing(gpu, recwarn):
    assert np.isinf((cp.ones(2) / cp.zeros(2)).get()).all()
    assert not recwarn.list


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: cp.add(a, a, out=cp.zeros(5)), ValueError, "Out shape is mismatched"),
        (lambda a: cp.add(a, 0.5, out=a), TypeError, "Cannot cast output operand from dtype.*'same_kind'"),
        (lambda a: a.__setitem__(slice(None), np.zeros(4)), ValueError, "non-scalar numpy.ndarray cannot be used for fill"),
        (lambda a: a.set(np.zeros(4)), TypeError, "float64 array cannot be set to int64 array"),
        (lambda a: a.set(np.zeros(5, np.int64)), ValueError, "Shape mismatch"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_call(gpu, call, error, message):
    with pytest.raises(error, match=message):
        call(cp.arange(4, dtype=cp.int64))


def test_a_full_device_is_out_of_memory(gpu):
    with pytest.raises(cp.cuda.memory.OutOfMemoryError, match="Out of memory allocating"):
        cp.empty(2**40)
    with pytest.raises(CudaAPIError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        cuda.device_array(2**40)


def test_a_copy_while_capturing_is_refused_and_harmless(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        x = cp.zeros(3)
        stream.begin_capture()
        with pytest.raises(RuntimeError, match="is capturing, so D2H transfers are disallowed"):
            x.get()
        with pytest.raises(RuntimeError, match="is capturing, so H2D transfers are disallowed"):
            x.set(np.ones(3))
        stream.end_capture()


# -- Numba ------------------------------------------------------------------------------------------------------------


def test_numba_copies_become_nodes_in_a_capture(gpu):
    """What such a copy hands back is stale: only a replay fills it."""
    stream = cp.cuda.Stream(non_blocking=True)
    on_stream = cuda.external_stream(stream.ptr)
    device, host = cuda.to_device(np.full(3, 7.0)), np.zeros(3)
    stream.begin_capture()
    device.copy_to_host(host, on_stream)
    graph = stream.end_capture()
    assert host.tolist() == [0, 0, 0]
    graph.launch(stream)
    stream.synchronize()
    assert host.tolist() == [7, 7, 7]


def test_numba_arrays_must_fit(gpu):
    device = cuda.to_device(np.zeros(3))
    for wrong in (np.zeros(4), np.zeros(3, np.float32)):
        with pytest.raises(ValueError, match="incompatible shape or dtype"):
            device.copy_to_host(wrong)


def test_numba_frees_in_batches_and_not_under_defer_cleanup(gpu):
    size = 4 * 1024**2
    with cuda.defer_cleanup():
        for _ in range(20):
            cuda.device_array(size, np.uint8)
        assert gpu.memory.mapped == 20 * size
    for _ in range(2):
        cuda.device_array(size, np.uint8)
    assert gpu.memory.mapped <= 2 * size


def test_numba_cannot_allocate_in_a_global_capture(gpu):
    stream = cp.cuda.Stream(non_blocking=True)
    stream.begin_capture(cp.cuda.runtime.streamCaptureModeGlobal)
    with pytest.raises(CudaAPIError, match="Call to cuMemAlloc results in CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        cuda.to_device(np.zeros(3))


@pytest.mark.parametrize(
    ("mode", "error", "message"),
    [
        ("Global", CUDAError, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
        ("Relaxed", RuntimeError, "_MemPool cannot perform memory"),
    ],
)
def test_a_host_array_is_no_argument_in_a_capture(gpu, mode, error, message):
    stream = cp.cuda.Stream(non_blocking=True)
    stream.begin_capture(getattr(cp.cuda.runtime, f"streamCaptureMode{mode}"))
    with pytest.raises(error, match=message):
        add_one[1, 1, cuda.external_stream(stream.ptr)](np.zeros(1))


def test_a_numba_stream_ends_with_its_last_reference(gpu):
    own = cuda.stream()
    handle = own.handle
    assert handle in gpu.streams
    del own
    assert handle not in gpu.streams


def test_a_kernel_keeps_a_bounded_number_of_configurations(gpu):
    @cuda.jit
    def kernel(x):
        pass

    x = cuda.to_device(np.zeros(1))
    for i in range(1, 1000):
        kernel[i, 1](x)
    assert len(kernel._configured) <= 128


@pytest.mark.parametrize(
    ("runtime", "driver"),
    [
        ("cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    ],
)
def test_driver_names(runtime, driver):
    assert driver_name(runtime) == driver


def test_threads_of_a_block_meet_at_barriers(gpu):
    @cuda.jit
    def total(x, out):
        part = cuda.shared.array(64, types.float32)
        t = cuda.threadIdx.x
        part[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        n = 32
        while n:
            if t < n:
                part[t] += part[t + n]
            cuda.syncthreads()
            n //= 2
        if t == 0:
            out[cuda.blockIdx.x] = part[0]

    out = cp.zeros(3, dtype=cp.float32)
    total[3, 64](cp.arange(192, dtype=cp.float32), out)
    cp.cuda.Device().synchronize()
    assert out.tolist() == [float(sum(range(64 * k, 64 * k + 64))) for k in range(3)]


def test_an_error_behind_a_barrier_reaches_the_host_and_ends_the_other_threads(gpu):
    @cuda.jit
    def fails(x):
        cuda.syncthreads()
        if cuda.threadIdx.x == 3:
            raise ZeroDivisionError("mine")
        cuda.syncthreads()

    before = threading.active_count()
    fails[1, 8](cp.zeros(1))
    with pytest.raises(ZeroDivisionError, match="mine"):
        cp.cuda.Device().synchronize()
    assert threading.active_count() == before


def test_shared_memory_is_new_in_each_block_and_dynamic_memory_has_the_launch_size(gpu):
    @cuda.jit
    def look(out):
        own, rest = cuda.shared.array(2, types.int32), cuda.shared.array(0, types.int32)
        out[2 * cuda.blockIdx.x] = own[0]
        own[0] = 5
        out[2 * cuda.blockIdx.x + 1] = len(rest)

    out = cp.zeros(4, dtype=cp.int32)
    look[2, 1, 0, 24](out)
    cp.cuda.Device().synchronize()
    assert out.tolist() == [-1, 6, -1, 6]


def test_local_arrays_belong_to_one_thread(gpu):
    @cuda.jit
    def mine(out):
        own = cuda.local.array((2, 2), types.float64)
        own[1, 1] = cuda.grid(1)
        cuda.syncthreads()
        out[cuda.grid(1)] = own[1, 1]

    out = cp.zeros(8)
    mine[2, 4](out)
    cp.cuda.Device().synchronize()
    assert out.tolist() == list(range(8))
