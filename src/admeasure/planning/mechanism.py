"""What every mechanism is: options that can be checked, planned and run.

A mechanism is a frozen dataclass; its fields are its options, on the command line and in Python.
Whoever asks it builds one `Task` and gives it to each method. It never touches the table: `run` is
handed a curator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

from admeasure.errors import UsageError
from admeasure.families import Model
from admeasure.measurement import NoisyErrors
from admeasure.planning.division import Division, Item, Task
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.public.table import PublicTable
from admeasure.queries import Predicate
from admeasure.schema.inside import Inside
from admeasure.selectors.evidence import Selection


@dataclass(frozen=True)
class Plan:
    """How a budget would be spent, and what can be said of the outcome before seeing any data.

    `expected_error` is the mean over the workload's marginals of the normalised L1 error (AIM's
    Definition 2) that noise alone would cause, for a table of `rows` rows; None where it depends
    on what the mechanism will choose.
    """

    items: tuple[Item, ...]
    rounds: str
    expected_error: float | None
    megabytes: float
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fitted model, and what its release should say about the run."""

    model: Model
    rounds: int
    selections: tuple[Selection, ...] = ()
    notes: tuple[str, ...] = field(default=())
    errors: NoisyErrors | None = None
    """Of the model, where a certificate of its accuracy was bought."""
    inside: Mapping[str, Inside] = field(default_factory=dict)
    """How values lie inside the bins of columns, where a run bought that."""


@runtime_checkable
class Mechanism(Protocol):
    name: ClassVar[str]
    summary: ClassVar[str]

    def check(self, task: Task) -> None:
        """Raise a clear error where the mechanism cannot serve this. Nothing is charged yet."""
        ...

    def needs(self, task: Task) -> float:
        """Megabytes, beside what the process holds, that a run cannot do without; `room`."""
        ...

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        """How the budget is divided where the table is believed to have that many rows."""
        ...

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        """How the budget would be divided, and what that would give; touches no data."""
        ...

    def run(self, task: Task, curator: Curator) -> Outcome:
        """Spend the curator's budget and return what was learned."""
        ...


def makes_rows(mechanism: object) -> bool:
    """Whether a release of the mechanism has rows, and not answers alone: one without says so by
    `makes_rows = False` on its class."""
    return getattr(type(mechanism), "makes_rows", True)


def measures_all_columns(mechanism: object) -> bool:
    """Whether a run learns of columns that the workload does not name: a mechanism that does says
    so by `measures_all_columns = True` on its class."""
    return getattr(type(mechanism), "measures_all_columns", False)


@runtime_checkable
class LearnsFromPublic(Protocol):
    """A mechanism that is given a public table before it is checked."""

    def with_public(self, public: PublicTable) -> Mechanism: ...


@runtime_checkable
class StartsLibraries(Protocol):
    """A mechanism that works with a library which may fail, or end the process, when it starts."""

    def start_libraries(self) -> None:
        """Start it, or say why not; nothing is charged yet."""
        ...


@runtime_checkable
class AnswersPredicates(Protocol):
    """A mechanism that can be given a user's predicates, besides its workload."""

    def with_predicates(self, predicates: tuple[Predicate, ...]) -> Mechanism: ...


NOT_AN_OPTION = {"option": False}
"""Metadata of a mechanism's field that holds a public table or predicates: not an option."""


def option_names(kind: type) -> list[str]:
    """The names of a mechanism's options, as Python spells them."""
    return [f.name for f in fields(cast(Any, kind)) if f.metadata.get("option", True)]


def options_of(mechanism: Mechanism) -> dict[str, Any]:
    """The options, and what identifies the public table where there is one; plain data."""
    found = {name: getattr(mechanism, name) for name in option_names(type(mechanism))}
    public = getattr(mechanism, "public", None)
    return found if public is None else {**found, "public": public.facts()}


def at_least_one(mechanism: Any, *options: str) -> None:
    """Refuse an option below 1."""
    for option in options:
        value = getattr(mechanism, option)
        if value is not None and value < 1:
            raise UsageError(f"{mechanism.name}: {option} must be at least 1; it is {value}.")
