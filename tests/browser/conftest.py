"""A real browser and a real server for the tests of the local page.

Chromium is Debian's. Where it is missing the tests are skipped, unless ADMEASURE_NEEDS_BROWSER is
set, as it is in CI: there a missing browser is a failure. `tests/browser/install.sh` installs it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 150_000
"""Milliseconds; the machine may be busy. No test asserts a speed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser."""
    path = os.environ.get("ADMEASURE_CHROMIUM") or shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        path = None
    if path is None:
        text = "no Chromium or no playwright: run tests/browser/install.sh and pip install .[dev]"
        if os.environ.get("ADMEASURE_NEEDS_BROWSER"):
            pytest.fail(text)
        pytest.skip(text)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Server:
    """A running `admeasure ui`."""

    address: str
    folder: Path
    start: Path
    process: subprocess.Popen[str]
    root: str = ""
    """The page's place, once a browser was let in."""

    @property
    def origin(self) -> str:
        return self.address.split("/?")[0]

    @property
    def file(self) -> Path:
        """What a browser is opened with."""
        (found,) = self.folder.glob("open-*.html")
        return found

    def enter(self, page: Any) -> None:
        """Come in as a browser does that `admeasure ui` has opened."""
        page.goto(self.file.as_uri())
        page.wait_for_selector("body[data-ready]")
        self.root = page.url.rstrip("/")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


def serve(start: Path, folder: Path) -> Server:
    command = [sys.executable, "-m", "admeasure", "ui", "--no-browser", "--folder", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=start)
    assert process.stdout is not None
    return Server(process.stdout.readline().strip(), folder, start, process)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    start = tmp_path_factory.mktemp("ui")
    found = serve(start, start / "work")
    yield found
    assert found.stop() == 0, "Ctrl-C ends the page without complaint"


@dataclass
class Tab:
    """A page with what went wrong on it."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture
def open_tab(chromium: Any, server: Server) -> Iterator[Callable[..., Tab]]:
    """Makes tabs that are let in, and asserts at the end that none complained or called out."""
    contexts, tabs = [], []

    def make(context: Any = None, **options: Any) -> Tab:
        if context is None:
            context = chromium.new_context(viewport={"width": 1280, "height": 860}, **options)
            contexts.append(context)
        tab = Tab(context.new_page())
        tab.page.set_default_timeout(PATIENCE)
        tab.page.on("request", lambda r: tab.requests.append(r.url))
        tab.page.on("pageerror", lambda e: tab.errors.append(f"script: {e}"))
        tab.page.on("console", lambda m: _keep(tab, m))
        tab.page.on("dialog", lambda d: (tab.errors.append(f"dialog: {d.message}"), d.dismiss()))
        server.enter(tab.page)
        tabs.append(tab)
        return tab

    yield make
    for context in contexts:
        context.close()
    for tab in tabs:
        assert tab.errors == []
        ours = (server.origin, server.file.as_uri(), "data:", "blob:")
        outside = [u for u in tab.requests if not u.startswith(ours)]
        assert outside == [], "a request left the machine"


def _keep(tab: Tab, message: Any) -> None:
    # A refused form answers 4xx, which Chromium notes by itself; the page shows it to the user.
    if message.type == "error" and "the server responded with a status of 4" not in message.text:
        tab.errors.append(f"console: {message.text}")
