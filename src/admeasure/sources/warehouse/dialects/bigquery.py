"""GoogleSQL of BigQuery. Compiled and parsed in tests; not run against the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from admeasure.schema.storage import Storage
from admeasure.sources.dialect import LONG, Dialect, Stored, saturated

_WIDE = 10**38 - 1


class BigQuery(Dialect):
    name = "bigquery"
    double, string, starts_with = "FLOAT64", "STRING", "STARTS_WITH"
    escapes: ClassVar = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\0": "\\x00"}

    def identifier(self, name: str) -> str:
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def nan(self, x: str, stored: Stored) -> str | None:
        return f"IS_NAN({x})" if stored.storage is Storage.REAL else None

    def text_of(self, x: str, stored: Stored) -> str:
        if stored.storage is Storage.TEXT:
            return f"COLLATE({x}, '')"
        if stored.storage.is_time:
            return f"CAST({_day(x, stored)} AS STRING)"
        return f"CAST({x} AS STRING)"

    def matches(self, text: str, pattern: str) -> str:
        return f"REGEXP_CONTAINS({text}, {self.text(f'^({pattern})$')})"

    def whole_of(self, x: str, stored: Stored, *, exact: bool) -> str:
        kind, limit = ("BIGNUMERIC", _WIDE) if exact else ("INT64", LONG)
        if stored.storage in (Storage.BOOLEAN, Storage.WHOLE):
            read = f"CAST({x} AS INT64)"
            return f"CAST({read} AS BIGNUMERIC)" if exact else read
        read = f"COALESCE(SAFE_CAST({x} AS {kind}), {saturated(f'{x} < 0', limit)})"
        return f"CASE WHEN {x} = TRUNC({x}) THEN {read} END"

    def whole_in(self, text: str, *, exact: bool) -> str:
        kind, limit = ("BIGNUMERIC", _WIDE) if exact else ("INT64", LONG)
        digits = f"LTRIM(SPLIT({text}, '.')[OFFSET(0)], '+')"
        far = saturated(self.is_negative(text), limit)
        return f"COALESCE(SAFE_CAST({digits} AS {kind}), {far})"

    def double_of(self, x: str, stored: Stored) -> str:
        match stored.storage:
            case Storage.BOOLEAN:
                return f"CAST(CAST({x} AS INT64) AS FLOAT64)"
            case Storage.WIDE | Storage.DECIMAL:
                # By way of text, which is rounded to the nearest.
                return f"CAST(CAST({x} AS STRING) AS FLOAT64)"
        return f"CAST({x} AS FLOAT64)"

    def double_in(self, text: str) -> str:
        tiny = f"REGEXP_CONTAINS({text}, '[eE]-')"
        return self.or_far(f"SAFE_CAST({text} AS FLOAT64)", text, tiny)

    def days_of(self, x: str, stored: Stored) -> str:
        return f"UNIX_DATE({_day(x, stored)})"

    def days_in(self, text: str) -> str:
        return self.of_calendar(text, f"UNIX_DATE(SAFE_CAST({text} AS DATE))")

    def last_at_most(self, value: str, starts: Sequence[str], *, real: bool) -> str:
        if not real:  # which may be wider, but lies between the first and the last
            value = f"SAFE_CAST({value} AS INT64)"
        kind = "FLOAT64" if real else "INT64"
        return f"RANGE_BUCKET({value}, ARRAY<{kind}>[{', '.join(starts)}]) - 1"

    def fingerprint(self, parts: Sequence[str]) -> str:
        return f"TO_HEX({super().fingerprint(parts)})"


def _day(x: str, stored: Stored) -> str:
    return f"DATE({x}, 'UTC')" if stored.storage is Storage.MOMENT else f"CAST({x} AS DATE)"
