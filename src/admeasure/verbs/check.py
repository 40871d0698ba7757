"""`check`: whether a table satisfies its schema."""

from __future__ import annotations

from admeasure.schema import Problem
from admeasure.sources.look import find_problems
from admeasure.sources.open import held, open_source
from admeasure.verbs.given import GivenSchema, schema_of


def check(data: str, schema: GivenSchema) -> list[Problem]:
    """Every rule of the schema that the table breaks, and rows that a [[zero]] says cannot occur;
    an empty list where it is sound.

    Names columns and rules, never a value. That a rule is broken is knowledge of the table: for
    whoever holds it.

    >>> check("people.csv", "schema.toml")  # doctest: +SKIP
    []
    """
    schema = schema_of(schema).as_read
    found = find_problems(data, schema)
    if found or not schema.zeros:
        return found
    with held(open_source(data, schema)) as source:
        counts = source.counts([zero.columns for zero in schema.zeros])
    return [
        Problem(
            None,
            f"has rows that the [[zero]] of {', '.join(zero.columns)} rules out",
            "correct the table, or narrow the [[zero]]",
        )
        for zero, table in zip(schema.zeros, counts, strict=True)
        if table[zero.mask].any()
    ]
