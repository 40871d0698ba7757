"""Talking to the user: results on stdout, everything else on stderr, colour only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TextIO

from admeasure.plain import clean as clean
from admeasure.plain import table as table

BOLD, RED, YELLOW, DIM = "1", "1;31", "33", "2"


def styled(text: str, style: str, stream: TextIO) -> str:
    """Text with a terminal's colours where the stream is one and NO_COLOR is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain else f"\x1b[{style}m{text}\x1b[0m"


def say(text: str = "") -> None:
    """A line of the result."""
    print(clean(text))


def say_json(value: Any) -> None:
    """The result for machines. NaN and infinity, which JSON lacks, become null."""
    print(json.dumps(_finite(value), indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """A line beside the result."""
    print(clean(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    print(styled("warning:", YELLOW, sys.stderr), clean(text), file=sys.stderr, flush=True)


def error(text: str) -> None:
    """One line; further lines of a list of problems are indented below it."""
    first, *rest = clean(text).splitlines() or [""]
    print(styled("error:", RED, sys.stderr), first, file=sys.stderr)
    for line in rest:
        print("  " + line, file=sys.stderr)
    sys.stderr.flush()


def banner(text: str) -> None:
    """A line of the result that must not be overlooked."""
    print(styled(f"*** {clean(text)} ***", RED, sys.stdout))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    return value
