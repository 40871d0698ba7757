"""Texts that anybody may have written: read with bounds, or refused in one sentence.

Every TOML, JSON and JSON-lines file of the package comes through here, and every exact number kept
as text. What is promised of a file: it is a plain one (no device, pipe or folder, which may never
end); it is no larger than stated, and what is made of it takes no more memory than stated; it is
UTF-8, with or without a byte order mark; it is not nested deeper than `DEEPEST`; its whole numbers
have at most `DIGITS` digits; no key comes twice; no text holds half a character. Whoever
calls need not expect any other error than the one named, of which the file is called `name`.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational
from pathlib import Path
from typing import Any

from admeasure.errors import AdmeasureError, UsageError

LARGEST_MEGABYTES = 256.0
"""A file of text that is larger than this is refused unread."""
PARSED_MEGABYTES = 2048.0
"""A text that could take more than this once parsed is refused unparsed."""
DEEPEST = 32
"""Lists in tables in lists …; the files of this package need six."""
DIGITS = 40
LARGEST_RATIONAL = Fraction(10) ** 300
"""No budget or scale is as large; from about 1e308 on there is no double."""

_DOTTED = re.compile(
    r"""(?<![\w"'-])(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{DEEPEST}}}"
)
_HEADER = re.compile(r"^[ \t]*\[(?!\[)", re.MULTILINE)
_QUOTED = re.compile(r"""\(?(['"]).{2,}\1(,?\))?""")
"""Names of a file in the words of a parser, which says the line too. The file may be another than
was meant, and not public."""
_RATIONAL = re.compile(
    r"-?\d{1,4000}(?:/\d{1,4000})?|-?\d{0,400}\.?\d{1,400}(?:[eE][+-]?\d{1,3})?", re.ASCII
)


class _Refused(ValueError):
    """Ends a sentence that begins with the file's name."""


def read_bytes(
    path: Path,
    error: type[AdmeasureError] = UsageError,
    *,
    missing: type[AdmeasureError] | None = None,
    called: str = "file",
    largest_megabytes: float = LARGEST_MEGABYTES,
) -> bytes:
    """The content of a plain file of a sound size. `missing` is the error where there is none, and
    `called` what it says that there is none of."""
    shown = str(path) if str(path).isprintable() else repr(str(path))
    try:
        # A pipe that nobody writes to must not make us wait before we see that it is one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise error(f"{shown} is a folder. Name the file in it.")
            if not stat.S_ISREG(found.st_mode):
                raise error(f"{shown} is not a plain file but a device or a pipe. Name a file.")
            if found.st_size > largest_megabytes * 2**20:
                raise error(f"{shown} is larger than {largest_megabytes:g} MB. Name another file.")
            return file.read(found.st_size)  # not what is appended meanwhile
    except FileNotFoundError:
        raise (missing or error)(f"There is no {called} {shown}. Check the path.") from None
    except OSError as problem:
        raise error(f"{shown} cannot be read: {problem.strerror}.") from None
    except ValueError:  # a NUL, or half a character, in the path
        raise error(f"{str(path)!r} is not the name of a file. Check the path.") from None


def read_text(
    path: Path,
    error: type[AdmeasureError] = UsageError,
    *,
    missing: type[AdmeasureError] | None = None,
    called: str = "file",
) -> str:
    """The text of a plain file."""
    return decoded(read_bytes(path, error, missing=missing, called=called), str(path), error)


def decoded(content: bytes, name: str, error: type[AdmeasureError] = UsageError) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(f"{name} is not UTF-8 text. Save it as UTF-8.") from None


def parse_toml(text: str, name: str, error: type[AdmeasureError] = UsageError) -> dict[str, Any]:
    """The document of a TOML text."""
    try:
        _check_size(len(text), 950 * (len(_HEADER.findall(text)) + text.count(".")), text, ",[{=\n")
        if _DOTTED.search(text):
            raise _Refused(f"has a name of more than {DEEPEST} parts")
        document = tomllib.loads(text)
        _check_values(document)
        return document
    except tomllib.TOMLDecodeError as problem:
        raise error(f"{name} is not valid TOML: {_QUOTED.sub('a name', str(problem))}.") from None
    except (_Refused, RecursionError, ValueError, OverflowError) as problem:
        raise error(f"{name} {_reason(problem)}. Write it anew.") from None


def parse_json(
    raw: bytes | str, name: str, error: type[AdmeasureError] = UsageError
) -> dict[str, Any]:
    """The object of a JSON text; anything else than an object is refused."""
    try:
        return _json(raw)
    except json.JSONDecodeError as problem:
        raise error(f"{name} is not valid JSON: {problem}.") from None
    except (RecursionError, ValueError, OverflowError) as problem:
        raise error(f"{name} {_reason(problem)}. Fetch or write it again.") from None


def read_json(path: Path, error: type[AdmeasureError] = UsageError) -> dict[str, Any]:
    """The object in a JSON file."""
    return parse_json(read_bytes(path, error), str(path), error)


def rational(value: Any) -> Fraction:
    """An exact number from a file: a text such as "3/8" or "0.125", or a JSON number.

    `ValueError` where it is none. Never more work than its length is worth: the exponent of
    "1e999999999" is refused, as its digits would fill the memory.

    >>> rational("3/8") + rational(0.125)
    Fraction(1, 2)
    """
    if isinstance(value, str):
        if not _RATIONAL.fullmatch(value):
            raise ValueError("not a number of a sound length")
    elif isinstance(value, bool) or not isinstance(value, Rational | float):
        raise ValueError("not a number")
    try:
        found = Fraction(value)
    except (ArithmeticError, ValueError):
        raise ValueError("not a finite number") from None
    if abs(found) > LARGEST_RATIONAL:
        raise ValueError("not a number of a sound size")
    return found


def _json(raw: bytes | str) -> dict[str, Any]:
    try:
        text = raw if isinstance(raw, str) else raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Refused("is not UTF-8 text") from None
    _check_size(len(text), 0, text, ",:[{")
    document = json.loads(text, parse_int=_whole, object_pairs_hook=_object)
    if not isinstance(document, dict):
        raise _Refused("is no JSON object")
    if text.count("[") + text.count("{") > DEEPEST or "\\u" in text:
        _check_values(document)
    return document


def _check_size(length: int, extra: int, text: str, parts: str) -> None:
    """Refuse what a parser would make too much of: of a text its characters again, of up to 4 bytes
    each, and about 100 bytes for each value."""
    if length + extra < 2**17:  # too short to become much
        return
    bytes_ = 8 * length + extra + 100 * sum(text.count(mark) for mark in parts)
    if bytes_ > PARSED_MEGABYTES * 2**20:
        raise _Refused(f"takes more than {PARSED_MEGABYTES:g} MB of memory")


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise _Refused(f"has a number of more than {DIGITS} digits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("has a key twice")
    return found


def _check_values(document: Any) -> None:
    """Depth, numbers and texts of what a parser gave back, without recursion."""
    level: list[Any] = [document]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                _check_texts(value)
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                _check_texts((value,))
            elif isinstance(value, int) and abs(value) >= 10**DIGITS:
                raise _Refused(f"has a number of more than {DIGITS} digits")
        if not below:
            return
        level = below
    raise _Refused(f"is nested deeper than {DEEPEST} levels")


def _check_texts(texts: Iterable[str]) -> None:
    for text in texts:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise _Refused("has half a character in a text") from None


def _reason(problem: Exception) -> str:
    if isinstance(problem, RecursionError):
        return f"is nested deeper than {DEEPEST} levels"
    if isinstance(problem, _Refused):
        return str(problem)
    return f"has a number that cannot be read, or one of more than {DIGITS} digits"
