"""One command, from its arguments to its exit code (`admeasure.terminal.exits`)."""

from __future__ import annotations

from collections.abc import Sequence

from admeasure.terminal.exits import guarded


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    from admeasure.cli.app import command

    def work() -> object:
        parser = command()
        return parser.main(list(argv) or ["--help"], prog_name="admeasure", standalone_mode=False)

    return guarded(work, argv)
