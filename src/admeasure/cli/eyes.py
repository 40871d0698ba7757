"""What is shown of the private table to whoever holds it: on a terminal, marked, nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from admeasure.errors import UsageError
from admeasure.schema.look import Finding
from admeasure.terminal.console import RED, clean, styled


def for_eyes_only(*, json: bool) -> None:
    """Refuse to show values where they would be kept: in a file, a pipe or a program."""
    if json or not sys.stderr.isatty():
        raise UsageError(
            "--show prints values of the private table, for the eyes of whoever holds it. Use it "
            "on a terminal, without --json, | or 2>."
        )


def show_findings(findings: Sequence[Finding]) -> None:
    """On stderr, so that a redirected result has none of it."""
    _line("*** NOT PRIVATE: values of the private table. Do not copy, keep or send them. ***")
    for finding in findings:
        mark = styled("likely a mistake: ", RED, sys.stderr) if finding.is_likely else ""
        print(f"  {mark}{clean(str(finding))}", file=sys.stderr)
    if not findings:
        print("  Nothing stands out.", file=sys.stderr)
    _line("*** End of what is NOT PRIVATE. ***")


def _line(text: str) -> None:
    print(styled(text, RED, sys.stderr), file=sys.stderr, flush=True)
