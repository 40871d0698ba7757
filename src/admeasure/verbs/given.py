"""What a verb may be given in more than one form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admeasure.errors import UsageError
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.workload import Workload, parse_workload

if TYPE_CHECKING:
    from admeasure.planning.mechanism import Mechanism

GivenSchema = Schema | str | Path
GivenWorkload = Workload | str | Path
GivenRelease = Release | str | Path

PREFERRED = ("aim", "gaussian")
"""What is taken where no mechanism is named: the first that there is."""


def schema_of(given: GivenSchema) -> Schema:
    """A schema, or the one in a file."""
    return given if isinstance(given, Schema) else Schema.load(given)


def workload_of(given: GivenWorkload, schema: Schema) -> Workload:
    """A workload, or the one that a text or a file says, valid for the schema."""
    workload = given if isinstance(given, Workload) else parse_workload(given, schema.domain)
    workload.validate(schema.domain)
    return workload


def mechanism_of(
    given: Mechanism | str | None, options: Mapping[str, str] | None = None
) -> Mechanism:
    """A mechanism, or the one of a name with options as texts, or the one that is preferred."""
    if given is not None and not isinstance(given, str):
        return given
    from admeasure.mechanisms import REGISTRY, build  # all of them: `answer` needs none

    # An empty name is a mistake, not the wish for the preferred one.
    name = next(n for n in PREFERRED if n in REGISTRY) if given is None else given
    return build(name, options)


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
