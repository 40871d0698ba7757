"""One run as a process of its own: `python -m admeasure.web.worker RUN`.

Runs the `fit` that RUN/run.json asks for, then writes the publishable report beside the release;
errors are said as the command line says them. Its exit code goes to RUN/ended.json; as long as it
lives it holds a lock on RUN/lock, so that any server, also one that started later, can tell whether
the run goes on, and its number stands in that file. A second worker of a run that goes on ends and
leaves no trace.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from admeasure.errors import AdmeasureError
from admeasure.terminal.exits import guarded, resumable
from admeasure.web.kept import write_json

if TYPE_CHECKING:
    from admeasure.web.runs import RunSettings

LOCK, RUN, ENDED, ERRORS, OUTPUT = "lock", "run.json", "ended.json", "errors.txt", "output.txt"
REPORT = "report.html"
INTERRUPTED, BUSY = 130, 3
TRIES, PAUSE = 100, 0.05
"""A server that looks whether the run goes on holds the lock for an instant."""


def main(folder: Path, tries: int = TRIES) -> int:
    os.umask(0o077)
    lock = locked(folder / LOCK, tries)
    if lock is None:
        return BUSY
    # A server in the background of a shell ignores Ctrl-C, and its children would inherit that.
    # Whoever ends the process otherwise (SIGTERM) leaves a run that can be continued, too.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    started = time.time()
    try:
        code = _work(folder)
    except KeyboardInterrupt:  # between the commands, or before the first
        code = INTERRUPTED
    write_json(folder / ENDED, {"code": code, "seconds": round(time.time() - started, 1)})
    return code


def locked(path: Path, tries: int = TRIES) -> int | None:
    """The lock, with the number of this process in its file; None where the run goes on."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    for _ in range(tries):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return lock
    os.close(lock)
    return None


def _work(folder: Path) -> int:
    from admeasure.web.runs import RunFolder

    try:
        settings = RunFolder(folder).settings
    except AdmeasureError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    texts = [settings.data, settings.public, settings.ledger, *settings.options.values()]
    code = guarded(lambda: _fit(settings, folder), texts)
    if code == 0:
        guarded(lambda: _report(settings, folder), texts)
    return code


def _fit(settings: RunSettings, folder: Path) -> None:
    from admeasure.release.store import partial_folder
    from admeasure.request import ChargeTo
    from admeasure.verbs.fit import fit
    from admeasure.verbs.given import mechanism_of
    from admeasure.web.budget import number

    release = folder / "release"
    try:
        fit(
            settings.data,
            folder / "schema.toml",
            workload=settings.rule or folder / "workload.toml",
            mechanism=mechanism_of(settings.mechanism, settings.options),
            epsilon=number(settings.epsilon, "epsilon"),
            delta=number(settings.delta, "delta"),
            public=settings.public or None,
            out=release,
            certify=number(settings.certify, "certify") if settings.certify else None,
            charge_to=ChargeTo(settings.ledger, settings.dataset) if settings.dataset else None,
            resume=settings.attempt > 1,
            progress=True,
        )
    except KeyboardInterrupt:
        raise resumable(partial_folder(release)) from None


def _report(settings: RunSettings, folder: Path) -> None:
    from admeasure.verbs.report import report

    book = settings.ledger or None
    report(folder / "release", folder / REPORT, book=book, overwrite=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
