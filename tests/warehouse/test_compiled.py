"""BigQuery and Snowflake: the compiled SQL parses in its dialect, and means what it should where
its meaning can be tried: translated by sqlglot and run by DuckDB.

Neither service is reached. What is not tried here is whatever sqlglot and DuckDB take differently
from the services themselves.
"""

from __future__ import annotations

import datetime
from itertools import combinations
from typing import Any

import pytest

import spellings
from admeasure.domain import canonical
from admeasure.errors import DataError, UsageError
from admeasure.schema import Schema
from admeasure.schema.check import check
from admeasure.schema.storage import Storage
from admeasure.sources.dialect import Dialect, Stored
from admeasure.sources.memory import MemorySource
from admeasure.sources.warehouse.dialects.bigquery import BigQuery
from admeasure.sources.warehouse.dialects.snowflake import Snowflake
from admeasure.sources.warehouse.ibis import IbisDatabase, stored
from admeasure.sources.warehouse.source import WarehouseSource, open_warehouse
from translated import Translated

sqlglot = pytest.importorskip("sqlglot")
from sqlglot import exp  # noqa: E402

SCHEMA = """
[table]
name = "t"
[privacy]
unit = "person"
[[column]]
name = "text"
type = "string"
enum = ["a", "A", "it's", "back\\\\slash", "50%", "two\\nlines", "日本", " a", "a ", ""]
other = true
missing_values = ["?"]
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 7
missing_values = ["-9"]
other = true
[[column]]
name = "written"
type = "integer"
minimum = -5
maximum = 5
other = true
missing_values = ["NA"]
[[column]]
name = "income"
type = "number"
minimum = 0
maximum = 1
bins = 10
clamp = true
missing_values = []
[[column]]
name = "said"
type = "number"
edges = [-1.0, 0.1, 0.3, 2.0]
other = true
missing_values = []
[[column]]
name = "born"
type = "date"
minimum = 2020-01-01
maximum = 2020-12-31
bins = 12
other = true
missing_values = []
[[column]]
name = "noted"
type = "date"
minimum = 2020-01-01
maximum = 2020-12-31
other = true
missing_values = []
[[column]]
name = "member"
type = "boolean"
missing_values = []
other = true
[[column]]
name = "row"
type = "integer"
minimum = 0
maximum = 63
"""
TEXTS = [
    "a",
    "A",
    "it's",
    "back\\slash",
    "50%",
    "two\nlines",
    "日本",
    " a",
    "a ",
    "",
    "?",
    "x",
    None,
]
WHOLES = [0, 14, 15, 99, 100, -1, -9, 2**62, -(2**62), None, 50, 7]
WRITTEN = ["5", " -5 ", "+3", "3.0", "3.5", "NA", "", "9" * 30, "-" + "9" * 30, "x", None, "1e0"]
REALS = [0.0, -0.0, 0.1, 0.3, 0.7, 0.30000000000000004, 1.0, 5.0, -5.0, float("nan"), None, 0.95]
SAID = ["0.1", "0.3", " 2 ", "2.1", "-1", "nan", "inf", "-Infinity", ".5", "1e-1", "1e400", "", "z"]
DAYS = [datetime.date(2020, 1, 1), datetime.date(2020, 2, 29), datetime.date(2021, 1, 1), None]
NOTED = ["2020-02-29", "2021-02-29", "2020-1-1", " 2020-12-31 ", "0000-01-01", "", None, "x"]
MEMBERS = ["true", "FALSE", "1", "0", " tRuE ", "yes", "", None]

COLUMNS: dict[str, tuple[str, Storage, list[Any]]] = {
    "text": ("VARCHAR", Storage.TEXT, TEXTS),
    "age": ("BIGINT", Storage.WHOLE, WHOLES),
    "written": ("VARCHAR", Storage.TEXT, WRITTEN),
    "income": ("DOUBLE", Storage.REAL, REALS),
    "said": ("VARCHAR", Storage.TEXT, SAID),
    "born": ("DATE", Storage.DAY, DAYS),
    "noted": ("VARCHAR", Storage.TEXT, NOTED),
    "member": ("VARCHAR", Storage.TEXT, MEMBERS),
}
KEPT = {
    **{name: (kind, storage) for name, (kind, storage, _) in COLUMNS.items()},
    "row": ("BIGINT", Storage.WHOLE),
}
ROWS = 64
DIALECTS = [BigQuery, Snowflake]


