"""Questions to a finished release, from a query file. They cost nothing: a release is public.

    [[query]]
    name = "young women"
    where = {age = {from = 17, to = 25}, sex = "Female"}

    [[query]]
    name = "two of three signs"
    at_least = 2
    of = {smoker = true, age = {from = 60}, region = ["north", "west"]}

`where` counts the rows that meet every condition, `at_least` with `of` those that meet at least so
many. Means, sums and quantiles are asked for as `admeasure.workload.statistic` says. What a
condition may be is the schema's business: see `admeasure.schema.select`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admeasure.errors import SchemaError, UsageError, WorkloadError
from admeasure.queries import AnyCell, AtLeast, Query, Where
from admeasure.queries.query import check_at_least
from admeasure.schema.select import portion_of
from admeasure.untrusted import read_text
from admeasure.workload.files import check_keys, titled_tables, whole_number
from admeasure.workload.statistic import KEYS, ColumnStatistic, statistic_of

if TYPE_CHECKING:
    from admeasure.schema import Schema
    from admeasure.schema.portion import Portion


@dataclass(frozen=True)
class Question:
    """A query with the name under which its answer is shown. Where it is about codes inside levels
    of a hierarchy, `portions` says which, by column, and the query counts all levels that they
    touch."""

    name: str
    query: Query
    portions: tuple[Portion, ...] = ()


def question(where: Mapping[str, Any], schema: Schema) -> Question:
    """How many rows meet every condition, written as in a query file; in Python a pair is a range
    with both ends included, and a list any of its values:
    `question({"sex": "Female", "age": (30, 40)}, schema)`.
    """
    written = written_conditions(where)
    title = ", ".join(f"{column} = {value!r}" for column, value in where.items())
    return question_of(title, _conditions(written, "where"), schema)


def written_conditions(where: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions of Python as a query file has them."""
    return {column: _python(value) for column, value in where.items()}


def _python(value: Any) -> Any:
    if isinstance(value, tuple):
        if len(value) != 2:
            raise WorkloadError(
                f"A range has two ends; {value!r} has {len(value)}. Write (from, to), or a list of "
                "values."
            )
        ends = zip(("from", "to"), value, strict=True)
        return {key: end for key, end in ends if end is not None}
    return value


def load_questions(path: str | Path, schema: Schema) -> list[Question | ColumnStatistic]:
    """The questions of a query file, in the file's order."""
    return parse_questions(
        read_text(Path(path), WorkloadError, missing=UsageError), schema, name=str(path)
    )


def check_questions(path: str | Path, schema: Schema) -> None:
    """Refuse what can be refused before a run has found the levels of open columns: all but what a
    question says of the values of such a column."""
    name = str(path)
    titled = _titled(read_text(Path(path), WorkloadError, missing=UsageError), name)
    waiting = {c.name for c in schema.open_columns}
    for title, table in titled.items():
        if not waiting & (named := _named(table)):
            _read(table, title, schema, name)
            continue
        for column in named:
            schema.column(column)


def parse_questions(
    text: str, schema: Schema, *, name: str = "queries"
) -> list[Question | ColumnStatistic]:
    """The questions of a TOML text; `name` is what errors call it."""
    titled = _titled(text, name)
    return [_read(table, title, schema, name) for title, table in titled.items()]


def _titled(text: str, name: str) -> dict[str, dict[str, Any]]:
    return titled_tables(text, name, "query", "queries", "a query file")


def _named(table: Mapping[str, Any]) -> set[str]:
    """The columns that a question names, as far as it is written as one."""
    given = (table.get(key) for key in ("where", "of", *KEYS))
    return {c for value in given if isinstance(value, str | dict) for c in _columns(value)}


def _columns(value: str | dict[str, Any]) -> Iterable[str]:
    return (value,) if isinstance(value, str) else value


def _read(
    table: Mapping[str, Any], title: str, schema: Schema, name: str
) -> Question | ColumnStatistic:
    try:
        return _asked(table, title, schema)
    except (SchemaError, WorkloadError) as error:
        raise WorkloadError(f"{name}: query {title!r}: {error}") from error


def _asked(table: Mapping[str, Any], title: str, schema: Schema) -> Question | ColumnStatistic:
    if not table.keys() & set(KEYS):
        return _counted(table, title, schema)
    found = statistic_of(table, title)
    found.of(schema)
    schema.conditions_met(found.where, "A question", also=(found.column,))
    return found


def _counted(table: Mapping[str, Any], title: str, schema: Schema) -> Question:
    check_keys(table, ("name", "where", "at_least", "of"))
    if "where" in table and not table.keys() & {"at_least", "of"}:
        return question_of(title, _conditions(table["where"], "where"), schema)
    if {"at_least", "of"} <= table.keys() and "where" not in table:
        at_least = whole_number(table["at_least"], "at_least")
        return question_of(title, _conditions(table["of"], "of"), schema, at_least)
    raise WorkloadError(
        "it needs either `where = {column = value, …}` or both `at_least = …` and "
        "`of = {column = value, …}`."
    )


def _conditions(given: Any, key: str) -> dict[str, Any]:
    if not isinstance(given, dict) or not given:
        raise WorkloadError(f"{key} must be a table of conditions, `{key} = {{column = value}}`.")
    return given


def question_of(
    title: str, conditions: Mapping[str, Any], schema: Schema, at_least: int | None = None
) -> Question:
    """The question how many rows meet every condition, or at least so many of them. Where all must
    be met, they may name codes inside levels of a hierarchy."""
    columns = [(schema.column(name), value) for name, value in conditions.items()]
    asked = [portion_of(c, value) for c, value in columns if c.of_held is not None]
    inside = {p.column.name: p for p in asked if not p.is_whole}
    if not inside or at_least is not None or conditions.keys() & schema.computed.keys():
        return Question(title, query_of(conditions, schema, at_least))
    codes = [inside[c.name].touched if c.name in inside else c.codes_of(v) for c, v in columns]
    query = Where(tuple(conditions), [tuple(map(int, levels)) for levels in codes])
    return Question(title, query, tuple(inside.values()))


def query_of(
    conditions: Mapping[str, Any], schema: Schema, at_least: int | None = None
) -> Where | AtLeast | AnyCell:
    """The rows that meet every condition, or at least so many of them. A condition on a column
    that others determine is one on these."""
    if not conditions.keys() & schema.computed.keys():
        codes = [tuple(map(int, schema.column(c).codes_of(v))) for c, v in conditions.items()]
        if at_least is None:
            return Where(tuple(conditions), codes)
        return AtLeast(tuple(conditions), codes, at_least)
    check_at_least(len(conditions) if at_least is None else at_least, len(conditions))
    columns, met = schema.conditions_met(conditions, "A question")
    return AnyCell.of(columns, met >= (len(conditions) if at_least is None else at_least))
