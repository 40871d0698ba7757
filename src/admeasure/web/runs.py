"""Runs of the local page: start, watch, cancel, resume. Each is a process of its own.

What is shown of a run comes from its journal, which holds privatised results only, and from the
run's own messages, which never hold a value of the private table.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from admeasure.errors import ReleaseError, UsageError
from admeasure.files import write_private
from admeasure.privacy.cost import read_cost
from admeasure.privacy.events import read_event
from admeasure.privacy.journal import unpack
from admeasure.release.store import partial_folder
from admeasure.reporting.facts import rounds
from admeasure.run import JOURNAL
from admeasure.verbs.given import mechanism_of
from admeasure.web import worker
from admeasure.web.commands import last_error
from admeasure.web.kept import (
    Damaged,
    damaged,
    locked,
    read_bytes,
    read_json,
    read_part,
    write_json,
)
from admeasure.web.wording import on_page
from admeasure.web.workspace import Stale, TableFolder

RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"
LAST_WORDS = 64 << 10
MOST_JOURNAL = 64 << 20
"""Bytes of a journal that are taken in at one look."""
SHOWN = 200
"""Rounds of a run that a page is told of."""
UNSETTLED = "Its release is written. Continue it, so that it is settled with the budget book."


@dataclass(frozen=True)
class RunSettings:
    """What a run was asked for; `rule` is empty where the workload is a list."""

    data: str
    rule: str
    epsilon: str
    delta: str
    mechanism: str
    options: dict[str, str]
    public: str
    dataset: str
    ledger: str
    rho: float
    nonce: str
    attempt: int = 1
    certify: str = ""
    """The share of the budget for the accuracy certificate; empty in runs from before there was a
    choice."""

    @classmethod
    def of(cls, path: Path) -> RunSettings:
        """The settings in a file; its texts are settings and never a command."""
        stored = read_json(path)
        known = {f.name: stored[f.name] for f in fields(cls) if f.name in stored}
        try:
            settings = cls(**known)
        except TypeError:
            raise damaged(path, "parts of it are missing") from None
        texts = {f.name: getattr(settings, f.name) for f in fields(cls) if f.type == "str"}
        options = settings.options if isinstance(settings.options, dict) else {"": 0}
        if (
            not all(isinstance(text, str) for text in texts.values())
            or not all(isinstance(v, str) for v in options.values())
            or type(settings.rho) not in (int, float)
            or type(settings.attempt) is not int
            or any(t.startswith("-") for name, t in texts.items() if name != "nonce")
            or not re.fullmatch(r"[0-9.e-]*", settings.certify)
        ):
            raise damaged(path, "parts of it are of another kind")
        return settings


@dataclass(frozen=True)
class RunFolder:
    """One run."""

    path: Path

    @property
    def number(self) -> int:
        return int(self.path.name)

    @property
    def release(self) -> Path:
        return self.path / "release"

    @property
    def settings(self) -> RunSettings:
        return RunSettings.of(self.path / worker.RUN)

    @property
    def workload(self) -> str:
        """The workload as the command line takes it."""
        return self.settings.rule or str(self.path / "workload.toml")

    @property
    def code(self) -> int | None:
        """How its process ended; None where it goes on, or could not say."""
        try:
            return int(read_json(self.path / worker.ENDED)["code"])
        except (FileNotFoundError, Damaged, KeyError, TypeError, ValueError):
            return None

    @property
    def alive(self) -> bool:
        """Whether its process holds its lock."""
        try:
            file = os.open(self.path / worker.LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(file)

    @property
    def resumable(self) -> bool:
        return not self.alive and partial_folder(self.release).is_dir()

    @property
    def state(self) -> str:
        """By what is there. A release is never called a failure, however its process ended."""
        if self.alive:
            return RUNNING
        if self.release.is_dir():
            return STOPPED if partial_folder(self.release).is_dir() else DONE
        return STOPPED if self.code == worker.INTERRUPTED else FAILED

    @property
    def message(self) -> str:
        """The last words of a run that did not end well, in words of the page."""
        if self.release.is_dir():
            return UNSETTLED
        try:
            path = self.path / worker.ERRORS
            last = read_part(path, max(0, path.stat().st_size - LAST_WORDS), LAST_WORDS)
        except (OSError, Damaged):
            return ""
        return on_page(last_error(last.decode("utf-8", errors="replace")))


def all_runs(table: TableFolder) -> list[RunFolder]:
    """Every run of a table, the latest first."""
    found = [RunFolder(p.parent) for p in table.runs.glob(f"*/{worker.RUN}")]
    mine = [run for run in found if run.path.name.isdecimal()]
    return sorted(mine, key=lambda run: run.number, reverse=True)


def find_run(table: TableFolder, number: str) -> RunFolder:
    path = table.runs / number
    if not number.isdecimal() or not (path / worker.RUN).is_file():
        raise UsageError("There is no such run of this table.")
    return RunFolder(path)


def with_nonce(table: TableFolder, nonce: str) -> RunFolder | None:
    """The run that this nonce has started."""
    for run in all_runs(table):
        try:
            if run.settings.nonce == nonce:
                return run
        except Damaged:
            continue
    return None


def prepare(table: TableFolder, settings: RunSettings, schema: str, workload: str) -> RunFolder:
    """A folder for a run, with all that it needs. The table must be held."""
    number = max((int(p.name) for p in table.runs.iterdir() if p.name.isdecimal()), default=0) + 1
    path = table.runs / str(number)
    path.mkdir(mode=0o700)
    write_private(path / "schema.toml", schema)
    write_private(path / "workload.toml", workload)
    write_json(path / worker.RUN, asdict(settings))
    return RunFolder(path)


def command(settings: RunSettings, path: Path) -> list[str]:
    """The arguments of `admeasure` that make this run: always a `fit`, with known options."""
    mechanism_of(settings.mechanism, settings.options)  # refuses an option that is not its own
    workload = settings.rule or str(path / "workload.toml")
    argv = ["fit", settings.data, "--schema", str(path / "schema.toml"), "--workload", workload]
    argv += ["--epsilon", settings.epsilon, "--delta", settings.delta]
    argv += ["--mechanism", settings.mechanism, "--out", str(path / "release")]
    if settings.certify:
        argv += ["--certify", settings.certify]
    if settings.public:
        argv += ["--public", settings.public]
    if settings.dataset:
        argv += ["--ledger", settings.ledger, "--dataset", settings.dataset]
    for name, value in settings.options.items():
        argv += [f"--{name}", value]
    return argv


def resume(run: RunFolder, seen: int) -> None:
    """Continue a run that was cancelled or killed; nothing is charged twice. `seen` is the attempt
    that was shown: what was continued since, or is done, is not continued again."""
    with locked(run.path / ".lock"):
        if run.state in (RUNNING, DONE):
            return
        settings = run.settings
        if seen != settings.attempt:
            raise Stale("This run was continued elsewhere. Reload the page to see it.")
        if not run.resumable:
            raise UsageError("This run cannot be continued. Start a new one.")
        write_json(run.path / worker.RUN, asdict(replace(settings, attempt=settings.attempt + 1)))
        (run.path / worker.ENDED).unlink(missing_ok=True)
        spawn(run)


def cancel(run: RunFolder) -> None:
    """Ask a run to stop, as Ctrl-C would. What it has drawn stays charged and can be resumed."""
    if not run.alive:
        return
    # Its own process wrote this, and lives: it holds the lock.
    number = int(read_bytes(run.path / worker.LOCK, 32) or b"0")
    if number > 1 and os.getpgid(number) == number:
        os.killpg(number, signal.SIGINT)


def spawn(run: RunFolder) -> None:
    """Start the process of a run."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    errors = os.open(run.path / worker.ERRORS, flags, 0o600)
    out = os.open(run.path / worker.OUTPUT, flags, 0o600)
    try:
        process = subprocess.Popen(
            # -P: no file that lies in the folder at hand is taken for a module.
            [sys.executable, "-P", "-m", "admeasure.web.worker", str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,  # it outlives the server and has a group of its own to signal
            env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
        )
    finally:
        os.close(errors)
        os.close(out)
    _wait_for_lock(run, process)


def _wait_for_lock(run: RunFolder, process: subprocess.Popen[bytes]) -> None:
    """Until the worker holds its lock (or has ended), a look would take it for dead."""
    for _ in range(200):
        if run.alive or process.poll() is not None:
            return
        time.sleep(0.05)


@dataclass
class FollowedJournal:
    """A run's journal, read as it grows."""

    run: RunFolder
    events: list[dict[str, Any]] = field(default_factory=list)
    _offset: int = 0

    def read(self) -> None:
        """Take in what was appended; start anew where the journal is not the one seen before."""
        path = partial_folder(self.run.release) / JOURNAL
        if not path.exists():
            path = self.run.release / "log.jsonl"
            if path.exists() and self._offset >= 0:
                self.events, self._offset = _parsed(read_bytes(path, MOST_JOURNAL))[0], -1
            return
        size = path.stat().st_size
        if self._offset < 0 or size < self._offset:
            self.events, self._offset = [], 0
        found, used = _parsed(read_part(path, self._offset, MOST_JOURNAL))
        self.events += found
        self._offset += used

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """The latest rounds as plain data, the last one last."""
        return [asdict(r) for r in rounds(self.events, float(self.run.settings.rho))[-SHOWN:]]

    @property
    def spent(self) -> float:
        """The part of the run's budget that is spent."""
        total = float(self.run.settings.rho)
        spent = sum(float(read_cost(e)) for e in self.events if e["event"] != "intent")
        return min(1.0, spent / total) if total else 0.0


def _parsed(raw: bytes) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a journal without their values, and how many bytes they take."""
    found, used = [], 0
    for line in raw.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            event = read_event(line, "the journal")
        except ReleaseError:
            break  # room set aside for a result that is not there yet
        values = event.pop("values", None)
        if values is not None and event["event"] == "measure":
            event["total"] = int(unpack(values).sum())
        found.append(event)
        used += len(line)
    return found, used
