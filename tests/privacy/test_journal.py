"""What is on record survives, what is torn is cut off, what is foreign is refused."""

from __future__ import annotations

import hashlib
import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admeasure.auditing.draws import Draws
from admeasure.errors import ReleaseError, ResourceError, UsageError
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import NOTHING, FileJournal, Mark, pack, unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.scores.whole import CellError
from admeasure.queries import Marginal
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=20))
def test_packed_values_come_back_as_they_were(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64).reshape(1, -1)
    restored = unpack(json.loads(json.dumps(pack(array))))
    assert restored.dtype == np.int64
    assert np.array_equal(restored, array)


def test_a_scalar_comes_back_as_a_scalar() -> None:
    assert unpack(pack(np.int64(-7))).shape == ()


def draw(journal: FileJournal, results: int) -> None:
    for i in range(results):
        asked = {"event": "measure", "query": i}
        journal.intend(asked)
        journal.record(asked, {"values": i * i})


def written(path: Path, results: int) -> FileJournal:
    journal = FileJournal(path)
    draw(journal, results)
    journal.close()
    return journal


def test_a_journal_opened_again_gives_its_results_in_order(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written(path, 3)
    again = FileJournal(path)
    for i in range(3):
        found = again.next_recorded({"event": "measure", "query": i})
        assert found is not None
        assert found["values"] == i * i
    assert again.next_recorded({"event": "measure", "query": 3}) is None


@pytest.mark.parametrize("zeros", [0, 100])
@pytest.mark.parametrize("cut", range(2, 40, 3))
def test_a_torn_last_line_is_cut_off_and_the_rest_is_kept(
    tmp_path: Path, cut: int, zeros: int
) -> None:
    path = tmp_path / "journal.jsonl"
    written(path, 2)
    whole = path.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    path.write_bytes(whole[: -min(cut, last)] + bytes(zeros))
    again = FileJournal(path)
    assert [e["event"] for e in again.events] == ["intent", "measure", "intent"]
    asked = {"event": "measure", "query": 1}
    assert again.next_recorded({"event": "measure", "query": 0}) is not None
    assert again.next_recorded(asked) is None
    again.intend(asked)
    again.record(asked, {"values": 1})
    again.close()
    kinds = [json.loads(line)["event"] for line in path.read_bytes().splitlines()]
    assert kinds == ["intent", "measure", "intent", "intent", "measure"]


def test_a_damaged_line_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written(path, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"garbage\n", *lines[2:]]))
    with pytest.raises(ReleaseError, match="damaged"):
        FileJournal(path)


def test_only_the_owner_can_read_a_journal(tmp_path: Path) -> None:
    written(tmp_path / "journal.jsonl", 1)
    assert (tmp_path / "journal.jsonl").stat().st_mode & 0o777 == 0o600


