"""Runs of the local page: start, watch, cancel, resume. Each is a process of its own.

What is shown of a run comes from its journal, which holds privatised results only, and from the
run's own messages, which never hold a value of the private table.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.privacy.journal import unpack
from admeasure.release.store import partial_folder
from admeasure.report.facts import Round, rounds
from admeasure.run import JOURNAL
from admeasure.web import worker
from admeasure.web.workspace import TableFolder, write_json

RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"


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
    def request(self) -> dict[str, Any]:
        return json.loads((self.path / worker.RUN).read_text(encoding="utf-8"))

    @property
    def ended(self) -> dict[str, Any] | None:
        try:
            return json.loads((self.path / worker.ENDED).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    @property
    def alive(self) -> bool:
        """Whether its process holds its lock."""
        try:
            file = os.open(self.path / worker.LOCK, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
        if self.alive:
            return RUNNING
        ended = self.ended
        if ended is None:
            return FAILED  # it was killed before it could say so
        if ended["code"] == 0 and self.release.is_dir():
            return DONE
        return STOPPED if ended["code"] == worker.INTERRUPTED else FAILED

    @property
    def message(self) -> str:
        """The last words of a run that did not end well, each line from the command line."""
        try:
            lines = (self.path / worker.ERRORS).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ""
        starts = [i for i, line in enumerate(lines) if line.startswith("error:")]
        said = lines[starts[-1] :] if starts else []
        return "\n".join(said).removeprefix("error:").strip()


def all_runs(table: TableFolder) -> list[RunFolder]:
    """Every run of a table, the latest first."""
    found = [RunFolder(p.parent) for p in table.runs.glob(f"*/{worker.RUN}")]
    return sorted(found, key=lambda run: run.number, reverse=True)


def find_run(table: TableFolder, number: str) -> RunFolder:
    path = table.runs / number
    if not number.isdecimal() or not (path / worker.RUN).is_file():
        raise UsageError("There is no such run of this table.")
    return RunFolder(path)


def start(table: TableFolder, request: dict[str, Any]) -> RunFolder:
    """Start a run; `request` has the settings, and gets its command here."""
    number = max((run.number for run in all_runs(table)), default=0) + 1
    while True:
        path = table.runs / str(number)
        try:
            path.mkdir(mode=0o700)
            break
        except FileExistsError:  # another tab was faster
            number += 1
    for source in (table.schema_path, table.workload_path):
        if source.exists():
            (path / source.name).write_bytes(source.read_bytes())
    run = RunFolder(path)
    write_json(path / worker.RUN, {**request, "command": command(request, path)})
    _spawn(run)
    return run


def command(request: dict[str, Any], path: Path) -> list[str]:
    """The arguments of `admeasure` that make this run."""
    workload = request["workload"]
    if workload.endswith("workload.toml"):
        workload = str(path / "workload.toml")
    argv = ["fit", request["data"], "--schema", str(path / "schema.toml"), "--workload", workload]
    argv += ["--epsilon", request["epsilon"], "--delta", request["delta"]]
    argv += ["--mechanism", request["mechanism"], "--out", str(path / "release")]
    if request.get("public"):
        argv += ["--public", request["public"]]
    if request.get("dataset"):
        argv += ["--ledger", request["ledger"], "--dataset", request["dataset"]]
    for name, value in request.get("options", {}).items():
        argv += [f"--{name}", value]
    return [*argv, "--json"]


def resume(run: RunFolder) -> None:
    """Continue a run that was cancelled or killed; nothing is charged twice."""
    if not run.resumable:
        raise UsageError("This run cannot be continued. Start a new one.")
    request = run.request
    argv = [a for a in request["command"] if a != "--resume"]
    write_json(run.path / worker.RUN, {**request, "command": [*argv, "--resume"]})
    (run.path / worker.ENDED).unlink(missing_ok=True)
    _spawn(run)


def cancel(run: RunFolder) -> None:
    """Ask a run to stop, as Ctrl-C would. What it has drawn stays charged and can be resumed."""
    if not run.alive:
        return
    process = int((run.path / "pid").read_text())
    os.killpg(process, signal.SIGINT)


def _spawn(run: RunFolder) -> None:
    with (
        open(run.path / worker.ERRORS, "wb") as errors,
        open(run.path / worker.OUTPUT, "wb") as out,
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "admeasure.web.worker", str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,  # it outlives the server and has a group of its own to signal
            env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
        )
    (run.path / "pid").write_text(str(process.pid))
    _wait_for_lock(run, process)


def _wait_for_lock(run: RunFolder, process: subprocess.Popen[bytes]) -> None:
    """Until the worker holds its lock (or has ended), a look would take it for dead."""
    for _ in range(200):
        if run.alive or process.poll() is not None:
            return
        time.sleep(0.05)


@dataclass
class Progress:
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
                self.events, self._offset = _parsed(path.read_bytes())[0], -1
            return
        size = path.stat().st_size
        if self._offset < 0 or size < self._offset:
            self.events, self._offset = [], 0
        with open(path, "rb") as file:
            file.seek(self._offset)
            raw = file.read()
        found, used = _parsed(raw)
        self.events += found
        self._offset += used

    def rounds(self) -> tuple[Round, ...]:
        return rounds(self.events, self._rho)

    @property
    def _rho(self) -> float:
        return float(self.run.request.get("rho", 0.0))

    @property
    def spent(self) -> float:
        """The part of the run's budget that is spent."""
        total = self._rho
        spent = sum((Fraction(e["rho"]) for e in self.events if e["event"] != "intent"), Fraction())
        return min(1.0, float(spent) / total) if total else 0.0


def _parsed(raw: bytes) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a journal without their values, and how many bytes they take."""
    found, used = [], 0
    for line in raw.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            event = json.loads(line)
        except ValueError:
            break  # room set aside for a result that is not there yet
        values = event.pop("values", None)
        if values is not None and event["event"] == "measure":
            event["total"] = int(unpack(values).sum())
        found.append(event)
        used += len(line)
    return found, used


def described(rounds_: Sequence[Round], most: int = 200) -> list[dict[str, Any]]:
    """Rounds as plain data, the latest last."""
    return [
        {
            "number": r.number,
            "spent": r.spent,
            "steps": [{"what": s.what, "sigma": s.sigma, "share": s.share} for s in r.steps],
        }
        for r in rounds_[-most:]
    ]
