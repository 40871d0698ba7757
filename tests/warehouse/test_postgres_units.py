"""Which rows of a unit PostgreSQL counts is a function of that unit's own rows alone.

Random tables, plain, partitioned, rewritten and behind views, counted twice; one unit is removed,
and no count moves by more than the schema declares. Views and queries whose rows may not be the
same at every scan are refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from admeasure.errors import DataError
from admeasure.schema import Schema
from admeasure.sources.warehouse.source import find_problems, open_warehouse
from visits import check_kept, check_moved, check_sums, counts, random_rows, schema_of

Make = Callable[..., str]
COLUMNS = [("id", "text"), ("a", "integer"), ("b", "integer")]

LAYOUTS = {
    "as given": "CREATE TABLE {new} AS TABLE {old}",
    "sorted": "CREATE TABLE {new} AS SELECT * FROM {old} ORDER BY b, a",
    "partitioned": "CREATE TABLE {new} (LIKE {old}) PARTITION BY LIST (b); "
    "CREATE TABLE {new}_1 PARTITION OF {new} FOR VALUES IN (1, 3); "
    "CREATE TABLE {new}_2 PARTITION OF {new} DEFAULT; INSERT INTO {new} TABLE {old}",
    "rewritten": "CREATE TABLE {new} AS TABLE {old}; UPDATE {new} SET b = b WHERE a = 1",
    "materialised": "CREATE MATERIALIZED VIEW {new} AS SELECT * FROM {old} ORDER BY a DESC",
    "view": "CREATE VIEW {new} AS SELECT * FROM {old}",
    "union": "CREATE VIEW {new} AS SELECT * FROM {old} WHERE a < 2 "
    "UNION ALL SELECT * FROM {old} WHERE a >= 2",
}


def counted(server: Any, table: str, schema: Schema) -> list[np.ndarray]:
    source = open_warehouse(server.url(table), schema)
    found = counts(source)
    source.close()
    return found


def test_no_layout_changes_which_rows_of_a_unit_are_counted_and_no_unit_those_of_another(
    server: Any, make_table: Make, times: Any, record_property: Any
) -> None:
    tables = times(2, 40)
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        most, rows = int(rng.integers(1, 4)), random_rows(rng, 50, 4, 5)
        old = make_table(COLUMNS, rows)
        for layout in LAYOUTS.values():
            new = f"units_{uuid.uuid4().hex}"
            with server.connect() as connection:
                for statement in layout.format(old=old, new=new).split(";"):
                    connection.execute(statement)
            found = counted(server, new, schema_of(most))
            check_kept(found, rows, most, schema_of(most))
        gone = rows[int(rng.integers(len(rows)))][0]
        rest = make_table(COLUMNS, [row for row in rows if row[0] != gone])
        check_moved(found, counted(server, rest, schema_of(most)), most)
    record_property("audit: units: random tables of PostgreSQL", tables)


REFUSED = {
    "limit": "SELECT * FROM visits LIMIT 9",
    "ordered limit": "SELECT * FROM visits ORDER BY b LIMIT 9",
    "fetch": "SELECT * FROM visits ORDER BY b FETCH FIRST 9 ROWS WITH TIES",
    "offset": "SELECT * FROM visits ORDER BY b OFFSET 2",
    "sample": "SELECT * FROM visits TABLESAMPLE BERNOULLI (50)",
    "repeated sample": "SELECT * FROM visits TABLESAMPLE SYSTEM (50) REPEATABLE (1)",
    "random": "SELECT * FROM visits WHERE random() < 0.5",
    "uuid": "SELECT gen_random_uuid()::text AS id, a, b FROM visits",
    "now": "SELECT * FROM visits WHERE now() > '2020-01-01'::timestamptz",
    "clock": "SELECT * FROM visits WHERE clock_timestamp() > '2020-01-01'::timestamptz",
    "date": "SELECT * FROM visits WHERE CURRENT_DATE > '2020-01-01'::date",
    "time": "SELECT * FROM visits WHERE LOCALTIMESTAMP > '2020-01-01'::timestamp",
    "user": "SELECT * FROM visits WHERE CURRENT_USER = 'ann'",
    "setting": "SELECT * FROM visits WHERE current_setting('work_mem') <> 'x'",
    "sequence": "SELECT id, a, (nextval('numbers') % 5)::integer AS b FROM visits",
    "backend": "SELECT id, a, pg_backend_pid() % 5 AS b FROM visits",
    "window": "SELECT id, a, (row_number() OVER () % 5)::integer AS b FROM visits",
    "distinct on": "SELECT DISTINCT ON (id) id, a, b FROM visits",
    "array": "SELECT id, (array_agg(a))[1] AS a, max(b) AS b FROM visits GROUP BY id",
    "text of many": "SELECT string_agg(id, ',') AS id, a, b FROM visits GROUP BY a, b",
    "sum of floats": "SELECT id, a, sum(b::float8)::int % 5 AS b FROM visits GROUP BY id, a",
    "place": "SELECT id, a, ((ctid::text::point)[1])::integer % 5 AS b FROM visits",
    "transaction": "SELECT id, a, (xmin::text::integer) % 5 AS b FROM visits",
    "one value of many": "SELECT id, a, (SELECT max(b) FROM visits) AS b FROM visits",
    "table function": "SELECT 'p' AS id, 1 AS a, i AS b FROM generate_series(1, 3) g(i)",
    "lateral": "SELECT v.id, v.a, w.b FROM visits v, LATERAL "
    "(SELECT b FROM visits x WHERE x.id = v.id LIMIT 1) w",
    "own function": "SELECT id, a, mine(b) AS b FROM visits",
    "own function of a known name": "SELECT lower(id, 1) AS id, a, b FROM visits",
    "recursive": "WITH RECURSIVE r AS (SELECT * FROM visits UNION SELECT * FROM r) SELECT * FROM r",
    "catalogue": "SELECT relname::text AS id, 1 AS a, 1 AS b FROM pg_catalog.pg_class",
    "a view below": "SELECT * FROM limited",
    "citext": "SELECT DISTINCT id, a, b FROM loose",
    "collation": "SELECT DISTINCT id, a, b FROM collated",
}
ALLOWED = {
    "distinct": "SELECT DISTINCT id, a, b FROM visits",
    "union": "SELECT * FROM visits WHERE b < 3 UNION SELECT * FROM visits WHERE b > 1",
    "except": "SELECT * FROM visits EXCEPT SELECT * FROM visits WHERE b = 1",
    "group by": "SELECT id, a, max(b) AS b, count(*) AS n FROM visits GROUP BY id, a HAVING true",
    "join": "SELECT v.id, v.a, w.b FROM visits v LEFT JOIN visits w ON v.id = w.id AND v.b = w.b",
    "semi join": "SELECT * FROM visits WHERE id IN (SELECT id FROM visits WHERE b = 1)",
    "anti join": "SELECT * FROM visits v WHERE NOT EXISTS "
    "(SELECT 1 FROM visits w WHERE w.id = v.id AND w.b > v.b)",
    "case": "SELECT lower(btrim(id)) AS id, CASE WHEN a > 2 THEN 1 ELSE a END AS a, "
    "coalesce(b, 0) AS b FROM visits WHERE id LIKE 'p%' AND a IN (0, 1, 2) ORDER BY b",
    "common table": "WITH v AS (SELECT DISTINCT id, a, b FROM visits) SELECT * FROM v",
    "numbers": "SELECT substr(id, 2)::integer AS id, abs(a) AS a, b % 5 AS b FROM visits",
}


@pytest.fixture(scope="module")
def prepared(server: Any) -> Any:
    with server.connect() as connection:
        for statement in (
            "CREATE TABLE visits (id text, a integer, b integer)",
            "INSERT INTO visits VALUES ('p1', 1, 1), ('p1', 2, 2), ('p2', 0, 4)",
            "CREATE VIEW limited AS SELECT * FROM visits LIMIT 1",
            "CREATE SEQUENCE numbers",
            "CREATE FUNCTION mine(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT $1'",
            "CREATE FUNCTION lower(text, integer) RETURNS text IMMUTABLE LANGUAGE sql "
            "AS 'SELECT $1'",
            "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', "
            "deterministic = false)",
            "CREATE TABLE collated (id text COLLATE anycase, a integer, b integer)",
            "CREATE EXTENSION IF NOT EXISTS citext",
            "CREATE TABLE loose (id citext, a integer, b integer)",
        ):
            connection.execute(statement)
    yield server
    with server.connect() as connection:
        connection.execute("DROP TABLE visits, collated, loose CASCADE")
        connection.execute("DROP SEQUENCE numbers")
        connection.execute("DROP COLLATION anycase")
        connection.execute("DROP FUNCTION mine(integer), lower(text, integer)")


@pytest.fixture
def view(prepared: Any) -> Any:
    made = []

    def make(query: str) -> str:
        name = f"view_{uuid.uuid4().hex}"
        with prepared.connect() as connection:
            connection.execute(f"CREATE VIEW {name} AS {query}")
        made.append(name)
        return prepared.url(name)

    yield make
    with prepared.connect() as connection:
        for name in made:
            connection.execute(f"DROP VIEW IF EXISTS {name}")


@pytest.mark.parametrize("what", REFUSED)
def test_a_view_whose_rows_may_not_be_the_same_at_every_scan_is_refused(
    view: Callable[[str], str], what: str
) -> None:
    url = view(REFUSED[what])
    for call in (open_warehouse, find_problems):
        with pytest.raises(DataError, match="CREATE TABLE … AS"):
            call(url, schema_of(1))


@pytest.mark.parametrize("what", ALLOWED)
def test_a_view_whose_rows_are_a_function_of_the_stored_ones_is_read(
    view: Callable[[str], str], what: str
) -> None:
    source = open_warehouse(view(ALLOWED[what]), schema_of(2))
    check_sums(counts(source))
    source.close()


def test_an_ibis_expression_is_looked_at_like_a_view(prepared: Any) -> None:
    ibis = pytest.importorskip("ibis")
    backend = ibis.connect(prepared.url("visits").partition("?")[0])
    visits = backend.table("visits")
    for one in (visits.limit(2), visits.sample(0.5), visits.filter(ibis.random() < 0.5)):
        with pytest.raises(DataError, match="CREATE TABLE … AS"):
            open_warehouse(one, schema_of(1))
    for one in (backend.table("limited"), visits.filter(ibis.now() > "2020-01-01")):
        with pytest.raises(DataError, match="CREATE TABLE … AS"):
            open_warehouse(one, schema_of(1))
    source = open_warehouse(visits.filter(visits.b > 0).distinct(), schema_of(1))
    assert int(source.counts([()])[0]) == 2
    source.close()


@pytest.mark.parametrize(
    ("kind", "units", "rows"),
    [
        ("double precision", ["1.5"], None),
        ("double precision", ["9007199254740992"], None),
        ("double precision", ["infinity"], None),
        ("real", ["16777216"], None),
        ("real", ["16777215"], 1),
        ("double precision", ["9007199254740991", "-9007199254740991"], 2),
        ("double precision", ["0", "-0"], 1),
        ("numeric", ["1.0", "1.00", "1"], 1),
        ("char(5)", ["a", "a  "], 1),
        ("text", ["a", "a "], 2),
        ("uuid", ["00000000-0000-0000-0000-000000000001"], 1),
    ],
)
def test_units_are_neither_merged_nor_split(
    server: Any, make_table: Make, kind: str, units: list[str], rows: int | None
) -> None:
    columns = [("id", kind), ("a", "integer"), ("b", "integer")]
    table = make_table(columns, [(unit, 1, 2) for unit in units])
    if rows is None:
        with pytest.raises(DataError, match="cannot name units exactly"):
            open_warehouse(server.url(table), schema_of(1))
        return
    source = open_warehouse(server.url(table), schema_of(1))
    assert int(source.counts([()])[0]) == int(source.counts([("a",)])[0].sum()) == rows
    source.close()
