"""Files of the work folder: who may have written them, and reading them without trust.

The folder holds what will be asked of a private table and where it lies, so it must be its owner's
alone: others who could write there could have the steward's own clicks charge for their questions.
Nothing that is read here is run: texts become settings, and settings are checked like typed ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.files import write_private
from admeasure.untrusted import parse_json

LARGEST = 16 << 20
"""Bytes of one file; the form of 2,000 columns takes about one megabyte."""
WRITABLE = stat.S_IWGRP | stat.S_IWOTH


class Damaged(UsageError):
    """A file of the work folder that does not hold what it should."""


def damaged(path: Path, why: str) -> Damaged:
    return Damaged(
        f"{path} is damaged: {why}. Bring it back from a copy, or move its folder away; releases "
        "in it can be used by the command line, and the budget book is not touched."
    )


def refuse_unless_own(folder: Path) -> None:
    """Refuse a folder that somebody else could have written into, or any part of it."""
    above = folder.absolute().parent.resolve()
    for parent in (above, *above.parents):
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise UsageError(
                f"Everybody can write into {parent}, and so put another folder in place of "
                f"{folder}. Name a folder elsewhere with --folder."
            )
    for place, folders, files in os.walk(folder, onerror=_unreadable):
        for name in (".", *folders, *files):
            path = Path(place) if name == "." else Path(place) / name
            _refuse_unless_own(folder, path)
    if folder.is_symlink():  # `os.walk` goes through a link at its top
        _refuse_unless_own(folder, folder)


def _refuse_unless_own(folder: Path, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # a run under way has moved it on
        found = path.lstat()
        why = ""
        if stat.S_ISLNK(found.st_mode):
            why = "is a link"
        elif found.st_uid != os.geteuid():
            why = "belongs to somebody else"
        elif found.st_mode & WRITABLE:
            why = "can be written by others"
        if why:
            raise UsageError(
                f"{path} {why}, so what is in it may not be yours. Look at it; if it is sound, "
                f"make it your own (chmod -R go-w {folder}), or name another with --folder."
            )


def _unreadable(error: OSError) -> None:
    raise UsageError(f"{error.filename} cannot be read: {error.strerror}.") from None


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """A plain file of bounded size."""
    found = read_part(path, 0, most + 1)
    if len(found) > most:
        raise damaged(path, f"it is larger than {most >> 20} megabytes")
    return found


def read_part(path: Path, start: int, most: int) -> bytes:
    """At most so many bytes of a plain file: no link, pipe or device is opened or waited for."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise damaged(path, error.strerror or "it cannot be opened") from None
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise damaged(path, "it is not a plain file")
        opened.seek(start)
        return opened.read(most)


def read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise damaged(path, "it is not text") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object that a file holds."""
    raw = read_bytes(path)
    try:
        return parse_json(raw, "it", Damaged)
    except Damaged as error:
        why = str(error).partition(". ")[0].rstrip(".")
        raise damaged(path, why if raw else "it is empty") from None


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all, for its owner alone."""
    write_private(path, json.dumps(value, ensure_ascii=False))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One at a time, among the threads of this server and all servers of this folder."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
