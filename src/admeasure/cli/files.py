"""Writing a file that the user named: never over another one unasked, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from admeasure.errors import UsageError


def refuse_to_overwrite(path: Path, *, force: bool) -> None:
    """Refuse before any work is done."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Name a file.")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already. Name another file, or overwrite it with --force.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder {path.parent} does not exist. Create it first.")


def write_text(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"{path} could not be written: {error.strerror}.") from None


def refuse_suffix(path: Path) -> None:
    """Refuse a file that is neither CSV nor Parquet before any work is done."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError(f"Cannot write {path.name!r}: its suffix is not .csv or .parquet.")
