"""What all explorers share: sliders with number boxes, one picture, one line of verdict, one line of provenance."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from onelaunch.charts.style import with_caption

_STYLE = {"description_width": "132px"}


class Dial:
    """One quantity with two controls: a slider and a number box that follow each other. Both work by keyboard.

    `scale` is "linear", "log2" or "log10"; `value` is the quantity itself.
    """

    def __init__(
        self, name: str, value: float, low: float, high: float, *, unit: str = "", scale: str = "linear", step: float = 1,
        whole: bool = True, continuous: bool = True,
    ):  # fmt: skip
        self.low, self.high, self._whole, self._scale = low, high, whole, scale
        self._listeners: list[Callable[[], None]] = []
        self._quiet = False
        description = f"{name}, {unit}" if unit else name
        kind = widgets.BoundedIntText if whole else widgets.BoundedFloatText
        self.box = kind(value=value, min=low, max=high, step=step, layout=widgets.Layout(width="92px"), description="")
        self.box.add_class("onelaunch-number")
        self.box.tooltip = f"{description}: type a value from {low:g} to {high:g}"
        look = {
            "description": description,
            "style": _STYLE,
            "layout": widgets.Layout(width="440px"),
            "readout": False,
            "continuous_update": continuous,
        }
        if scale == "linear":
            slider = widgets.IntSlider if whole else widgets.FloatSlider
            self.slider = slider(value=value, min=low, max=high, step=step, **look)
        else:
            base = 2 if scale == "log2" else 10
            logs = [_log(max(x, 1e-9), base) for x in (max(low, 1 if whole else low), high)]
            self.slider = widgets.FloatLogSlider(
                value=max(value, base ** logs[0]),
                base=base,
                min=logs[0],
                max=logs[1],
                step=1 if scale == "log2" else 0.05,
                **look,
            )
        self.slider.observe(self._from_slider, "value")
        self.box.observe(self._from_box, "value")

    @property
    def value(self) -> float:
        return self.box.value

    @value.setter
    def value(self, value: float) -> None:
        self.box.value = value

    @property
    def widget(self) -> widgets.HBox:
        return widgets.HBox([self.slider, self.box])

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _from_slider(self, change: dict[str, Any]) -> None:
        if self._quiet:
            return
        value = change["new"]
        self._set(self.box, round(value) if self._whole else float(f"{value:.3g}"))

    def _from_box(self, change: dict[str, Any]) -> None:
        if self._quiet:
            return
        low = self.slider.min if self._scale == "linear" else self.slider.base**self.slider.min
        self._set(self.slider, max(change["new"], low))

    def _set(self, widget: widgets.Widget, value: float) -> None:
        self._quiet = True
        try:
            widget.value = value
        finally:
            self._quiet = False
        for listener in self._listeners:
            listener()


def api_choice(apis: dict[str, str], api: str | None) -> widgets.Dropdown:
    """The choice among launch APIs (name → label); `api` None is CuPy's RawKernel. Raises ValueError for one not among them."""
    if api is None:
        api = "rawkernel"
    if api not in apis:
        raise ValueError(f"no launch API {api!r} here; there are {', '.join(apis)}")
    return widgets.Dropdown(
        options=[(label, name) for name, label in apis.items()], value=api, description="launched through",
        style=_STYLE, layout=widgets.Layout(width="440px"),
    )  # fmt: skip


def _log(x: float, base: float) -> float:
    import math

    return round(math.log(x, base), 6)


class Explorer:
    """Controls over one picture. A subclass says which controls, and what a picture of their values is.

    Displayed live it is a widget; a static viewer gets the same picture as a PNG. `verdict`, `provenance` and `text` are what
    it says in words.
    """

    name = "Explorer"

    def __init__(self, controls: list[widgets.Widget]):
        self._image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%", object_fit="contain"))
        self._words = widgets.HTML()
        self.verdict = self.provenance = self.error = ""
        self._box = widgets.VBox([*controls, self._image, self._words])
        self.redraw()

    def draw(self) -> tuple[bytes, str, str]:
        """(PNG, verdict, provenance) for the controls' values."""
        raise NotImplementedError

    def settings(self) -> str:
        """The controls' values in words."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draws again; what goes wrong is shown in the explorer, and the next move works."""
        try:
            png, self.verdict, self.provenance = self.draw()
            self._image.value, self.error = png, ""
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
        self._words.value = self._html()

    def _html(self) -> str:
        if self.error:
            return f'<div role="alert" style="color:#D55E00"><b>{html.escape(self.error)}</b></div>'
        return (
            f'<div role="status" aria-live="polite" style="font-size:115%"><b>{html.escape(self.verdict)}</b></div>'
            f'<div style="opacity:0.7">{html.escape(self.provenance)}</div>'
        )

    @property
    def text(self) -> str:
        """The explorer in words: settings, verdict, provenance (or the error)."""
        lines = [f"{self.name}: {self.settings()}", *([self.error] if self.error else [self.verdict, self.provenance])]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = dict(self._box._repr_mimebundle_(**kwargs) or {})
        picture = with_caption(self._image.value, self.error or self.verdict, self.provenance)
        bundle["image/png"] = base64.b64encode(picture).decode("ascii")
        bundle["text/plain"] = self.text
        return bundle
