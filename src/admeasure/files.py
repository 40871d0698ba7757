"""Writing a file that the user named: never over another one unasked, whole or not at all.

What may be published is written as the user's umask says; what only its owner should see, such as a
report with true errors, is readable by its owner alone, whatever the umask.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from admeasure.errors import UsageError

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


def refuse_to_overwrite(path: Path, *, force: bool) -> None:
    """Refuse before any work is done."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Name a file.")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already. Name another file, or overwrite it with --force.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder {path.parent} does not exist. Create it first.")


def from_folder(text: str, folder: Path) -> str:
    """A path that a file of the user's names, from the folder of that file; an address as it is."""
    path = folder / os.path.expanduser(text)
    return text if _ADDRESS.match(text) and not os.path.exists(path) else str(path)


def write_text(path: Path, text: str) -> None:
    """A file that may be published."""
    _write(path, text, 0o666)


def write_private(path: Path, text: str) -> None:
    """A file for its owner alone, also in place of one that others could read."""
    _write(path, text, 0o600)


def _write(path: Path, text: str, mode: int) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        # O_EXCL: never into a file or through a link that somebody put there before.
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(text)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(
            f"{path} could not be written: {error.strerror}. Name another place."
        ) from None


def refuse_suffix(path: Path) -> None:
    """Refuse a file that is neither CSV nor Parquet before any work is done."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError(
            f"Cannot write {path.name!r}: its suffix is not .csv or .parquet. Use one."
        )
