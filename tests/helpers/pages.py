"""The pages of the documentation: their words, their links, their headings."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def pages() -> list[Path]:
    """README and its neighbours, and everything in docs/, relative to the root."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(page.relative_to(ROOT) for page in found)


def prose(page: Path) -> str:
    """The page without blocks and spans of code."""
    text = re.sub(r"^( *)(```+).*?^\1\2 *$", "", page.read_text("utf-8"), flags=re.M | re.S)
    text = re.sub(r"(?<=\n)\n(?: {4,}(?![-*\d]).*\n)+", "\n", text)
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.S)


def linked(page: Path) -> list[str]:
    """What its links and pictures lead to within the project."""
    found = re.findall(r"\]\(\s*<?([^)\s>]+)", prose(page))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The names that headings get: lower case, words joined by hyphens, the rest left out."""
    names: set[str] = set()
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    for title in re.findall(r"^#+ +(.*?) *#*$", text, flags=re.M):
        plain = re.sub(r"[^\w\s-]", "", title.lower())
        name = re.sub(r"\s", "-", plain.strip())
        names.add(name if name not in names else f"{name}_1")
    return names | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def once(shared: Path, name: str, make: Callable[[Path], None]) -> Path:
    """A folder of all test processes: the first that asks makes it."""
    folder = shared / name
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            make(folder)
    return folder


def build_site(shared: Path) -> Path:
    return once(shared, "site", _build)


def _build(folder: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    if built.returncode != 0 or "WARNING" in built.stderr:
        raise AssertionError(built.stderr)
