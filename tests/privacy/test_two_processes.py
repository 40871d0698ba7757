"""The budget holds when processes race for it, and when one is killed while it spends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
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

# A fit whose every draw takes a while, so that a kill finds it at work.
SLOW = """
import sys, time
import admeasure
from admeasure.request import ChargeTo
admeasure.fit("data.csv", "schema.toml", workload="all-2way", mechanism=admeasure.mwem(rounds=20),
    epsilon=1, delta=1e-9, out="release", charge_to=ChargeTo("book.db", "toy"),
    resume="--resume" in sys.argv, listeners=(lambda event: time.sleep(0.15),))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{i % 4},{(i * i) % 3}" for i in range(120)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "slow.py").write_text(SLOW)
    return tmp_path


def fit(folder: Path, name: str, epsilon: float, *extra: str) -> subprocess.Popen[str]:
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
    return subprocess.Popen(
        [sys.executable, "-m", "admeasure.cli", "fit", "data.csv", *given, *extra],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_processes_that_spend_at_once_never_pass_the_total(folder: Path) -> None:
    one = Fraction(rho_of(1.0, 1e-9))
    # Room for two runs of epsilon 1 and not for three.
    total = next(e / 100 for e in range(100, 300) if rho_of(e / 100, 1e-9) > 2 * one)
    book = Book.create(folder / "book.db", "toy", epsilon=total, delta=1e-9)
    runs = [fit(folder, f"release{i}", 1.0) for i in range(4)]
    said = [run.communicate(timeout=120)[1] for run in runs]
    codes = [run.returncode for run in runs]
    assert sorted(codes) == [0, 0, 4, 4], said
    for i, (code, text) in enumerate(zip(codes, said, strict=True)):
        assert (folder / f"release{i}").exists() == (code == 0)
        assert not (folder / f"release{i}.partial").exists()
        assert ("Nothing was charged" in text) == (code == 4)
    account = book.account("toy")
    assert account.spent.rho == sum((e.cost.rho for e in book.history("toy")), Fraction(0))
    assert account.spent.rho == 2 * one


def test_of_two_processes_that_write_to_one_place_one_is_refused_uncharged(folder: Path) -> None:
    book = Book.create(folder / "book.db", "toy", epsilon=10, delta=1e-9)
    runs = [fit(folder, "release", 1.0) for _ in range(2)]
    for run in runs:
        run.communicate(timeout=120)
    codes = sorted(run.returncode for run in runs)
    assert codes == [0, 2]
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


def start_slow(folder: Path, *extra: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "slow.py", *extra], cwd=folder, stderr=subprocess.PIPE)


def wait_for_draws(folder: Path, run: subprocess.Popen[bytes], draws: int) -> None:
    journal = folder / "release.partial" / "journal.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if journal.exists() and journal.read_bytes().count(b'"event":"measure"') >= draws:
            return
        if run.poll() is not None:
            _, error = run.communicate()
            pytest.fail(f"the run ended before it could be killed: {error.decode()}")
        time.sleep(0.02)
    pytest.fail("the run made no draw within a minute")


def test_a_killed_run_stays_charged_in_full_and_continues_from_its_log(folder: Path) -> None:
    book = Book.create(folder / "book.db", "toy", epsilon=1, delta=1e-9)
    run = start_slow(folder)
    wait_for_draws(folder, run, 4)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    run.communicate()

    rho = Fraction(rho_of(1.0, 1e-9))
    (entry,) = book.history("toy")
    assert (entry.status, entry.cost.rho) == ("running", rho)
    assert not (folder / "release").exists()
    refused = fit(folder, "another", 0.1)
    refused.communicate(timeout=60)
    assert refused.returncode == 4
    journal = folder / "release.partial" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    before = [json.loads(line) for line in lines if line.endswith(b"\n")]

    resumed = start_slow(folder, "--resume")
    _, error = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, error.decode()
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
    second = start_slow(folder, "--resume")
    _, error = second.communicate(timeout=60)
    assert second.returncode != 0
    assert b"Another process is running" in error
    _, error = run.communicate(timeout=120)
    assert run.returncode == 0, error.decode()
    assert len(book.history("toy")) == 1


def test_an_interrupted_command_says_how_to_continue(folder: Path) -> None:
    Book.create(folder / "book.db", "toy", epsilon=1, delta=1e-9)
    run = start_slow(folder)
    wait_for_draws(folder, run, 2)
    run.kill()
    run.communicate()
    again = fit(folder, "release", 1.0, "--rounds", "20")
    _, said = again.communicate(timeout=60)
    assert again.returncode == 2
    assert "--resume" in said
    changed = fit(folder, "release", 1.0, "--rounds", "21", "--resume")
    _, said = changed.communicate(timeout=60)
    assert changed.returncode == 2
    assert "another options" in said
    resumed = fit(folder, "release", 1.0, "--rounds", "20", "--resume")
    _, said = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, said


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
    command = [sys.executable, "-c", SLOWLY + code, *argv]
    run = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for_draws(folder, run, 2)
    run.send_signal(how)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said.decode()
    assert b"--resume" in said
    assert b"Traceback" not in said
    assert (folder / "release.partial").is_dir()
    (entry,) = Book.open(folder / "book.db").history("toy")
    assert (entry.status, entry.cost.rho) == ("running", entry.reserved.rho)
    if code is WORKER:
        assert '"code": 130' in (folder / "ended.json").read_text()
    resumed = fit(folder, "release", 1.0, "--rounds", "20", "--resume")
    _, said = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, said
