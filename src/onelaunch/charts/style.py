"""One look for every chart: colours by role, fonts, and fast drawing into a PNG."""

from __future__ import annotations

import io
import textwrap
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from PIL import Image

# Okabe and Ito's colour-blind-safe palette, each colour with one role in the whole course.
HOST = "#D55E00"  # vermilion: what the host does
DEVICE = "#009E73"  # green: what the GPU does
GRAPH = "#0072B2"  # blue: a graph, and its launch
RECORDED = "#999999"
INK = "#222222"
QUIET = "#6b6b6b"
IDLE_FACE, IDLE_EDGE = "#f3f3f3", "#bdbdbd"  # hatched grey: nothing to do

DPI = 100
FONT = 10.5


def new_figure(width_px: int, height_px: int) -> Figure:
    """A white figure of that many pixels, with an Agg canvas and the course's fonts."""
    figure = Figure(figsize=(width_px / DPI, height_px / DPI), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def style_axes(axes: Axes, *, x: str = "", y: str = "", grid: bool = False) -> Axes:
    """Quiet axes: two spines, small ticks, labels in the course's font."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(IDLE_EDGE)
    axes.tick_params(labelsize=FONT - 1.5, colors=INK, length=3, color=IDLE_EDGE)
    axes.set_xlabel(x, fontsize=FONT - 0.5, color=INK)
    axes.set_ylabel(y, fontsize=FONT - 0.5, color=INK)
    if grid:
        axes.grid(True, which="major", color="#ececec", linewidth=0.8)
        axes.set_axisbelow(True)
    return axes


def lane_axes(figure: Figure, place: tuple[float, float, float, float], x: str, low: float, high: float, **style: Any) -> Axes:
    """Axes for rows of blocks or bars: no scale on the left, rows between the heights `low` and `high`."""
    axes = style_axes(figure.add_axes(place), x=x, **style)
    axes.set_ylim(low, high)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return axes


def row_name(axes: Axes, y: float, text: str, x: float = -0.01, **look: Any) -> Text:
    """Names a row, to the left of the axes (`x` in widths of the axes, `y` a height in the data)."""
    look = {"ha": "right", "va": "center", "fontsize": FONT, **look}
    return axes.text(x, y, text, transform=axes.get_yaxis_transform(), **look)


def title(figure: Figure, y: float) -> Text:
    """The figure's title, still empty, at height `y`."""
    return figure.text(0.015, y, "", fontsize=FONT + 2, weight="bold", color=INK, va="center")


def idle_background(axes: Axes, y: float, height: float) -> Rectangle:
    """Hatched grey across the whole width: time in which nothing happens."""
    patch = Rectangle(
        (0, y),
        1,
        height,
        facecolor=IDLE_FACE,
        edgecolor=IDLE_EDGE,
        hatch="////",
        linewidth=0,
        transform=axes.get_yaxis_transform(),
    )
    axes.add_patch(patch)
    return patch


class Lane:
    """A row of blocks on a time axis, redrawn by `set`."""

    def __init__(self, axes: Axes, y: float, height: float, colour: str):
        self._axes, self._y, self._height = axes, y, height
        self.artist = PolyCollection([], facecolors=colour, edgecolors="white", linewidths=0.6)
        axes.add_collection(self.artist, autolim=False)

    def set(self, spans: Sequence[tuple[float, float]]) -> None:
        """Shows the blocks from start to end, in the units of the axis; blocks too thin for an outline get none."""
        low, high = self._y, self._y + self._height
        per_px = np.ptp(self._axes.get_xlim()) / self._axes.bbox.width
        thinnest = min((b - a for a, b in spans), default=0.0) / per_px
        self.artist.set_linewidth(0.6 if thinnest > 5 else 0.0)
        least = 1.5 * per_px  # whatever is there can be seen
        self.artist.set_verts([[(a, low), (max(b, a + least), low), (max(b, a + least), high), (a, high)] for a, b in spans])


class Canvas:
    """A figure that is drawn again and again, as a stack of bitmaps: what never changes, `axes` on it, `moving` on top.

    `axes` (artists that change with the limits of an axis) are drawn once for each `key`, a few keys kept; `moving` each time.
    """

    KEPT = 12  # bitmaps of about 2 MB

    def __init__(self, figure: Figure, axes: Sequence[Artist], moving: Sequence[Artist]):
        self.figure = figure
        self._axes, self._moving = axes, moving
        for artist in (*axes, *moving):
            artist.set_animated(True)
        self._base = None
        self._with_axes: OrderedDict[Hashable, Any] = OrderedDict()

    def png(self, key: Hashable = None) -> bytes:
        """The figure as a PNG. `key` names the limits of the axes."""
        return encode(self.rgba(key))

    def rgba(self, key: Hashable = None) -> np.ndarray:
        """The figure as an image (height × width × 4, uint8), to be used before the next one is drawn."""
        canvas = self.figure.canvas
        if self._base is None:
            canvas.draw()
            self._base = canvas.copy_from_bbox(self.figure.bbox)
        if key in self._with_axes:
            canvas.restore_region(self._with_axes[key])
            self._with_axes.move_to_end(key)
        else:
            canvas.restore_region(self._base)
            self._draw(self._axes)
            self._with_axes[key] = canvas.copy_from_bbox(self.figure.bbox)
            while len(self._with_axes) > self.KEPT:
                self._with_axes.popitem(last=False)
        self._draw(self._moving)
        return np.asarray(canvas.buffer_rgba())

    def _draw(self, artists: Sequence[Artist]) -> None:
        renderer = self.figure.canvas.get_renderer()
        for artist in artists:
            artist.draw(renderer)


def rgba(figure: Figure) -> np.ndarray:
    """The figure as an image: height × width × 4, uint8."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())


def png(figure: Figure) -> bytes:
    """The figure as a PNG."""
    return encode(rgba(figure))


def encode(rgba: np.ndarray) -> bytes:
    """A PNG of an RGBA image, encoded for speed rather than size."""
    image = (
        Image.fromarray(rgba).convert("RGB").quantize(colors=128, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    )
    out = io.BytesIO()
    image.save(out, format="PNG", compress_level=1)
    return out.getvalue()


def with_caption(png: bytes, verdict: str, provenance: str) -> bytes:
    """The picture with two lines of text below it, for viewers that show nothing but the picture."""
    picture = np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))
    _height, width = picture.shape[:2]
    lines = [*textwrap.wrap(verdict, width // 9), *textwrap.wrap(provenance, width // 8)]
    strong = len(textwrap.wrap(verdict, width // 9))
    caption = new_figure(width, 10 + 21 * len(lines))
    for i, line in enumerate(lines):
        weight, colour = ("bold", INK) if i < strong else ("normal", QUIET)
        y = 1 - (14 + 21 * i) / (10 + 21 * len(lines))
        caption.text(0.015, y, line, fontsize=FONT, weight=weight, color=colour, va="center")
    caption.canvas.draw()
    return encode(np.vstack([picture, np.asarray(caption.canvas.buffer_rgba())]))


def microseconds(us: float) -> str:
    """A duration in words that fit its size: 4.2 µs, 512 µs, 2.56 ms, 1.20 s."""
    if us >= 999_995:
        return f"{us / 1e6:.2f} s"
    if us >= 999.5:
        return f"{us / 1000:.2f} ms"
    if us >= 99.95:
        return f"{us:.0f} µs"
    return f"{us:.1f} µs"


def decade(us: float) -> str:
    """A tick of a logarithmic axis of times: 10 µs, 1 ms, 100 s."""
    if us >= 1e6:
        return f"{us / 1e6:,.10g} s"
    if us >= 1e3:
        return f"{us / 1e3:g} ms"
    return f"{us:g} µs"


def nice_ceiling(value: float) -> float:
    """The smallest round number that is not below `value`."""
    value = max(value, 1e-3)
    decade = 10.0 ** np.floor(np.log10(value))
    steps = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return float(next(step * decade for step in steps if step * decade >= value * (1 - 1e-9)))
