"""SQL of Snowflake. Compiled and parsed in tests; not run against the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from admeasure.schema.storage import Storage
from admeasure.sources.dialect import LONG, Dialect, Stored, halved, saturated

_WIDE = 10**38 - 1


class Snowflake(Dialect):
    name = "snowflake"
    starts_with = "STARTSWITH"
    escapes: ClassVar = {"\\": "\\\\", "'": "''", "\0": "\\0"}

    def nan(self, x: str, stored: Stored) -> str | None:
        return f"{x} = CAST('NaN' AS DOUBLE)" if stored.storage is Storage.REAL else None

    def text_of(self, x: str, stored: Stored) -> str:
        if stored.storage is Storage.TEXT:
            return f"COLLATE({x}, 'utf8')"
        if stored.storage.is_time:
            return f"TO_CHAR({_day(x, stored)}, 'YYYY-MM-DD')"
        return f"CAST({x} AS VARCHAR)"

    def matches(self, text: str, pattern: str) -> str:
        return f"REGEXP_LIKE({text}, {self.text(pattern)})"

    def whole_of(self, x: str, stored: Stored, *, exact: bool) -> str:
        limit = _WIDE if exact else LONG
        if stored.storage is Storage.BOOLEAN:
            return f"CASE WHEN {x} THEN 1 ELSE 0 END"
        fits = f"ABS({x}) < {limit}"
        far = saturated(f"{x} < 0", limit)
        read = f"CASE WHEN {fits} THEN CAST({x} AS DECIMAL(38, 0)) ELSE {far} END"
        if stored.storage in (Storage.WHOLE, Storage.WIDE):
            return read
        return f"CASE WHEN {x} = TRUNC({x}) THEN {read} END"

    def whole_in(self, text: str, *, exact: bool) -> str:
        limit = _WIDE if exact else LONG
        far = saturated(self.is_negative(text), limit)
        read = f"TRY_CAST(SPLIT_PART({text}, '.', 1) AS DECIMAL(38, 0))"
        return f"CASE WHEN ABS({read}) < {limit} THEN {read} ELSE {far} END"

    def double_of(self, x: str, stored: Stored) -> str:
        if stored.storage is Storage.BOOLEAN:
            return f"CAST(CASE WHEN {x} THEN 1 ELSE 0 END AS DOUBLE)"
        return f"CAST({x} AS DOUBLE)"

    def double_in(self, text: str) -> str:
        tiny = f"REGEXP_LIKE({text}, '.*[eE]-.*')"
        return self.or_far(f"TRY_CAST({text} AS DOUBLE)", text, tiny)

    def days_of(self, x: str, stored: Stored) -> str:
        return f"DATEDIFF(DAY, CAST('1970-01-01' AS DATE), {_day(x, stored)})"

    def days_in(self, text: str) -> str:
        read = f"DATEDIFF(DAY, CAST('1970-01-01' AS DATE), TRY_CAST({text} AS DATE))"
        return self.of_calendar(text, read)

    def last_at_most(self, value: str, starts: Sequence[str], *, real: bool) -> str:
        return halved(value, starts, choice="IFF({condition}, {yes}, {no})")


def _day(x: str, stored: Stored) -> str:
    moment = f"CONVERT_TIMEZONE('UTC', {x})" if stored.storage is Storage.MOMENT else x
    held = f"LEAST(GREATEST(CAST({moment} AS DATE), CAST('0001-01-01' AS DATE)), "
    return held + "CAST('9999-12-31' AS DATE))"
