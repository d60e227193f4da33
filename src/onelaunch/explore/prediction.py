"""`predict`: commit to a number before you run, and see it beside the measured one."""

from __future__ import annotations

import html
import math
import numbers
import re
from typing import Any

import ipywidgets as widgets


class Answer:
    """A prediction beside the measured value."""

    def __init__(self, question: str, unit: str, guess: float | None, measured: float):
        self.question, self.unit, self.guess, self.measured = question, unit, guess, measured

    @property
    def ratio(self) -> float | None:
        """The measured value over the guess; None without a guess that it can be compared with."""
        return self.measured / self.guess if self.guess else None

    def __repr__(self) -> str:
        measured = f"measured: {self.measured:,.1f} {self.unit}"
        if self.guess is None:
            return f"{self.question}\nyou: no prediction yet (type one in the box above, then run this cell again)\n{measured}"
        return f"{self.question}\nyou: {self.guess:,.1f} {self.unit}\n{measured}\n{self._judgement()}"

    def _judgement(self) -> str:
        ratio = self.ratio
        if ratio is None or ratio <= 0:
            return f"off by {abs(self.measured - (self.guess or 0)):,.1f} {self.unit}"
        factor = max(ratio, 1 / ratio)
        if factor < 1.25:
            return "very close"
        return f"the measured value is {factor:,.1f} times {'larger' if ratio > 1 else 'smaller'}"

    def _repr_html_(self) -> str:
        rows = [("measured", self.measured, "#009E73")]
        if self.guess is not None:
            rows.insert(0, ("you", self.guess, "#0072B2"))
        most = max((value for _, value, _ in rows), default=0) or 1
        bars = "".join(
            f'<tr><td style="text-align:right">{name}</td><td style="text-align:left;width:360px">'
            f'<div style="background:{colour};width:{max(1, round(100 * max(value, 0) / most))}%;height:1.1em"></div></td>'
            f'<td style="text-align:left"><b>{value:,.1f} {html.escape(self.unit)}</b></td></tr>'
            for name, value, colour in rows
        )
        last = (
            "no prediction yet: type one in the box above, then run this cell again"
            if self.guess is None
            else self._judgement()
        )
        return f"<div><i>{html.escape(self.question)}</i></div><table>{bars}</table><div>{html.escape(last)}</div>"


class Prediction:
    """A question with a number box. `compare` shows what was typed beside what was measured."""

    def __init__(self, question: str, unit: str):
        self.question, self.unit = question, unit
        self.guess: float | None = None
        self._box = widgets.Text(
            description="your guess", placeholder="a number", style={"description_width": "80px"},
            layout=widgets.Layout(width="220px"), continuous_update=False,
        )  # fmt: skip
        self._commit = widgets.Button(description="commit", tooltip="fix your guess", layout=widgets.Layout(width="90px"))
        self._said = widgets.HTML()
        self._box.observe(lambda _: self._typed(), "value")  # Enter, or leaving the box
        self._commit.on_click(lambda _: self._typed())
        row = widgets.HBox([self._box, widgets.Label(unit), self._commit])
        self._widget = widgets.VBox([widgets.HTML(f"<b>{html.escape(question)}</b>"), row, self._said])

    def _typed(self) -> None:
        try:
            self.commit(self._box.value)
        except ValueError as error:
            self._said.value = f'<span role="alert" style="color:#D55E00">{html.escape(str(error))}</span>'

    def commit(self, value: float | str) -> None:
        """Fixes the guess: a number, or text such as "1500", "1,500", "1 500" or "1,5". Raises ValueError for anything else."""
        try:
            number = float(_plain(value) if isinstance(value, str) else value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"a prediction is a finite number of {self.unit}, not {value!r}")
        self.guess = number
        self._said.value = f"committed: <b>{number:,.6g} {html.escape(self.unit)}</b>. Now run on."

    def compare(self, measured: float) -> Answer:
        """The guess, if there is one, beside `measured`, in the same unit. Raises ValueError unless that is a finite number."""
        if not isinstance(measured, numbers.Real) or not math.isfinite(measured):
            raise ValueError(f"compare needs a finite number of {self.unit}, not {measured!r}")
        return Answer(self.question, self.unit, self.guess, float(measured))

    def __repr__(self) -> str:
        return f"Predict: {self.question} ({self.unit})"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = dict(self._widget._repr_mimebundle_(**kwargs) or {})
        bundle["text/plain"] = repr(self)
        return bundle


def _plain(text: str) -> str:
    """A number as somebody types it, as Python reads it: commas between groups of three go, another one is a decimal point."""
    text = re.sub(r"[\s_]", "", text)
    return text.replace(",", "" if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", text) else ".")


def predict(question: str, unit: str) -> Prediction:
    """Asks the learner for a number before the answer is measured; `.compare(measured)` shows both."""
    return Prediction(question, unit)
