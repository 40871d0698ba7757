"""What is told of a run under way: its state, its rounds, what is spent, what it is worth so far.

Everything comes from the run's journal and messages, so from privatised results only.
"""

from __future__ import annotations

from typing import Any

from admeasure.schema import Schema
from admeasure.web import runs
from admeasure.web.estimate import estimate
from admeasure.workload import parse_workload


class Watched:
    """A run, looked at again and again."""

    def __init__(self, run: runs.RunFolder) -> None:
        self._run = run
        self._progress = runs.Progress(run)
        self._domain = Schema.load(run.path / "schema.toml").domain
        command = run.request["command"]
        text = command[command.index("--workload") + 1]
        self._marginals = parse_workload(text, self._domain).marginals()
        self._seen = -1
        self._told: dict[str, Any] = {}

    def look(self) -> dict[str, Any]:
        """The whole state, as plain data."""
        state = self._run.state
        self._progress.read()
        if len(self._progress.events) != self._seen:
            self._seen = len(self._progress.events)
            worth = estimate(self._progress.events, self._marginals, self._domain)
            self._told = {
                "rounds": runs.described(self._progress.rounds()),
                "spent": self._progress.spent,
                "estimate": vars(worth),
            }
        ended_badly = state not in (runs.RUNNING, runs.DONE)
        return {
            "state": state,
            "message": self._run.message if ended_badly else "",
            "resumable": self._run.resumable,
            **self._told,
        }
