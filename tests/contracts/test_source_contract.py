"""What every source promises, checked over every source.

Sources are made by factories that take columns of Python values (None is null), a schema and a
folder to write to. Expected counts come from a loop over the rows, in plain Python.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admeasure.domain import Columns, canonical
from admeasure.errors import DataError, ResourceError
from admeasure.schema import Schema
from admeasure.sources import Source
from factories import sources

Values = dict[str, list[Any]]
Make = Callable[[Values, Schema], Source]


@pytest.fixture(params=sources())
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return lambda values, schema: request.param(values, schema, tmp_path)


SCHEMA = Schema.loads("""
[table]
name = "people"
[privacy]
unit = "person"
[[column]]
name = "sex"
type = "string"
enum = ["F", "M"]
missing_values = ["?"]
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 7
missing_values = []
[[column]]
name = "income"
type = "number"
minimum = 0
maximum = 1000
bins = 5
clamp = true
[[column]]
name = "born"
type = "date"
edges = [1900-01-01, 1950-01-01, 2000-01-01]
other = true
[[column]]
name = "member"
type = "boolean"
""")


def people(count: int) -> Values:
    rng = np.random.default_rng(count)
    start = datetime.date(1890, 1, 1)
    return {
        "sex": [("F", "M", "?", None)[i] for i in rng.integers(0, 4, count)],
        "age": [None if a > 99 else int(a) for a in rng.integers(0, 110, count)],
        "income": [float(x) for x in rng.normal(500, 400, count).round(2)],
        "born": [start + datetime.timedelta(int(d)) for d in rng.integers(0, 45_000, count)],
        "member": [bool(b) for b in rng.integers(0, 2, count)],
        "never read": [f"secret {i}" for i in range(count)],
    }


def level(name: str, value: Any) -> int:
    """The rules of docs/reference/schema.md for these columns, written out once more."""
    if name == "sex":
        return {"F": 0, "M": 1, "?": 2, None: 2}[value]
    if name == "age":
        return 7 if value is None else value * 7 // 100
    if name == "income":
        return min(4, max(0, int(value // 200)))
    if name == "born":
        first, middle, last = (datetime.date(y, 1, 1) for y in (1900, 1950, 2000))
        return 2 if not first <= value <= last else int(value >= middle)
    return int(value)


def expected(values: Values, columns: Columns, schema: Schema = SCHEMA) -> np.ndarray:
    rows = len(next(iter(values.values())))
    cells = Counter(tuple(level(name, values[name][i]) for name in columns) for i in range(rows))
    counts = np.zeros(schema.domain.shape(columns), dtype=np.int64)
    for cell, count in cells.items():
        counts[cell] = count
    return counts


def all_marginals(most: int) -> list[Columns]:
    names = SCHEMA.domain.columns
    return [canonical(c) for k in range(most + 1) for c in combinations(names, k)]


def expected_sparse(values: Values, columns: Columns) -> list[tuple[tuple[int, ...], int]]:
    rows = len(next(iter(values.values())))
    cells = Counter(tuple(level(name, values[name][i]) for name in columns) for i in range(rows))
    return sorted(cells.items())


@pytest.mark.parametrize("rows", [1, 2, 700])
def test_counts_are_those_of_the_rows(make: Make, rows: int):
    values = people(rows)
    marginals = all_marginals(3)
    counts = make(values, SCHEMA).counts(marginals)
    assert len(counts) == len(marginals)
    for columns, found in zip(marginals, counts, strict=True):
        assert found.dtype == np.int64
        assert found.shape == SCHEMA.domain.shape(columns)
        assert (found == expected(values, columns)).all()


@pytest.mark.parametrize("rows", [1, 700])
def test_sparse_counts_are_the_cells_that_occur_in_order(make: Make, rows: int):
    values = people(rows)
    marginals = [*all_marginals(2), canonical(SCHEMA.domain.columns)]
    found = make(values, SCHEMA).sparse(marginals)
    assert [one.columns for one in found] == marginals
    for columns, one in zip(marginals, found, strict=True):
        assert one.counts.dtype == np.int64
        assert one.codes.shape == (len(one.counts), len(columns))
        cells = [
            (tuple(c), n) for c, n in zip(one.codes.tolist(), one.counts.tolist(), strict=True)
        ]
        assert cells == expected_sparse(values, columns)


def test_sparse_counts_need_no_room_for_the_cells_that_do_not_occur(make: Make):
    names = [f"c{i}" for i in range(8)]
    schema = Schema.coded("wide", dict.fromkeys(names, 5000))
    rows = [[0, 4999, 0, 7], *([[4999, 0, 4999, 7]] * 7)]
    (found,) = make(dict(zip(names, rows, strict=True)), schema).sparse([tuple(names)])
    assert found.codes.tolist() == [[0, *[4999] * 7], [7] * 8, [4999, *[0] * 7]]
    assert found.counts.tolist() == [2, 1, 1]


def test_it_is_a_source_and_knows_its_schema(make: Make):
    source = make(people(3), SCHEMA)
    assert isinstance(source, Source)
    assert source.schema == SCHEMA


def test_the_empty_marginal_is_the_number_of_rows(make: Make):
    (rows,) = make(people(5), SCHEMA).counts([()])
    assert rows.shape == ()
    assert int(rows) == 5


def test_no_marginals_give_no_counts(make: Make):
    assert make(people(2), SCHEMA).counts([]) == []


def test_the_order_asked_is_the_order_given_and_repeats_are_allowed(make: Make):
    values = people(50)
    asked = [("age", "sex"), ("born",), ("age", "sex"), ()]
    counts = make(values, SCHEMA).counts(asked)
    for columns, found in zip(asked, counts, strict=True):
        assert (found == expected(values, columns)).all()


def test_asking_again_gives_the_same_and_arrays_belong_to_the_caller(make: Make):
    source = make(people(50), SCHEMA)
    (first,) = source.counts([("age", "sex")])
    kept = first.copy()
    first += 1
    (again,) = source.counts([("age", "sex")])
    assert (again == kept).all()


def test_all_columns_together_can_be_counted(make: Make):
    values = people(200)
    everything = canonical(SCHEMA.domain.columns)
    (found,) = make(values, SCHEMA).counts([everything])
    assert (found == expected(values, everything)).all()


@pytest.mark.parametrize("most", [1, 2, 5])
def test_at_most_so_many_rows_of_a_unit_are_counted_by_their_hash(make: Make, most: int):
    """The same rows from every source: by the MD5 of the unit and the codes, then by the codes."""
    rng = np.random.default_rng(most)
    ids = [f"p{i}" for i in rng.integers(0, 60, 300)]
    x = [int(v) for v in rng.integers(0, 10, 300)]
    schema = Schema.loads(f"""
