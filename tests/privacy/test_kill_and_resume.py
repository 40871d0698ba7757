"""A run that is killed, or that finds the disk full, goes on: nothing lost, nothing spent twice.

After every crash: the book can be read and holds at least what was released. After resuming: the
release is valid by its own audit, the book is settled at exactly what it says was spent, that is
the whole budget as without a crash, what was on record is unchanged, every result in it was drawn
and is used once. `crashes.py` has the moments and the checks.
"""

from __future__ import annotations

import json
import os
import runpy
import tempfile
from pathlib import Path

import pytest

from commands import Ended, script

MECHANISMS = ("aim", "mwem", "mst", "gaussian")
RUNS = (*MECHANISMS, "screen", "levels")


IN_MEMORY = Path("/dev/shm")
"""A file system where flushing costs nothing: a kill does not lose what the system holds."""


def first(mechanism: str, stride: int) -> int:
    return 1 + RUNS.index(mechanism) % stride


def campaign(tmp_path: Path, *args: object) -> dict[str, int]:
    done = crashes(tmp_path, *args)
    assert done.code == 0, done.err[-2000:].decode()
    return json.loads(done.out)


def crashes(tmp_path: Path, *args: object) -> Ended:
    usable = IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if usable else tmp_path) as folder:
        return script(Path(__file__).with_name("crashes.py"), folder, *args).ended(7000)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", RUNS)
def test_a_kill_before_any_durable_step_loses_and_doubles_nothing(
    mechanism, tmp_path, times, tally
):
    """Every third step of each mechanism, each beginning with another; in full every step."""
    stride = times(3, 1)
    counts = campaign(tmp_path, mechanism, "steps", first(mechanism, stride), stride)
    assert counts["kills"] > 25 / stride
    assert counts["resumed"] > counts["started anew"]
    assert counts["draws lost"] > 0  # some kills hit between a draw and its record
    tally("crashes: kills at a chosen durable step", counts["kills"])
    tally("crashes: runs resumed", counts["resumed"])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", RUNS[:-1])
def test_kills_at_random_moments_also_while_resuming_lose_and_double_nothing(
    mechanism, tmp_path, times, tally
):
    wanted = times(12, 60)
    counts = campaign(tmp_path, mechanism, "random", 7, wanted)
    assert counts["kills"] >= wanted
    tally("crashes: kills at a random moment", counts["kills"])
    tally("crashes: runs resumed", counts["resumed"])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_disk_that_is_full_from_any_write_on_loses_and_doubles_nothing(
    mechanism, tmp_path, times, tally
):
    stride = times(4, 1)
    counts = campaign(tmp_path, mechanism, "full", first(mechanism, stride), stride)
    assert counts["full disks"] > 15 / stride
    tally("crashes: full disks (injected)", counts["full disks"])
    tally("crashes: runs resumed", counts["resumed"])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["aim", "mwem"])
def test_what_a_reader_saw_of_an_interrupted_run_is_never_drawn_again(
    mechanism, tmp_path, times, tally
):
    wanted = times(12, 200)
    counts = campaign(tmp_path, mechanism, "seen", 11, wanted)
    assert counts["interrupts"] >= wanted
    assert counts["results seen"] > 0
    tally("crashes: runs interrupted while their journal is read", counts["interrupts"])
    tally("crashes: results seen by the reader", counts["results seen"])


@pytest.mark.slow
def test_a_journal_that_shows_before_it_commits_is_found_out(tmp_path, tally):
    broken = Path(__file__).parent / "broken" / "parts" / "journal_visible_before_commit.py"
    done = crashes(tmp_path, "mwem", "seen", 11, 200, broken)
    assert done.code != 0
    caught_by = runpy.run_path(str(broken))["CAUGHT_BY"]
    assert f"AssertionError: {caught_by}:" in done.err.decode()
    tally("broken variants caught: journal_visible_before_commit", 1)


@pytest.mark.slow
def test_a_really_full_disk_stops_a_run_that_goes_on_when_there_is_room(tmp_path, tally):
    counts = campaign(tmp_path, "mwem", "tmpfs")
    if not counts.get("runs"):
        pytest.skip("no right to mount a small file system")
    assert counts["full disks"] > 0
    tally("crashes: full disks (a small file system)", counts["full disks"])
