"""CSV files that are not UTF-8: read through a copy in UTF-8 that has no name.

DuckDB reads UTF-8. A file in another encoding, which the schema declares, is copied once, in a
temporary file that has no name: no other program can open it, and it is gone with the process
however that ends. A byte that the encoding does not have is an error, so that no two texts become
one.
"""

from __future__ import annotations

import gzip
import io
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import IO

from admeasure.errors import DataError, ResourceError, UsageError
from admeasure.schema.model import is_utf8
from admeasure.sources.files.tables import Location, called

_PIECE = 1 << 20


def in_utf8(location: Location, encoding: str | None) -> Location:
    """The table as DuckDB can read it, with the copies open as long as it is kept."""
    if location.format != "csv" or encoding is None or is_utf8(encoding):
        return location
    if not Path("/proc/self/fd").is_dir():
        raise UsageError(
            f"Files in {encoding} are read on Linux only. Convert them to UTF-8 first, as by iconv."
        )
    if any("=" in part[1:] for path in location.paths for part in path.parts[:-1]):
        raise UsageError(
            "Files in folders that name columns (year=2024) are read in UTF-8 only. Convert them."
        )
    return replace(
        location,
        encoding=encoding,
        copies=tuple(_copy(path, encoding, location) for path in location.paths),
    )


def _copy(path: Path, encoding: str, location: Location) -> IO[bytes]:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    copy = tempfile.TemporaryFile(prefix="admeasure-")  # noqa: SIM115 (kept open)
    try:
        with opened(path, "rb") as file, io.TextIOWrapper(file, encoding, newline="") as text:
            while piece := text.read(_PIECE):
                copy.write(piece.encode("utf-8"))
        copy.flush()
    except UnicodeError:
        raise DataError(
            f"{called(path, location)} is not in the encoding {encoding}, which the schema says. "
            "Correct `encoding = …` under [table]."
        ) from None
    except OSError as error:
        raise ResourceError(
            f"{called(path, location)} cannot be copied to UTF-8: {error.strerror or 'damaged'}."
        ) from None
    return copy
