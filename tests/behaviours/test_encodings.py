"""CSV files in other encodings than UTF-8: the same counts, and errors that name the right one."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from admeasure.errors import DataError, SchemaError, UsageError
from admeasure.schema import Schema
from admeasure.sources.files.source import DuckDBSource, find_problems, storage_types
from admeasure.verbs.check import check, left_out, look_at

WORDS = ("Müller", "Señor", "naïve", "ÿþ")
CODES = {
    "latin-1": WORDS,
    "cp1252": (*WORDS, "5 €", "“quoted”"),
    "utf-16": (*WORDS, "日本"),
    "iso8859-2": ("Łódź", "žluť"),
    "shift_jis": ("日本", "表"),  # whose second byte is a backslash
    "utf-8": (*WORDS, "日本"),
    "utf-8-sig": WORDS,
}


def schema(encoding: str | None, enum: tuple[str, ...]) -> Schema:
    said = f'encoding = "{encoding}"\n' if encoding else ""
    listed = ", ".join(f'"{word}"' for word in enum)
    return Schema.loads(
        f'[table]\nname = "t"\n{said}[privacy]\nunit = "person"\nunit_column = "id"\n'
        f'[[column]]\nname = "größe" \ntype = "string"\nenum = [{listed}]\n'
        if encoding not in ("iso8859-2", "shift_jis")
        else f'[table]\nname = "t"\n{said}[privacy]\nunit = "person"\nunit_column = "id"\n'
        f'[[column]]\nname = "name"\ntype = "string"\nenum = [{listed}]\n'
    )


def table(path: Path, encoding: str, column: str, words: tuple[str, ...]) -> None:
    rows = [f'{word}{i},"{word}"' for i, word in enumerate(words * 3)]
    text = "\n".join([f"id,{column}", *rows]) + "\n"
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wb") as file:
        file.write(text.encode(encoding))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("encoding", CODES)
def test_a_file_in_the_declared_encoding_is_counted(encoding: str, suffix: str, tmp_path: Path):
    words, described = CODES[encoding], schema(encoding, CODES[encoding])
    path = tmp_path / f"t{suffix}"
    table(path, encoding, described.names[0], words)
    assert check(str(path), described) == []
    source = DuckDBSource(path, described)
    assert source.counts([described.names])[0].tolist() == [3] * len(words)
    assert left_out(str(path), described) == []


def test_values_are_shown_in_the_declared_encoding(tmp_path: Path):
    table(tmp_path / "t.csv", "latin-1", "größe", ("Müller", "Señor"))
    (finding,) = look_at(str(tmp_path / "t.csv"), schema("latin-1", ("Müller",)))
    assert "'Señor' (3)" in finding.text


def test_a_header_that_is_not_utf8_is_drafted_from_and_its_check_says_how_to_go_on(tmp_path: Path):
    table(tmp_path / "t.csv", "latin-1", "größe", WORDS)
    assert [name for name, _ in storage_types(tmp_path / "t.csv")] == ["id", "größe"]
    with pytest.raises(DataError, match=r'UTF-8 text .* `encoding = "latin-1"` under \[table\]'):
        find_problems(tmp_path / "t.csv", schema(None, WORDS))


def test_the_error_names_the_encoding_that_was_tried(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_bytes(("id,größe\n" + "1,naïve\n" * 10_000).encode() + b"1,M\xfcller\n")
    with pytest.raises(DataError, match="not UTF-8"):
        DuckDBSource(path, schema(None, WORDS))
    path.write_bytes("id,größe\n1,".encode("cp1252") + b"\x81\n")
    with pytest.raises(DataError, match="not in the encoding cp1252"):
        DuckDBSource(path, schema("cp1252", WORDS))
    with pytest.raises(SchemaError, match="unknown encoding 'latin-99'"):
        schema("latin-99", WORDS)
    with pytest.raises(SchemaError, match="unknown encoding 'unicode_escape'"):
        schema("unicode_escape", WORDS)


def test_spark_refuses_what_it_would_read_otherwise():
    pytest.importorskip("pyspark")
    from admeasure.sources.spark.tables import spark_table

    with pytest.raises(UsageError, match="CSV files in latin-1 are not read by Spark"):
        spark_table("spark:people.csv", encoding="latin-1")


def test_the_copy_has_no_name_and_is_gone_with_the_source(tmp_path: Path, monkeypatch):
    """No other program can open it, and a killed run leaves nothing behind."""
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(room))
    table(tmp_path / "t.csv", "latin-1", "größe", WORDS)
    before = len(os.listdir("/proc/self/fd"))
    described = schema("latin-1", WORDS)
    source = DuckDBSource(tmp_path / "t.csv", described, memory_megabytes=0)
    assert source.counts([described.names])[0].sum() == 3 * len(WORDS)
    assert [name for name in os.listdir(room) if not name.startswith("admeasure-")] == []
    assert not any(path.is_file() for path in room.rglob("*"))
    source.close()
    del source
    assert len(os.listdir("/proc/self/fd")) == before
