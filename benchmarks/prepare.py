"""A raw table as the experiments take it: AIM's preparation (McKenna et al. 2022, appendix A).

    python benchmarks/prepare.py salaries.csv --name salary
    python benchmarks/prepare.py fire.csv --name fire_mine --drop "Received DtTm,Entry DtTm"
    python benchmarks/prepare.py msnbc990928.seq --name msnbc_mine --sequences 16
    python benchmarks/prepare.py people.csv --name people --bounds age=0:100 --categorical zip

1. Columns: all but those dropped. Of a file of sequences (numbers with blanks between, a line for
   each person; lines with other words are skipped) the first N entries, `page01` and so on.
2. The domain is the *active* one, read from the table, as in the paper: of a text column the values
   that occur, missing as one of them; of a numeric column the smallest and the largest value, where
   no bounds are given. A numeric column of at most 32 values counts as categorical.
3. Numeric columns are cut into 32 bins of equal width from smallest to largest (which lies in the
   last bin); missing is a level after them.

Writes NAME.parquet (codes from 0) and NAME.schema.json beside it, into $ADMEASURE_DATA. A table
named `salary` there joins AIM's experiments by itself. NOT PRIVATE: a domain that is read from the
table says what is in it, which is what an experiment may do and a release must not.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from common import data_folder

BINS = 32
Bounds = dict[str, tuple[float, float]]
Prepared = tuple[np.ndarray, dict[str, Any]]
"""A column's codes, and what NAME.schema.json says of it."""


def read(path: Path) -> dict[str, np.ndarray]:
    """Columns of a CSV or Parquet file; masked where a value is missing."""
    import duckdb

    form = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT * FROM {form}(?)", [str(path)]).fetchnumpy()
    return {name: np.ma.asarray(values) for name, values in found.items()}


def read_sequences(path: Path, length: int) -> dict[str, np.ndarray]:
    """The first entries of every line of numbers; masked beyond a line's end."""
    lines = (line.split() for line in path.read_text().splitlines())
    rows = [[int(word) for word in words[:length]] for words in lines
            if words and all(word.isdecimal() for word in words)]  # fmt: skip
    table = np.ma.masked_all((len(rows), length), dtype=np.int64)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    # Categories, however many there are: their numbers are names of pages.
    return {f"page{j + 1:02}": table[:, j].astype(object) for j in range(length)}


def numeric(values: np.ndarray) -> bool:
    if not np.issubdtype(values.dtype, np.number):
        return False
    return np.unique(np.ma.compressed(values)).size > BINS


def binned(values: np.ndarray, bounds: tuple[float, float] | None) -> Prepared:
    """32 bins of equal width; the upper end belongs to the last, and what is beyond joins it."""
    known = np.ma.compressed(values).astype(float)
    low, high = bounds or (float(known.min()), float(known.max()))
    width = (high - low) / BINS
    filled = np.ma.filled(values.astype(float), low)
    codes = np.clip(np.floor((filled - low) / width), 0, BINS - 1).astype(np.int64)
    missing = np.ma.getmaskarray(values)
    codes[missing] = BINS
    size = BINS + bool(missing.any())
    about = {"count": BINS, "low": low, "width": width}
    return codes, {"kind": "numeric", "domain_size": int(size), "bins": about}


def categorised(values: np.ndarray) -> Prepared:
    """The values that occur, in order; missing is the last."""
    missing = np.ma.getmaskarray(values)
    texts = np.array([str(v) for v in np.ma.getdata(values)])
    levels = sorted(set(texts[~missing].tolist()), key=_order)
    place = {text: i for i, text in enumerate(levels)}
    codes = np.array([len(levels) if gone else place[t]
                      for t, gone in zip(texts.tolist(), missing, strict=True)])  # fmt: skip
    named = [*levels, "missing"] if missing.any() else levels
    return codes, {"kind": "categorical", "domain_size": len(named), "categories": named}


def _order(text: str) -> tuple[int, float, str]:
    """Numbers by size, before texts."""
    return (0, float(text), text) if text.isdecimal() else (1, 0.0, text)


def prepared(
    columns: dict[str, np.ndarray], bounds: Bounds, categorical: set[str]
) -> dict[str, Prepared]:
    found = {}
    for name, values in columns.items():
        cut = name in bounds or (numeric(values) and name not in categorical)
        found[name] = binned(values, bounds.get(name)) if cut else categorised(values)
    return found


def write(found: dict[str, Prepared], name: str, folder: Path, source: str) -> None:
    import duckdb

    with duckdb.connect() as connection:
        codes = {column: values.astype(np.uint16) for column, (values, _) in found.items()}
        listed = ", ".join('"' + column.replace('"', '""') + '" USMALLINT' for column in codes)
        connection.execute(f"CREATE TABLE coded ({listed})")
        connection.register("given", codes)
        connection.execute("INSERT INTO coded SELECT * FROM given")
        target = str(folder / f"{name}.parquet").replace("'", "''")
        connection.execute(f"COPY coded TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    stored = [{"name": column, **about} for column, (_, about) in found.items()]
    rows = len(next(iter(found.values()))[0])
    about = {"name": name, "rows": rows, "source": source, "columns": stored}
    (folder / f"{name}.schema.json").write_text(json.dumps(about, indent=1) + "\n")


def _bounds(texts: list[str]) -> Bounds:
    found = {}
    for text in texts:
        column, _, ends = text.rpartition("=")
        low, _, high = ends.partition(":")
        try:
            found[column] = (float(low), float(high))
        except ValueError:
            sys.exit(f"--bounds is written COLUMN=LOW:HIGH, not {text!r}.")
        if not found[column][0] < found[column][1]:
            sys.exit(f"--bounds of {column}: {low} is not below {high}.")
    return found


def main() -> None:
    names = lambda text: [part for part in text.split(",") if part]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("raw", type=Path, help="a CSV, Parquet or sequence file")
    parser.add_argument("--name", required=True)
    parser.add_argument("--drop", type=names, default=[], help="columns, commas between")
    parser.add_argument("--categorical", type=names, default=[], help="numeric columns not to cut")
    parser.add_argument("--bounds", action="append", default=[], metavar="COLUMN=LOW:HIGH")
    parser.add_argument("--sequences", type=int, help="the first so many entries of each line")
    given = parser.parse_args()
    columns = read_sequences(given.raw, given.sequences) if given.sequences else read(given.raw)
    bounds = _bounds(given.bounds)
    for name in (*given.drop, *given.categorical, *bounds):
        if name not in columns:
            sys.exit(f"There is no column {name!r} in {given.raw}.")
    kept = {name: values for name, values in columns.items() if name not in given.drop}
    found = prepared(kept, bounds, set(given.categorical))
    write(found, given.name, data_folder(), given.raw.name)
    for name, (_, about) in found.items():
        print(f"{name:40} {about['kind']:12} {about['domain_size']:6} levels")


if __name__ == "__main__":
    main()
