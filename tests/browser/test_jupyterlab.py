"""Chapter 01 in a real JupyterLab in a real browser."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from onelaunch.bench.browser import Notebook, browser_page, find_chromium, jupyterlab, press

ROOT = Path(__file__).parents[2]
NOTEBOOK = "01_launch_overhead.ipynb"
VERDICT = '[role="status"]'

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", autouse=True)
def chromium():
    """Skips without a browser; where ONELAUNCH_REQUIRE_BROWSER is set (CI), a missing one is a failure."""
    if find_chromium() is None:
        if os.environ.get("ONELAUNCH_REQUIRE_BROWSER"):
            pytest.fail("no Chromium, and ONELAUNCH_REQUIRE_BROWSER is set")
        pytest.skip("no Chromium on this machine")
    pytest.importorskip("playwright")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A JupyterLab over a copy of the course, so that saving changes nothing here."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("notebooks", "labs"):
        shutil.copytree(ROOT / name, folder / name)
    with jupyterlab(folder) as url:
        yield url


@pytest.fixture
def page():
    with browser_page() as page:
        yield page


def explorer_cell(page) -> int:
    """Which code cell shows the launch overhead explorer."""
    sources = page.eval_on_selector_all(".jp-CodeCell .jp-InputArea", "all => all.map(e => e.textContent)")
    return next(i for i, source in enumerate(sources) if "ol.explore.launch_overhead()" in source)


def test_the_slider_moves_the_picture_and_the_verdict(page, address):
    page.set_viewport_size({"width": 1400, "height": 9500})  # no cell off screen
    notebook = Notebook(page, address, f"notebooks/{NOTEBOOK}")
    notebook.run_all()
    assert notebook.errors() == []

    cell = explorer_cell(page)
    output = page.locator(".jp-CodeCell").nth(cell).locator(".jp-Cell-outputWrapper")
    output.locator(VERDICT).wait_for()
    verdict = output.locator(VERDICT).inner_text()
    picture = output.locator("img").get_attribute("src")
    assert verdict.startswith("host-bound: the GPU idles")

    for _ in range(40):  # kernel duration, step by step, until the GPU is the slower one
        assert press(page, cell, 1, "img") > 0
    assert output.locator(VERDICT).inner_text().startswith("GPU-bound")
    assert output.locator("img").get_attribute("src") != picture

    press(page, cell, 1, VERDICT, key="Home")  # back to the shortest kernel at once
    assert output.locator(VERDICT).inner_text().startswith("host-bound")
    press(page, cell, 0, VERDICT, key="ArrowLeft")  # the kernel count
    assert "256" in output.locator("input[type=number]").first.input_value()
    assert page.problems == []
    assert notebook.errors() == []


def test_a_typed_number_moves_the_slider(page, address):
    page.set_viewport_size({"width": 1400, "height": 9500})
    notebook = Notebook(page, address, f"notebooks/{NOTEBOOK}")
    notebook.run_all()
    output = page.locator(".jp-CodeCell").nth(explorer_cell(page)).locator(".jp-Cell-outputWrapper")
    box = output.locator("input[type=number]").nth(1)
    box.fill("50")
    box.press("Enter")
    output.locator(f'{VERDICT}:has-text("GPU-bound")').wait_for(timeout=10_000)
    handle = output.locator(".noUi-handle").nth(1)
    assert float(handle.get_attribute("aria-valuenow")) > 0
    assert page.problems == []


def test_a_prediction_typed_in_the_page_is_compared(page, address):
    page.set_viewport_size({"width": 1400, "height": 9500})
    notebook = Notebook(page, address, f"notebooks/{NOTEBOOK}")
    notebook.run_all()
    box = page.locator('input[placeholder="a number"]').first
    box.fill("100")
    box.press("Enter")
    page.wait_for_selector("text=committed: >> nth=0", timeout=10_000)
    compare = page.locator(".jp-CodeCell", has_text="guess_one.compare").first
    compare.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    compare.locator("text=times smaller").wait_for(timeout=10_000)
    assert page.problems == []


@pytest.mark.parametrize("name", ["00_start_here.ipynb", NOTEBOOK])
def test_a_reopened_notebook_shows_its_pictures(page, address, name):
    page.set_viewport_size({"width": 1400, "height": 9500})
    notebook = Notebook(page, address, f"notebooks/{name}")
    page.wait_for_selector(".jp-RenderedImage img")
    sizes = page.eval_on_selector_all(".jp-RenderedImage img", "all => all.map(e => [e.naturalWidth, e.naturalHeight])")
    assert sizes
    assert all(width >= 800 and height >= 200 for width, height in sizes)
    assert notebook.errors() == []
    assert page.problems == []


def test_the_readmes_command_opens_the_course(page, tmp_path):
    """`jupyter lab notebooks/00_start_here.ipynb`, as README says it: the page, and the labs that it links to."""
    for name in ("notebooks", "labs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    with jupyterlab(tmp_path, "notebooks/00_start_here.ipynb") as url:
        page.goto(f"{url}/lab/tree/notebooks/00_start_here.ipynb")
        page.wait_for_selector(".jp-Notebook h1:has-text('Start here')", timeout=60_000)
        lab = page.request.get(f"{url}/api/contents/labs/lab01_launch_overhead.ipynb?content=0")
        assert lab.ok
        assert page.locator(".jp-Dialog").count() == 0
        assert page.problems == []


def test_a_learner_sees_no_instructors_menus(page, address):
    Notebook(page, address, f"notebooks/{NOTEBOOK}")
    menus = page.eval_on_selector_all(".lm-MenuBar-itemLabel", "all => all.map(e => e.textContent)")
    assert menus == ["File", "Edit", "View", "Run", "Kernel", "Tabs", "Settings", "Help"]
    assert page.locator("text=Jupyter news").count() == 0
    assert page.locator(".jp-Dialog").count() == 0
