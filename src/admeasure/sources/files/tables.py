"""Where a table lies and what its columns are called and stored as; no row is looked at.

A table is one or more CSV or Parquet files, a folder of them, or a table or view of a DuckDB file.
Names are compared exactly, as a schema does, although SQL would not tell `Age` from `age`: they are
read from the files' own headers, and queries speak of columns by position. The folders that files
lie in may hold columns too, in the manner of Hive: `year=2024/part-0.parquet`. Their values are
texts and no more shown than those of rows.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import duckdb

from admeasure.domain import Columns
from admeasure.errors import DataError, UsageError
from admeasure.schema.values import quoted
from admeasure.sources.address import printable
from admeasure.sources.dialect import identifier
from admeasure.sources.files.kind import SCHEME
from admeasure.sources.files.sql import TablePart, text
from admeasure.sources.files.views import check_fixed
from admeasure.sources.kind import scheme_of
from admeasure.sources.kinds import SCHEMES

Format = Literal["csv", "parquet", "duckdb"]
FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".duckdb": "duckdb",
}
LONGEST_PATH = 4096
MOST_HEADER = 1 << 20
"""Characters of a header. A table of 20,000 columns with names of 50 characters has fewer."""
MOST_LINE = 1 << 21
"""Bytes of a row of CSV."""
_DELIMITERS = ",;\t|"
_DATABASE = "admeasure_data"
_ENTRIES = re.compile(r"""ENUM\((?:'(?:[^']|'')*'(?:,\s*)?)*\)""")


@dataclass(frozen=True)
class Location:
    """Files of one format, or a table of one DuckDB file."""

    format: Format
    paths: tuple[Path, ...]
    table: str | None = None
    given: str | None = None
    """The folder or the pattern that the files were found by."""
    encoding: str = "utf-8"
    """Of CSV files."""
    copies: tuple[IO[bytes], ...] = ()
    """Open copies in UTF-8, where the files are not (`admeasure.sources.files.encodings`)."""

    @property
    def read_paths(self) -> tuple[Path, ...]:
        """What DuckDB opens."""
        if not self.copies:
            return self.paths
        return tuple(Path(f"/proc/self/fd/{copy.fileno()}") for copy in self.copies)

    @property
    def words(self) -> str:
        """For messages."""
        if self.given is not None:
            return quoted(self.given)
        first = quoted(printable(self.paths[0]))
        return first if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more files"


def locate(data: str | Path | Sequence[str | Path]) -> Location:
    """A path, a folder, a glob, several of them, or `duckdb:///FILE?table=NAME`."""
    if isinstance(data, str) and (scheme := scheme_of(data)) is not None:
        return _from_url(data, scheme)
    given = [data] if isinstance(data, (str, Path)) else list(data)
    paths = [path for one in given for path in _expand(one)]
    if not paths:
        raise UsageError("No file is given. Name at least one.")
    found = any(not os.path.isfile(os.path.expanduser(one)) for one in given)
    words = printable(given[0]) if len(given) == 1 else f"{len(given)} names"
    formats: set[Format] = {_format(path, words if found else None) for path in paths}
    if len(formats) > 1:
        raise UsageError("The files are of several formats. Give files of one format.")
    form = formats.pop()
    if form == "duckdb" and len(paths) > 1:
        raise UsageError("Several DuckDB files are given. Give one.")
    return Location(form, tuple(paths), given=words if found else None)


def _from_url(url: str, scheme: str) -> Location:
    # The rest of an address may hold a password, and is not shown.
    if scheme.lower() != "duckdb":
        starts = dict.fromkeys(one.start for one in SCHEMES.values() if one is not SCHEME)
        kind = f"{scheme}: addresses" if f"{scheme}://" in url else "addresses of this kind"
        raise UsageError(
            f"There is no source for {kind}. Known: {', '.join([SCHEME.form, *starts])}, and "
            f"paths of {', '.join(FORMATS)} files."
        )
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query, keep_blank_values=True)
    except ValueError:  # brackets that hold no address of a host
        raise UsageError(f"A DuckDB address has the form {SCHEME.form}.") from None
    if parts.netloc or not parts.path.strip("/") or set(query) - {"table"}:
        raise UsageError(f"A DuckDB address has the form {SCHEME.form}.")
    path = Path(unquote(parts.path))
    if not os.path.exists(path):  # three slashes may also begin a path from the current folder
        path = Path(unquote(parts.path).lstrip("/"))
    return Location("duckdb", (_file(path),), query.get("table", [None])[0])


