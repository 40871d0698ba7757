"""The code of README, docs and docstrings is run as it stands there, on a small table.

A page's blocks share a folder and their names, in the order of the page:

- `python` is executed; `sh` are commands, of which those of admeasure are run;
- `toml`, `csv` and `json` are read, and written to the file that their title names;
- `text` is what a command prints.

A block that cannot be run says why, in a comment before it: `<!-- not run: REASON -->`.
"""

from __future__ import annotations

import csv
import doctest
import io
import json
import re
import shlex
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admeasure.cli.run import run
from pages import ROOT, pages

ELSEWHERE = {"CONTRIBUTING.md": "tests/contracts/test_worked_examples.py"}
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]*\S) -->\n+)?```(?P<head>[^\n`]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LOOKS_LIKE_CODE = re.compile(
    r" {4,}(admeasure |import |from \w+ import|pip |make |python |\[\[|release\.|\$ )"
)


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    title: str | None
    reason: str | None
    code: str


def blocks(text: str) -> list[Block]:
    """
    >>> [b.language for b in blocks("```python\\nx = 1\\n```\\n")]
    ['python']
    """
    found = []
    for match in BLOCK.finditer(text):
        language, _, rest = match["head"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        line = text[: match.start("head")].count("\n") + 1
        name = title[1] if title else None
        found.append(Block(line, language, name, match["reason"], match["code"]))
    return found


@pytest.fixture
def desk(bundle, tmp_path, monkeypatch) -> Path:
    folder = shutil.copytree(bundle, tmp_path / "desk")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("page", pages(), ids=str)
def test_blocks_of_a_page_run(page, desk):
    names: dict[str, Any] = {}
    for block in blocks((ROOT / page).read_text("utf-8")):
        assert block.language, f"{page}:{block.line}: a block has no language"
        if block.reason is None and (block.language != "python" or str(page) not in ELSEWHERE):
            _run(block, f"{page}:{block.line}", names)


def _run(block: Block, place: str, names: dict[str, Any]) -> None:
    if block.title is not None:
        Path(block.title).write_text(block.code, "utf-8")
    match block.language:
        case "python":
            exec(compile(block.code, place, "exec"), names)
        case "sh":
            for command in commands(block.code):
                _command(command, place)
        case "toml":
            tomllib.loads(block.code)
        case "json":
            json.loads(block.code)
        case "csv":
            assert len({len(row) for row in csv.reader(io.StringIO(block.code))}) == 1, place
        case "text":
            pass
        case other:
            pytest.fail(f"{place}: nobody runs {other}. Say why: <!-- not run: REASON -->")


def commands(code: str) -> list[list[str]]:
    r"""
    >>> commands("admeasure fit a \\\n  --out b  # the run\n\n# a remark\nadmeasure audit b\n")
    [['admeasure', 'fit', 'a', '--out', 'b'], ['admeasure', 'audit', 'b']]
    """
    lines = code.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def _command(words: list[str], place: str) -> None:
    assert words[0] == "admeasure", f"{place}: nobody runs {words[0]}. <!-- not run: REASON -->"
    code = run(words[1:])
    assert code == 0, f"{place}: {shlex.join(words)} ended with exit code {code}"


@pytest.mark.parametrize("page", pages(), ids=str)
def test_code_of_a_page_stands_in_blocks_with_a_language(page):
    text = BLOCK.sub("", (ROOT / page).read_text("utf-8"))
    assert [line for line in text.splitlines() if LOOKS_LIKE_CODE.match(line)] == []


SKIPPED = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "src").rglob("*.py")
    if "doctest: +SKIP" in path.read_text("utf-8")
)


@pytest.mark.parametrize("module", SKIPPED, ids=str)
def test_examples_that_need_a_table_run_where_there_is_one(module, desk):
    """Those of docstrings that name files; what they print is not compared."""
    import admeasure

    names: dict[str, Any] = {"admeasure": admeasure, "table": "people.csv"}
    name = ".".join(module.with_suffix("").parts[1:]).removesuffix(".__init__")
    exec(f"from {name} import *", names)
    examples = doctest.DocTestParser().get_examples((ROOT / module).read_text("utf-8"))
    for example in examples:
        if doctest.OPTIONFLAGS_BY_NAME["SKIP"] in example.options:
            exec(compile(example.source, f"{module}:{example.lineno + 1}", "exec"), names)


def test_a_block_that_does_not_run_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "```python\n1 / 0\n```\n\n<!-- not run: no table -->\n```sh\nmake it\n```\n"
    first, second = blocks(text)
    with pytest.raises(ZeroDivisionError):
        _run(first, "here", {})
    assert (second.reason, second.line) == ("no table", 6)
    with pytest.raises(AssertionError, match="exit code 3"):
        _run(blocks("```sh\nadmeasure audit nowhere\n```\n")[0], "here", {})
    with pytest.raises(AssertionError, match="nobody runs make"):
        _run(Block(1, "sh", None, None, "make it\n"), "here", {})