def frame() -> dict[str, list[Any]]:
    values = {
        name: [held[i % len(held)] for i in range(ROWS)] for name, (_, _, held) in COLUMNS.items()
    }
    return {**values, "row": list(range(ROWS))}


@pytest.fixture(params=DIALECTS, ids=lambda d: d.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param()


def source(dialect: Dialect, values: dict[str, list], schema: Schema) -> WarehouseSource:
    made = WarehouseSource(Translated(dialect, values, KEPT), schema)
    made.validate()
    return made


def test_every_value_gets_the_level_it_has_in_memory(dialect: Dialect):
    schema, values = Schema.loads(SCHEMA), frame()
    assert check(values, schema) == []
    marginals = [canonical((name, "row")) for name in COLUMNS]
    found = source(dialect, values, schema).counts(marginals)
    true = MemorySource(values, schema).counts(marginals)
    for name, array, expected in zip(COLUMNS, found, true, strict=True):
        assert (array == expected).all(), name


def test_every_spelling_gets_the_level_it_has_in_memory(dialect: Dialect):
    schema, values = spellings.schema(), spellings.frame()
    marginals = [canonical((name, "row")) for name in schema.names if name != "row"]
    found = source(dialect, values, schema).counts(marginals)
    true = MemorySource(values, schema).counts(marginals)
    for joint, array, expected in zip(marginals, found, true, strict=True):
        assert (array == expected).all(), joint


def test_many_joints_are_counted_by_one_statement(dialect: Dialect):
    schema, values = Schema.loads(SCHEMA), frame()
    marginals = [canonical(pair) for pair in combinations(COLUMNS, 3)]
    found = source(dialect, values, schema).counts(marginals)
    for array, expected in zip(found, MemorySource(values, schema).counts(marginals), strict=True):
        assert (array == expected).all()


def test_sparse_counts_are_those_of_memory(dialect: Dialect):
    schema, values = Schema.loads(SCHEMA), frame()
    asked = [canonical(schema.names), canonical(schema.names[:3]), ("age",), ()]
    truth = MemorySource(values, schema).sparse(asked)
    for one, expected in zip(source(dialect, values, schema).sparse(asked), truth, strict=True):
        assert (one.codes == expected.codes).all()
        assert (one.counts == expected.counts).all()


def test_a_broken_rule_is_named_as_in_memory(dialect: Dialect):
    strict = SCHEMA.replace("other = true", "").replace("clamp = true", "")
    schema, values = Schema.loads(strict), frame()
    made = WarehouseSource(Translated(dialect, values, KEPT), schema)
    assert [str(p) for p in made.problems()] == [str(p) for p in check(values, schema)]
    with pytest.raises(DataError):
        made.validate()


def test_at_most_so_many_rows_of_a_unit_are_counted(dialect: Dialect):
    limited = SCHEMA.replace(
        'unit = "person"', 'unit = "person"\nunit_column = "id"\nmax_rows_per_unit = 2'
    )
    values = {**frame(), "id": [f"p{i % 20}" for i in range(ROWS)]}
    made = source(dialect, values, Schema.loads(limited))
    rows, by_row = made.counts([(), ("row",)])
    assert int(rows) == 40
    assert by_row.sum() == 40
    assert all(by_row[unit:ROWS:20].sum() == 2 for unit in range(20))


def test_a_table_that_changes_between_scans_is_refused(dialect: Dialect):
    schema, values = Schema.loads(SCHEMA), frame()
    made = source(dialect, values, schema)
    database: Any = made._database
    database.connection.execute("DELETE FROM people WHERE row = 3")
    with pytest.raises(DataError, match="changed while it was used"):
        made.counts([("age",)])
    with pytest.raises(DataError, match="changed while it was used"):
        made.sparse([canonical(schema.names)])


HOSTILE = [
    "'",
    "''",
    "\\",
    "\\'",
    '"',
    "`",
    "%",
    "--",
    "/*",
    "\n",
    "a\r\nb",
    "\u2028",
    "é",
    ";",
    "{}",
    "$1",
]


@pytest.mark.parametrize("made", [*DIALECTS], ids=lambda d: d.name)
def test_a_literal_is_one_text_with_every_character_as_it_was(made: type[Dialect]):
    for value in [*HOSTILE, "".join(HOSTILE)]:
        (tree,) = sqlglot.parse(f"SELECT {made().text(value)}", read=made.name)
        (literal,) = tree.expressions
        assert literal.is_string
        assert literal.this == value
        (tree,) = sqlglot.parse(f"SELECT {made().identifier(value)}", read=made.name)
        (column,) = tree.expressions
        assert isinstance(column, exp.Column)


class FakeBackend:
    """What is asked of a backend of ibis, over DuckDB."""

    def __init__(self, translated: Translated) -> None:
        self.name = translated.dialect.name
        self._translated = translated

    def compile(self, table: Any) -> str:
        return "SELECT * FROM people"

    def raw_sql(self, query: str) -> Any:
        rows = self._translated._run(query)
        return rows if self.name == "bigquery" else Cursor(rows)


class Cursor:
    def __init__(self, rows: list) -> None:
        self._rows = rows

    def fetchall(self) -> list:
        return self._rows


def test_results_are_read_through_what_ibis_gives(dialect: Dialect):
    ibis = pytest.importorskip("ibis")
    schema, values = Schema.loads(SCHEMA), frame()
    kinds = {"VARCHAR": "string", "BIGINT": "int64", "DOUBLE": "float64", "DATE": "date"}
    types = {name: kinds[kind] for name, (kind, _, _) in COLUMNS.items()} | {"row": "int64"}
    backend = FakeBackend(Translated(dialect, values, KEPT))

    class Table:
        def get_backend(self) -> FakeBackend:
            return backend

        def schema(self) -> Any:
            return ibis.schema(types)

    made = open_warehouse(Table(), schema)
    assert isinstance(made._database, IbisDatabase)
    for array, expected in zip(
        made.counts([("age", "text"), ()]),
        MemorySource(values, schema).counts([("age", "text"), ()]),
        strict=True,
    ):
        assert (array == expected).all()


def test_the_types_of_ibis_are_known():
    dt = pytest.importorskip("ibis").expr.datatypes
    expected = {
        dt.string: Storage.TEXT,
        dt.boolean: Storage.BOOLEAN,
        dt.int16: Storage.WHOLE,
        dt.float32: Storage.REAL,
        dt.Decimal(38, 9): Storage.DECIMAL,
        dt.date: Storage.DAY,
        dt.timestamp: Storage.DAY,
        dt.Timestamp("UTC"): Storage.MOMENT,
        dt.time: Storage.OTHER,
        dt.binary: Storage.OTHER,
        dt.Array(dt.int64): Storage.OTHER,
        dt.json: Storage.OTHER,
    }
    for kind, storage in expected.items():
        assert stored("x", kind, wide=False).storage is storage
    assert stored("x", dt.int64, wide=True).storage is Storage.WIDE
    assert stored("x", dt.Decimal(38, 0), wide=True).storage is Storage.WIDE


@pytest.mark.parametrize("storage", list(Storage))
@pytest.mark.parametrize("made", [*DIALECTS], ids=lambda d: d.name)
def test_statements_over_every_storage_parse_in_the_dialect(made: type[Dialect], storage: Storage):
    from admeasure.sources.warehouse.query import WarehouseTable

    limited = SCHEMA.replace('unit = "person"', 'unit = "person"\nunit_column = "id"')
    schema = Schema.loads(limited)
    columns = tuple(Stored(name, storage, "") for name in (*schema.names, "id"))
    table = WarehouseTable(made(), "`people`" if made is BigQuery else '"people"', columns, schema)
    joints = [canonical(pair) for pair in combinations(schema.names[:4], 2)]
    statements = [
        table.sound(),
        table.kept(),
        table.broken(schema.names)[0],
        table.cells(joints, schema.domain),
        table.combinations(canonical(schema.names)),
    ]
    for statement in statements:
        (tree,) = sqlglot.parse(statement, read=made.name)
        assert isinstance(tree, exp.Select)


@pytest.mark.parametrize(
    "url",
    ["bigquery://project/dataset?table=t", "snowflake://ann:pa55@account/db/schema?table=t"],
)
def test_a_driver_that_is_missing_is_named_and_the_password_is_not(url: str):
    pytest.importorskip("ibis")
    with pytest.raises((UsageError, DataError)) as caught:
        open_warehouse(url, Schema.loads(SCHEMA))
    assert "pa55" not in str(caught.value)
    assert caught.value.__suppress_context__
