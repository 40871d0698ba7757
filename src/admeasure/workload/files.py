"""The TOML form of a workload (docs/reference/workloads.md), and what all TOML files here have in
common.

What is written is read as the same, weights included. An error names the file and the table in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, cast

from admeasure.domain import Domain
from admeasure.errors import ResourceError, WorkloadError
from admeasure.queries import WorkloadQuery, from_record, record, to_record
from admeasure.queries.query import check_columns, suggest
from admeasure.queries.record import fields_of
from admeasure.untrusted import parse_toml
from admeasure.workload.rule import KWay

RULE = "all"
MOST_QUERIES = 1_000_000
"""A workload larger than this is refused before it is built: it would fill the memory."""
LARGEST_WEIGHT = 1e100
"""Sums of such weights, times cells, are numbers still."""
_TABLE = re.compile(r"^[ \t]*\[\[", re.MULTILINE)


def read_workload(
    text: str, *, name: str = "workload", domain: Domain | None = None
) -> list[tuple[WorkloadQuery, float]] | KWay:
    """The queries and weights of a TOML text, or its rule; `name` is what errors call it."""
    named = len(_TABLE.findall(text))
    if named > MOST_QUERIES:
        raise ResourceError(
            f"{name} names {named:,} queries; at most {MOST_QUERIES:,} are handled. Use a rule, "
            "such as all-3way, which needs no list."
        )
    document = parse_toml(text, name, WorkloadError)
    if RULE not in document:
        return _entries(document, name, domain)
    if len(document) > 1:
        raise WorkloadError(f"{name}: [{RULE}] stands alone. Leave out the other tables, or it.")
    try:
        return _rule(document[RULE], domain)
    except WorkloadError as error:
        raise WorkloadError(f"{name}: [{RULE}]: {error}") from error


def _entries(
    document: Mapping[str, Any], name: str, domain: Domain | None
) -> list[tuple[WorkloadQuery, float]]:
    unknown = [key for key in document if key not in record.IN_WORKLOADS]
    if unknown:
        known = " and ".join(f"[[{kind}]]" for kind in record.IN_WORKLOADS)
        raise WorkloadError(f"{name}: there is no table {unknown[0]!r} in a workload. Use {known}.")
    entries: list[tuple[WorkloadQuery, float]] = []
    for kind in record.IN_WORKLOADS:
        for number, table in enumerate(tables(document, kind, name), start=1):
            place = f"{name}: [[{kind}]] {number}"
            try:
                query, weight = _entry(kind, table, domain)
                if domain is not None:
                    query.validate(domain)
            except WorkloadError as error:
                raise WorkloadError(f"{place}: {error}") from error
            entries.append((query, weight))
    if not entries:
        raise WorkloadError(f"{name} has no query. Add a [[marginal]] or a [[threshold]].")
    return entries


def write_entries(entries: Iterable[tuple[WorkloadQuery, float]]) -> str:
    """Queries and weights as TOML."""
    blocks = []
    for query, weight in entries:
        written = to_record(query)
        lines = [
            f"[[{written.pop('query')}]]",
            f"columns = [{', '.join(map(_quote, written.pop('columns')))}]",
            *(f"{key} = {value}" for key, value in written.items()),
            *([f"weight = {weight!r}"] if weight != 1 else []),
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def write_rule(rule: KWay) -> str:
    """A rule as TOML."""
    target = [] if rule.target is None else [f"target = {_quote(rule.target)}"]
    lines = [
        f"[{RULE}]",
        f"k = {rule.k}",
        *target,
        f"looked_at = {rule.looked_at}",
        f"columns = [{', '.join(map(_quote, rule.columns))}]",
    ]
    return "\n".join(lines) + "\n"


def tables(document: Mapping[str, Any], kind: str, name: str) -> list[dict[str, Any]]:
    """The `[[kind]]` tables of a document."""
    found = document.get(kind, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise WorkloadError(f"{name}: {kind!r} must be written as [[{kind}]], in double brackets.")
    return found


def titled_tables(
    text: str, name: str, kind: str, several: str, file: str
) -> dict[str, dict[str, Any]]:
    """The `[[kind]]` tables of a TOML text that has no others, each under its name."""
    document = parse_toml(text, name, WorkloadError)
    if unknown := [key for key in document if key != kind]:
        raise WorkloadError(f"{name}: there is no table {unknown[0]!r} in {file}. Use [[{kind}]].")
    found: dict[str, dict[str, Any]] = {}
    for number, table in enumerate(tables(document, kind, name), start=1):
        title = table.get("name")
        if not isinstance(title, str) or not title:
            raise WorkloadError(f'{name}: [[{kind}]] {number} has no name. Add `name = "…"`.')
        if title in found:
            raise WorkloadError(f"{name}: two {several} are named {title!r}. Rename one.")
        found[title] = table
    if not found:
        raise WorkloadError(f"{name} has no {kind}. Add a [[{kind}]].")
    return found


def check_keys(table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for key in table:
        if key not in allowed:
            raise WorkloadError(f"there is no key {key!r}. {suggest(key, allowed)}")


def whole_number(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WorkloadError(f"{key} must be a whole number, not {value!r}.")
    return value


def check_weight(weight: Any) -> float:
    # True is a number in Python; in a workload file it is a mistake.
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise WorkloadError(f"A weight must be a number, not {weight!r}.")
    value = float(weight)
    if not value > 0 or math.isinf(value):
        raise WorkloadError(f"A weight must be positive and finite, not {weight!r}.")
    if not 1 / LARGEST_WEIGHT <= value <= LARGEST_WEIGHT:
        raise WorkloadError(
            f"A weight must lie between {1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}; it is "
            f"{value:g}. Only their ratios count: divide all of them by one number."
        )
    return value


def _entry(
    kind: str, table: Mapping[str, Any], domain: Domain | None
) -> tuple[WorkloadQuery, float]:
    required = fields_of(kind)
    check_keys(table, (*required, "weight"))
    for key in required:
        if key not in table:
            raise WorkloadError(f"{key} is missing. Add `{key} = …`.")
    columns = table["columns"]
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise WorkloadError('columns must be a list of names, such as ["age", "sex"].')
    if not columns:
        raise WorkloadError("columns is empty. Name at least one column.")
    if kind == "marginal" and domain is not None:
        columns = list(domain.standing_in(columns))
    weight = check_weight(table.get("weight", 1.0))
    numbers = {key: whole_number(table[key], key) for key in required if key != "columns"}
    query = from_record({"query": kind, "columns": columns} | numbers)
    return cast("WorkloadQuery", query), weight


def _rule(table: Any, domain: Domain | None) -> KWay:
    if not isinstance(table, dict):
        raise WorkloadError(f"it must be written as [{RULE}], in single brackets.")
    check_keys(table, ("k", "columns", "target", "looked_at"))
    if "k" not in table:
        raise WorkloadError("k is missing. Add `k = 3`, how many columns each marginal has.")
    columns, target = table.get("columns"), table.get("target")
    if columns is None and domain is not None:
        columns = list(domain.columns)
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise WorkloadError('columns must be a list of names, such as ["age", "sex"].')
    if target is not None and not isinstance(target, str):
        raise WorkloadError('target must be the name of a column, such as "age".')
    looked_at = table.get("looked_at")
    if looked_at is not None:
        looked_at = whole_number(looked_at, "looked_at")
    if domain is not None:
        check_columns(tuple(columns), domain)
    return KWay.of(columns, whole_number(table["k"], "k"), target, looked_at)


def _quote(text: str) -> str:
    """A TOML basic string: quotes, backslashes and control characters escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + '"'
