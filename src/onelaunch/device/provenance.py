"""Where a number comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Provenance:
    """The origin of a timing: `live` (measured here), `recorded` (read from a recording) or `modelled` (virtual clock)."""

    kind: str
    gpu: str
    driver: str
    date: str  # ISO, of the measurement or of the recording behind the model
    detail: str = ""

    def __str__(self) -> str:
        if self.kind == "modelled":
            return f"modelled · {self.detail}"
        return " · ".join(x for x in (self.kind, self.gpu, f"driver {self.driver}", self.date, self.detail) if x)