[table]
name = "visits"
[privacy]
unit = "person"
unit_column = "id"
max_rows_per_unit = {most}
[[column]]
name = "x"
type = "integer"
minimum = 0
maximum = 9
""")
    units: dict[str, list[tuple[str, int]]] = {}
    for unit, value in zip(ids, x, strict=True):
        hashed = hashlib.md5(f"{unit}|{value}".encode()).hexdigest()
        units.setdefault(unit, []).append((hashed, value))
    kept = np.zeros(10, dtype=np.int64)
    for rows in units.values():
        for _, value in sorted(rows)[:most]:
            kept[value] += 1
    found, rows = make({"x": x, "id": ids}, schema).counts([("x",), ()])
    assert found.tolist() == kept.tolist()
    assert int(rows) == kept.sum()


def test_a_row_without_a_unit_is_refused(make: Make):
    schema = Schema.loads("""
[table]
name = "visits"
[privacy]
unit = "person"
unit_column = "id"
[[column]]
name = "x"
type = "boolean"
""")
    with pytest.raises(DataError, match="'id'"):
        make({"x": [True, False], "id": ["a", None]}, schema).counts([()])


BROKEN: list[tuple[str, list[Any], str]] = [
    ("sex", ["F", "X"], "not in enum"),
    ("age", [5, 777], "outside"),
    ("age", ["5", "7.5"], "not an integer"),
    ("income", [5.0, None], "missing"),
    ("income", ["5", "much"], "not a number"),
    ("member", ["1", "perhaps"], "not a boolean"),
]


@pytest.mark.parametrize(("name", "column", "rule"), BROKEN)
def test_a_value_without_a_level_is_refused_by_column_and_rule(make: Make, name, column, rule):
    values = {**people(2), name: column}
    with pytest.raises(DataError) as caught:
        make(values, SCHEMA).counts([()])
    said = str(caught.value)
    assert repr(name) in said
    assert rule in said
    assert not any(str(v) in said for v in column if isinstance(v, str) and len(v) > 2)
    assert "777" not in said
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_problems_of_several_columns_are_named_together(make: Make):
    values = {**people(2), "sex": ["X", "F"], "age": [-5, 1]}
    with pytest.raises(DataError) as caught:
        make(values, SCHEMA).counts([()])
    assert "'sex'" in str(caught.value)
    assert "'age'" in str(caught.value)


def test_a_column_that_is_not_there_is_named(make: Make):
    values = people(2)
    del values["born"]
    with pytest.raises(DataError, match="'born'"):
        make(values, SCHEMA).counts([()])


def test_names_and_categories_may_hold_anything(make: Make):
    names = ['q"uote', "new\nline", "'; DROP TABLE t; --", "\N{SNOWMAN}", "x" * 300, "a b", "é"]
    enum = ["plain", 'q"', "it's", "two\nlines", "comma, semi;", "\N{SNOWMAN}", " lead", "trail "]
    rng = np.random.default_rng(0)
    document = {
        "table": {"name": "hostile"},
        "privacy": {"unit": "person"},
        "column": [{"name": n, "type": "string", "enum": enum} for n in names],
    }
    schema = Schema.model_validate(document)
    codes = {n: rng.integers(0, len(enum), 40) for n in names}
    values = {n: [enum[c] for c in codes[n]] for n in names}
    counts = make(values, schema).counts([(n,) for n in names])
    for name, found in zip(names, counts, strict=True):
        assert found.tolist() == np.bincount(codes[name], minlength=len(enum)).tolist()


def test_codes_are_counted_in_the_level_of_their_nearest_group(make: Make):
    codes = [f"{chapter}{code}" for chapter in "ABC" for code in range(40)]
    levels_of = {code: code[0] for code in codes} | {"A": "all", "B": "all", "C": "all"}
    levels = ["B", "C7", "all", "A3"]
    icd = {"name": "icd", "type": "string", "enum": levels, "levels_of": levels_of}
    document = {"table": {"name": "stays"}, "privacy": {"unit": "person"}}
    columns = [{**icd, "missing_values": ["?"]}, {"name": "b", "type": "boolean"}]
    schema = Schema.model_validate({**document, "column": columns})
    rng = np.random.default_rng(0)
    values = [[*codes, "?", None][i] for i in rng.integers(0, len(codes) + 2, 500)]

    def place(code: str | None) -> int:
        if code is None or code == "?":
            return 4
        return levels.index(code) if code in levels else {"B": 0}.get(code[0], 2)

    table = {"icd": values, "b": [True] * len(values)}
    (found,) = make(table, schema).counts([("icd",)])
    assert found.tolist() == np.bincount([place(v) for v in values], minlength=5).tolist()


@pytest.mark.parametrize("most", [0, 2])
def test_by_coarser_levels_the_same_rows_are_counted(make: Make, most: int):
    """Against its own fine counts, added up; at most so many rows of a unit, or without units."""
    unit = f'unit_column = "id"\nmax_rows_per_unit = {most}\n' if most else ""
    head = f'[table]\nname = "t"\n[privacy]\nunit = "person"\n{unit}'
    sex = '[[column]]\nname = "sex"\ntype = "boolean"\n'

    def schema(edges: str) -> Schema:
        age = f'[[column]]\nname = "age"\ntype = "integer"\nmissing_values = []\n{edges}'
        return Schema.loads(head + sex + age)

    fine, coarse = schema("minimum = 0\nmaximum = 39"), schema("edges = [0, 3, 20, 39]")
    rng = np.random.default_rng(3)
    age = [None if a > 39 else int(a) for a in rng.integers(0, 42, 400)]
    flags = [bool(b) for b in rng.integers(0, 2, 400)]
    source = make({"sex": flags, "age": age, "id": [i % 90 for i in range(400)]}, fine)
    into = [0] * 3 + [1] * 17 + [2] * 20 + [3]
    marginals = [("age",), ("age", "sex"), ("sex",), ()]
    of_age, of_both, *same = source.counts(marginals)
    added = [np.zeros((4, *one.shape[1:]), np.int64) for one in (of_age, of_both)]
    for to, of in zip(added, (of_age, of_both), strict=True):
        np.add.at(to, into, of)
    by = source.by(coarse)
    assert by.schema == coarse
    for found, expected in zip(by.counts(marginals), [*added, *same], strict=True):
        assert np.array_equal(found, expected)
    (cells,) = by.sparse([("age", "sex")])
    assert np.array_equal(cells.dense(coarse.domain), added[1])
    assert np.array_equal(source.counts(marginals)[1], of_both)  # which stays as it was


def test_a_marginal_too_large_for_memory_is_refused_before_it_is_counted(make: Make):
    names = [f"c{i}" for i in range(8)]
    schema = Schema.coded("wide", dict.fromkeys(names, 5000))
    source = make({n: [0, 4999] for n in names}, schema)
    with pytest.raises(ResourceError):
        source.counts([tuple(names)])
