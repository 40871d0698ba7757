"""auto: the mechanism that public facts recommend, and why (figures: docs/how-to/choosing.md).

Goes by what is asked for (a public table to learn from, predicates, marginals and thresholds) and
by whether JAX is installed; never by the table, which is not open yet. So the choice says nothing
of anybody and costs nothing. Columns, budget and rows do not matter to it: where the study had
marginals and thresholds alone, one mechanism was the best or level with it throughout. A release
has the name of the mechanism that was chosen, and the reason as a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from admeasure.errors import UsageError
from admeasure.mechanisms import AUTO, build
from admeasure.planning.mechanism import Mechanism


@dataclass(frozen=True)
class Choice:
    """A mechanism, and why it was chosen; nothing where a person named it."""

    mechanism: Mechanism
    why: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for a plan and for a certificate."""
        return (f"auto chose {self.mechanism.name}: {self.why}.",) if self.why else ()


@dataclass(frozen=True)
class Auto:
    """The wish for a mechanism that suits; it has no options."""

    name: ClassVar[str] = AUTO
    summary: ClassVar[str] = "the mechanism that suits the workload and what else is public"

    def choose(self, *, public: bool, predicates: bool) -> Choice:
        """Which one. What it cannot serve, it refuses as ever."""
        if predicates and public:
            raise UsageError(
                "No mechanism learns from predicates and from a public table. Leave one of them "
                "out."
            )
        if predicates:
            return Choice(build("gem"), "the workload has predicates, which no other learns from")
        if public and find_spec("jax") and find_spec("optax"):
            return Choice(
                build("gem-pub"),
                "a public table is given, and it can learn what that table lacks, which "
                "reweighting cannot",
            )
        if public:
            return Choice(
                build("pmw-pub"),
                "a public table is given, and gem-pub needs JAX, which is not installed",
            )
        return Choice(
            build("aim-plus"), "of those that serve any workload of marginals it errs least"
        )
