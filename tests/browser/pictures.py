"""The pictures of the documentation: `python tests/browser/pictures.py [ADULT_AIM_RELEASE]`.

Walks through the local page on the bundled table and takes a picture of every step, then of the
reports. Writes docs/images/*.png.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from admeasure.release import Release
from conftest import ARGUMENTS, Server, serve

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
LARGEST = 200_000


def main(adult: Path | None) -> None:
    IMAGES.mkdir(exist_ok=True)
    start = Path(tempfile.mkdtemp(prefix="admeasure-"))
    server = serve(start, start / "work")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        try:
            page = browser.new_page(viewport={"width": 1180, "height": 820})
            page.set_default_timeout(120_000)
            walk(page, server)
            made = next(server.folder.glob("tables/*/runs/1/release"))
            reports(browser, Release.load(made), next(server.folder.glob("demo/*.csv")), start)
            if adult is not None:
                release = Release.load(adult)
                path = release.report(start / "adult.html")
                shot(browser, path, "report-adult-aim", "light", 1180, at="#pairs")
        finally:
            browser.close()
            server.stop()
            shutil.rmtree(start)


def walk(page: Any, server: Server) -> None:
    """Every step."""
    server.enter(page)
    keep(page, "ui-1-table")
    page.click("#demo")
    page.wait_for_selector("#schema-state.fine")
    page.click("#verify")
    page.wait_for_selector("#verified .fine")
    page.evaluate("scrollTo(0, 130)")
    keep(page, "ui-2-schema")
    page.click("#next")
    page.wait_for_selector("#preview .tile")
    keep(page, "ui-3-workload")
    page.click("#next")
    page.wait_for_url("**/budget")
    page.wait_for_selector("body[data-ready]")
    page.fill("#epsilon", "1")
    page.fill("#total", "3")
    planned(page, "--dataset adult")
    keep(page, "ui-4-budget")
    page.click("#start")
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    page.wait_for_function("() => document.querySelectorAll('#rounds tr').length > 24")
    keep(page, "ui-5-run")
    page.wait_for_selector("#conditions .condition")
    page.wait_for_selector("body[data-ready]")
    page.wait_for_selector("#rows-shown td")
    page.select_option("#conditions select", index=6)
    page.fill(
        "#conditions input", page.inner_text("#conditions .help").split(": ")[1].split(",")[0]
    )
    page.wait_for_selector("#answer b")
    page.select_option("#axis-1", index=2)
    page.wait_for_selector("#marginal tbody tr")
    keep(page, "ui-6-results")
    page.evaluate("document.querySelector('#rows').scrollIntoView()")
    keep(page, "ui-9-rows")
    page.click("text=new run")
    page.wait_for_url("**/budget")
    page.wait_for_selector("body[data-ready]")
    page.click("#budget-form > details > summary")
    page.select_option("#mechanism", "mst")
    planned(page, "--mechanism mst")
    page.click("#start")
    page.wait_for_url(re.compile(r"/runs/2$"))
    page.wait_for_selector("#conditions .condition")
    page.click("text=compare runs")
    page.wait_for_selector("table.compare")
    keep(page, "ui-7-compare")
    page.goto(f"{server.root}/book")
    keep(page, "ui-8-book")


def planned(page: Any, words: str) -> None:
    """The plan on the page is that of what was typed."""
    page.wait_for_function(
        "w => document.querySelector('#code-command').textContent.includes(w)", arg=words
    )
    page.wait_for_selector("#plan .tile")


def reports(browser: Any, release: Release, data: Path, folder: Path) -> None:
    public = release.report(folder / "report.html")
    internal = release.report(folder / "report.html", internal=data)
    shot(browser, public, "report-public", "light", 1180)
    shot(browser, public, "report-phone", "dark", 390, at="#columns")
    shot(browser, internal, "report-internal", "dark", 1180, at="#truth")


def shot(
    browser: Any, path: Path, name: str, scheme: str, width: int, *, at: str | None = None
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(path.as_uri())
    if at:
        page.evaluate("s => document.querySelector(s).scrollIntoView()", at)
    keep(page, name)
    context.close()


def keep(page: Any, name: str) -> None:
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size < LARGEST, f"{name} is {path.stat().st_size} bytes"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
