"""What the source of PostgreSQL tables promises beyond the contract of all sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from admeasure.domain import canonical
from admeasure.errors import DataError, ResourceError, UsageError
from admeasure.schema import Schema
from admeasure.sources import Source
from admeasure.sources.memory import MemorySource
from admeasure.sources.open import open_source
from admeasure.sources.warehouse.source import WarehouseSource, find_problems, open_warehouse

Make = Callable[..., str]


def schema_of(*columns: dict, unit_column: str | None = None, most: int = 1) -> Schema:
    privacy: dict[str, Any] = {"unit": "person"}
    if unit_column is not None:
        privacy |= {"unit_column": unit_column, "max_rows_per_unit": most}
    return Schema.model_validate(
        {"table": {"name": "t"}, "privacy": privacy, "column": list(columns)}
    )


def letters(name: str = "x", **more: Any) -> dict:
    return {"name": name, "type": "string", "enum": ["a", "A", "b "], **more}


def digits(name: str) -> dict:
    return {"name": name, "type": "integer", "minimum": 0, "maximum": 9}


def counted(source: Source, *columns: str) -> list:
    return source.counts([columns])[0].tolist()


def test_texts_are_compared_by_their_bytes_whatever_the_collation(server: Any, make_table: Make):
    with server.connect() as connection:
        connection.execute(
            "CREATE COLLATION IF NOT EXISTS careless (provider = icu, "
            "locale = 'und-u-ks-level1', deterministic = false)"
        )
    rows = [("a",), ("A",), ("á",), ("b ",), ("b",), ("B ",)]
    for kind in ("text COLLATE careless", "citext", "varchar"):
        table = make_table([("x", kind)], rows)
        schema = schema_of(letters(other=True))
        assert counted(open_warehouse(server.url(table), schema), "x") == [1, 1, 1, 3]


def test_units_are_told_apart_by_their_bytes(server: Any, make_table: Make):
    rows = [("p", 1), ("P", 2), ("p", 3), ("p ", 4)]
    table = make_table([("id", "citext"), ("x", "integer")], rows)
    schema = schema_of(digits("x"), unit_column="id")
    assert counted(open_warehouse(server.url(table), schema), "x") == [0, 1, 1, 0, 1, 0, 0, 0, 0, 0]


def test_the_padding_of_a_fixed_width_column_is_no_part_of_a_value(server: Any, make_table: Make):
    table = make_table([("x", "char(5)")], [("a",), ("A    ",), (None,)])
    schema = schema_of(letters(missing_values=[]))
    assert counted(open_warehouse(server.url(table), schema), "x") == [1, 1, 0, 1]


def test_enum_types_and_domains_are_read_as_what_lies_below(server: Any, make_table: Make):
    with server.connect() as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('b ', 'A', 'a')")
        connection.execute("CREATE DOMAIN small AS smallint CHECK (VALUE < 10)")
    table = make_table([("x", "mood"), ("y", "small")], [("a", 3), ("A", 3), ("a", 9)])
    source = open_warehouse(server.url(table), schema_of(letters(), digits("y")))
    assert counted(source, "x") == [2, 1, 0]
    assert counted(source, "y") == [0, 0, 0, 2, 0, 0, 0, 0, 0, 1]
    with server.connect() as connection:
        source.close()
        connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP TYPE mood")
        connection.execute("DROP DOMAIN small")


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_infinite_days_are_beyond_all_others(server: Any, make_table: Make, kind: str):
    texts = ["-infinity", "0044-03-15 BC", "2020-01-02", "infinity"]
    table = make_table([("x", kind)], [(text,) for text in texts])
    described = {"name": "x", "type": "date", "edges": ["2020-01-01", "2020-01-02", "2020-01-03"]}
    url = server.url(table)
    assert counted(open_warehouse(url, schema_of({**described, "clamp": True})), "x") == [2, 2]
    assert counted(open_warehouse(url, schema_of({**described, "other": True})), "x") == [0, 1, 3]
    (problem,) = find_problems(url, schema_of(described))
    assert "outside" in str(problem)


def visits(seed: int) -> list[tuple[str, int, int]]:
    rng = np.random.default_rng(seed)
    return [
        (f"p{u}", int(x), int(y))
        for u, x, y in zip(*(rng.integers(0, n, 400) for n in (70, 10, 10)), strict=True)
    ]


def test_of_a_view_the_rows_kept_of_a_unit_do_not_depend_on_their_stored_order(
    server: Any, make_table: Make
):
    rows, most = visits(0), 3
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    schema = schema_of(digits("x"), digits("y"), unit_column="id", most=most)
    found = []
    for number, stored in enumerate((rows, shuffled)):
        table = make_table([("id", "text"), ("x", "integer"), ("y", "integer")], stored)
        with server.connect() as connection:
            connection.execute(f"CREATE VIEW view_{number} AS SELECT * FROM {table}")
        source = open_warehouse(server.url(f"view_{number}"), schema)
        found.append(source.counts([("x", "y"), ("x",), ()]))
        source.close()
    for one, other in zip(*found, strict=True):
        assert (one == other).all()
    pair, single, total = found[0]
    sizes = Counter(unit for unit, _, _ in rows)
    assert int(total) == sum(min(size, most) for size in sizes.values())
    assert (pair.sum(axis=1) == single).all()  # the same rows are kept whatever is asked for
    there = Counter((x, y) for _, x, y in rows)
    assert all(pair[x, y] <= there[x, y] for x in range(10) for y in range(10))


@pytest.mark.parametrize("kind", ["partitioned", "materialised"])
def test_of_stored_rows_those_are_kept_that_memory_keeps(server: Any, make_table: Make, kind: str):
    rows = visits(2)
    table = make_table([("id", "text"), ("x", "integer"), ("y", "integer")], rows)
    with server.connect() as connection:
        if kind == "partitioned":
            connection.execute(
                "CREATE TABLE divided (id text, x integer, y integer) PARTITION BY HASH (id)"
            )
            for part in range(3):
                connection.execute(
                    f"CREATE TABLE divided_{part} PARTITION OF divided "
                    f"FOR VALUES WITH (MODULUS 3, REMAINDER {part})"
                )
            connection.execute(f"INSERT INTO divided SELECT * FROM {table} ORDER BY ctid")
        else:
            connection.execute(f"CREATE MATERIALIZED VIEW divided AS SELECT * FROM {table}")
    schema = schema_of(digits("x"), digits("y"), unit_column="id", most=2)
    source = open_warehouse(server.url("divided"), schema)
    frame = {name: [row[i] for row in rows] for i, name in enumerate(("id", "x", "y"))}
    (found,), (expected,) = (s.counts([("x", "y")]) for s in (source, MemorySource(frame, schema)))
    source.close()
    with server.connect() as connection:
        word = "TABLE" if kind == "partitioned" else "MATERIALIZED VIEW"
        connection.execute(f"DROP {word} divided")
    assert (found == expected).all()


def test_a_unit_that_cannot_be_compared_is_refused(server: Any, make_table: Make):
    table = make_table([("id", "point"), ("x", "integer")], [("(1, 2)", 1)])
    with pytest.raises(DataError, match="'id' cannot name units"):
        open_warehouse(server.url(table), schema_of(digits("x"), unit_column="id"))


def test_an_enum_of_thousands_is_matched(server: Any, make_table: Make):
    words = [f"wörd {i}" for i in range(3000)]
    picked = np.random.default_rng(0).integers(0, 3000, 200)
    table = make_table([("x", "text")], [(words[i],) for i in picked])
    schema = schema_of({"name": "x", "type": "string", "enum": words})
    found = counted(open_warehouse(server.url(table), schema), "x")
    assert found == np.bincount(picked, minlength=3000).tolist()


def test_all_scans_see_the_table_as_it_was_when_it_was_opened(server: Any, make_table: Make):
    table = make_table([("x", "integer")], [(1,), (2,)])
    source = open_warehouse(server.url(table), schema_of(digits("x")))
    with server.connect() as connection:
        connection.execute(f"INSERT INTO {table} VALUES (3), (777), (NULL)")
        connection.execute(f"DELETE FROM {table} WHERE x = 1")
    assert counted(source, "x") == [0, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert int(source.counts([()])[0]) == 2


def test_the_right_to_read_the_schemas_columns_is_enough(server: Any, make_table: Make):
    table = make_table([("x", "integer"), ("secret", "text")], [(1, "s"), (1, "t")])
    schema = schema_of(digits("x"))
    with server.connect() as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'r'")
        url = server.url(table, "reader", "r")
        with pytest.raises(DataError, match="may not read"):
            open_warehouse(url, schema)
        connection.execute(f"GRANT SELECT (x) ON {table} TO reader")
        source = open_warehouse(url, schema)
        assert counted(source, "x")[1] == 2
        assert find_problems(url, schema) == []
        source.close()
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


def test_nothing_can_be_written_over_the_connection(server: Any, make_table: Make):
    table = make_table([("x", "integer")], [(1,)])
    source = open_warehouse(server.url(table), schema_of(digits("x")))
    (state,) = source._database.row("SELECT current_setting('transaction_read_only')")
    assert state == "on"
    with pytest.raises(DataError):
        source._database.row(f"DELETE FROM {table} RETURNING x")
    with server.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_only_aggregates_leave_the_database(server: Any, make_table: Make):
    rows = [(i % 3, i % 2) for i in range(500)]
    table = make_table([("x", "integer"), ("y", "integer")], rows)
    source = open_warehouse(server.url(table), schema_of(digits("x"), digits("y")))
    received = []
    ask = source._database.numbers

    def watched(query: str, names: Any):
        for batch in ask(query, names):
            received.append(batch)
            yield batch

    source._database.numbers = watched  # type: ignore[method-assign]
    source.counts([("x", "y"), ("x",), ("y",)])
    source.close()
    assert sum(len(batch) for batch in received) == 6  # the cells that occur, of 500 rows


def test_cells_too_many_for_one_number_are_counted_too(server: Any, make_table: Make):
    names = [f"c{i:02}" for i in range(20)]
    schema = Schema.coded("wide", dict.fromkeys(names, 5000))
    rng = np.random.default_rng(0)
    rows = [tuple(map(int, rng.integers(0, 2, 20) * 4999)) for _ in range(40)] * 2
    table = make_table([(name, "integer") for name in names], rows)
    source = open_warehouse(server.url(table), schema)
    truth = MemorySource({n: [row[i] for row in rows] for i, n in enumerate(names)}, schema)
    asked = [canonical(names), canonical(names[:4]), canonical(names[:2])]
    for found, expected in zip(source.sparse(asked), truth.sparse(asked), strict=True):
        assert found.columns == expected.columns
        assert (found.codes == expected.codes).all()
        assert (found.counts == expected.counts).all()


def test_more_cells_than_memory_allows_are_refused(server: Any, make_table: Make):
    schema = Schema.coded("wide", {"a": 5000, "b": 5000})
    table = make_table([("a", "integer"), ("b", "integer")], [(i, i) for i in range(2000)])
    source = open_warehouse(server.url(table), schema, memory_megabytes=0.05)
    with pytest.raises(ResourceError, match="memory limit"):
        source.sparse([("a", "b")])


def test_a_table_without_rows_has_counts_of_zero_and_is_a_problem(server: Any, make_table: Make):
    url = server.url(make_table([("x", "integer")], []))
    schema = schema_of(digits("x"))
    source = open_warehouse(url, schema)
    assert counted(source, "x") == [0] * 10
    assert source.sparse([("x",), ()])[0].counts.tolist() == []
    (problem,) = find_problems(url, schema)
    assert "no rows" in str(problem)


def test_a_query_that_takes_too_long_is_a_limit_reached(server: Any, make_table: Make):
    table = make_table([("x", "integer")], [(1,)] * 3000)
    with server.connect() as connection:
        connection.execute(
            f"CREATE VIEW slow_view AS SELECT a.x FROM {table} a, {table} b, {table} c, {table} d"
        )
    with pytest.raises(ResourceError, match="statement_timeout"):
        open_warehouse(server.url("slow_view") + "&statement_timeout=1", schema_of(digits("x")))


def test_a_connection_that_is_lost_is_said_to_be(server: Any, make_table: Make):
    table = make_table([("x", "integer")], [(1,)])
    source = open_warehouse(server.url(table), schema_of(digits("x")))
    (process,) = source._database.row("SELECT pg_backend_pid()")
    with server.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [process])
    with pytest.raises(DataError, match="was lost") as caught:
        source.counts([("x",)])
    assert server.password not in str(caught.value)


def test_a_view_that_fails_is_refused_without_the_values_in_its_error(
    server: Any, make_table: Make
):
    table = make_table([("t", "text")], [("secret-value",)])
    with server.connect() as connection:
        connection.execute(f"CREATE VIEW failing AS SELECT t::integer AS x FROM {table}")
    with pytest.raises(DataError, match="cannot be read") as caught:
        open_warehouse(server.url("failing"), schema_of(digits("x")))
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_marginals_that_are_not_of_the_schema_are_refused(server: Any, make_table: Make):
    source = open_warehouse(
        server.url(make_table([("x", "integer")], [(1,)])), schema_of(digits("x"))
    )
    for ask in (source.counts, source.sparse):
        with pytest.raises(UsageError, match="'z'"):
            ask([("z",)])


def test_many_marginals_take_few_statements_and_progress_is_told(server: Any, make_table: Make):
    names = [f"c{i}" for i in range(8)]
    rng = np.random.default_rng(3)
    rows = [tuple(map(int, row)) for row in rng.integers(0, 10, (50, 8))]
    table = make_table([(name, "integer") for name in names], rows)
    told: list[float] = []
    schema = schema_of(*map(digits, names))
    source = open_warehouse(server.url(table), schema, progress=told.append)
    asked = [(a, b, c) for a in names for b in names for c in names if a < b < c]
    statements = []
    ask = source._database.numbers
    source._database.numbers = lambda q, n: statements.append(q) or ask(q, n)  # type: ignore
    truth = MemorySource({n: [row[i] for row in rows] for i, n in enumerate(names)}, schema)
    for found, expected in zip(source.counts(asked), truth.counts(asked), strict=True):
        assert (found == expected).all()
    source.close()
    assert len(statements) == 1
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert all(0.0 <= part <= 1.0 for part in told)


def test_an_ibis_table_is_counted_where_it_lies(server: Any, make_table: Make):
    ibis = pytest.importorskip("ibis")
    table = make_table([("x", "integer"), ("y", "text")], [(i % 5, "aA"[i % 2]) for i in range(40)])
    backend = ibis.postgres.connect(
        host="127.0.0.1",
        port=server.port,
        user="owner",
        password=server.password,
        database="postgres",
    )
    people = backend.table(table)
    source = open_source(people.filter(people.x < 3), schema_of(digits("x"), letters("y")))
    assert isinstance(source, WarehouseSource)
    expected = Counter((i % 5, i % 2) for i in range(40) if i % 5 < 3)
    (found,) = source.counts([("x", "y")])
    assert {(x, y): int(found[x, y]) for x, y in expected} == dict(expected)
    assert found.sum() == sum(expected.values())
    source.close()
    backend.disconnect()


def test_an_ibis_table_of_no_known_database_is_refused(server: Any):
    ibis = pytest.importorskip("ibis")
    with pytest.raises(UsageError, match="PostgreSQL, BigQuery or Snowflake"):
        open_source(ibis.table({"x": "int64"}, name="nowhere"), schema_of(digits("x")))
