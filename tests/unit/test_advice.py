"""`explain` and `should_i_graph`: every error of the course is explained, and the advice can be a no."""

from __future__ import annotations

import re

import pytest

from onelaunch.instruments.advice import should_i_graph
from onelaunch.instruments.explain import error_name, explain
from onelaunch.sim import cudart_face as cudart
from onelaunch.sim.errors import RUNTIME_ERRORS, CudaAPIError, CUDAError, CUDARuntimeError, OutOfMemoryError, driver_name

PLAIN = {  # errors that say all there is to say
    "cudaErrorInvalidConfiguration", "cudaErrorInvalidDevice", "cudaErrorInvalidDeviceFunction", "cudaErrorOperatingSystem",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(RUNTIME_ERRORS) - PLAIN))
def test_every_error_is_explained_however_it_is_given(name):
    said = explain(name)
    assert said.error == name
    assert said.happened
    assert said.causes
    assert said.fix
    assert said.section
    driver = driver_name(name)
    given = [
        CUDARuntimeError(name), CUDAError(name), CudaAPIError(f"[1] Call to cuSomething results in {driver}"),
        cudart.cudaError_t[name], driver, f"{name}: {RUNTIME_ERRORS[name][1]}",
    ]  # fmt: skip
    assert all(explain(error) == said for error in given)
    assert name in repr(said)
    assert name in said._repr_html_()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("the current stream is capturing, so D2H transfers are disallowed", "copy before the capture"),
        ("the stream was capturing, but an error has invalidated the capture sequence", "first illegal call"),
        ("calling cuBLAS API during stream capture is currently unsupported", "before the capture"),
        (
            "_MemPool cannot perform memory operations on a capturing stream (consider using GraphMemoryResource).",
            "device array",
        ),
        ("NumPy only supports stream=None.", "device array"),
        ("cannot capture on the default (legacy) stream", "non_blocking=True"),
    ],
)
def test_what_the_libraries_say_is_explained(message, words):
    assert words in explain(RuntimeError(message)).fix


def test_out_of_memory_is_explained():
    assert "free_all_blocks" in explain(OutOfMemoryError(10, 20)).fix


@pytest.mark.parametrize("other", [ValueError("a value"), "nonsense", cudart.cudaError_t.cudaSuccess, ""])
def test_other_errors_are_not(other):
    with pytest.raises(KeyError, match="no explanation"):
        explain(other)


def test_names_are_found_in_both_spellings():
    assert error_name("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: …") == "StreamCaptureInvalidated"
    assert error_name("Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY") == "MemoryAllocation"


@pytest.mark.parametrize(
    ("launches", "busy", "wall", "worth", "words"),
    [
        (
            512,
            600,
            2600,
            True,
            "yes: the GPU idles 77 % of the time, 3.9 µs for each launch; a graph can be up to 4.3× as fast",
        ),
        (512, 51_200, 51_300, False, "no: the GPU idles 0 % of the time, so the kernels set the pace"),
        (1, 1, 10, False, "no: a single launch is a single call already"),
        (10, 85, 100, False, "hardly: the GPU idles 15 % of the time; a graph can be 1.18× as fast at the most"),
        (8, 300, 100, False, "no: the GPU idles 0 % of the time"),  # kernels of several streams overlap
        (10, 0, 100, True, "yes: the GPU idles 100 % of the time"),
    ],
)
def test_the_advice(launches, busy, wall, worth, words):
    advice = should_i_graph(launches, busy, wall)
    assert advice.worth_it is worth
    assert advice.verdict.startswith(words)
    assert re.search(rf"{launches:,} launches", repr(advice))


def test_the_ceiling_is_the_bound():
    advice = should_i_graph(100, 250, 1000)
    assert (advice.ceiling, advice.saving_us, advice.busy_share) == (4.0, 750.0, 0.25)


@pytest.mark.parametrize("bad", [(0, 1, 1), (1.5, 1, 1), (2, -1, 1), (2, 1, 0), (2, float("nan"), 1), (2, "x", 1)])
def test_nonsense_is_refused(bad):
    with pytest.raises(ValueError, match=r"launches is a count|is a time in µs|took any time"):
        should_i_graph(*bad)
