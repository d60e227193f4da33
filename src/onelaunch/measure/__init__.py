"""Timings: of a function (`measure`), of whole sweeps (`record`), and the recordings and models made of them."""

from .recording import Point, Recording, RecordingError
from .timing import Stat, Timing, measure

__all__ = ["Point", "Recording", "RecordingError", "Stat", "Timing", "measure"]
