"""Conclusions that must hold, and the file that states them (docs/how-to/report.md has its form).

A group is a table of conditions as in a query file; all must hold. `{at_least = 2, of = {…}}` is
the group of rows that meet at least so many of its conditions. Every conclusion is one or more
claims of the same form: a weighted sum of counts is positive. Files are public, and reading one
costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admeasure.errors import SchemaError, UsageError, WorkloadError
from admeasure.queries import Marginal, Query, Where
from admeasure.untrusted import read_text
from admeasure.workload import query_of
from admeasure.workload.files import check_keys, titled_tables, whole_number

if TYPE_CHECKING:
    from admeasure.schema import Schema

FORMS = (
    "`share = {…}` with `above = …` or `below = …`, `larger = {…}` with `than = {…}`, or "
    "`ordering = [{…}, {…}]`"
)
EVERYONE = Marginal(())


@dataclass(frozen=True)
class Term:
    """A weight and the group whose rows it counts."""

    weight: float
    group: Query


@dataclass(frozen=True)
class Claim:
    """The weighted sum of the terms is positive; `words` says the same."""

    words: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Conclusion:
    """A statement that holds where all its claims do."""

    name: str
    claims: tuple[Claim, ...]


def load_conclusions(path: str | Path, schema: Schema) -> list[Conclusion]:
    """The conclusions of a file, in the file's order."""
    return parse_conclusions(
        read_text(Path(path), WorkloadError, missing=UsageError), schema, name=str(path)
    )


def parse_conclusions(text: str, schema: Schema, *, name: str = "conclusions") -> list[Conclusion]:
    """The conclusions of a TOML text; `name` is what errors call it."""
    found = []
    titled = titled_tables(text, name, "conclusion", "conclusions", "a file of conclusions")
    for title, table in titled.items():
        try:
            found.append(Conclusion(title, tuple(_claims(table, schema))))
        except (SchemaError, WorkloadError) as error:
            raise WorkloadError(f"{name}: conclusion {title!r}: {error}") from error
    return found


def _claims(table: Mapping[str, Any], schema: Schema) -> Iterator[Claim]:
    kinds = [key for key in ("share", "larger", "ordering") if key in table]
    if len(kinds) != 1:
        raise WorkloadError(f"it needs one of {FORMS}.")
    match kinds[0]:
        case "share":
            yield from _share(table, schema)
        case "larger":
            check_keys(table, ("name", "larger", "than"))
            if "than" not in table:
                raise WorkloadError("it says `larger` and not than what. Add `than = {…}`.")
            yield _larger(table["larger"], table["than"], schema)
        case _:
            check_keys(table, ("name", "ordering"))
            groups = table["ordering"]
            if not isinstance(groups, list) or len(groups) < 2:
                raise WorkloadError("ordering must be a list of two or more groups, largest first.")
            for first, second in pairwise(groups):
                yield _larger(first, second, schema)


def _share(table: Mapping[str, Any], schema: Schema) -> Iterator[Claim]:
    check_keys(table, ("name", "share", "of", "above", "below"))
    part = _group(table["share"], "share", schema)
    whole: Query = EVERYONE
    words = _words(table["share"])
    if "of" in table:
        whole = _group(table["of"], "of", schema)
        part = _both(part, whole)
        words = f"{words} among {_words(table['of'])}"
    bounds = [key for key in ("above", "below") if key in table]
    if not bounds:
        raise WorkloadError("it has a share and no bound. Add `above = …` or `below = …`.")
    for key in bounds:
        limit, sign = _limit(table[key], key), 1.0 if key == "above" else -1.0
        terms = (Term(sign, part), Term(-sign * limit, whole))
        yield Claim(f"share of {words} is {key} {100 * limit:g}%", terms)


def _larger(first: Any, second: Any, schema: Schema) -> Claim:
    terms = (
        Term(1.0, _group(first, "a group", schema)),
        Term(-1.0, _group(second, "a group", schema)),
    )
    return Claim(f"{_words(first)} outnumber {_words(second)}", terms)


def _group(given: Any, key: str, schema: Schema) -> Query:
    if not isinstance(given, dict) or not given:
        raise WorkloadError(f"{key} must be a table of conditions, {{column = value, …}}.")
    if _is_at_least(given):
        if not given["of"]:
            raise WorkloadError("`of` has no condition. Write {column = value, …}.")
        return query_of(given["of"], schema, whole_number(given["at_least"], "at_least"))
    return query_of(given, schema)


def _is_at_least(given: Mapping[str, Any]) -> bool:
    return given.keys() == {"at_least", "of"} and isinstance(given["of"], dict)


def _both(part: Query, whole: Query) -> Where:
    """The rows that are in both groups."""
    if not isinstance(part, Where) or not isinstance(whole, Where):
        raise WorkloadError(
            "a share `of` a group takes plain conditions, not at_least or a "
            "column that others determine."
        )
    sets = {c: set(codes) for c, codes in zip(whole.columns, whole.codes, strict=True)}
    for column, codes in zip(part.columns, part.codes, strict=True):
        sets[column] = sets.get(column, set(codes)) & set(codes)
        if not sets[column]:
            raise WorkloadError(
                f"no row can meet both `share` and `of` in column {column!r}. Change one of them."
            )
    return Where(tuple(sets), [tuple(codes) for codes in sets.values()])


def _limit(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise WorkloadError(f"{key} must be a share from 0 to 1, not {value!r}.")
    return float(value)


def _words(given: Any) -> str:
    """A group as it is written, in words."""
    if _is_at_least(given):
        return f"at least {given['at_least']} of ({_words(given['of'])})"
    return ", ".join(f"{column} {_selection(value)}" for column, value in given.items())


def _selection(value: Any) -> str:
    if isinstance(value, list):
        return " or ".join(map(_selection, value))
    if isinstance(value, dict) and "level" in value:
        return str(value["level"])
    if isinstance(value, dict):
        ends = [f"{word} {value[word]}" for word in ("from", "to") if word in value]
        return " ".join(ends)
    return str(value).lower() if isinstance(value, bool) else str(value)
