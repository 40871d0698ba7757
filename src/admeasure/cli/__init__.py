"""The command line: `admeasure VERB`. Imports nothing heavy until a verb needs it."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """The console script."""
    gc.disable()
    from admeasure.cli.run import run

    sys.exit(run(sys.argv[1:], ready=_collect_from_now_on))


def _collect_from_now_on() -> None:
    """Look for garbage, but not in what was imported, of which none is: looking there, on the way
    and at the end, is a fifth of a short command."""
    if "duckdb" not in sys.modules:  # which says on stderr what was not taken down at the end
        gc.freeze()
    gc.enable()
