"""What the classes of `cuda.core` share: errors of the driver, checks of arguments as Cython makes them, handles."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator

from ..cudart_face.types import Handle
from ..errors import CUDAError, CUDARuntimeError, NotSimulatedError, Partial


class CUstream(Handle):
    __slots__ = ()


class CUevent(Handle):
    __slots__ = ()


class CUkernel(Handle):
    __slots__ = ()


class CUgraph(Handle):
    __slots__ = ()


class CUgraphNode(Handle):
    __slots__ = ()


class CUgraphExec(Handle):
    __slots__ = ()


@contextlib.contextmanager
def driver_call() -> Iterator[None]:
    """What the runtime would return inside is raised as cuda.core raises it."""
    try:
        yield
    except CUDARuntimeError as error:
        raise CUDAError(error.name) from error


def type_name(kind: type) -> str:
    """A class as the messages of compiled code name it: with its module if it is compiled itself."""
    if issubclass(kind, CoreObject):
        return kind._compiled
    if kind.__module__ in ("numpy", "ctypes"):
        return f"{kind.__module__}.{kind.__name__}"
    return getattr(kind, "_type_name", kind.__name__)


def require(name: str, value: object, kind: type, *, optional: bool = False) -> None:
    """Raises TypeError, as Cython does, unless the argument `name` is a `kind` (or, with `optional`, None)."""
    if not isinstance(value, kind) and not (optional and value is None):
        raise TypeError(f"Argument {name!r} has incorrect type (expected {type_name(kind)}, got {type_name(type(value))})")


def c_integer(value, bits: int = 64, name: str = "size_t", signed_name: str = "unsigned long") -> int:
    """`value` as an unsigned C integer: TypeError, or OverflowError."""
    if not hasattr(type(value), "__int__"):
        raise TypeError("an integer is required")
    number = int(value)
    if number < 0:
        raise OverflowError(f"can't convert negative value to {name}")
    if number >> 64:
        raise OverflowError(f"Python int too large to convert to C {signed_name}")
    if number >> bits:
        raise OverflowError(f"value too large to convert to {name}")
    return number


def options_of(kind: type, options: object, description: str):
    """Options given as an object, as a dict, or not at all."""
    if options is None:
        return kind()
    if isinstance(options, dict):
        return kind(**options)
    if not isinstance(options, kind):
        raise TypeError(
            f"The {description} must be provided as an object of type {kind.__name__} or as a dict with valid {description}. "
            f"The provided object is '{options}'."
        )
    return options


def checked(function: Callable, *, method: bool = False) -> Callable:
    """Refuses a call with the wrong arguments in the words of compiled code."""
    kinds = inspect.Parameter
    parameters = list(inspect.signature(function).parameters.values())[method:]
    positional = [p for p in parameters if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    least = sum(p.default is kinds.empty for p in positional)
    most = None if any(p.kind is kinds.VAR_POSITIONAL for p in parameters) else len(positional)
    keywords = {p.name for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
    needed = [p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY and p.default is kinds.empty]
    name = function.__name__

    @functools.wraps(function)
    def call(*args, **kwargs):
        own, args = args[:method], args[method:]
        given = len(args) + sum(p.name in kwargs for p in positional[len(args) :])
        if given < least or (most is not None and given > most):
            bound = "exactly" if least == most else "at least" if given < least else "at most"
            expected = least if given < least else most
            raise TypeError(f"{name}() takes {bound} {expected} positional argument{'s' * (expected != 1)} ({len(args)} given)")
        for keyword in kwargs:
            if keyword not in keywords:
                raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}")
        for keyword in needed:
            if keyword not in kwargs:
                raise TypeError(f"{name}() needs keyword-only argument {keyword}")
        return function(*own, *args, **kwargs)

    return call


class CoreObject(Partial):
    """A compiled class of cuda.core: `_compiled` is its full name, `_missing` names what the simulated device lacks of it."""

    _compiled = ""
    _missing: frozenset[str] = frozenset()

    def __init_subclass__(cls, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        for name, member in list(vars(cls).items()):
            if inspect.isfunction(member) and not name.startswith("_"):
                setattr(cls, name, checked(member, method=True))

    def __getattr__(self, name: str):
        if name in self._missing:
            raise NotSimulatedError(f"{self._library}.{name}")
        raise AttributeError(f"'{self._compiled}' object has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            member = getattr(type(self), name, None)
            if not isinstance(member, property):
                raise AttributeError(f"'{self._compiled}' object has no attribute {name!r}")
            if member.fset is None:
                raise AttributeError(f"attribute {name!r} of '{self._compiled}' objects is not writable")
        object.__setattr__(self, name, value)
