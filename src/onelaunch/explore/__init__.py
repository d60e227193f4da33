"""Sliders over pictures: move one, see it happen."""

from .launch import decode_budget, launch_overhead, loop_or_graph, who_pays
from .prediction import predict

__all__ = ["decode_budget", "launch_overhead", "loop_or_graph", "predict", "who_pays"]
