"""What is told of a run under way: its state, its rounds, what is spent, what it is worth so far.

Everything comes from the run's journal and messages, so from privatised results only.
"""

from __future__ import annotations

from typing import Any

from admeasure.schema import Schema
from admeasure.web import runs
from admeasure.web.estimate import Estimate, estimate
from admeasure.web.kept import Damaged
from admeasure.web.phases import phase
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
            "rounds": runs.described(self._progress.rounds()),
            "spent": self._progress.spent,
            "estimate": {**vars(worth), "asked": self._workload.asked},
        }
