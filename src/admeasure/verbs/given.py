"""What a verb may be given in more than one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admeasure.errors import UsageError
from admeasure.queries import Predicate
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.workload import Workload, parse_workload
from admeasure.workload.files import WorkloadQuery

if TYPE_CHECKING:
    from admeasure.mechanisms.auto import Auto, Choice
    from admeasure.planning.mechanism import Mechanism

GivenSchema = Schema | str | Path
GivenWorkload = Workload | str | Path
GivenRelease = Release | str | Path


def schema_of(given: GivenSchema) -> Schema:
    """A schema, or the one in a file."""
    return given if isinstance(given, Schema) else Schema.load(given)


def workload_of(given: GivenWorkload, schema: Schema) -> Workload:
    """A workload, or the one that a text or a file says, valid for the schema."""
    workload = given if isinstance(given, Workload) else parse_workload(given, schema.domain)
    workload.validate(schema.domain)
    return workload


def mechanism_of(
    given: Mechanism | Auto | str | None, options: Mapping[str, str] | None = None
) -> Mechanism | Auto:
    """A mechanism, or the one of a name with options as texts; `auto` where none is named."""
    if given is not None and not isinstance(given, str):
        return given
    from admeasure.mechanisms import build  # late: `answer` needs nothing of mechanisms
    from admeasure.mechanisms.auto import Auto

    # An empty name is a mistake, not the wish for whichever suits.
    if given not in (None, Auto.name):
        return build(given, options)
    if options:
        raise UsageError(
            f"auto has no option --{next(iter(options))}. Name the mechanism that has it, such as "
            "aim-plus (--mechanism)."
        )
    return Auto()


def choice_of(
    given: Mechanism | Auto | None,
    workload: Workload | Sequence[WorkloadQuery | Predicate],
    public: Any,
) -> Choice:
    """The mechanism that was named, or the one that suits what is asked; from public facts."""
    from admeasure.mechanisms.auto import Auto, Choice

    wanted = mechanism_of(given)
    if not isinstance(wanted, Auto):
        return Choice(wanted)
    queries = workload.queries if isinstance(workload, Workload) else workload
    return wanted.choose(
        public=public is not None, predicates=any(isinstance(q, Predicate) for q in queries)
    )


def release_of(given: GivenRelease) -> Release:
    """A release, or the one in a folder."""
    return given if isinstance(given, Release) else Release.load(given)


def given_public(mechanism: Mechanism, data: Any, schema: Schema) -> Mechanism:
    """The mechanism with the public table that was named for it; unchanged where none was."""
    if data is None:
        return mechanism
    from admeasure.planning.mechanism import LearnsFromPublic
    from admeasure.public.read import read_public

    if not isinstance(mechanism, LearnsFromPublic):
        raise UsageError(
            f"{mechanism.name} learns nothing from a public table. Leave --public out, or use "
            "pmw-pub, pep-pub or gem-pub."
        )
    fill = getattr(type(mechanism), "fills_public", True)
    return mechanism.with_public(read_public(data, schema, fill=fill))
