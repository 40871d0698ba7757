"""Tables of a warehouse, named by an address or given as an ibis table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from admeasure.sources.kind import CHARACTER, HOST, NAME, TEXT, WHOLE, Kind, ScanOptions, Scheme

if TYPE_CHECKING:
    from admeasure.schema.model import Schema
    from admeasure.schema.problems import Problem
    from admeasure.sources import Source

_PLACE = rf"//(?:{NAME}@)?{HOST}(?:/{CHARACTER}*)*"
_POSTGRES = Scheme(
    "postgres",
    "postgres://USER@HOST:PORT/DATABASE?table=SCHEMA.TABLE",
    _PLACE,
    {
        **dict.fromkeys(("sslmode", "sslrootcert", "sslcert", "sslkey", "host"), TEXT),
        **dict.fromkeys(("connect_timeout", "statement_timeout"), WHOLE),
    },
)


class _Warehouse(Kind):
    schemes = (
        _POSTGRES,
        replace(_POSTGRES, name="postgresql"),
        Scheme("bigquery", "bigquery://PROJECT/DATASET?table=TABLE", _PLACE),
        Scheme(
            "snowflake",
            "snowflake://USER@ACCOUNT/DATABASE/SCHEMA?table=TABLE",
            _PLACE,
            dict.fromkeys(("warehouse", "role", "authenticator"), TEXT),
        ),
    )
    library = "ibis"
    needs = ("warehouse", "Reading a table of a warehouse")

    def open(self, data: Any, schema: Schema, how: ScanOptions) -> Source:
        """Rows stay where they are: nothing is kept of them on disk."""
        from admeasure.sources.warehouse.source import open_warehouse

        limit, progress = how.memory_megabytes, how.progress
        return open_warehouse(data, schema, memory_megabytes=limit, progress=progress)

    def find_problems(self, data: Any, schema: Schema) -> list[Problem]:
        from admeasure.sources.warehouse.source import find_problems

        return find_problems(data, schema)

    def storage_types(self, data: Any) -> list[tuple[str, str]]:
        from admeasure.sources.warehouse.source import storage_types

        return storage_types(data)

    def table_name(self, data: Any) -> str:
        from admeasure.sources.warehouse.address import parse

        return parse(data).table[-1]

    def identity(self, data: Any) -> str:
        from admeasure.sources.warehouse.address import parse

        return repr(parse(data).identity)


WAREHOUSE = _Warehouse()
