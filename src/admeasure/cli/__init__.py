"""The command line: `admeasure VERB`. Imports nothing heavy until a verb needs it."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """The console script."""
    from admeasure.cli.run import run

    code = run(sys.argv[1:])
    if "duckdb" not in sys.modules:  # which says on stderr what was not taken down
        gc.freeze()  # nothing is looked for in what ends with it: a fifth of a short command
    sys.exit(code)
