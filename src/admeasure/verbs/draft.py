"""`draft`: a schema with names and storage types, from a table's header alone."""

from __future__ import annotations

from admeasure.schema.draft import draft as draft_text
from admeasure.sources.look import storage_types, table_name


def draft(data: str) -> str:
    """The text of a schema; every bound is a TODO that fails validation.

    `data` is a path or an address of a table. No value of any row is looked at.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "people.csv").write_text("age,sex\\n20,f\\n")
    ...     print(draft(f"{folder}/people.csv").count("TODO") > 0)
    True
    """
    return draft_text(storage_types(data), name=table_name(data))
