"""What is told of a run under way: its state, its rounds, what is spent, what it is worth so far.

Everything comes from the run's journal and messages, so from privatised results only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from admeasure.schema import Schema
from admeasure.web import runs
from admeasure.web.estimate import Estimate, estimate
from admeasure.web.kept import Damaged
from admeasure.workload import parse_workload

NOTHING = {"phase": "", "rounds": [], "spent": 0.0, "estimate": vars(Estimate(None, 0, 0, None))}


class Watched:
    """A run, looked at again and again."""

    def __init__(self, run: runs.RunFolder) -> None:
        self._run = run
        self._progress = runs.FollowedJournal(run)
        self._domain = Schema.load(run.path / "schema.toml").domain
        self._workload = parse_workload(run.workload, self._domain)
        self._seen = -1
        self._told: dict[str, Any] = {}

    def look(self) -> dict[str, Any]:
        """The whole state, as plain data."""
        state = self._run.state
        damage = self._follow()
        ended_badly = state not in (runs.RUNNING, runs.DONE)
        return {
            "state": state,
            "message": damage or (self._run.message if ended_badly else ""),
            "resumable": self._run.resumable,
            "attempt": self._run.settings.attempt,
            **self._told,
            "phase": self._phase() if state == runs.RUNNING else "",
        }

    def _phase(self) -> str:
        settings = self._run.settings
        return phase(
            self._progress.events,
            spent=self._told["spent"],
            certify=float(settings.certify or 0),
            mechanism=settings.mechanism,
            released=self._run.release.is_dir(),
        )

    def _follow(self) -> str:
        """Take in what the journal has more than before; what is wrong with it, if anything."""
        try:
            self._progress.read()
            if len(self._progress.events) != self._seen:
                self._told = self._summary()
                self._seen = len(self._progress.events)
        except (Damaged, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            self._told = self._told or NOTHING
            return "The journal of this run cannot be read. Continue the run: it will say why."
        return ""

    def _summary(self) -> dict[str, Any]:
        worth = estimate(self._progress.events, self._workload.marginals(), self._domain)
        return {
            "rounds": self._progress.rounds,
            "spent": self._progress.spent,
            "estimate": {**vars(worth), "asked": self._workload.asked},
        }


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
    """What a run is doing now, in words, after these events. `spent` and `certify` are parts of
    its budget.

    A run reads the table, buys what its schema leaves open (bins, categories), chooses and
    measures, fits its final model when the mechanism's part of the budget is spent, buys the
    accuracy certificate, writes its release and then its report.
    """
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
