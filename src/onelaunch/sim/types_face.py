"""`numba.types` of the simulated device: the scalar types, pointers and signatures that a kernel declares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import not_simulated

__all__ = ["CPointer", "float32", "float64", "int32", "int64", "uint32", "uint64", "void"]


@dataclass(frozen=True)
class Signature:
    return_type: Scalar
    args: tuple

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.args))}) -> {self.return_type!r}"


@dataclass(frozen=True)
class Scalar:
    """A scalar type; calling one makes a signature, as in Numba."""

    name: str

    def __call__(self, *args) -> Signature:
        return Signature(self, args)

    def __repr__(self) -> str:
        return self.name

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.name)


@dataclass(frozen=True)
class CPointer:
    """A pointer to `dtype` in device memory: one 8-byte kernel parameter."""

    dtype: Scalar

    def __repr__(self) -> str:
        return f"{self.dtype!r}*"


void = Scalar("void")
int32, int64, uint32, uint64 = Scalar("int32"), Scalar("int64"), Scalar("uint32"), Scalar("uint64")
float32, float64 = Scalar("float32"), Scalar("float64")


def __getattr__(name: str):
    raise not_simulated("types", name)
