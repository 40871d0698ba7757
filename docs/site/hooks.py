"""What the site has beyond the pages of docs/: parts made from the code when it is built, and the
documents at the root of the project.

A page holds `<!-- made from the code: NAME -->` where the part NAME goes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import made

ROOT = Path(__file__).resolve().parents[2]
ABOVE = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_MARK = re.compile(r"<!-- made from the code: ([\w-]+) -->")


SECTIONS = {
    "Tutorials": "tutorials",
    "How-to guides": "how-to",
    "Reference": "reference",
    "Explanations": "explanations",
    "Measurements": "measurements",
}


def on_config(config: Any) -> Any:
    """Pages stand in the order in which the index leads to them."""
    docs = Path(config.docs_dir)
    led = re.findall(r"\]\(([\w/-]+\.md)", (docs / "index.md").read_text("utf-8"))
    nav: list[Any] = ["index.md"]
    for title, folder in SECTIONS.items():
        there = {page.relative_to(docs).as_posix() for page in (docs / folder).rglob("*.md")}
        order = [page for page in dict.fromkeys(led) if page in there]
        nav.append({title: [*order, *sorted(there.difference(order))]})
    above = sorted(page.name for page in docs.glob("*.md") if page.name != "index.md")
    config.nav = [*nav, {"Development": [*above, *ABOVE]}]
    return config


def on_files(files: Files, config: Any) -> Files:
    for name in ABOVE:
        text = (ROOT / name).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    up = "../" * page.file.src_uri.count("/")
    for name in ABOVE:
        markdown = markdown.replace(f"]({up}../{name}", f"]({up}{name}")
    return _MARK.sub(lambda mark: made.PARTS[mark[1]](), markdown)
