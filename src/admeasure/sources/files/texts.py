"""SQL of DuckDB for the texts of a column and how many units hold each (`HoldsTexts`).

Texts travel as bytes: a collation of the column would take two of them for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import numpy as np

from admeasure.schema.column import Column
from admeasure.schema.found_levels import LONGEST_LEVEL
from admeasure.sources.dialect import Stored
from admeasure.sources.files.sql import DuckDB, storage_of, text, unit_text
from admeasure.sources.files.tables import TablePart
from admeasure.sources.texts import BLOCK, absent_texts, check_storage, sought_text
from admeasure.sparse import TextCounts

_DUCKDB = DuckDB()


def check_texts(column: Column, parts: Sequence[TablePart]) -> None:
    for part in parts:
        check_storage(column, storage_of(part.types[part.names.index(column.name)]))


def texts_query(column: Column, parts: Sequence[TablePart], unit: str | None, most: int) -> str:
    """Texts and numbers of units, in the order of bytes; at most so many texts of a unit."""
    rows = " UNION ALL ".join(_texts(column, part, unit) for part in parts)
    kept = [f"v IS NOT NULL AND length(v) <= {LONGEST_LEVEL}"]
    if absent := absent_texts(column):
        kept.append(f"encode(v) NOT IN ({', '.join(f'encode({text(one)})' for one in absent)})")
    if unit is None:
        rows = f"SELECT encode(v) AS t FROM ({rows}) WHERE {' AND '.join(kept)}"
    else:
        hashed = f"{_DUCKDB.fingerprint(['u', 'v'])} AS hashed"
        rows = f"SELECT encode(u) AS u, encode(v) AS t, {hashed} FROM ({rows}) WHERE " + (
            " AND ".join(kept)
        )
        rows = (
            f"SELECT t FROM (SELECT DISTINCT u, t, hashed FROM ({rows})) "
            f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY hashed, t) <= {most}"
        )
    return f"SELECT t, count(*) AS n FROM ({rows}) GROUP BY t ORDER BY t"


def _texts(column: Column, part: TablePart, unit: str | None) -> str:
    place = part.names.index(column.name)
    sql_type = part.types[place]
    stored = Stored(column.name, storage_of(sql_type), sql_type)
    asked = [f"{sought_text(column, _DUCKDB.text_of(f'k{place}', stored), _DUCKDB)} AS v"]
    if unit is not None:
        of_unit = part.names.index(unit)
        asked.append(f"{unit_text(f'k{of_unit}', part.types[of_unit])} AS u")
    aliases = ", ".join(f"k{i}" for i in range(len(part.names)))
    return f"SELECT {', '.join(asked)} FROM {part.relation} AS stored({aliases})"


def fetched(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[TextCounts]:
    """The result, some texts at a time."""
    found = connection.execute(query)
    while rows := found.fetchmany(BLOCK):
        texts = [raw.decode() for raw, _ in rows]
        yield TextCounts(texts, np.array([count for _, count in rows], np.int64))
