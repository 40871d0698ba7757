"""One run as a process of its own: `python -m admeasure.web.worker RUN`.

Runs the command of RUN/run.json as the command line would, then writes the publishable report
beside the release. Its exit code goes to RUN/ended.json; as long as it lives it holds a lock on
RUN/lock, so that any server, also one that started later, can tell whether the run goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

from admeasure.web.workspace import write_json

LOCK, RUN, ENDED, ERRORS, OUTPUT = "lock", "run.json", "ended.json", "errors.txt", "output.txt"
REPORT = "report.html"
INTERRUPTED = 130


def main(folder: Path) -> int:
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
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


def _work(folder: Path) -> int:
    from admeasure.cli.run import run

    request = json.loads((folder / RUN).read_text(encoding="utf-8"))
    code = run(request["command"])
    if code == 0:
        report = ["report", str(folder / "release"), "-o", str(folder / REPORT), "--force"]
        ledger = request.get("ledger")
        run([*report, *(["--ledger", ledger] if ledger else [])])
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
