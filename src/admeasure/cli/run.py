"""One command, from its arguments to its exit code (`admeasure.terminal.exits`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec

from admeasure import __version__
from admeasure.terminal.console import log, speaking
from admeasure.terminal.exits import guarded


def run(argv: Sequence[str], ready: Callable[[], None] | None = None) -> int:
    """Run one command and return its exit code; `ready` is called when what it needs is imported,
    before it begins."""
    from admeasure.cli.app import command
    from admeasure.cli.talking import voice_of

    first = next(iter(argv), "")

    def work() -> object:
        parser = command(first)
        if ready is not None:
            if "--help" not in argv:
                _import_verb(first)
            ready()
        return parser.main(list(argv) or ["--help"], prog_name="admeasure", standalone_mode=False)

    with speaking(voice_of(argv)):
        log("start", verb=first, version=__version__)
        return guarded(work, argv)


def _import_verb(name: str) -> None:
    """Most of what a verb imports, which is what it is in Python."""
    from admeasure.cli.app import VERBS

    home = "admeasure.verbs." + VERBS.homes.get(name, "").partition(".")[0]
    if name in VERBS and find_spec(home) is not None:
        import_module(home)
