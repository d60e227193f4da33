"""The yardstick of `kernels.cu`, written in Python for Numba. Imported on a live GPU only."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import cuda, types
from numba.cuda.extending import intrinsic


def _special_register(name: str):
    """A device function that reads a 64-bit PTX special register (PTX ISA, Special Registers)."""

    @intrinsic
    def read(typingctx):
        def codegen(context, builder, signature, arguments):
            assembly = ir.InlineAsm(ir.FunctionType(ir.IntType(64), []), f"mov.u64 $0, %{name};", "=l", side_effect=True)
            return builder.call(assembly, [])

        return types.int64(), codegen

    return read


clock64 = _special_register("clock64")
globaltimer = _special_register("globaltimer")


@cuda.jit(device=True)
def stay_busy(cycles):
    if cycles:
        start = clock64()
        while clock64() - start < cycles:
            pass


def work(x):
    cycles = x[1]
    x[0] += 1
    stay_busy(cycles)


def work_stamped(x):
    begin = globaltimer()
    cycles = x[1]
    i = x[0]
    x[0] = i + np.int64(1)
    stay_busy(cycles)
    x[4 + 2 * i] = begin
    x[5 + 2 * i] = globaltimer()


def array_kernels() -> tuple:
    """(plain, stamped), taking an array; typed at the first launch, as a learner's kernels are."""
    return cuda.jit(work), cuda.jit(work_stamped)


def pointer_kernels() -> tuple:
    """(plain, stamped), taking a bare pointer."""
    signature = types.void(types.CPointer(types.int64))
    return cuda.jit(signature)(work), cuda.jit(signature)(work_stamped)
