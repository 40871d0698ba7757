"""What a release folder holds besides its contents: no moment, no duration, nothing of the machine.

When a run ended and how long it took depend on the table, and no budget covers that.
"""

from __future__ import annotations

import io
import re
import time
import zipfile
from pathlib import Path

import pytest

from admeasure.mechanisms import build
from admeasure.schema import Schema
from admeasure.verbs.fit import fit

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2})
DAY = 86400


def released(folder: Path, mechanism: str) -> dict[str, bytes]:
    """The files of a release of the same draws, made in a folder of its own."""
    folder.mkdir()
    fit(
        {"a": [0, 1, 2, 0], "b": [0, 1, 0, 1]},
        SCHEMA,
        workload="all-2way",
        mechanism=build(mechanism),
        epsilon=1.0,
        delta=1e-6,
        seed=0,
        out=folder / "release",
    )
    return {path.name: path.read_bytes() for path in (folder / "release").iterdir()}


@pytest.mark.parametrize("mechanism", ["aim", "mwem", "gaussian", "privbayes"])
def test_a_slow_run_leaves_the_same_bytes_as_a_fast_one(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = time.time() // DAY
    fast = released(tmp_path / "fast", mechanism)
    plain, ran = time.perf_counter, time.time
    monkeypatch.setattr(time, "perf_counter", lambda: plain() + 1000)
    monkeypatch.setattr(time, "time", lambda: ran() + 0.5)
    slow = released(tmp_path / "slow", mechanism)
    if time.time() // DAY == today:  # not over midnight
        assert slow == fast


def test_files_are_dated_by_the_day(tmp_path: Path) -> None:
    released(tmp_path / "one", "gaussian")
    folder = tmp_path / "one" / "release"
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mtime_ns % (DAY * 10**9) == 0


def test_no_file_names_a_moment(tmp_path: Path) -> None:
    files = released(tmp_path / "one", "mwem")
    for name, content in files.items():
        if name.endswith(".npz"):
            members = zipfile.ZipFile(io.BytesIO(content)).infolist()
            assert {m.date_time for m in members} == {(1980, 1, 1, 0, 0, 0)}
        else:
            assert not re.search(rb"\d\d:\d\d(:\d\d)?", content), name
            assert b"seconds" not in content
