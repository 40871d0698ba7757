"""What a run is doing now, in words, from the first row read to the report.

Told from its journal, which holds privatised results only, and from which of its files are there.
A run reads the table, buys what its schema leaves open (bins, categories), chooses and measures,
fits its final model when the mechanism's part of the budget is spent, buys the accuracy
certificate, writes its release and then its report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

READING = "reading the table"
CHOOSING = "choosing what to measure next"
MEASURING = "measuring"
FITTING = "fitting the model to what was measured"
FINAL = "fitting the final model"
CERTIFYING = "measuring how far the final model is from the table"
BINS, CATEGORIES = "finding bins", "finding categories"
SEARCHING = "searching rows that agree with what was chosen"
WRITING, REPORTING = "writing the release", "writing the report"

_SEARCH = ("dualquery", "fem")
"""These answer each choice by a search for rows, and measure nothing."""
_ALL_BUT = 1e-3
"""Of the budget: what a schedule may leave over."""


def phase(
    events: Sequence[dict[str, Any]],
    *,
    spent: float,
    certify: float,
    mechanism: str,
    released: bool,
) -> str:
    """The phase after these events. `spent` and `certify` are parts of the run's budget."""
    if released:
        return REPORTING
    if not events:
        return READING
    last = events[-1]
    announced = last["event"] == "intent"
    kind = last["of"] if announced else last["event"]
    is_last_part = spent >= (1 - certify) * (1 - _ALL_BUT)
    if kind in ("statistic", "find"):
        return _bought(kind, announced=announced, certificate=is_last_part and certify > 0)
    if announced:
        return MEASURING if kind == "measure" else CHOOSING
    if is_last_part:
        return FINAL
    if kind == "measure":
        return FITTING
    return SEARCHING if mechanism in _SEARCH else MEASURING


def _bought(kind: str, *, announced: bool, certificate: bool) -> str:
    if certificate:
        return CERTIFYING if announced else WRITING
    return BINS if kind == "statistic" else CATEGORIES
