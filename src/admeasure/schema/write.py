"""Rows to a CSV or Parquet file, through DuckDB: no frame library is needed.

The file appears whole or not at all: it is written beside its place under another name, then moved.
In CSV a missing value is an empty field and an empty text is `""`.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from admeasure.errors import UsageError
from admeasure.schema.values import objects, quoted

_FORMATS = {
    ".csv": "FORMAT csv, HEADER true",
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
}


def write_table(columns: Mapping[str, Any], path: str | Path, *, quote_texts: bool = False) -> None:
    """Write columns of values (as `decode` gives them) to `path`, by its suffix; with `quote_texts`
    every text of a CSV file is quoted, so that none is divided by another separator."""
    path = Path(path)
    form = _FORMATS.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"Cannot write {quoted(path.name)}: its suffix is not one of {', '.join(_FORMATS)}."
        )
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {quoted(str(path.parent))}. Create it first.")
    if not columns:
        raise UsageError("There are no columns to write. Choose at least one.")
    if len({name.casefold() for name in columns}) < len(columns):
        raise UsageError("Two columns differ only in case, which a file cannot hold. Rename one.")
    arrays = [_array(values) for values in columns.values()]
    rows = {f"c{i}": array for i, (array, _) in enumerate(arrays)}
    chosen = ", ".join(
        f'CAST(c{i} AS {kind}) AS "{name.replace(chr(34), chr(34) * 2)}"'
        for i, (name, (_, kind)) in enumerate(zip(columns, arrays, strict=True))
    )
    import duckdb  # late: answering a question needs none of it

    if quote_texts and path.suffix.lower() == ".csv":
        texts = [n for n, (_, kind) in zip(columns, arrays, strict=True) if kind == "VARCHAR"]
        quoted_names = ", ".join('"' + n.replace('"', '""') + '"' for n in texts)
        form += f", FORCE_QUOTE ({quoted_names})" if texts else ""
    with _in_place_of(path) as beside, duckdb.connect() as connection:
        # 0: arrays of objects are texts; DuckDB would otherwise guess from the first thousand.
        connection.execute("SET pandas_analyze_sample = 0")
        connection.register("admeasure_rows", rows)
        target = str(beside).replace("'", "''")
        connection.execute(f"COPY (SELECT {chosen} FROM admeasure_rows) TO '{target}' ({form})")


@contextlib.contextmanager
def _in_place_of(path: Path) -> Any:
    """A path to write to, moved to `path` if all goes well and removed if not."""
    try:
        folder = tempfile.mkdtemp(prefix=".admeasure-", dir=path.parent)
    except OSError as error:
        raise UsageError(
            f"Cannot write in {quoted(str(path.parent))}: {error.strerror}. Name another place."
        ) from None
    beside = Path(folder) / f"rows{path.suffix.lower()}"
    try:
        yield beside
        try:
            os.replace(beside, path)
        except OSError as error:
            raise UsageError(
                f"Cannot write {quoted(str(path))}: {error.strerror}. Name another place."
            ) from None
    finally:
        beside.unlink(missing_ok=True)
        os.rmdir(folder)


def _array(values: Any) -> tuple[np.ndarray, str]:
    """An array that DuckDB reads without guessing, and the SQL type of its column."""
    array = values if isinstance(values, np.ndarray) else objects(list(values))
    match array.dtype.kind:
        case "b":
            return array, "BOOLEAN"
        case "i" | "u":
            return array, "BIGINT"
        case "f":
            return array, "DOUBLE"
        case "M":
            return array.astype("datetime64[s]"), "DATE"
        case "O":
            return _from_objects(array)
    return array.astype(object), "VARCHAR"


def _from_objects(array: np.ndarray) -> tuple[np.ndarray, str]:
    null = np.fromiter((v is None for v in array), dtype=bool, count=len(array))
    kinds = set(map(type, array[~null]))
    for kind, dtype, name in (
        (bool, np.bool_, "BOOLEAN"),
        (int, np.int64, "BIGINT"),
        (float, np.float64, "DOUBLE"),
    ):
        if kinds and kinds <= ({kind, int} if kind is float else {kind}):
            filled = np.where(null, kind(0), array).astype(dtype)
            return np.ma.array(filled, mask=null), name
    if kinds == {datetime.date}:
        return array.astype("datetime64[D]").astype("datetime64[s]"), "DATE"
    return array, "VARCHAR"
