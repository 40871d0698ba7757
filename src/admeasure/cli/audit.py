"""`audit`: recompute what a release claims from its own log."""

from __future__ import annotations

import typer

from admeasure.cli.arguments import Json, ReleasePath
from admeasure.errors import ExitCode
from admeasure.terminal.console import banner, error, say, say_json

SHOWN = 5
"""Problems of one check that are printed; --json has them all."""


def audit(release: ReleasePath, *, json: Json = False) -> None:
    """Recompute from a release's log that its certificate holds. Exit code 3 if it does not."""
    from admeasure.auditing.release import record
    from admeasure.verbs.audit import audit as audited

    found = audited(release)
    code = ExitCode.DONE if found.holds else ExitCode.INVALID
    if json:
        say_json({"release": str(release), **record(found)})
        raise typer.Exit(code)
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
            error(f"{release}: not so: {check.name}:\n{listed}", ExitCode.INVALID)
    raise typer.Exit(code)
