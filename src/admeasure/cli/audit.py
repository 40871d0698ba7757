"""`audit`: recompute what a release claims from its own log."""

from __future__ import annotations

from pathlib import Path

from admeasure.auditing.release import record
from admeasure.errors import ExitCode
from admeasure.terminal.console import banner, error, say, say_json
from admeasure.verbs.audit import audit

SHOWN = 5
"""Problems of one check that are printed; --json has them all."""


def show(path: Path, *, json: bool) -> int:
    """The exit code: 0 where every claim holds, else 3 with what failed."""
    found = audit(path)
    if json:
        say_json({"release": str(path), **record(found)})
        return 0 if found.holds else ExitCode.INVALID
    if found.stamp:
        banner(found.stamp)
    elif found.promise:
        say(found.promise)
    for check in found.checks:
        say(f"{'FAILED' if check.problems else 'ok':<7} {check.name}")
    lost = f", {found.lost_draws} draw(s) lost to a crash" if found.lost_draws else ""
    say(f"{found.measurements} measurement(s), {found.choices} choice(s){lost}.")
    for check in found.checks:
        if check.problems:
            rest = len(check.problems) - SHOWN
            more = f"\n… and {rest} more" if rest > 0 else ""
            listed = "\n".join(check.problems[:SHOWN]) + more
            error(f"{path}: not so: {check.name}:\n{listed}", ExitCode.INVALID)
    return 0 if found.holds else ExitCode.INVALID
