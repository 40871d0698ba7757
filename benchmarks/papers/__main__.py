"""The papers' experiments from the command line; `papers/__init__.py` says how."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The folder above, not this one: `aim` and `rap` are other files there.
sys.path[:] = [str(HERE.parent), *(p for p in sys.path if Path(p or ".").resolve() != HERE)]

if __name__ == "__main__":
    if sys.argv[1:] == ["--job"]:
        from papers.pieces import serve_job

        serve_job()
    else:
        from papers.command import main

        main()
