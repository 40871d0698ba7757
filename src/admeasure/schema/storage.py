"""Kinds of storage that the rules of docs/reference/schema.md tell apart, in whatever engine."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum, auto

from admeasure.schema.values import Plain


class Storage(Enum):
    """Kinds of storage that are read differently."""

    TEXT = auto()
    BOOLEAN = auto()
    WHOLE = auto()
    WIDE = auto()
    """Whole numbers that may not fit 64 bits with a sign."""
    REAL = auto()
    DECIMAL = auto()
    DAY = auto()
    """A date, or a timestamp without a zone."""
    MOMENT = auto()
    """A timestamp with a zone."""
    OTHER = auto()

    @property
    def is_time(self) -> bool:
        return self in TIMES


NUMBERS = (Storage.BOOLEAN, Storage.WHOLE, Storage.WIDE, Storage.REAL, Storage.DECIMAL)
TIMES = (Storage.DAY, Storage.MOMENT)

_OF_PYTHON = {str: Storage.TEXT, bool: Storage.BOOLEAN, int: Storage.WIDE, float: Storage.REAL}


def storage_of_plain(value: Plain) -> Storage:
    """The storage of a plain value that is not null."""
    found = _OF_PYTHON.get(type(value))
    return found or (Storage.DECIMAL if isinstance(value, Decimal) else Storage.DAY)
