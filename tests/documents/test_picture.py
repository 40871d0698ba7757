"""The picture in the README is of what the demo prints."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from admeasure.cli.run import run
from pages import ROOT


@pytest.fixture
def drawn(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from picture import drawn

    yield drawn
    sys.modules.pop("picture", None)


def test_the_picture_has_the_numbers_that_the_demo_prints(bundle, tmp_path, drawn, capsys):
    tour = shutil.copytree(bundle, tmp_path / "tour")
    assert run(["sample", str(tour / "release"), "-o", str(tour / "synthetic.csv")]) == 0
    capsys.readouterr()
    assert run(["answer", str(tour / "release"), str(tour / "questions.toml")]) == 0
    printed = {
        tuple(re.split(r"\s{2,}", line)[:4]) for line in capsys.readouterr().out.splitlines()
    }
    labels = [label.get_text() for label in drawn(Path(tour)).axes[2].get_yticklabels()]
    shown = {re.fullmatch(r"(.*)\n(\S+) rows, (\S+) to (\S+)", label).groups() for label in labels}
    assert len(shown) == 8
    assert shown <= printed
