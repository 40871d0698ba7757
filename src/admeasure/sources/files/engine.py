"""DuckDB as a reader of named files and of nothing else.

A file that is read may hold more than rows: a view of a DuckDB file is a query, which could read
any file of the machine, among them the private table from within a "public" one. So every
connection, for private and public tables alike, reaches the files that the steward named and its
own room for spilling; it loads no extension, keeps no secret, sees no variable of the Python that
called it, and nothing it runs can change that.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from admeasure.sources.files.sql import text

LEAST_MEGABYTES = 256

Setting = str | bool | int | float | list[str]


@contextlib.contextmanager
def connected(
    paths: Sequence[Path], megabytes: float = LEAST_MEGABYTES, spill: str | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that can read these files. Nothing is written but to the folder `spill`."""
    config: dict[str, Setting] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
        "memory_limit": f"{int(megabytes)}MB",
        "temp_directory": spill or "",
    }
    if spill is not None:
        # A killed process leaves what it spilled behind: unreadable, its key died with it.
        # DuckDB calls its own random numbers for keys unsafe, which is still better than
        # plain text, and the only choice without an extension.
        config["temp_file_encryption"] = "true"
        config["force_mbedtls_unsafe"] = "true"
    with contextlib.closing(duckdb.connect(config=config)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")
        # Progress is known only where a bar is on, and a bar would be drawn on stdout. In a
        # notebook a bar needs widgets: where there are none, nothing is known until the end.
        with contextlib.suppress(duckdb.InvalidInputException):
            connection.execute("SET enable_progress_bar = true")
            connection.execute("SET enable_progress_bar_print = false")
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"SET allowed_paths = [{', '.join(map(text, _reached(paths)))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def _reached(paths: Sequence[Path]) -> Iterator[str]:
    """The files, as queries write them: a path that is taken for a pattern is escaped. A DuckDB
    file may have a log of changes beside it."""
    for path in map(str, paths):
        yield path
        yield glob.escape(path)
        if path.lower().endswith(".duckdb"):
            yield f"{path}.wal"