def test_listeners_hear_results_and_replays_but_no_intents(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written(path, 1)
    heard = []
    again = FileJournal(path)
    again.listeners.append(lambda event: heard.append(event["query"]))
    again.next_recorded({"event": "measure", "query": 0})
    again.intend({"event": "measure", "query": 1})
    again.record({"event": "measure", "query": 1}, {"values": 1})
    assert heard == [0, 1]


class Failing(Draws):
    """Noise whose draws end with an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def draw(self, kind, scale, count, scores):
        raise self.error

    def passing(self, blocks, sigma, least, most):
        raise self.error


def verbs(curator: Curator) -> list:
    """Each way to draw, ready to be called."""
    query, counts = Marginal(["a"]), np.zeros(3)
    score = CellError({query: counts})
    return [
        lambda: curator.measure([query], Fraction(1)),
        lambda: curator.top_k(score, [query], 2, Fraction(1)),
        lambda: curator.flip(score, [query], Fraction(1)),
    ]


SCHEMA = Schema.coded("toy", {"a": 3, "b": 2})
SOURCE = MemorySource({"a": np.array([0, 1, 1, 2]), "b": np.array([0, 0, 1, 1])}, SCHEMA)


@pytest.mark.parametrize("verb", range(3))
def test_a_fault_of_the_program_during_a_draw_is_its_result(tmp_path: Path, verb: int) -> None:
    """Whether it came may depend on what was drawn: drawing until none comes is no draw."""
    journal = FileJournal(tmp_path / "journal.jsonl")
    with pytest.raises(ZeroDivisionError):
        verbs(Curator(SOURCE, Ledger(1), Failing(ZeroDivisionError()), journal))[verb]()
    journal.close()
    for _ in range(2):
        again = FileJournal(tmp_path / "journal.jsonl")
        curator = Curator(SOURCE, Ledger(1), SeededNoise(0), again)
        with pytest.raises(UsageError, match=r"cannot be continued.*stays charged"):
            verbs(curator)[verb]()
        again.close()


@pytest.mark.parametrize("verb", range(3))
@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), MemoryError(), OSError(28, "full"), ResourceError("late")],
    ids=repr,
)
def test_what_ends_a_draw_from_outside_lets_the_run_go_on(tmp_path, verb, error) -> None:
    journal = FileJournal(tmp_path / "journal.jsonl")
    with pytest.raises(type(error)):
        verbs(Curator(SOURCE, Ledger(1), Failing(error), journal))[verb]()
    journal.close()
    again = FileJournal(tmp_path / "journal.jsonl")
    verbs(Curator(SOURCE, Ledger(1), SeededNoise(0), again))[verb]()
    assert [event["event"] == "intent" for event in again.events] == [True, True, False]
    again.close()


# Visible means committed


@pytest.mark.parametrize("zeros", [0, 1, 100])
def test_a_whole_result_that_lacks_its_line_end_is_kept(tmp_path: Path, zeros: int) -> None:
    path = tmp_path / "journal.jsonl"
    written(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes(zeros))
    again = FileJournal(path)
    assert [e["event"] for e in again.events] == ["intent", "measure"] * 2
    assert again.mark.length == len(whole)
    assert again.mark.sha256 == hashlib.sha256(whole).hexdigest()
    again.intend({"event": "measure", "query": 2})
    again.record({"event": "measure", "query": 2}, {"values": 4})
    again.close()
    assert path.read_bytes().startswith(whole)
    assert len([json.loads(line) for line in path.read_bytes().splitlines()]) == 6


def results(path: Path) -> list[dict[str, Any]]:
    """What a reader sees: the results among the whole lines."""
    lines = path.read_bytes().split(b"\n")[:-1]
    return [e for e in map(json.loads, lines) if e["event"] != "intent"]


class Stop(BaseException):
    """A signal."""


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 7))
def test_whatever_a_signal_interrupts_what_was_visible_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, *, after: bool
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path)
    plain, calls, seen = getattr(os, call), 0, []

    def interrupted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number and not after:
            raise Stop
        done = plain(*args)
        seen.extend(results(path)[len(seen) :])
        if calls == number:
            raise Stop
        return done

    monkeypatch.setattr(os, call, interrupted)
    with pytest.raises(Stop):
        draw(journal, 9)
    seen.extend(results(path)[len(seen) :])
    monkeypatch.undo()
    journal.close()
    assert results(path)[: len(seen)] == seen
    again = FileJournal(path)
    for event in seen:
        assert again.next_recorded({"event": "measure", "query": event["query"]}) == event


def test_a_result_is_committed_before_it_is_visible_and_after_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    journal, order = FileJournal(path), []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (fsync(file), order.append("flushed"))[0])
    journal.listeners.append(lambda event: order.append(("told", len(results(path)))))
    journal.commit_by(lambda mark: order.append((mark.length, len(results(path)))))
    assert order == [(0, 0)]
    journal.intend({"event": "measure", "query": 0}, room=100)
    journal.record({"event": "measure", "query": 0}, {"values": 0})
    end = journal.mark.length
    assert order[1:] == ["flushed", "flushed", (end, 0), ("told", 1)]


def test_a_result_that_cannot_be_committed_is_never_visible_but_stays(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path)

    def refuse(mark: Mark) -> None:
        if mark.length:
            raise Stop

    journal.commit_by(refuse)
    journal.intend({"event": "measure", "query": 0}, room=100)
    with pytest.raises(Stop):
        journal.record({"event": "measure", "query": 0}, {"values": 0})
    journal.close()
    assert results(path) == []
    again = FileJournal(path)
    assert again.next_recorded({"event": "measure", "query": 0}) is not None


def test_a_mark_is_reached_by_every_later_state_and_by_no_other(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "one.jsonl")
    marks = [journal.mark]
    for i in range(3):
        journal.intend({"event": "measure", "query": i})
        journal.record({"event": "measure", "query": i}, {"values": i})
        marks.append(journal.mark)
    assert marks[0] == NOTHING
    assert all(map(journal.reaches, marks))
    written(tmp_path / "short.jsonl", 1)
    short = FileJournal(tmp_path / "short.jsonl")
    assert [short.reaches(mark) for mark in marks] == [True, True, False, False]
    other = FileJournal(tmp_path / "other.jsonl")
    for _ in range(4):
        other.intend({"event": "measure", "query": 7})
        other.record({"event": "measure", "query": 7}, {"values": 7})
    assert [other.reaches(mark) for mark in marks] == [True, False, False, False]
