"""Random tables of units with several rows, the rule for which of them are kept
(docs/reference/schema.md), and what must hold of the counts: for the suites of every source.

A row is a unit and then whole numbers, of which the last two are the codes of the columns a and b.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from admeasure.schema import Schema
from admeasure.sources import Source

Row = tuple[Any, ...]

MARGINALS = [("a", "b"), ("a",), ("b",), ()]
NUMBERS = """
[[column]]
name = "a"
type = "integer"
minimum = 0
maximum = 3
[[column]]
name = "b"
type = "integer"
minimum = 0
maximum = 4
"""


def schema_of(most: int, columns: str = NUMBERS) -> Schema:
    return Schema.loads(f"""
[table]
name = "visits"
[privacy]
unit = "person"
unit_column = "id"
max_rows_per_unit = {most}
{columns}
""")


def random_rows(rng: np.random.Generator, units: int, *sizes: int) -> list[Row]:
    """Units of one to seven rows, in any order, with a number below each size; rows of a unit may
    be equal."""
    rows = [
        (f"p{unit:03}", *(int(rng.integers(size)) for size in sizes))
        for unit in range(units)
        for _ in range(int(rng.integers(1, 8)))
    ]
    return [rows[i] for i in rng.permutation(len(rows))]


def kept(
    rows: Sequence[Row],
    most: int,
    schema: Schema,
    first: Callable[[Row], int] = lambda row: 0,
) -> np.ndarray:
    """The rule, in plain Python: counts of a and b. `first` says which rows come first; then their
    hash does, over the codes in the order of the schema."""
    places = [("a", "b").index(name) - 2 for name in schema.names]
    units: dict[Any, list[tuple]] = {}
    for row in rows:
        codes = [row[place] for place in places]
        hashed = hashlib.md5("|".join(map(str, [row[0], *codes])).encode()).hexdigest()
        units.setdefault(row[0], []).append((first(row), hashed, codes, row[-2:]))
    found = np.zeros([schema.column(name).levels for name in ("a", "b")], np.int64)
    for own in units.values():
        for *_, cell in sorted(own)[:most]:
            found[cell] += 1
    return found


def counts(source: Source) -> list[np.ndarray]:
    """Each marginal by a call of its own: a source that reads again must read the same rows."""
    return [source.counts([m])[0] for m in MARGINALS]


def check_same(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> None:
    for one, other in zip(first, second, strict=True):
        assert (one == other).all(), "the same rows are counted otherwise"


def check_moved(first: Sequence[np.ndarray], second: Sequence[np.ndarray], most: int) -> None:
    for one, other in zip(first, second, strict=True):
        assert np.abs(one - other).sum() <= most, "one unit moves more than is declared"


def check_limit(found: Sequence[np.ndarray], rows: Sequence[Row], most: int) -> None:
    units = [row[0] for row in rows]
    most_of_all = sum(min(units.count(unit), most) for unit in set(units))
    assert int(found[-1]) <= most_of_all, "more rows of a unit are counted than is allowed"


def check_sums(found: Sequence[np.ndarray]) -> None:
    """The marginals are those of one set of rows."""
    pairs, a, b, rows = found
    assert (pairs.sum(axis=1) == a).all()
    assert (pairs.sum(axis=0) == b).all()
    assert pairs.sum() == rows


def check_kept(
    found: Sequence[np.ndarray],
    rows: Sequence[Row],
    most: int,
    schema: Schema,
    first: Callable[[Row], int] = lambda row: 0,
) -> None:
    wanted = kept(rows, most, schema, first)
    assert (found[0] == wanted).all(), "other rows are kept than the rule says"
    check_sums(found)
