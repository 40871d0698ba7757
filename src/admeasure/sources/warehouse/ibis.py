"""BigQuery and Snowflake, through the connection that ibis makes. Not run against the services.

Only three things are asked of a backend of ibis: the names and types of a table's columns, the SQL
of a table expression, and the result of a statement. Rows of a result are (place, count) pairs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from admeasure.errors import DataError, UsageError
from admeasure.schema.storage import Storage
from admeasure.schema.values import quoted
from admeasure.sources.dialect import Dialect, Stored
from admeasure.sources.kind import NotFixed, refusal
from admeasure.sources.warehouse.address import WarehouseAddress
from admeasure.sources.warehouse.dialects.bigquery import BigQuery
from admeasure.sources.warehouse.dialects.snowflake import Snowflake
from admeasure.sources.warehouse.views import check

DIALECTS: dict[str, type[Dialect]] = {"bigquery": BigQuery, "snowflake": Snowflake}
_BATCH_ROWS = 100_000


class IbisDatabase:
    """One table expression of a backend of ibis."""

    def __init__(self, table: Any, words: str) -> None:
        self._backend = table.get_backend()
        self.words = words
        self.dialect = DIALECTS[self._backend.name]()
        self._types = dict(table.schema().items())
        with self._guarded():
            query = self._backend.compile(table)
        try:
            check(query, self._backend.name, lambda _: None)
        except NotFixed as refused:
            raise refusal(words, refused) from None
        self.relation = f"({query}) AS stored"

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (DataError, UsageError):
            raise
        except Exception:  # whatever a driver raises may quote the table
            raise DataError(
                f"{self.words} cannot be read. Check that it exists and that the user may read it."
            ) from None

    def close(self) -> None:
        """Nothing: the connection is the caller's, or ends with the backend."""

    def names(self) -> list[str]:
        return list(self._types)

    def known_as(self, name: str) -> str:
        return name

    def stored(self, names: Sequence[str]) -> list[Stored]:
        wide = self.dialect.name == "snowflake"
        return [stored(name, self._types[name], wide=wide) for name in names]

    def row(self, query: str) -> tuple[Any, ...]:
        with self._guarded():
            (found,) = _fetched(self._backend.raw_sql(query))
        return tuple(found)

    def numbers(self, query: str, names: Sequence[str]) -> Generator[np.ndarray]:
        """The named columns of a query's result, as (rows, columns) arrays; NULL is -1."""
        with self._guarded():
            rows = iter(_fetched(self._backend.raw_sql(query)))
            while batch := list(islice(rows, _BATCH_ROWS)):
                filled = [[-1 if x is None else int(x) for x in row] for row in batch]
                yield np.array(filled, np.int64).reshape(len(filled), len(names))


def _fetched(result: Any) -> Iterable[Any]:
    """BigQuery's results are iterated, Snowflake's cursors are fetched."""
    return result.fetchall() if hasattr(result, "fetchall") else result


def stored(name: str, dtype: Any, *, wide: bool) -> Stored:
    """A column by its type in ibis. Snowflake's whole numbers have 38 digits (`wide`)."""
    storage = Storage.OTHER
    if dtype.is_string():
        storage = Storage.TEXT
    elif dtype.is_boolean():
        storage = Storage.BOOLEAN
    elif dtype.is_integer() or (wide and dtype.is_decimal() and dtype.scale == 0):
        storage = Storage.WIDE if wide else Storage.WHOLE
    elif dtype.is_floating():
        storage = Storage.REAL
    elif dtype.is_decimal():
        storage = Storage.DECIMAL
    elif dtype.is_timestamp() and dtype.timezone is not None:
        storage = Storage.MOMENT
    elif dtype.is_date() or dtype.is_timestamp():
        storage = Storage.DAY
    return Stored(name, storage, str(dtype), is_direct=storage is Storage.TEXT)


def connected(address: WarehouseAddress) -> IbisDatabase:
    """The table of an address."""
    import ibis

    try:
        if address.kind == "bigquery":
            backend = ibis.bigquery.connect(project_id=address.host, dataset_id=address.path[0])
        else:
            backend = ibis.snowflake.connect(
                user=address.user,
                account=address.host,
                database="/".join(address.path),
                **({} if address.password is None else {"password": address.password}),
                **address.options,
            )
        table = backend.table(address.table[-1])
    except ImportError:
        raise UsageError(
            f"Reading a table of {address.kind} needs a driver that is not installed. Install it "
            f"with: pip install 'ibis-framework[{address.kind}]'"
        ) from None
    except Exception:  # a driver's own words may hold the password
        raise DataError(
            f"{quoted(address.place)} cannot be opened. Check the address, the credentials of the "
            "environment, and that the table exists."
        ) from None
    return IbisDatabase(table, address.words)
