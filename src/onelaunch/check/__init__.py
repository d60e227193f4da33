"""Lab checks: verdicts that teach."""

from . import lab01
from .verdict import Verdict

__all__ = ["Verdict", "lab01"]
