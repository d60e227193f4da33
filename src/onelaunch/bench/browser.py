"""A real JupyterLab in a real browser: what the browser tests and the slider benchmark drive."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
VIEWPORT = {"width": 1400, "height": 3600}  # tall: the notebook drops cells that are off screen


def find_chromium() -> str | None:
    """A Chromium or Chrome on this machine (CHROMIUM names one; else the usual names on PATH)."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextlib.contextmanager
def jupyterlab(folder: Path, *arguments: str) -> Iterator[str]:
    """A JupyterLab server started in `folder`, on a free port of this machine; yields its address.

    Without `arguments` it serves that folder; with some, whatever `jupyter lab` makes of them there.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = tempfile.mkdtemp(prefix="onelaunch-lab-")
    environment = dict(os.environ, JUPYTERLAB_SETTINGS_DIR=settings, JUPYTERLAB_WORKSPACES_DIR=settings, MPLBACKEND="agg")
    command = [
        sys.executable, "-m", "jupyter", "lab", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0",
        "--ip=127.0.0.1", "--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.allow_root=True",
        *(arguments or [f"--ServerApp.root_dir={folder}", "--LabApp.news_url=None"]),
    ]  # fmt: skip
    log = Path(settings) / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, server, log)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
        shutil.rmtree(settings, ignore_errors=True)


def _wait_for(address: str, server: subprocess.Popen, log: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api/status", timeout=2):
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(errors='replace')[-2000:]}")


@contextlib.contextmanager
def browser_page() -> Iterator[Any]:
    """A page of a headless Chromium. `page.problems` collects what goes wrong on it: console errors and page errors."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_ARGUMENTS))
        page = browser.new_page(viewport=VIEWPORT)
        page.problems = []
        page.on("console", lambda m: page.problems.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: page.problems.append(f"page: {error}"))
        try:
            yield page
        finally:
            browser.close()


class Notebook:
    """One notebook, open in JupyterLab."""

    def __init__(self, page: Any, address: str, name: str):
        self.page = page
        # A workspace of its own: restored tabs would hide the notebook.
        page.goto(f"{address}/lab/workspaces/w{time.monotonic_ns()}/tree/{name}")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        page.wait_for_selector(".jp-NotebookPanel-toolbar", timeout=60_000)

    def run_all(self, seconds: float = 120) -> None:
        """Runs every cell from the menu, and waits until the kernel is idle again."""
        page = self.page
        # The indicator says idle before there is a kernel; the status bar names the kernel once it answers.
        page.wait_for_selector(".jp-StatusBar-Widget >> text=/\\(ipykernel\\) \\| Idle/", timeout=60_000)
        page.click("text=Run >> nth=0")
        page.click('.lm-Menu-item:has-text("Run All Cells") >> nth=0')
        page.wait_for_function(
            """() => {
                const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(e => e.textContent);
                const idle = document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle';
                return idle && prompts.length > 0 && prompts.every(p => /\\[\\d+\\]/.test(p));
            }""",
            timeout=seconds * 1000,
        )

    def errors(self) -> list[str]:
        """The tracebacks and widget failures that the page shows."""
        return self.page.eval_on_selector_all(
            '[data-mime-type="application/vnd.jupyter.stderr"], [data-mime-type="application/vnd.jupyter.error"]',
            "all => all.map(e => e.textContent)",
        ) + self.page.eval_on_selector_all(
            ".jp-OutputArea-output",
            "all => all.map(e => e.textContent).filter(t => /model not found|Error displaying/i.test(t))",
        )


# Presses ArrowRight or ArrowLeft on the slider of the given cell output, then waits until what it changes is on the screen:
# an image that has another source and is decoded, or an element with another text. Returns milliseconds.
PRESS = """async ([cell, slider, watched, key]) => {
    const area = document.querySelectorAll('.jp-CodeCell')[cell].querySelector('.jp-Cell-outputWrapper');
    const handle = area.querySelectorAll('.noUi-handle')[slider];
    const look = () => {
        const e = area.querySelector(watched);
        return !e ? '' : e.tagName === 'IMG' ? e.src : e.textContent;
    };
    const before = look();
    const start = performance.now();
    handle.focus();
    handle.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
    return await new Promise((resolve, reject) => {
        const check = async () => {
            if (performance.now() - start > 10000) return reject(new Error('nothing changed in 10 s'));
            const now = look();
            if (!now || now === before) return requestAnimationFrame(check);
            const e = area.querySelector(watched);
            if (e.tagName === 'IMG') await e.decode().catch(() => {});
            requestAnimationFrame(() => resolve(performance.now() - start));
        };
        requestAnimationFrame(check);
    });
}"""


def press(page: Any, cell: int, slider: int, watched: str, key: str = "ArrowRight") -> float:
    """Moves one slider by one step from the keyboard; returns the milliseconds until the change is on the screen.

    `cell` counts code cells, `slider` the sliders in its output; `watched` is a CSS selector in that output.
    """
    return page.evaluate(PRESS, [cell, slider, watched, key])
