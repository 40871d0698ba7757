"""Talking to the user: results on stdout, everything else on stderr, colour only on a terminal.

How a command talks beside its result is its `Voice`: to people, in JSON lines (`--log json`), or
not at all but for warnings and errors (`--quiet`). What is said is the same: it never holds a value
or a count of the private table.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any, TextIO

from admeasure.plain import clean as clean
from admeasure.plain import table

BOLD, RED, YELLOW, DIM = "1", "1;31", "33", "2"


@dataclass(frozen=True)
class Voice:
    """How a command talks beside its result."""

    quiet: bool = False
    in_json: bool = False


_voice = Voice()


@contextmanager
def speaking(voice: Voice) -> Iterator[None]:
    """Talk in this way for the length of the block."""
    global _voice
    before, _voice = _voice, voice
    try:
        yield
    finally:
        _voice = before


def voice() -> Voice:
    return _voice


def log(event: str, level: str = "info", **facts: Any) -> None:
    """One JSON line on stderr, where JSON lines were asked for; quiet ones are warnings and errors
    alone."""
    if _voice.in_json and not (_voice.quiet and level == "info"):
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, "event": event, **finite(facts)}
        print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)


def styled(text: str, style: str, stream: TextIO) -> str:
    """Text with a terminal's colours where the stream is one and NO_COLOR is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain else f"\x1b[{style}m{text}\x1b[0m"


def say(text: str = "") -> None:
    """A line of the result."""
    print(clean(text))


def say_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    for line in table(headers, rows, left=left):
        say(line)


def say_json(value: Any) -> None:
    """The result for machines. NaN and infinity, which JSON lacks, become null."""
    print(json.dumps(finite(value), indent=2, ensure_ascii=False))


def confirm(text: str) -> None:
    """A line about a result that is in a file, so that nobody misses it where it is not said."""
    if not _voice.quiet:
        say(text)


def note(text: str) -> None:
    """A line beside the result."""
    log("note", message=clean(text))
    if not _voice.quiet and not _voice.in_json:
        print(clean(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    log("warning", "warning", message=clean(text))
    if not _voice.in_json:
        print(styled("warning:", YELLOW, sys.stderr), clean(text), file=sys.stderr, flush=True)


def error(text: str, exit_code: int) -> None:
    """One line; further lines of a list of problems are indented below it."""
    log("error", "error", message=clean(text), exit_code=int(exit_code))
    if _voice.in_json:
        return
    first, *rest = clean(text).splitlines() or [""]
    print(styled("error:", RED, sys.stderr), first, file=sys.stderr)
    for line in rest:
        print("  " + line, file=sys.stderr)
    sys.stderr.flush()


def banner(text: str) -> None:
    """A line of the result that must not be overlooked, where there is one to be said."""
    if text:
        print(styled(f"*** {clean(text)} ***", RED, sys.stdout))


def finite(value: Any) -> Any:
    """Plain data that JSON can hold."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    return value
