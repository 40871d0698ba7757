"""Tables in files: what is read, what is refused, and what never comes out."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admeasure.errors import DataError, ResourceError, UsageError
from admeasure.limits import available_megabytes
from admeasure.schema import Schema
from admeasure.sources.files.source import DuckDBSource, find_problems, storage_types
from admeasure.sources.memory import MemorySource
from admeasure.sources.open import open_source

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2})
TEXT = "a,b\n0,1\n2,0\n2,1\n"
PAIRS = [[0, 1], [0, 0], [1, 1]]


def written(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def pairs(data, schema: Schema = SCHEMA) -> list:
    return open_source(data, schema).counts([("a", "b")])[0].tolist()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace(",", ";"),
        TEXT.replace(",", "\t"),
        TEXT.replace(",", "|"),
        TEXT.replace("\n", "\r\n"),
        TEXT.rstrip("\n"),
        b"\xef\xbb\xbf" + TEXT.encode(),
        'b,"x, y","c\nd",a\n1,q,"r\ns",0\n0,,,2\n1,,,2\n',
    ],
    ids=["comma", "semicolon", "tab", "bar", "crlf", "no last newline", "bom", "other columns"],
)
def test_common_forms_of_csv_are_read(tmp_path, text):
    assert pairs(written(tmp_path, text)) == PAIRS


def test_compressed_csv_and_tsv_are_read(tmp_path):
    assert pairs(written(tmp_path, gzip.compress(TEXT.encode()), "t.csv.gz")) == PAIRS
    assert pairs(written(tmp_path, TEXT.replace(",", "\t"), "t.tsv")) == PAIRS


def test_a_text_is_never_taken_for_a_type_because_of_other_rows(tmp_path):
    schema = Schema.model_validate(
        {
            "table": {"name": "t"},
            "privacy": {"unit": "person"},
            "column": [{"name": "zip", "type": "string", "enum": ["007", "7", ""]}],
        }
    )
    source = open_source(written(tmp_path, 'zip\n007\n7\n7\n""\n'), schema)
    assert source.counts([("zip",)])[0].tolist() == [1, 2, 1]


def test_names_are_compared_exactly_and_not_as_sql_does(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"A": [0, 0, 0], "a": [0, 2, 2], "b": [1, 0, 1]}), path)
    assert pairs(path) == PAIRS
    assert pairs(written(tmp_path, "A,a,b\n0,0,1\n1,2,0\n0,2,1\n")) == PAIRS
    with pytest.raises(DataError, match="Column 'a' is not in the table"):
        pairs(written(tmp_path, "A,b\n0,1\n"))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_column_that_occurs_twice_is_refused_only_if_it_is_asked_for(tmp_path, form):
    rows = [[0, 2, 2], [1, 0, 1], [0, 0, 0], [1, 1, 1]]
    for names, refused in (("abxx", False), ("abbx", True)):
        path = tmp_path / f"{names}.{form}"
        if form == "parquet":
            pq.write_table(pa.table([pa.array(r) for r in rows], names=list(names)), path)
        else:
            lines = [",".join(names), *(",".join(map(str, r)) for r in zip(*rows, strict=True))]
            path.write_text("\n".join(lines))
        if refused:
            with pytest.raises(DataError, match="'b' is in the table twice"):
                pairs(path)
        else:
            assert pairs(path) == PAIRS


def test_nested_columns_beside_the_schemas_do_no_harm(tmp_path):
    nested = {"s": [{"b": 1, "l": [1]}] * 3, "a": [0, 2, 2], "l": [[1], [], None], "b": [1, 0, 1]}
    pq.write_table(pa.table(nested), tmp_path / "t.parquet")
    assert pairs(tmp_path / "t.parquet") == PAIRS


def test_parts_may_differ_in_order_and_storage_of_their_columns(tmp_path):
    pq.write_table(pa.table({"a": [0], "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [0.0], "z": ["q"], "a": ["2"]}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"b": [True], "a": pa.array([2], pa.int8())}), tmp_path / "3.parquet")
    assert pairs(str(tmp_path / "*.parquet")) == PAIRS
    assert pairs([tmp_path / f"{i}.parquet" for i in (3, 1, 2)]) == PAIRS


def test_a_path_with_the_signs_of_a_pattern_is_read_as_it_stands(tmp_path):
    folder = tmp_path / "a[1]*"
    folder.mkdir()
    assert pairs(written(folder, TEXT, "t?[x].csv")) == PAIRS
    assert pairs(written(folder, TEXT, "it's.csv")) == PAIRS


def test_a_frame_is_opened_in_memory():
    assert isinstance(open_source({"a": [0], "b": [1]}, SCHEMA), MemorySource)


def duckdb_file(path: Path) -> Path:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (0,1),(2,0),(2,1)) v(a, b)")
        connection.execute("CREATE VIEW seen AS SELECT b, a FROM t")
        connection.execute('CREATE SCHEMA s; CREATE TABLE s."odd name" AS FROM t')
    return path


@pytest.mark.parametrize("table", ["t", "seen", "s.odd%20name"])
def test_tables_and_views_of_a_duckdb_file_are_read(tmp_path, table, monkeypatch):
    path = duckdb_file(tmp_path / "d.duckdb")
    before = path.read_bytes()
    assert pairs(f"duckdb://{path}?table={table}") == PAIRS
    monkeypatch.chdir(tmp_path)
    assert pairs(f"duckdb:///d.duckdb?table={table}") == PAIRS
    assert path.read_bytes() == before


def test_a_duckdb_file_of_several_tables_needs_a_name(tmp_path):
    path = duckdb_file(tmp_path / "d.duckdb")
    with pytest.raises(
        UsageError, match=r"Name a table with \?table=NAME.* 's.odd name', 'seen', 't'"
    ):
        open_source(path, SCHEMA)
    with pytest.raises(UsageError, match="There is no table 'T'"):
        open_source(f"duckdb://{path}?table=T", SCHEMA)


def test_what_cannot_be_opened_is_said_clearly(tmp_path):
    (tmp_path / "dir").mkdir()
    for data, kind, words in [
        (tmp_path / "none.csv", UsageError, "There is no file"),
        (str(tmp_path / "no*.csv"), UsageError, "No file matches"),
        (tmp_path / "dir", UsageError, "holds no .csv"),
        (written(tmp_path, "", "empty.csv"), DataError, "is empty"),
        (written(tmp_path, "", "empty.parquet"), DataError, "is empty"),
        (written(tmp_path, "\n", "blank.csv"), DataError, "has no header"),
        (written(tmp_path, b"\xff\xfea", "latin.csv"), DataError, "header"),
        (written(tmp_path, "x", "t.xlsx"), UsageError, "suffix is not one of .csv"),
        (written(tmp_path, "x", "bad.parquet"), DataError, "cannot be read as Parquet"),
        (written(tmp_path, "x" * 9000, "bad.duckdb"), DataError, "as a DuckDB file"),
        ("mysql://u:hunter2@h/db", UsageError, "no source for mysql:.*duckdb:///.*postgres://"),
        ("duckdb:///none.duckdb?table=t", UsageError, "There is no file"),
        ("duckdb:///x?tabel=t", UsageError, "duckdb:///FILE"),
        ([], UsageError, "No file is given"),
    ]:
        with pytest.raises(kind, match=words) as caught:
            open_source(data, SCHEMA)
        assert "hunter2" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["a,b\n0,1\n2\n", "a,b\n0,1\n1,SECRET,2\n", 'a,b\n0,"SECRET\n', b"a,b\n0,SECRET\xff\xfe\n"],
    ids=["few", "many", "quote", "bytes"],
)
def test_an_error_of_the_engine_comes_out_in_our_words_only(tmp_path, text):
    with pytest.raises(DataError) as caught:
        pairs(written(tmp_path, text))
    assert "SECRET" not in str(caught.value)
    assert "cannot be read" in str(caught.value) or "is not an integer" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_damaged_parquet_file_is_refused_in_our_words(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [0] * 5000, "b": [1] * 5000}), path, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    with pytest.raises(DataError, match="cannot be read"):
        pairs(path)


def test_all_problems_are_found_at_once_and_no_value_is_named(tmp_path):
    path = written(tmp_path, "a,b\n0,1\n777,x\n,0\n")
    found = sorted(map(str, find_problems(path, SCHEMA)))
    assert [line.split(" ")[1] for line in found] == ["'a'", "'a'", "'b'"]
    assert "777" not in "".join(found)
    assert find_problems(written(tmp_path, "a,b\n", "h.csv"), SCHEMA)[0].rule == "has no rows"
    assert find_problems(written(tmp_path, TEXT, "good.csv"), SCHEMA) == []


def test_a_table_without_rows_counts_nothing(tmp_path):
    source = open_source(written(tmp_path, "a,b\n"), SCHEMA)
    pair, rows = source.counts([("a", "b"), ()])
    assert pair.shape == (3, 2)
    assert (pair.sum(), int(rows)) == (0, 0)


def many_rows(path: Path, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    values = {"a": rng.integers(0, 3, rows), "b": rng.integers(0, 2, rows)}
    ids = rng.integers(0, rows // 3, rows)
    table = pa.table({**values, "id": [f"p{i}" for i in ids]})
    pq.write_table(table, path, row_group_size=20_000)
    return {**values, "id": ids}


def test_a_table_beyond_the_limit_is_streamed_and_gives_the_same_counts(tmp_path):
    values = many_rows(tmp_path / "t.parquet", 400_000)
    kept = DuckDBSource(tmp_path / "t.parquet", SCHEMA)
    streamed = DuckDBSource(tmp_path / "t.parquet", SCHEMA, memory_megabytes=0.5)
    assert kept.in_memory
    assert not streamed.in_memory
    pair, a, rows = streamed.counts([("a", "b"), ("a",), ()])
    assert (pair == kept.counts([("a", "b")])[0]).all()
    assert a.tolist() == np.bincount(values["a"]).tolist()
    assert int(rows) == 400_000


def test_the_rows_of_a_unit_are_kept_by_their_hash_over_many_row_groups(tmp_path):
    values = many_rows(tmp_path / "t.parquet", 100_000)
    privacy = SCHEMA.privacy.model_copy(update={"unit_column": "id", "max_rows_per_unit": 2})
    schema = SCHEMA.model_copy(update={"privacy": privacy})
    units: dict[int, list[tuple[str, int, int]]] = {}
    for unit, a, b in zip(*(values[c].tolist() for c in ("id", "a", "b")), strict=True):
        hashed = hashlib.md5(f"p{unit}|{a}|{b}".encode()).hexdigest()
        units.setdefault(unit, []).append((hashed, a, b))
    expected = np.zeros((3, 2), dtype=np.int64)
    for rows in units.values():
        for _, a, b in sorted(rows)[:2]:
            expected[a, b] += 1
    assert (open_source(tmp_path / "t.parquet", schema).counts([("a", "b")])[0] == expected).all()


def test_a_refused_value_is_found_also_in_a_row_that_would_be_left_out(tmp_path):
    privacy = SCHEMA.privacy.model_copy(update={"unit_column": "id"})
    schema = SCHEMA.model_copy(update={"privacy": privacy})
    with pytest.raises(DataError, match="'b'"):
        open_source(written(tmp_path, "id,a,b\n1,0,1\n1,0,9\n"), schema)


def test_nothing_is_left_on_disk_and_room_for_spilling_is_private(tmp_path, monkeypatch):
    modes: list[int] = []
    plain = tempfile.TemporaryDirectory

    def watched(**options):
        folder = plain(dir=tmp_path, **options)
        modes.append(stat.S_IMODE(os.stat(folder.name).st_mode))
        return folder

    monkeypatch.setattr(tempfile, "TemporaryDirectory", watched)
    many_rows(tmp_path / "t.parquet", 50_000)
    privacy = SCHEMA.privacy.model_copy(update={"unit_column": "id"})
    open_source(tmp_path / "t.parquet", SCHEMA.model_copy(update={"privacy": privacy}))
    assert modes == [0o700]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_a_table_that_loses_rows_between_scans_is_refused(tmp_path):
    path = written(tmp_path, TEXT)
    source = DuckDBSource(path, SCHEMA, memory_megabytes=0)
    written(tmp_path, "a,b\n0,1\n")
    with pytest.raises(DataError, match="changed while it was used"):
        source.counts([("a",)])


def test_storage_types_come_from_the_header_alone(tmp_path):
    csv = written(tmp_path, "id,ok\n1,true\n")
    assert storage_types(csv) == [("id", "VARCHAR"), ("ok", "VARCHAR")]
    day = [datetime.date(2020, 1, 1)]
    pq.write_table(pa.table({"n": [1], "x": [0.5], "D": day}), tmp_path / "t.parquet")
    found = storage_types(tmp_path / "t.parquet")
    assert found == [("n", "BIGINT"), ("x", "DOUBLE"), ("D", "DATE")]
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'SECRET'::ENUM('SECRET') AS e")
    assert storage_types(tmp_path / "d.duckdb") == [("e", "ENUM")]


def test_progress_ends_at_one_and_never_leaves_its_range(tmp_path):
    many_rows(tmp_path / "t.parquet", 400_000)
    seen: list[float] = []
    open_source(tmp_path / "t.parquet", SCHEMA, progress=seen.append)
    assert seen[-1] == 1.0
    assert all(0 <= fraction <= 1 for fraction in seen)


def test_dates_beyond_the_calendar_are_clamped_to_it(tmp_path):
    schema = Schema.loads(
        '[table]\nname="t"\n[privacy]\nunit="p"\n[[column]]\nname="d"\ntype="date"\n'
        "minimum=2000-01-01\nmaximum=2000-01-03\nclamp=true\n"
    )
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT unnest(['infinity'::DATE, '-infinity'::DATE, "
            "'100000-01-01'::DATE, '2000-01-02'::DATE, '0044-03-15 (BC)'::DATE]) AS d"
        )
        connection.execute("CREATE VIEW v AS SELECT d::TIMESTAMPTZ AS d FROM t")
    for table in ("t", "v"):
        source = open_source(f"duckdb://{tmp_path}/d.duckdb?table={table}", schema)
        assert source.counts([("d",)])[0].tolist() == [2, 1, 2]


def test_files_are_read_without_any_frame_library(tmp_path):
    path = written(tmp_path, TEXT)
    program = (
        "import sys\n"
        "for name in ('pyarrow', 'pandas', 'polars'): sys.modules[name] = None\n"
        "from admeasure.schema import Schema\n"
        "from admeasure.sources.open import open_source\n"
        "schema = Schema.coded('toy', {'a': 3, 'b': 2})\n"
        f"print(open_source({str(path)!r}, schema).counts([('a', 'b')])[0].tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(PAIRS)


def test_free_memory_is_that_of_the_system_or_of_the_control_group(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 2097152 kB\n")
    assert available_megabytes(tmp_path) == 2048
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text(str(100 * 2**20))
    (group / "memory.max").write_text("max")
    assert available_megabytes(tmp_path) == 2048
    (group / "memory.max").write_text(str(500 * 2**20))
    assert available_megabytes(tmp_path) == 400


def test_too_little_memory_for_the_engine_is_a_resource_error(tmp_path, monkeypatch):
    many_rows(tmp_path / "t.parquet", 300_000)
    privacy = SCHEMA.privacy.model_copy(update={"unit_column": "id"})
    schema = SCHEMA.model_copy(update={"privacy": privacy})
    monkeypatch.setattr("admeasure.sources.files.table.LEAST_MEGABYTES", 1)
    with pytest.raises(ResourceError, match="Raise the memory limit, or leave some"):
        DuckDBSource(tmp_path / "t.parquet", schema, memory_megabytes=1)
