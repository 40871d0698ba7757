"""One command, from its arguments to its exit code (`admeasure.terminal.exits`)."""

from __future__ import annotations

from collections.abc import Sequence

from admeasure import __version__
from admeasure.terminal.console import log, speaking
from admeasure.terminal.exits import guarded


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    from admeasure.cli.app import command
    from admeasure.cli.talking import voice_of

    def work() -> object:
        parser = command(next(iter(argv), ""))
        return parser.main(list(argv) or ["--help"], prog_name="admeasure", standalone_mode=False)

    with speaking(voice_of(argv)):
        log("start", verb=next(iter(argv), ""), version=__version__)
        return guarded(work, argv)
