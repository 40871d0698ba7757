"""Talking to the user: results on stdout, everything else on stderr, colour only on a terminal.

Nothing here sees the private table. Progress shows parts of work done and privatised events.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Protocol, TextIO

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


class Bar(Protocol):
    """Hears which part of a step is done, from 0 to 1, and what is to be said beside it."""

    def __call__(self, part: float, said: str = "") -> None: ...


@contextmanager
def progress() -> Iterator[Callable[[str], Bar]]:
    """Makes bars on a terminal; elsewhere lines, at the start of a step and at each quarter."""
    if not sys.stderr.isatty():
        yield _lines
        return
    # Imported here: it costs more than the rest of the command line together.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:

        def make(label: str) -> Bar:
            name = clean(label).replace("[", r"\[")
            task = shown.add_task(name, total=None)

            def tell(part: float, said: str = "") -> None:
                text = f"{name} ({said})" if said else name
                shown.update(task, total=1.0, completed=min(1.0, part), description=text)

            return tell

        yield make


def _lines(label: str) -> Bar:
    note(f"{label} …")
    told = 0

    def tell(part: float, said: str = "") -> None:
        nonlocal told
        quarter = int(4 * min(1.0, part))
        if told < quarter < 4:
            note(f"{label}: {25 * quarter}%" + (f" ({said})" if said else ""))
        told = max(told, quarter)

    return tell
