"""Commands that read a private table or make many rows, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from admeasure.errors import UsageError


def run(argv: list[str]) -> str:
    """What a command of `admeasure` prints; its error as a `UsageError`."""
    done = _done(argv)
    if done.returncode:
        raise UsageError(_error(done))
    return done.stdout


def run_json(argv: list[str]) -> dict[str, Any]:
    """The JSON of a command, also of one that says no by its exit code."""
    done = _done(argv)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise UsageError(_error(done)) from None


def _done(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # -P: no file that lies in the folder at hand is taken for a module.
        [sys.executable, "-P", "-m", "admeasure", *argv],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        umask=0o077,
    )


def _error(done: subprocess.CompletedProcess[str]) -> str:
    return last_error(done.stderr) or (
        f"The command ended with code {done.returncode} and said nothing."
    )


def last_error(said: str) -> str:
    """The last error that a command said, with the lines that belong to it; nothing where it said
    none."""
    lines = said.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("error:")]
    return "\n".join(lines[starts[-1] :] if starts else ()).removeprefix("error:").strip()
