"""Reports in a real browser: offline, in light and dark, on paper and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import admeasure
from admeasure.demo import unpack
from admeasure.reporting.html import certificate_page, html_report
from admeasure.schema import Schema
from admeasure.sources.open import open_source


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A publishable and an internal report, and a certificate, of the bundled table."""
    folder = tmp_path_factory.mktemp("reports")
    data = unpack(folder)
    schema = Schema.load(folder / "schema.toml")
    release = admeasure.fit(
        data,
        schema,
        workload=folder / "workload.toml",
        mechanism=admeasure.mst(),
        epsilon=1.0,
        delta=1e-9,
    )
    counts = open_source(data, schema).counts
    (folder / "public.html").write_text(html_report(release))
    (folder / "internal.html").write_text(html_report(release, private_counts=counts))
    (folder / "certificate.html").write_text(certificate_page(release))
    return folder


@pytest.mark.parametrize("name", ["public", "internal", "certificate"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_a_report_opens_offline_and_fits_the_screen(
    chromium: Any, reports: Path, name: str, scheme: str, width: int
) -> None:
    context = chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    problems: list[str] = []
    requests: list[str] = []
    page.on("console", lambda m: problems.append(m.text))
    page.on("request", lambda r: requests.append(r.url))
    page.goto((reports / f"{name}.html").as_uri())
    assert page.inner_text("h1")
    assert len(requests) == 1
    assert problems == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    light = [sum(map(int, c[4:-1].split(", "))) for c in (ink, paper)]
    assert (light[1] > light[0]) == (scheme == "light")
    context.close()


def test_the_certificate_is_one_printed_page(chromium: Any, reports: Path) -> None:
    page = chromium.new_page()
    page.goto((reports / "certificate.html").as_uri())
    content = page.pdf(prefer_css_page_size=True)
    assert content.count(b"/Type /Page\n") == 1
    page.close()


def test_every_printed_page_of_an_internal_report_is_stamped(chromium: Any, reports: Path) -> None:
    """An element that is fixed on paper is repeated on every page."""
    page = chromium.new_page()
    page.goto((reports / "internal.html").as_uri())
    page.emulate_media(media="print")
    stamp = page.locator(".stamp.running").first
    assert "NOT PRIVATE" in stamp.inner_text()
    assert stamp.evaluate("e => getComputedStyle(e).position") == "fixed"
    page.close()
