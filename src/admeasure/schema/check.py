"""Whether a table satisfies its schema: all problems of all columns at once.

The result names columns and rules. It says that a rule is broken, which is knowledge of the private
table: it is for the steward who holds the table, and holds no value and no count.
"""

from __future__ import annotations

from typing import Any

from admeasure.schema.encode import encode_and_check
from admeasure.schema.frames import Frame
from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem

# Said by `check` alone, to the steward. A run on such a table is a run like any other: were it
# refused, its exit code would tell one person from nobody.
NO_ROWS = Problem(None, "has no rows", "give a table with at least one row")


def check(frame: Any, schema: Schema) -> list[Problem]:
    """The problems of a frame; an empty list where it is sound."""
    rows = Frame(frame).rows
    _, problems = encode_and_check(frame, schema)
    return problems if rows else [*problems, NO_ROWS]
