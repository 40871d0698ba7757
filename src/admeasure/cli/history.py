"""Queries of the past and of the future on the command line: `fit --augment`, `evaluate --future`.

What is added to a history is drawn with a fixed seed: it is public, and a run can be resumed.
"""

from __future__ import annotations

from pathlib import Path

from admeasure.errors import UsageError
from admeasure.evaluation.future import FutureError
from admeasure.schema import Schema
from admeasure.terminal.console import say
from admeasure.workload import Workload, parse_workload
from admeasure.workload.history import augmented

SEED = 0


def workload_of(text: str, schema_path: Path, count: int | None) -> Workload | str:
    """The workload as it was named, or with `count` random queries added."""
    if count is None:
        return text
    if count < 1:
        raise UsageError(f"--augment must be at least 1; it is {count}.")
    domain = Schema.load(schema_path).domain
    return augmented(parse_workload(text, domain), count, domain, SEED)


def say_future(found: FutureError, text: str) -> None:
    say()
    say(
        f"future error {found.error:.5f} ({found.confidence:.0%} interval {found.low:.5f} to "
        f"{found.high:.5f}): the mean largest error of {found.draws:,} queries drawn from {text}, "
        f"{found.distinct:,} of them different."
    )
