"""The budget holds when processes race for it, and when one is killed while it spends."""

from __future__ import annotations

import json
import signal
import time
from fractions import Fraction
from pathlib import Path

import pytest

import admeasure
from admeasure.errors import UsageError
from admeasure.privacy.book import Book
from admeasure.privacy.convert import rho_of
from admeasure.release import Release
from admeasure.request import ChargeTo
from commands import Started, command, program

SCHEMA = """
[table]
name = "toy"
[privacy]
unit = "person"
[[column]]
name = "a"
type = "integer"
minimum = 0
maximum = 3
[[column]]
name = "b"
type = "integer"
minimum = 0
maximum = 2
"""

# A fit whose every draw takes a while, until there is a file `go`, so that a kill finds it at work.
SLOW = """
import os, sys, time
import admeasure
from admeasure.request import ChargeTo
admeasure.fit("data.csv", "schema.toml", workload="all-2way", mechanism=admeasure.mwem(rounds=20),
    epsilon=1, delta=1e-9, out="release", charge_to=ChargeTo("book.db", "toy"),
    resume="--resume" in sys.argv,
    listeners=(lambda event: os.path.exists("go") or time.sleep(0.15),))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{i % 4},{(i * i) % 3}" for i in range(120)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def fit(folder: Path, name: str, epsilon: float, *extra: str) -> Started:
    options = {
        "schema": "schema.toml",
        "workload": "all-2way",
        "epsilon": str(epsilon),
        "mechanism": "mwem",
        "ledger": "book.db",
        "dataset": "toy",
        "out": name,
    }
    given = [text for key, value in options.items() for text in (f"--{key}", value)]
    return command(("fit", "data.csv", *given, *extra), folder)


def test_processes_that_spend_at_once_never_pass_the_total(folder: Path) -> None:
    one = Fraction(rho_of(1.0, 1e-9))
    # Room for two runs of epsilon 1 and not for three.
    total = next(e / 100 for e in range(100, 300) if rho_of(e / 100, 1e-9) > 2 * one)
    book = Book.create(folder / "book.db", "toy", epsilon=total, delta=1e-9)
    runs = [fit(folder, f"release{i}", 1.0) for i in range(4)]
    ended = [run.ended() for run in runs]
    assert sorted(run.code for run in ended) == [0, 0, 4, 4], [run.err for run in ended]
    for i, run in enumerate(ended):
        assert (folder / f"release{i}").exists() == (run.code == 0)
        assert not (folder / f"release{i}.partial").exists()
        assert (b"Nothing was charged" in run.err) == (run.code == 4)
    account = book.account("toy")
    assert account.spent.rho == sum((e.cost.rho for e in book.history("toy")), Fraction(0))
    assert account.spent.rho == 2 * one


def test_of_two_processes_that_write_to_one_place_one_is_refused_uncharged(folder: Path) -> None:
    book = Book.create(folder / "book.db", "toy", epsilon=10, delta=1e-9)
    runs = [fit(folder, "release", 1.0) for _ in range(2)]
    assert sorted(run.ended().code for run in runs) == [0, 2]
    assert book.account("toy").spent.rho == Fraction(rho_of(1.0, 1e-9))


def test_a_place_where_another_run_ended_meanwhile_is_refused_uncharged(folder: Path) -> None:
    """Both found the place free; the second begins to spend when the first is done."""
    book = Book.create(folder / "book.db", "toy", epsilon=10, delta=1e-9)
    given = {
        "workload": "all-2way",
        "mechanism": admeasure.independent(),
        "epsilon": 1.0,
        "delta": 1e-9,
        "out": folder / "release",
        "charge_to": ChargeTo(folder / "book.db", "toy"),
    }
    table, schema = str(folder / "data.csv"), folder / "schema.toml"
    ended: list[object] = []

    def meanwhile(part: float) -> None:
        if not ended:
            ended.append(part)
            admeasure.fit(table, schema, **given)

    with pytest.raises(UsageError, match="exists already"):
        admeasure.fit(table, schema, **given, reading=meanwhile)
    assert ended
    assert book.account("toy").spent.rho == Fraction(rho_of(1.0, 1e-9))
    assert not (folder / "release.partial").exists()


def start_slow(folder: Path, *extra: str) -> Started:
    return program(SLOW, extra, folder)


def wait_for_draws(folder: Path, run: Started, draws: int) -> None:
    journal = folder / "release.partial" / "journal.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if journal.exists() and journal.read_bytes().count(b'"event":"measure"') >= draws:
            return
        if run.code is not None:
            pytest.fail(f"the run ended before it could be killed: {run.ended().err.decode()}")
        time.sleep(0.02)
    pytest.fail("the run made no draw within a minute")


def test_a_killed_run_stays_charged_in_full_and_continues_from_its_log(folder: Path) -> None:
    book = Book.create(folder / "book.db", "toy", epsilon=1, delta=1e-9)
    run = start_slow(folder)
    wait_for_draws(folder, run, 4)
    run.signal(signal.SIGKILL)
    assert run.ended().code == -signal.SIGKILL

    rho = Fraction(rho_of(1.0, 1e-9))
    (entry,) = book.history("toy")
    assert (entry.status, entry.cost.rho) == ("running", rho)
    assert not (folder / "release").exists()
    assert fit(folder, "another", 0.1).ended().code == 4
    journal = folder / "release.partial" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    before = [json.loads(line) for line in lines if line.endswith(b"\n")]

    (folder / "go").touch()
    resumed = start_slow(folder, "--resume").ended()
    assert resumed.code == 0, resumed.err.decode()
    release = Release.load(folder / "release")
    for old, new in zip(before, release.log, strict=False):
        assert {k: v for k, v in old.items() if k != "values"} == {
            k: v for k, v in new.items() if k != "sha256"
        }
    spent = sum((Fraction(e["rho"]) for e in release.log if e["event"] != "intent"), Fraction(0))
    (entry,) = book.history("toy")
    assert (entry.status, entry.cost.rho) == ("released", spent)
    assert spent <= rho
    assert not (folder / "release.partial").exists()


def test_a_run_at_work_cannot_be_resumed_by_another_process(folder: Path) -> None:
    book = Book.create(folder / "book.db", "toy", epsilon=1, delta=1e-9)
    run = start_slow(folder)
    wait_for_draws(folder, run, 2)
    second = start_slow(folder, "--resume").ended()
    assert second.code != 0
    assert b"Another process is running" in second.err
    (folder / "go").touch()
    ended = run.ended()
    assert ended.code == 0, ended.err.decode()
    assert len(book.history("toy")) == 1


def test_an_interrupted_command_says_how_to_continue(folder: Path) -> None:
    Book.create(folder / "book.db", "toy", epsilon=1, delta=1e-9)
    run = start_slow(folder)
    wait_for_draws(folder, run, 2)
    run.signal(signal.SIGKILL)
    run.ended()
    again = fit(folder, "release", 1.0, "--rounds", "20").ended()
    assert again.code == 2
    assert b"--resume" in again.err
    changed = fit(folder, "release", 1.0, "--rounds", "21", "--resume").ended()
    assert changed.code == 2
    assert b"another options" in changed.err
    resumed = fit(folder, "release", 1.0, "--rounds", "20", "--resume").ended()
    assert resumed.code == 0, resumed.err


SLOWLY = """
import sys, time
from pathlib import Path
from admeasure.privacy.journal import Journal
tell = Journal._tell
Journal._tell = lambda self, event: (time.sleep(0.2), tell(self, event))
"""
COMMAND = """
from admeasure.cli.run import run
sys.exit(run(sys.argv[1:]))
"""
WORKER = """
import json
from dataclasses import asdict
from admeasure.web import runs, worker
request = runs.RunSettings(
    data="data.csv", rule="all-2way", epsilon="1", delta="1e-9", mechanism="mwem",
    options={"rounds": "20"}, public="", dataset="toy", ledger="book.db", rho=1.0, nonce="",
)
Path(worker.RUN).write_text(json.dumps(asdict(request)))
sys.exit(worker.main(Path(".")))
"""


@pytest.mark.parametrize("code", [COMMAND, WORKER], ids=["command", "worker of the page"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_a_run_is_told_how_to_continue_it(folder: Path, how, code) -> None:
    Book.create(folder / "book.db", "toy", epsilon=1, delta=1e-9)
    argv = ["fit", "data.csv", "--schema", "schema.toml"]
    argv += ["--workload", "all-2way", "--epsilon", "1", "--mechanism", "mwem", "--out", "release"]
    argv += ["--ledger", "book.db", "--dataset", "toy", "--rounds", "20"]
    run = program(SLOWLY + code, tuple(argv), folder)
    wait_for_draws(folder, run, 2)
    run.signal(how)
    ended = run.ended()
    assert ended.code == 130, ended.err.decode()
    assert b"--resume" in ended.err
    assert b"Traceback" not in ended.err
    assert (folder / "release.partial").is_dir()
    (entry,) = Book.open(folder / "book.db").history("toy")
    assert (entry.status, entry.cost.rho) == ("running", entry.reserved.rho)
    if code is WORKER:
        assert '"code": 130' in (folder / "ended.json").read_text()
    resumed = fit(folder, "release", 1.0, "--rounds", "20", "--resume").ended()
    assert resumed.code == 0, resumed.err
