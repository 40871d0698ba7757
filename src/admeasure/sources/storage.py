"""Kinds of storage that the rules of docs/schema.md tell apart, whichever engine holds them."""

from __future__ import annotations

from enum import Enum, auto


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
        return self in (Storage.DAY, Storage.MOMENT)
