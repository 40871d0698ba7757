"""Folders of files, and folders whose names hold columns."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from admeasure.errors import DataError, UsageError
from admeasure.schema import Schema
from admeasure.sources.files.source import DuckDBSource, find_problems, storage_types
from admeasure.sources.open import open_source

SCHEMA = Schema.loads("""
[table]
name = "visits"
[privacy]
unit = "person"
[[column]]
name = "city"
type = "string"
enum = ["a b", "x/y=z%", "007", "é"]
missing_values = [""]
[[column]]
name = "n"
type = "integer"
minimum = 0
maximum = 3
[[column]]
name = "year"
type = "integer"
minimum = 2020
maximum = 2022
""")
CITIES = ["a b", "x/y=z%", "007", None, "é", "a b", "007"]
ROWS = {"n": [0, 1, 2, 3, 0, 1, 2], "city": CITIES, "year": [2020, 2021, 2022] * 2 + [2020]}
TOGETHER = ("city", "n", "year")


def expected() -> list[tuple[list[int], int]]:
    levels = {"a b": 0, "x/y=z%": 1, "007": 2, "é": 3, None: 4}
    rows = zip(ROWS["city"], ROWS["n"], ROWS["year"], strict=True)
    cells = [[levels[city], n, year - 2020] for city, n, year in rows]
    return sorted((cell, cells.count(cell)) for cell in {tuple(c): c for c in cells}.values())


def found(data, **options) -> list[tuple[list[int], int]]:
    (one,) = open_source(data, SCHEMA, **options).sparse([TOGETHER])
    return list(zip(one.codes.tolist(), one.counts.tolist(), strict=True))


FORMATS = pytest.mark.parametrize("form", ["parquet", "csv"])


def by_duckdb(
    folder: Path, form: str = "parquet", keys: str = "city, year", options: str = ""
) -> Path:
    partition = f", PARTITION_BY ({keys}){options}" if keys else ""
    with duckdb.connect() as connection:
        table = pa.table(ROWS)
        connection.register("rows", table)
        connection.execute(f"COPY rows TO '{folder}/t' (FORMAT {form}{partition})")
    return folder / "t"


def one_file(path: Path, rows: dict = ROWS) -> Path:
    """All rows, in the format that the path says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.register("rows", pa.table(rows))
        connection.execute(f"COPY rows TO '{path}' (FORMAT {path.suffix[1:]})")
    return path


@FORMATS
def test_columns_in_the_names_of_folders_are_columns(tmp_path, form):
    folder = by_duckdb(tmp_path, form)
    assert found(one_file(tmp_path / f"whole.{form}")) == expected()
    assert found(folder) == expected()
    assert found(str(folder / "*" / "*" / f"*.{form}")) == expected()
    assert found(str(folder / "**" / f"*.{form}")) == expected()
    assert found(folder, memory_megabytes=0) == expected()
    assert found(folder, memory_megabytes=0, cache=tmp_path) == expected()


@FORMATS
def test_partitions_written_by_another_library_are_read_alike(tmp_path, form):
    keys = ds.partitioning(pa.schema([("city", pa.string()), ("year", pa.int64())]), flavor="hive")
    ds.write_dataset(pa.table(ROWS), tmp_path / "t", format=form, partitioning=keys)
    assert found(tmp_path / "t") == expected()


@FORMATS
def test_a_column_that_the_files_hold_too_is_read_from_the_files(tmp_path, form):
    folder = by_duckdb(tmp_path, form, "city", ", WRITE_PARTITION_COLUMNS true")
    assert found(folder) == expected()
    one_file(tmp_path / "u" / "N=3" / f"x.{form}")  # the file's n, in SQL's eyes
    assert found(tmp_path / "u") == expected()


@FORMATS
def test_keys_that_the_schema_does_not_name_are_not_read(tmp_path, form):
    path = one_file(tmp_path / "run=secret" / "k=2" / "k0=3" / "kkk0=4" / f"x.{form}")
    assert found(tmp_path / "run=secret") == expected()
    assert found(path) == expected()


