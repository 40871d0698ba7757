"""Links and paths: whatever a page or the code points to is there."""

from __future__ import annotations

import re

import pytest

from pages import ROOT, anchors, linked, pages, prose

TEXTS = {".py", ".md", ".toml", ".html", ".js", ".css", ".sh", ".yaml"}


@pytest.mark.parametrize("page", pages(), ids=str)
def test_links_of_a_page_lead_to_files_and_headings(page):
    broken = []
    for target in linked(ROOT / page):
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        there = file.resolve().is_relative_to(ROOT) and file.exists()
        if not there or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


def test_every_page_can_be_reached_from_the_index():
    start = ROOT / "docs" / "index.md"
    seen, todo = {start}, [start]
    while todo:
        page = todo.pop()
        for target in linked(page):
            file = (page.parent / target.partition("#")[0]).resolve()
            if file.suffix == ".md" and file.exists() and file not in seen:
                seen.add(file)
                todo.append(file)
    lost = {page for page in (ROOT / "docs").rglob("*.md") if page.resolve() not in seen}
    assert not lost


def test_pages_that_code_and_tests_name_exist():
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "docs")]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in TEXTS]
    named = {
        (file.relative_to(ROOT), found)
        for file in [*files, *ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile"]
        for found in re.findall(r"\bdocs/[\w/-]+\.(?:md|json|png|svg)\b", file.read_text("utf-8"))
    }
    assert {(file, path) for file, path in named if not (ROOT / path).exists()} == set()


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, *here*\n\n[a](#a-title-here) `[no](link)` [b](x.md#y)\n\n    [no](z)\n"
    )
    assert linked(page) == ["#a-title-here", "x.md#y"]
    assert anchors(page) == {"a-title-here"}
    assert "no" not in prose(page)
