"""Slider to pixels, in JupyterLab in headless Chromium: the explorer, plain `interact`, and the floors of both."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .browser import Notebook, browser_page, jupyterlab, press

MOVES = 24

CELLS = {
    "explorer": """
import onelaunch as ol
ol.explore.launch_overhead(launches=64)
""",
    # The same figure of the same data, made and shown the usual way: a function that plots, and `interact`.
    "interact": """
%matplotlib inline
import ipywidgets as widgets
from IPython.display import display
from onelaunch.charts.launch_overhead import LaunchOverheadChart
hidden = ol.explore.launch_overhead(launches=64)
hidden.kernel_us._listeners.clear()

def show(us):
    hidden.kernel_us.value = us
    chart = LaunchOverheadChart()
    chart.prepare(hidden.view())
    display(chart.figure)

slider = widgets.FloatLogSlider(value=1, min=-0.3, max=2.7, step=0.05, description="kernel, µs")
widgets.interact(show, us=slider)
None
""",
    "interact, one figure kept": """
kept = LaunchOverheadChart()

def show_kept(us):
    hidden.kernel_us.value = us
    kept.prepare(hidden.view())
    display(kept.figure)

kept_slider = widgets.FloatLogSlider(value=1, min=-0.3, max=2.7, step=0.05, description="kernel, µs")
widgets.interact(show_kept, us=kept_slider)
None
""",
    "bare HTML widget": """
html_slider, html = widgets.IntSlider(0, 0, 100), widgets.HTML("<b>0</b>")
html_slider.observe(lambda change: setattr(html, "value", f"<b>{change['new']}</b>"), "value")
widgets.VBox([html_slider, html])
""",
    "bare Image widget": """
other = ol.explore.launch_overhead(launches=128)
pictures = hidden._image.value, other._image.value
image_slider, image = widgets.IntSlider(0, 0, 100), widgets.Image(value=pictures[0], format="png")
image_slider.observe(lambda change: setattr(image, "value", pictures[change["new"] % 2]), "value")
widgets.VBox([image_slider, image])
""",
}
WATCHED = {
    "explorer": (1, "img"),
    "interact": (0, ".jp-RenderedImage img"),
    "interact, one figure kept": (0, ".jp-RenderedImage img"),
    "bare HTML widget": (0, ".widget-html-content b"),
    "bare Image widget": (0, "img"),
}


@dataclass(frozen=True)
class SliderTimes:
    """Milliseconds from key press to pixels for each variant: the median, and the IQR."""

    median_ms: dict[str, float]
    iqr_ms: dict[str, float]

    @property
    def speed_up(self) -> float:
        """How much faster than `interact` the explorer is."""
        return self.median_ms["interact"] / self.median_ms["explorer"]


def measure_slider(moves: int = MOVES) -> SliderTimes:
    """Opens one notebook with every variant, and moves each slider `moves` times. Needs Chromium and playwright."""
    import nbformat

    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source.strip()) for source in CELLS.values()],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    taken: dict[str, list[float]] = {name: [] for name in CELLS}
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(notebook, Path(folder) / "slider.ipynb")
        with jupyterlab(Path(folder)) as address, browser_page() as page:
            opened = Notebook(page, address, "slider.ipynb")
            opened.run_all()
            if errors := opened.errors():
                raise RuntimeError("the slider notebook failed: " + errors[0])
            for name in CELLS:
                slider, watched = WATCHED[name]
                cell = list(CELLS).index(name)
                for _ in range(3):  # warms up
                    press(page, cell, slider, watched)
            # The variants take turns, so that a slow moment of the machine falls on all of them.
            for i in range(moves):
                for name in CELLS:
                    slider, watched = WATCHED[name]
                    key = "ArrowRight" if i // 8 % 2 == 0 else "ArrowLeft"
                    taken[name].append(press(page, list(CELLS).index(name), slider, watched, key))
    quartiles = {name: statistics.quantiles(values, n=4) for name, values in taken.items()}
    return SliderTimes({n: q[1] for n, q in quartiles.items()}, {n: q[2] - q[0] for n, q in quartiles.items()})
