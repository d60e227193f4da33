"""Sliders over pictures: move one, see it happen."""

from .branches import branches
from .launch import decode_budget, launch_overhead, loop_or_graph, who_pays
from .pointers import memory_map
from .prediction import predict
from .saving import break_even, speed_up

__all__ = [
    "branches",
    "break_even",
    "decode_budget",
    "launch_overhead",
    "loop_or_graph",
    "memory_map",
    "predict",
    "speed_up",
    "who_pays",
]