def _expand(given: str | Path) -> list[Path]:
    path = Path(os.path.expanduser(given))
    if os.path.isdir(path):
        return _inside(path)
    if os.path.exists(path) or not glob.has_magic(str(path)):
        return [_file(path)]
    # Matching takes time with the square of a pattern's brackets.
    found = sorted(glob.glob(str(path), recursive=True)) if len(str(path)) <= LONGEST_PATH else []
    if not found:
        raise UsageError(f"No file matches {quoted(printable(given))}. Check the pattern.")
    return [_file(Path(one), printable(given)) for one in found if not Path(one).is_dir()]


def _inside(folder: Path) -> list[Path]:
    """The tables in a folder and its folders; names that begin with . or _ are not data."""
    found: list[Path] = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        found += [Path(root, name) for name in files if name[0] not in "._" and _is_table(name)]
    if not found:
        raise UsageError(
            f"Folder {quoted(printable(folder))} holds no {', '.join(FORMATS)} file. "
            "Check the path."
        )
    return [_file(path, printable(folder)) for path in sorted(found)]


def _is_table(name: str) -> bool:
    return name.lower().endswith(tuple(FORMATS))


def _file(path: Path, given: str | None = None) -> Path:
    """The path, if there is a file. One that was found is not named: its name, and those of its
    folders, may be values of the table."""
    which = f"File {quoted(printable(path))}" if given is None else f"A file of {quoted(given)}"
    if not os.path.isfile(path):
        if given is None:
            raise UsageError(f"There is no file {quoted(printable(path))}. Check the path.")
        raise UsageError(f"{which} is a link to nothing, or no file. Remove it, or mend the link.")
    if path.stat().st_size == 0:
        raise DataError(f"{which} is empty. Give a file with a header.")
    return path


def _format(path: Path, given: str | None) -> Format:
    name = path.name.lower()
    for suffix, form in FORMATS.items():
        if name.endswith(suffix):
            return form
    which = quoted(printable(path.name)) if given is None else f"a file of {quoted(given)}"
    raise UsageError(
        f"The format of {which} is unknown: its suffix is not one of {', '.join(FORMATS)}."
    )


def layout(connection: duckdb.DuckDBPyConnection, location: Location) -> list[TablePart]:
    """The parts of a table. Files that follow each other with the same columns are one part."""
    if location.format == "duckdb":
        return [_described(connection, _attach(connection, location), ())]
    is_csv = location.format == "csv"
    head_of = _csv_head if is_csv else partial(_parquet_head, connection)
    part_of = _csv_part if is_csv else _parquet_part
    heads = [(*head_of(path, location), _keys(path)) for path in location.paths]
    alike = groupby(zip(heads, location.read_paths, strict=True), key=itemgetter(0))
    return [part_of(connection, [path for _, path in group], *head) for head, group in alike]


def of_header(location: Location, encoding: str | None) -> Location:
    """The table with an encoding in which its header can be read. Where nobody says which, names
    that are not UTF-8 are taken for those of Windows, which Latin-1 is nearly a part of."""
    if location.format != "csv":
        return location
    if encoding is not None:
        return replace(location, encoding=encoding)
    try:
        _csv_head(location.paths[0], location)
    except DataError:
        windows = replace(location, encoding="cp1252")
        with contextlib.suppress(DataError):
            _csv_head(location.paths[0], windows)
            return windows
    return location


def without_entries(sql_type: str) -> str:
    """A type as it may be shown: the entries of an ENUM are values of the table.

    >>> without_entries("STRUCT(a ENUM('it''s)', 'b')[], b INTEGER)")
    'STRUCT(a ENUM[], b INTEGER)'
    """
    return _ENTRIES.sub("ENUM", sql_type)


def _list(paths: Sequence[Path]) -> str:
    # DuckDB takes every path for a pattern.
    return "[" + ", ".join(text(glob.escape(str(path))) for path in paths) + "]"


def _csv_part(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    names: Columns,
    delimiter: str,
    keys: Columns,
) -> TablePart:
    # DuckDB would put a folder's value in the place of a column of its name, so that the names by
    # which the query knows the columns are longer than any of a folder.
    stem = "k" * (1 + max(map(len, keys), default=0))
    columns = ", ".join(f"'{stem}{i}': 'VARCHAR'" for i in range(len(names)))
    relation = (
        f"read_csv({_list(paths)}, auto_detect = false, header = true, delim = {text(delimiter)}, "
        f"quote = '\"', escape = '\"', allow_quoted_nulls = false, max_line_size = {MOST_LINE}, "
        f"{_hive(names, keys)}, columns = {{{columns}}})"
    )
    return _described(connection, relation, names)


