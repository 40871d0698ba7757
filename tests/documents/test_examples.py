"""The notebooks of examples/, run in a real kernel without any widgets."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from pages import ROOT

pytest.importorskip("nbclient")

LARGEST = 100_000
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture(scope="module")
def run() -> Any:
    spec = importlib.util.spec_from_file_location("run", ROOT / "examples" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(notebook: Any) -> list[list[str]]:
    """Of each cell with code, the kinds of what it shows."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [
        [out.output_type for out in cell.outputs if out.output_type != "stream"] for cell in code
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_was_committed_with(path, run, monkeypatch):
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    )
    kept = run.nbformat.read(path, as_version=4)
    fresh = run.executed(path)
    assert outputs(fresh) == outputs(kept), "make examples keeps what they show"
    assert all(cell.execution_count for cell in kept.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_shows_is_small_and_of_no_machine(path):
    text = Path(path).read_text("utf-8")
    assert len(text) < LARGEST
    for place in ("/tmp/", "/home/", "/root/", "Traceback"):
        assert place not in text


def test_there_is_a_notebook_for_every_reader():
    assert [path.stem for path in NOTEBOOKS] == [
        "01-first-release",
        "02-messy-table",
        "03-compare-mechanisms",
        "04-public-data",
        "05-analyses",
    ]
