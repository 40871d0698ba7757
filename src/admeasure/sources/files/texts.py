"""SQL of DuckDB for the texts of a column and how many units hold each (`HoldsTexts`).

Texts travel as bytes: a collation of the column would take two of them for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import numpy as np

from admeasure.schema.column import Column
from admeasure.schema.found_levels import LONGEST_LEVEL
from admeasure.sources.files.sql import DUCKDB, TablePart, text, unit_text
from admeasure.sources.texts import BLOCK, absent_texts, check_storage, sought_text
from admeasure.sparse import TextCounts


def check_texts(column: Column, parts: Sequence[TablePart]) -> None:
    for part in parts:
        check_storage(column, part.stored(column.name)[1].storage)


def texts_query(column: Column, parts: Sequence[TablePart], unit: str | None, most: int) -> str:
    """Texts and numbers of units, in the order of bytes; at most so many texts of a unit."""
    rows = " UNION ALL ".join(_texts(column, part, unit) for part in parts)
    kept = [f"v IS NOT NULL AND length(v) <= {LONGEST_LEVEL}"]
    if absent := absent_texts(column):
        kept.append(f"encode(v) NOT IN ({', '.join(f'encode({text(one)})' for one in absent)})")
    if unit is None:
        rows = f"SELECT encode(v) AS t FROM ({rows}) WHERE {' AND '.join(kept)}"
    else:
        hashed = f"{DUCKDB.fingerprint(['u', 'v'])} AS hashed"
        rows = f"SELECT encode(u) AS u, encode(v) AS t, {hashed} FROM ({rows}) WHERE " + (
            " AND ".join(kept)
        )
        rows = (
            f"SELECT t FROM (SELECT DISTINCT u, t, hashed FROM ({rows})) "
            f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY hashed, t) <= {most}"
        )
    return f"SELECT t, count(*) AS n FROM ({rows}) GROUP BY t ORDER BY t"


def _texts(column: Column, part: TablePart, unit: str | None) -> str:
    asked = [f"{sought_text(column, DUCKDB.text_of(*part.stored(column.name)), DUCKDB)} AS v"]
    if unit is not None:
        place, stored = part.stored(unit)
        asked.append(f"{unit_text(place, stored.type)} AS u")
    return f"SELECT {', '.join(asked)} FROM {part.rows}"


def fetched(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[TextCounts]:
    """The result, some texts at a time."""
    found = connection.execute(query)
    while rows := found.fetchmany(BLOCK):
        texts = [raw.decode() for raw, _ in rows]
        yield TextCounts(texts, np.array([count for _, count in rows], np.int64))
