"""Whether a table satisfies its schema: all problems of all columns at once.

The result names columns and rules. It says that a rule is broken, which is knowledge of the private
table: it is for the steward who holds the table, and holds no value and no count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from admeasure.schema.difference import explained
from admeasure.schema.encode import encode_and_check
from admeasure.schema.frames import Frame
from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem, Refusal, refusals
from admeasure.schema.units import inexact_unit, without_unit

# Said by `check` alone, to the steward. A run on such a table is a run like any other: were it
# refused, its exit code would tell one person from nobody.
NO_ROWS = Problem(None, "has no rows", "give a table with at least one row")


def check(frame: Any, schema: Schema) -> list[Problem]:
    """The problems of a frame; an empty list where it is sound."""
    rows = Frame(frame).rows
    _, problems = encode_and_check(frame, schema)
    return problems if rows else [*problems, NO_ROWS]


def broken_rules(
    schema: Schema,
    absent: Sequence[Problem],
    refused: Mapping[str, Iterable[Refusal]],
    *,
    without: bool,
    inexact: bool,
) -> list[Problem]:
    """The problems of a table that an engine has looked through: columns that it lacks, what was
    refused in each of the others, and whether rows have no unit, or one that is not exact."""
    found, unit = list(absent), schema.privacy.unit_column
    for name, marks in refused.items():
        found += explained(schema, refusals(schema.column(name), marks))
    return [*found, *[without_unit(unit)] * without, *[inexact_unit(unit)] * inexact]