def _csv_head(path: Path, location: Location) -> tuple[Columns, str]:
    """The names in the first record, and the delimiter: what separates the names. Values play no
    part in it, so that the same header is always read the same way."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        encoding = "utf-8-sig" if location.encoding == "utf-8" else location.encoding
        with opened(path, "rt", encoding=encoding, newline="") as file:
            line = next(_lines(file), "")
            file.seek(0)
            outside_quotes = re.sub(r'"([^"]|"")*("|$)', "", line)
            delimiter = max(_DELIMITERS, key=outside_quotes.count)
            if ".tsv" in path.suffixes:
                delimiter = "\t"
            names = next(csv.reader(_lines(file), delimiter=delimiter, strict=True), [])
    except (UnicodeError, csv.Error, OSError, EOFError, zlib.error):
        raise DataError(
            f"{called(path, location)} has a header that cannot be read. Its first line must name "
            f"the columns, as {location.encoding.upper()} text with closed quotes, in at most "
            f"{MOST_HEADER:,} characters. Where it is in another encoding, say so: "
            '`encoding = "latin-1"` under [table].'
        ) from None
    if not any(names):
        raise DataError(
            f"{called(path, location)} has no header. Name the columns in its first line."
        )
    return tuple(names), delimiter


def _lines(file: IO[str]) -> Iterator[str]:
    """The lines of a header. One that never ends is not read to its end: a small compressed file
    may hold more than there is memory."""
    read = 0
    while line := file.readline(MOST_HEADER):
        read += len(line)
        if read >= MOST_HEADER:
            raise csv.Error
        yield line


def _keys(path: Path) -> Columns:
    """Columns that the names of a file's folders hold."""
    return tuple(part.partition("=")[0] for part in path.parts[:-1] if "=" in part[1:])


def called(path: Path, location: Location) -> str:
    """A file in a message, which must not hold a value of a column in its path."""
    if location.given is not None or _keys(path):
        return f"A file of {location.words}"
    return f"File {quoted(printable(path))}"


def _hive(names: Columns, keys: Columns) -> str:
    """Whether folders hold columns, as options of a reader. A column that a file holds itself is
    read from there: DuckDB would put the folder's value in its place, and in any case of letters.
    """
    own = {name.lower() for name in names}
    hive = "true" if keys and not any(key.lower() in own for key in keys) else "false"
    return f"hive_partitioning = {hive}, hive_types_autocast = false"


def _described(connection: duckdb.DuckDBPyConnection, relation: str, names: Columns) -> TablePart:
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    added = tuple(row[0] for row in rows[len(names) :])  # whose names occur once
    return TablePart(relation, names + added, tuple(row[1] for row in rows))


def _parquet_part(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    names: Columns,
    _types: tuple,
    keys: Columns,
) -> TablePart:
    relation = f"read_parquet({_list(paths)}, {_hive(names, keys)})"
    return _described(connection, relation, names)


def _parquet_head(
    connection: duckdb.DuckDBPyConnection, path: Path, location: Location
) -> tuple[Columns, tuple]:
    """Names of the top-level columns, and all that is said of their types."""
    try:
        rows = connection.execute(
            "SELECT name, coalesce(num_children, 0), type, converted_type, logical_type, scale, "
            f"precision FROM parquet_schema({text(glob.escape(str(path)))})"
        ).fetchall()
    except duckdb.Error:
        which = called(path, location)
        raise DataError(f"{which} cannot be read as Parquet. Check that it is whole.") from None
    names, position = [], 1
    while position < len(rows):
        names.append(rows[position][0])
        open_nodes = 1  # a nested column is followed by its descendants
        while open_nodes:
            open_nodes += rows[position][1] - 1
            position += 1
    return tuple(names), tuple(row[1:] for row in rows)


def _attach(connection: duckdb.DuckDBPyConnection, location: Location) -> str:
    try:
        connection.execute(f"ATTACH {text(str(location.paths[0]))} AS {_DATABASE} (READ_ONLY)")
    except duckdb.Error:
        raise DataError(
            f"{location.words} cannot be opened as a DuckDB file. Check that it is one, and that "
            "no other program has it open for writing."
        ) from None
    found = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        f"WHERE database_name = '{_DATABASE}' "
        "UNION ALL SELECT schema_name, view_name FROM duckdb_views() "
        f"WHERE database_name = '{_DATABASE}' AND NOT internal ORDER BY ALL"
    ).fetchall()
    known = {
        name if schema == "main" else f"{schema}.{name}": (schema, name) for schema, name in found
    }
    wanted = location.table
    if wanted is None and len(known) == 1:
        (wanted,) = known
    if wanted not in known:
        names = ", ".join(map(quoted, sorted(known))) or "none"
        what = (
            "Name a table" if wanted is None else f"There is no table {quoted(printable(wanted))}"
        )
        raise UsageError(f"{what} with ?table=NAME. {location.words} has: {names}.")
    check_fixed(connection, _DATABASE, *known[wanted])
    return ".".join(map(identifier, (_DATABASE, *known[wanted])))
