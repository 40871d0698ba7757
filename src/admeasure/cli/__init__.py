"""The command line: `admeasure VERB`. Imports nothing heavy until a verb needs it."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script."""
    from admeasure.cli.run import run

    sys.exit(run(sys.argv[1:]))
