"""The site that `make docs` builds: without a warning, whole, and asking nobody for anything."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import admeasure
from admeasure.certificate import Certificate
from admeasure.cli.app import command
from admeasure.mechanisms import REGISTRY
from admeasure.privacy import events
from admeasure.release import store
from pages import ROOT


class _Page(HTMLParser):
    """What a page loads by itself, and the names in it that a link can lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.names |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe", "link", "source", "video"):
            self.loads += [given[key] for key in ("src", "href") if key in given]


def test_no_page_loads_anything_from_elsewhere(site):
    pages = {page: _Page(page).loads for page in site.rglob("*.html")}
    assert len(pages) > 20
    for page, loads in pages.items():
        assert not [each for each in loads if re.match(r"(https?:)?//", each)], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", sheet.read_text("utf-8")), sheet


def test_every_link_of_the_site_leads_somewhere(site):
    pages = {page: _Page(page) for page in site.rglob("*.html") if page.name != "404.html"}
    broken = []
    for page, found in pages.items():
        for link in found.links + found.loads:
            path, _, name = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"[a-z]+:", link) or not link.strip("#"):
                continue
            if not target.is_file() or (name and name not in pages[target].names):
                broken.append((page.name, link))
    assert not broken


def test_the_reference_has_every_verb_and_every_public_name(site):
    line = (site / "reference" / "command-line.html").read_text("utf-8")
    verbs = command().commands
    options = {o for v in verbs.values() for p in v.params for o in p.opts if o.startswith("--")}
    for text in (*(f"admeasure {verb}" for verb in verbs), *options, *REGISTRY):
        assert text in line, text
    python = (site / "reference" / "python.html").read_text("utf-8")
    assert [n for n in admeasure.__all__ if f"admeasure.{n}" not in python] == []


def test_the_search_knows_the_pages(site):
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"explanations/privacy.html", "reference/python.html"} <= found
    assert (site / "search" / "search_index.js").is_file(), "what pages read from the file system"


def test_the_page_on_files_has_every_file_field_and_event():
    page = (ROOT / "docs" / "reference" / "files.md").read_text("utf-8")
    listed = set(re.findall(r"`([\w.-]+)`", page))
    files = {*store.FILES, store.INSIDE, "release.json", "certificate.yaml"}
    assert files <= listed
    assert {*Certificate.__dataclass_fields__, "promise", "stamp"} <= listed
    assert listed >= events.KINDS
