"""Every loader, on files spoilt at random: a sound load or an error of ours, and nothing else.

The inputs are a function of the seed, so that a find can be made again. All together there are
10,000 with every change and a million in `make audit`. Each part is a process of its own, with a
limit of memory.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import Ended, script

PROGRAM = Path(__file__).with_name("fuzzing.py")
SHARES = {
    "schema": 10,
    "relations": 5,
    "workload": 15,
    "questions": 10,
    "conclusions": 10,
    "plan": 5,
    "study": 10,
    "rules": 10,
    "mechanism_options": 10,
    "addresses": 9,
    "interrupted_run": 2,
    "release_of_answers": 1,
    "release_of_weights": 1,
    "release_of_tree": 1,
    "public_csv": 0.5,
    "public_parquet": 0.5,
}
"""In a hundred inputs. A release takes many times as long to load as a text."""
BROKEN = ("trusting_rows", "trusting_events", "trusting_toml")


def run(name: str, inputs: int, seed: int, folder: Path) -> Ended:
    return script(PROGRAM, name, inputs, seed, folder).ended(3_000)


def test_the_shares_are_of_a_hundred_and_of_every_loader():
    listed = script(PROGRAM).ended()
    assert set(listed.out.decode().split()) == set(SHARES)
    assert sum(SHARES.values()) == 100


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", SHARES)
def test_spoilt_files_end_in_a_load_or_an_error_of_ours(name, times, tally, tmp_path):
    inputs = round(times(10_000, 1_000_000) * SHARES[name] / 100)
    found = run(name, inputs, 0, tmp_path)
    assert found.code == 0, found.err[-4_000:].decode()
    ended = json.loads(found.out)
    assert ended["loaded"] + ended["refused"] == inputs
    assert min(ended.values()) > 0
    tally("fuzzed files that were refused in plain words", ended["refused"])
    tally("fuzzed files that loaded", ended["loaded"])


@pytest.mark.parametrize("name", BROKEN)
def test_a_loader_that_trusts_its_files_is_caught(name, tmp_path, tally):
    """Each is a loader of ours with one of its checks taken out."""
    found = run(name, 3_000, 0, tmp_path)
    assert found.code == 1, found.out.decode()
    assert b"ended in" in found.err
    tally("fuzzing: broken loaders caught", 1)
