"""`python -m admeasure`, for a place without the console script."""

from __future__ import annotations

from admeasure.cli import main

main()
