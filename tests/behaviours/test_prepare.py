"""The preparation of raw tables for the papers' experiments (AIM, appendix A)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "prepare.py"


def run(raw: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(raw), "--name", "made", *options]
    environment = {**os.environ, "ADMEASURE_DATA": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def result(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, dict]]:
    codes = duckdb.sql(f"SELECT * FROM '{folder / 'made.parquet'}'").fetchnumpy()
    about = json.loads((folder / "made.schema.json").read_text())["columns"]
    return codes, {column["name"]: column for column in about}


def test_columns_are_cut_into_32_bins_or_listed_and_missing_is_a_level(tmp_path: Path) -> None:
    lines = ["age,city,few"] + [f"{v},{'ab'[v % 2]},{v % 3}" for v in range(65)]
    lines += [",,", "64,c,1"]
    (tmp_path / "raw.csv").write_text("\n".join(lines) + "\n")
    assert run(tmp_path / "raw.csv", tmp_path).returncode == 0
    codes, about = result(tmp_path)
    # 0 to 64 in 32 bins of width 2: value 3 is in bin 1, 64 in the last one with 62 and 63
    assert [codes["age"][v] for v in (0, 1, 3, 61, 62, 64)] == [0, 0, 1, 30, 31, 31]
    assert codes["age"][65] == 32
    assert about["age"]["domain_size"] == 33
    assert about["city"]["categories"] == ["a", "b", "c", "missing"]
    assert codes["city"][-2:].tolist() == [3, 2]
    assert about["few"]["categories"] == ["0", "1", "2", "missing"]  # a number of few values


def test_given_bounds_and_categories_take_the_place_of_what_is_found(tmp_path: Path) -> None:
    lines = ["age,zip,out"] + [f"{v},{v},{v}" for v in range(40)]
    (tmp_path / "raw.csv").write_text("\n".join(lines) + "\n")
    made = run(
        tmp_path / "raw.csv", tmp_path, "--bounds", "age=0:320", "--categorical", "zip",
        "--drop", "out",
    )  # fmt: skip
    assert made.returncode == 0
    codes, about = result(tmp_path)
    assert sorted(about) == ["age", "zip"]
    assert codes["age"].tolist() == [v // 10 for v in range(40)]
    assert codes["zip"].tolist() == list(range(40))
    wrong = run(tmp_path / "raw.csv", tmp_path, "--drop", "nowhere")
    assert wrong.returncode == 1
    assert "There is no column 'nowhere'" in wrong.stderr


def test_sequences_keep_their_first_entries(tmp_path: Path) -> None:
    (tmp_path / "raw.seq").write_text("% a head\n\nsports news\n1 2 3 4\n2\n10 1\n")
    assert run(tmp_path / "raw.seq", tmp_path, "--sequences", "2").returncode == 0
    codes, about = result(tmp_path)
    assert about["page01"]["categories"] == ["1", "2", "10"]
    assert about["page02"]["categories"] == ["1", "2", "missing"]
    assert codes["page01"].tolist() == [0, 1, 2]
    assert codes["page02"].tolist() == [1, 2, 0]


@pytest.mark.data
def test_raw_adult_becomes_the_table_that_the_papers_authors_published(
    tmp_path: Path, shared_data: Path
) -> None:
    """With their bounds; their levels of a text may be in another order."""
    data = shared_data
    theirs = json.loads((data / "adult_aim.schema.json").read_text())["columns"]
    bounds = []
    for column in theirs:
        if "bins" in column:
            low, width = column["bins"]["low"], column["bins"]["width"]
            bounds += ["--bounds", f"{column['name']}={low}:{low + 32 * width}"]
    made = run(data / "adult_raw.parquet", tmp_path, "--drop", "split", *bounds)
    assert made.returncode == 0, made.stderr
    ours, _ = result(tmp_path)
    published = duckdb.sql(f"SELECT * FROM '{data / 'adult_aim.parquet'}'").fetchnumpy()
    for column in theirs:
        name = column["name"]
        mine = ours["income" if name == "income>50K" else name]
        if "bins" in column:
            assert (mine == published[name]).all(), name
        else:  # the same rows are alike
            pairs = set(zip(mine.tolist(), published[name].tolist(), strict=True))
            assert len(pairs) == len(set(mine.tolist())) == len(set(published[name].tolist())), name
