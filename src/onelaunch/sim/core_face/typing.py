"""`cuda.core.typing`, as far as graphs go."""

from __future__ import annotations

from enum import StrEnum

from ..errors import not_simulated


class GraphConditionalType(StrEnum):
    """What a conditional node does."""

    IF = "if"
    WHILE = "while"
    SWITCH = "switch"


class GraphMemoryType(StrEnum):
    """Where an allocation node allocates."""

    DEVICE = "device"
    HOST = "host"
    MANAGED = "managed"


def __getattr__(name: str):
    raise not_simulated("cuda.core.typing", name)
