"""Which rows of a unit are counted is a function of that unit's own rows, from every source.

Random tables are opened through every source of the contract suite, in two stored orders, without
one unit, and with one unit replaced. Expected counts come from the rule of
docs/reference/schema.md, written out once more in plain Python; and no count may move by more than
the schema declares. Views of DuckDB files, parts whose types differ, and scans that are repeated
have their own tests; sources that are broken on purpose are caught by the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import visits
from admeasure.errors import DataError
from admeasure.schema import Schema
from admeasure.sources import Source
from admeasure.sources.files.source import find_problems
from admeasure.sources.memory import MemorySource
from admeasure.sources.open import open_source
from factories import loaded, sources
from visits import Row, check_kept, check_limit, check_moved, check_same, check_sums, counts

TEXTS = """
[[column]]
name = "b"
type = "integer"
minimum = 0
maximum = 4
[[column]]
name = "a"
type = "string"
enum = ["x", "y", "z"]
"""
BROKEN = sorted(Path(__file__).parent.glob("broken/sources/*.py"))


def schema_of(most: int) -> Schema:
    """Its second column comes first by name."""
    return visits.schema_of(most, TEXTS)


def random_rows(rng: np.random.Generator, units: int) -> list[Row]:
    return visits.random_rows(rng, units, 3, 5)


def values_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {
        "a": ["xyz"[a] for _, a, _ in rows],
        "id": [unit for unit, _, _ in rows],
        "b": [b for _, _, b in rows],
    }


def check_source(
    make: Callable[[Sequence[Row], Schema], Source],
    rng: np.random.Generator,
    *,
    by_rule: bool = True,
) -> None:
    """All that is promised of one random table: raises an AssertionError that says what fails."""
    most, units = int(rng.integers(1, 4)), 12
    schema = schema_of(most)
    rows = random_rows(rng, units)
    gone = f"p{int(rng.integers(units)):03}"
    rest = [row for row in rows if row[0] != gone]
    other = [*rest, *((gone, int(rng.integers(3)), int(rng.integers(5))) for _ in range(9))]
    found = counts(make(rows, schema))
    check_limit(found, rows, most)
    check_same(found, counts(make(rows, schema)))
    check_same(found, counts(make([rows[i] for i in rng.permutation(len(rows))], schema)))
    check_moved(found, counts(make(rest, schema)), most)
    check_moved(found, counts(make(other, schema)), 2 * most)
    if by_rule:
        check_kept(found, rows, most, schema)


@pytest.mark.parametrize("factory", sources())
def test_no_count_moves_more_than_declared_from_any_source(
    factory, tmp_path, request, times, tally
):
    slow = request.node.get_closest_marker("spark") is not None
    tables = times(1, 5) if slow else times(2, 40)
    made = 0

    def make(rows: Sequence[Row], schema: Schema) -> Source:
        nonlocal made
        made += 1
        folder = tmp_path / str(made)
        folder.mkdir()
        return factory(values_of(rows), schema, folder)

    for seed in range(tables):
        check_source(make, np.random.default_rng(seed))
    tally("units: random tables, each in five forms", tables)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_source_is_caught(path, tally):
    broken = loaded(path).broken

    def make(rows: Sequence[Row], schema: Schema) -> Source:
        ids = [unit for unit, _, _ in rows]
        codes = [(b, a) for _, a, b in rows]
        chosen = broken(ids, codes, schema.privacy.max_rows_per_unit)
        plain = Schema.coded("visits", {"a": 3, "b": 5})
        frame = {"a": [codes[i][1] for i in chosen], "b": [codes[i][0] for i in chosen]}
        return MemorySource(frame, plain)

    def check_many() -> None:
        for seed in range(60):
            check_source(make, np.random.default_rng(seed), by_rule=False)

    with pytest.raises(AssertionError, match=r"counted|moves more"):
        check_many()
    tally("units: broken sources caught", 1)


def test_every_kind_of_fault_that_is_known_has_a_broken_source():
    known = {"stored_order", "rarest_rows", "merged_units", "limit_of_each_part"}
    assert {path.stem for path in BROKEN} >= known


VIEWS = {
    "all": "SELECT * FROM visits",
    "distinct": "SELECT DISTINCT * FROM visits",
    "union": "SELECT * FROM visits WHERE b < 3 UNION SELECT * FROM visits WHERE b > 1",
    "union all": "SELECT * FROM visits UNION ALL SELECT * FROM later",
    "group by": "SELECT id, a, max(b) AS b FROM visits GROUP BY id, a",
    "join": "SELECT v.id, v.a, w.b FROM visits v JOIN later w USING (id)",
    "outer join": "SELECT v.id, v.a, coalesce(w.b, v.b) AS b FROM visits v LEFT JOIN later w "
    "ON v.id = w.id AND v.b = w.b",
    "semi join": "SELECT * FROM visits WHERE id IN (SELECT id FROM later)",
    "anti join": "SELECT * FROM visits v WHERE NOT EXISTS "
    "(SELECT 1 FROM later w WHERE w.id = v.id AND w.b = v.b)",
    "except": "SELECT * FROM visits EXCEPT SELECT * FROM later",
    "common table": "WITH v AS (SELECT DISTINCT id, a, b FROM visits) SELECT * FROM v ORDER BY b",
    "a view of views": "SELECT DISTINCT * FROM inner_view UNION ALL SELECT * FROM later",
}


def _file(path: Path, tables: dict[str, list[Row]], view: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for name, rows in tables.items():
            connection.execute(f"CREATE TABLE {name} (id VARCHAR, a VARCHAR, b INTEGER)")
            stored = ", ".join(f"('{unit}', '{'xyz'[a]}', {b})" for unit, a, b in rows)
            connection.execute(f"INSERT INTO {name} VALUES {stored}")
        connection.execute("CREATE VIEW inner_view AS SELECT id, a, b FROM visits")
        connection.execute(f"CREATE VIEW people AS {view}")
    return path


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("megabytes", [None, 0], ids=["kept", "streamed"])
def test_no_count_of_a_view_moves_more_than_declared(view, megabytes, tmp_path, times, tally):
    made = 0

    def opened(tables: dict[str, list[Row]], schema: Schema) -> list[np.ndarray]:
        nonlocal made
        made += 1
        path = _file(tmp_path / f"{made}.duckdb", tables, VIEWS[view])
        data = f"duckdb://{path}?table=people"
        return counts(open_source(data, schema, memory_megabytes=megabytes))

    rounds = times(1, 20)
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        most = int(rng.integers(1, 4))
        schema = schema_of(most)
        tables = {name: random_rows(rng, 15) for name in ("visits", "later")}
        shuffled = {n: [r[i] for i in rng.permutation(len(r))] for n, r in tables.items()}
        gone = f"p{int(rng.integers(15)):03}"
        rest = {name: [r for r in rows if r[0] != gone] for name, rows in tables.items()}
        found = opened(tables, schema)
        check_same(found, opened(shuffled, schema))
        check_moved(found, opened(rest, schema), most)
    tally("units: random tables behind a view, each in three forms", rounds)


def test_a_large_view_gives_the_same_rows_at_every_scan_and_to_everyone_else(tmp_path, tally):
    """Large enough for DuckDB to read it by several threads, in an order that is never the same."""
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE stored AS SELECT 'p' || (i % 40000) AS id, "
            "('xyz')[1 + (hash(i) % 3)::INTEGER] AS a, (hash(i, 1) % 5)::INTEGER AS b "
            "FROM range(300000) r(i)"
        )
        connection.execute("CREATE VIEW people AS SELECT DISTINCT * FROM stored")
        connection.execute(
            "CREATE VIEW without_one AS SELECT DISTINCT * FROM stored WHERE id <> 'p77'"
        )
    schema = schema_of(2)
    source = open_source(f"duckdb://{path}?table=people", schema, memory_megabytes=0)
    found = counts(source)
    check_sums(found)
    check_same(found, counts(open_source(f"duckdb://{path}?table=people", schema)))
    check_moved(found, counts(open_source(f"duckdb://{path}?table=without_one", schema)), 2)
    tally("units: scans of a large view compared", 10)


REFUSED = {
    "limit": "SELECT * FROM visits LIMIT 9",
    "ordered limit": "SELECT * FROM visits ORDER BY b LIMIT 9",
    "sample": "SELECT * FROM visits USING SAMPLE 50%",
    "table sample": "SELECT * FROM visits TABLESAMPLE 9 ROWS",
    "random": "SELECT * FROM visits WHERE random() < 0.5",
    "clock": "SELECT id, a, b FROM visits WHERE current_date > DATE '2020-01-01'",
    "now": "SELECT id, a, b FROM visits WHERE now() > TIMESTAMP '2020-01-01'",
    "age": "SELECT id, a, b FROM visits WHERE age(TIMESTAMP '2020-01-01') > INTERVAL 1 DAY",
    "uuid": "SELECT uuid()::VARCHAR AS id, a, b FROM visits",
    "variable": "SELECT id, a, b FROM visits WHERE getvariable('x') IS NULL",
    "session": "SELECT id, a, b FROM visits WHERE user = 'duckdb'",
    "window": "SELECT id, a, (row_number() OVER ()) % 5 AS b FROM visits",
    "qualify": "SELECT * FROM visits QUALIFY row_number() OVER (PARTITION BY id) = 1",
    "distinct on": "SELECT DISTINCT ON (id) * FROM visits",
    "first": "SELECT id, first(a) AS a, max(b) AS b FROM visits GROUP BY id",
    "any value": "SELECT id, any_value(a) AS a, max(b) AS b FROM visits GROUP BY id",
    "list": "SELECT id, list(a)[1] AS a, max(b) AS b FROM visits GROUP BY id",
    "row id": "SELECT id, a, rowid % 5 AS b FROM visits",
    "position": "SELECT v.id, v.a, w.b FROM visits v POSITIONAL JOIN later w",
    "nearest": "SELECT v.id, v.a, w.b FROM visits v ASOF JOIN later w ON v.b >= w.b",
    "one value of many": "SELECT id, a, (SELECT b FROM later LIMIT 1) AS b FROM visits",
    "macro": "SELECT id, a, mine(b) AS b FROM visits",
    "a macro of a known name": "SELECT id, lower(a) AS a, b FROM visits",
    "computed column": "SELECT id, a, b FROM computed",
    "collation": "SELECT DISTINCT id, a, b FROM collated",
    "recursive": "WITH RECURSIVE r AS (SELECT * FROM visits UNION SELECT * FROM r) SELECT * FROM r",
    "a view below": "SELECT * FROM limited",
    "table function": "SELECT 'p' || i AS id, 'x' AS a, i AS b FROM range(3) r(i)",
    "settings": "SELECT name AS id, 'x' AS a, 1 AS b FROM duckdb_settings()",
    "catalogue": "SELECT table_name AS id, 'x' AS a, 1 AS b FROM information_schema.tables",
}


@pytest.fixture(scope="module")
def refused_views(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("views") / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        for name in ("visits", "later"):
            connection.execute(f"CREATE TABLE {name} (id VARCHAR, a VARCHAR, b INTEGER)")
            connection.execute(f"INSERT INTO {name} VALUES ('p1', 'x', 1)")
        connection.execute("CREATE TABLE computed (id VARCHAR, a VARCHAR, b AS ((random())::INT))")
        connection.execute("CREATE TABLE collated (id VARCHAR COLLATE NOCASE, a VARCHAR, b INT)")
        connection.execute("CREATE VIEW limited AS SELECT * FROM visits LIMIT 1")
        connection.execute("CREATE MACRO mine(x) AS x + random()")
        connection.execute("CREATE MACRO lower(x) AS x || random()")
        for name, query in REFUSED.items():
            connection.execute(f'CREATE VIEW "{name}" AS {query}')
    return path


@pytest.mark.parametrize("view", REFUSED)
def test_a_view_whose_rows_may_change_is_refused(view, refused_views):
    data = f"duckdb://{refused_views}?table={view}"
    for call in (open_source, find_problems):
        with pytest.raises(DataError, match="CREATE TABLE … AS"):
            call(data, schema_of(1))


def test_a_table_with_a_column_computed_by_chance_is_refused(tmp_path):
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (id VARCHAR, a VARCHAR, b AS ((5 * random())::INT))")
        connection.execute("CREATE TABLE u (id VARCHAR, a VARCHAR, c INT, b AS (c + 1))")
        connection.execute("INSERT INTO u VALUES ('p', 'x', 1)")
    with pytest.raises(DataError, match="'random'"):
        open_source(f"duckdb://{path}?table=t", schema_of(1))
    assert open_source(f"duckdb://{path}?table=u", schema_of(1)).counts([("b",)])[0][2] == 1


APART = [
    ("BIGINT", "DOUBLE"),
    ("INTEGER", "FLOAT"),
    ("FLOAT", "DOUBLE"),
    ("VARCHAR", "DOUBLE"),
    ("VARCHAR", "BIGINT"),
    ("VARCHAR", "TIMESTAMP"),
    ("DATE", "TIMESTAMP"),
    ("TIMESTAMP", "TIMESTAMPTZ"),
    ("DECIMAL(9, 1)", "DECIMAL(9, 2)"),
    ("BOOLEAN", "INTEGER"),
]


def _parts(folder: Path, types: Sequence[str], ids: Sequence[str]) -> str:
    for number, (sql_type, unit) in enumerate(zip(types, ids, strict=True)):
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT CAST('{unit}' AS {sql_type}) AS id, 'x' AS a, 1::INT AS b) "
                f"TO '{folder}/part-{number}.parquet' (FORMAT parquet)"
            )
    return f"{folder}/part-*.parquet"


@pytest.mark.parametrize("types", APART, ids=" and ".join)
def test_parts_that_store_units_in_different_types_are_refused(types, tmp_path):
    days = any("TIMESTAMP" in t or t == "DATE" for t in types)
    data = _parts(tmp_path, types, ["2020-01-01" if days else "1"] * 2)
    for call in (open_source, find_problems):
        with pytest.raises(DataError, match="store column 'id' in different types"):
            call(data, schema_of(1))


def test_whole_numbers_of_different_sizes_name_the_same_units(tmp_path):
    data = _parts(tmp_path, ["INTEGER", "BIGINT", "UBIGINT"], ["7", "7", "7"])
    assert int(open_source(data, schema_of(1)).counts([()])[0]) == 1


@pytest.mark.parametrize(
    ("sql_type", "unit", "sound"),
    [
        ("DOUBLE", "1.5", False),
        ("DOUBLE", "9007199254740993", False),
        ("DOUBLE", "-9007199254740994", False),
        ("DOUBLE", "inf", False),
        ("FLOAT", "16777218", False),
        ("FLOAT", "16777217", False),
        ("FLOAT", "16777215", True),
        ("DOUBLE", "9007199254740991", True),
        ("DOUBLE", "-0.0", True),
    ],
)
def test_floats_name_units_only_where_they_are_exact(sql_type, unit, sound, tmp_path):
    data = _parts(tmp_path, [sql_type], [unit])
    if sound:
        assert int(open_source(data, schema_of(1)).counts([()])[0]) == 1
        return
    with pytest.raises(DataError, match="cannot name units exactly"):
        open_source(data, schema_of(1))


def test_a_float_that_is_no_number_is_a_row_without_a_unit(tmp_path):
    with pytest.raises(DataError, match="rows without a unit"):
        open_source(_parts(tmp_path, ["DOUBLE"], ["nan"]), schema_of(1))


def test_zero_is_one_unit_whatever_its_sign(tmp_path):
    data = _parts(tmp_path, ["DOUBLE", "DOUBLE"], ["0.0", "-0.0"])
    assert int(open_source(data, schema_of(1)).counts([()])[0]) == 1


def test_a_collation_does_not_merge_units(tmp_path):
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (id VARCHAR COLLATE NOCASE, a VARCHAR, b INT)")
        connection.execute("INSERT INTO t VALUES ('Ann', 'x', 1), ('ann', 'y', 2)")
    assert int(open_source(str(path), schema_of(1)).counts([()])[0]) == 2