@FORMATS
def test_the_unit_may_be_in_the_name_of_a_folder(tmp_path, form):
    """At most two rows of each are counted, as from the same rows in one file."""
    limited = '[privacy]\nunit_column = "id"\nmax_rows_per_unit = 2'
    schema = Schema.loads(SCHEMA.dumps().replace("[privacy]", limited))
    ids = ["p", "q", "p", "p", "q", "r", "p"]
    order = sorted(range(len(ids)), key=ids.__getitem__)  # as the folders are read
    rows = {name: [values[i] for i in order] for name, values in {**ROWS, "id": ids}.items()}
    (whole,) = open_source(one_file(tmp_path / f"whole.{form}", rows), schema).sparse([TOGETHER])
    for unit in sorted(set(ids)):
        own = {c: [v for v, i in zip(rows[c], rows["id"], strict=True) if i == unit] for c in ROWS}
        one_file(tmp_path / "t" / f"id={unit}" / f"x.{form}", own)
    (parts,) = open_source(tmp_path / "t", schema).sparse([TOGETHER])
    assert parts.counts.sum() == 5
    assert parts.codes.tolist() == whole.codes.tolist()
    assert parts.counts.tolist() == whole.counts.tolist()


def test_a_value_of_a_folder_that_has_no_level_is_refused_and_not_shown(tmp_path):
    for name in ("city=a%20b", "city=SECRET"):
        (tmp_path / "t" / name).mkdir(parents=True)
        pq.write_table(pa.table({"n": [1], "year": [2020]}), tmp_path / "t" / name / "x.parquet")
    with pytest.raises(DataError, match="'city'") as caught:
        open_source(tmp_path / "t", SCHEMA)
    assert "SECRET" not in str(caught.value)
    assert [problem.column for problem in find_problems(tmp_path / "t", SCHEMA)] == ["city"]
    (tmp_path / "t" / "city=SECRET" / "x.parquet").write_bytes(b"broken")
    for data in (tmp_path / "t", str(tmp_path / "t" / "*" / "*.parquet")):
        with pytest.raises(DataError, match="cannot be read as Parquet") as caught:
            open_source(data, SCHEMA)
        assert "SECRET" not in str(caught.value)


def test_a_csv_file_without_a_readable_header_is_refused_and_its_folder_not_shown(tmp_path):
    (tmp_path / "city=SECRET").mkdir()
    for content in (b"\n", b"\xff\xfe,x\n1,2\n"):
        (tmp_path / "city=SECRET" / "x.csv").write_bytes(content)
        for data in (tmp_path, str(tmp_path / "*" / "*.csv")):
            with pytest.raises(DataError, match="header") as caught:
                open_source(data, SCHEMA)
            assert "SECRET" not in str(caught.value)


def test_a_folder_of_plain_files_is_one_table_in_the_order_of_their_names(tmp_path):
    folder = tmp_path / "people.parquet"  # as Spark writes them
    folder.mkdir()
    for k in range(3):
        rows = {name: values[k::3] for name, values in ROWS.items()}
        pq.write_table(pa.table(rows), folder / f"part-{k}.parquet")
    for other in ("_SUCCESS", ".part-0.parquet.crc", "_metadata.parquet", "notes.txt"):
        (folder / other).write_bytes(b"")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part-9.parquet").write_bytes(b"half")
    assert found(folder) == expected()
    assert isinstance(open_source(str(folder), SCHEMA), DuckDBSource)


def test_a_folder_of_csv_files_is_one_table(tmp_path):
    for k in range(2):
        lines = ["n,city,year"]
        for n, city, year in list(zip(*(ROWS[c] for c in ("n", "city", "year")), strict=True))[
            k::2
        ]:
            lines.append(f"{n},{city or ''},{year}")
        (tmp_path / f"{k}.csv").write_text("\n".join(lines))
    assert found(tmp_path) == expected()


def test_a_folder_without_tables_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UsageError, match=r"holds no \.csv"):
        open_source(tmp_path, SCHEMA)


def test_storage_types_name_the_columns_of_folders(tmp_path):
    names = dict(storage_types(by_duckdb(tmp_path)))
    assert names == {"n": "BIGINT", "city": "VARCHAR", "year": "VARCHAR"}
    (tmp_path / "csv").mkdir()
    names = dict(storage_types(by_duckdb(tmp_path / "csv", "csv")))
    assert names == dict.fromkeys(("n", "city", "year"), "VARCHAR")
