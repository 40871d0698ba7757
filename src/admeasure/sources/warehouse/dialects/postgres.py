"""PostgreSQL, 14 and later. Run against a real server in tests/warehouse.

What is peculiar: no cast that gives NULL instead of an error, so that every text is proved
readable before it is cast; arithmetic of doubles that fails where it overflows or underflows, so
that none is asked for; subqueries are merged and their expressions repeated unless `OFFSET 0`
stands in the way; comparisons follow the column's collation unless told `COLLATE "C"`.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from fractions import Fraction

from admeasure.schema.storage import Storage
from admeasure.sources.dialect import LONG, Dialect, Stored, identifier, saturated

_LONGEST_DIGITS = 40  # as in admeasure.schema.values: longer ones are all one number
_KEPT_DIGITS = 2000
_NAME_BYTES = 63

STORAGES = {
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "name", "citext", "json"), Storage.TEXT),
    "time": Storage.TEXT,
    "bool": Storage.BOOLEAN,
    **dict.fromkeys(("int2", "int4", "int8"), Storage.WHOLE),
    **dict.fromkeys(("float4", "float8"), Storage.REAL),
    "numeric": Storage.DECIMAL,
    **dict.fromkeys(("date", "timestamp"), Storage.DAY),
    "timestamptz": Storage.MOMENT,
}
_DIRECT = {"text", "varchar", "citext"}


def stored(name: str, type_name: str, *, is_enum: bool) -> Stored:
    """A column by the name of its type (a domain's: of the type below it)."""
    storage = Storage.TEXT if is_enum else STORAGES.get(type_name, Storage.OTHER)
    return Stored(name, storage, type_name, type_name in _DIRECT)


def cut_name(name: str) -> str:
    """A name as the server stores it: PostgreSQL cuts names after 63 bytes."""
    return name.encode("utf-8", "replace")[:_NAME_BYTES].decode("utf-8", "ignore")


class Postgres(Dialect):
    name = "postgres"
    fence = " OFFSET 0"

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = codecs.lookup(encoding).name

    def identifier(self, name: str) -> str:
        return identifier(cut_name(name))

    def text(self, value: str) -> str | None:
        if "\0" in value:
            return None
        try:
            value.encode(self._encoding)
        except UnicodeEncodeError:  # the server could not store it, and refuses to compare with it
            return None
        return super().text(value)

    def real(self, value: float) -> str:
        return f"'{float(value)!r}'::float8"

    def nan(self, x: str, stored: Stored) -> str | None:
        match stored.storage:
            case Storage.REAL:
                return f"{x} = 'NaN'::float8"
            case Storage.DECIMAL:
                return f"{x} = 'NaN'::numeric"
        return None

    def text_of(self, x: str, stored: Stored) -> str:
        if stored.storage.is_time:
            return f"to_char({_day(x, stored)}, 'YYYY-MM-DD') COLLATE \"C\""
        # The cast of CHAR(n) drops its padding, which is no part of the value.
        return f'({x})::text COLLATE "C"'

    def trim(self, text: str) -> str:
        return f"btrim({text}, ' ')"

    def matches(self, text: str, pattern: str) -> str:
        asked = self.text(f"^({pattern})$")
        # A pattern that the server cannot store has a letter that none of its texts has.
        return "FALSE" if asked is None else f"{text} ~ {asked}"

    def group(self, text: str, pattern: str, number: int) -> str:
        asked = self.text(f"^{pattern}$")
        return "NULL" if asked is None else f"(regexp_match({text}, {asked}))[{number}]"

    def whole_of(self, x: str, stored: Stored, *, exact: bool) -> str:
        match stored.storage:
            case Storage.BOOLEAN:
                return f"({x})::int::bigint"
            case Storage.WHOLE:
                return f"({x})::{'numeric' if exact else 'bigint'}"
            case Storage.REAL:
                number = f"({x})::float8"
                inside = f"{number} > {self.real(-(2.0**63))} AND {number} < {self.real(2.0**63)}"
                read = (
                    f"CASE WHEN {inside} THEN ({number})::bigint ELSE {saturated(f'{x} < 0')} END"
                )
                read = f"({read})::numeric" if exact else read
            case _:
                number = f"({x})"
                read = (
                    number
                    if exact
                    else f"CASE WHEN abs({x}) < {LONG} THEN ({x})::bigint "
                    f"ELSE {saturated(f'{x} < 0')} END"
                )
        return f"CASE WHEN {number} = trunc({number}) THEN {read} END"

    def whole_in(self, text: str, *, exact: bool) -> str:
        digits = f"ltrim(split_part({text}, '.', 1), '+-0')"
        negative = self.is_negative(text)
        sign = f"CASE WHEN {negative} THEN '-' ELSE '' END"
        number = f"({sign} || '0' || {digits})"
        if exact:
            limit, kind, longest = 10**_LONGEST_DIGITS, "numeric", _LONGEST_DIGITS
        else:
            limit, kind, longest = LONG, "bigint", 18
        far = saturated(negative, limit)
        return f"CASE WHEN length({digits}) <= {longest} THEN {number}::{kind} ELSE {far} END"

    def double_of(self, x: str, stored: Stored) -> str:
        match stored.storage:
            case Storage.BOOLEAN:
                return f"({x})::int::float8"
            case Storage.WIDE | Storage.DECIMAL:
                return _nearest(f"({x})")
        return f"({x})::float8"

    def double_in(self, text: str) -> str:
        """Of the form `mantissa e exponent`; which power of ten it is below decides how it may be
        cast: most texts directly, those near the ends of the doubles by way of an exact number."""
        whole = f"ltrim(substring({text} from '^[+-]?([0-9]*)'), '0')"
        part = f"coalesce(substring({text} from '[.]([0-9]*)'), '')"
        exponent = f"coalesce(substring({text} from '[eE]([+-]?[0-9]+)$'), '0')"
        far = f"length(ltrim({exponent}, '+-0')) > 9"
        signed = f"CASE WHEN starts_with({exponent}, '-') THEN -2000000000 ELSE 2000000000 END"
        exponent = f"CASE WHEN {far} THEN {signed} ELSE ({exponent})::bigint END"
        places = f"CASE WHEN {whole} <> '' THEN length({whole}) "
        places += f"ELSE length(ltrim({part}, '0')) - length({part}) END"
        power = f"(({places}) + ({exponent}))"
        digits = f"ltrim({whole} || {part}, '0')"
        sign = f"CASE WHEN starts_with({text}, '-') THEN -1 ELSE 1 END"
        exact = f"('0.' || left({digits}, {_KEPT_DIGITS}) || 'e' || {power})::numeric * {sign}"
        infinite = f"CASE WHEN starts_with({text}, '-') THEN '-inf' ELSE 'inf' END::float8"
        return (
            f"CASE WHEN {text} ~ '[nN]' THEN ({text})::float8 "
            f"WHEN {digits} = '' THEN 0::float8 "
            f"WHEN {power} > 310 THEN ({infinite}) "
            f"WHEN {power} < -330 THEN 0::float8 "
            f"WHEN {power} BETWEEN -300 AND 300 THEN ({text})::float8 "
            f"ELSE {_nearest(f'({exact})')} END"
        )

    def days_of(self, x: str, stored: Stored) -> str:
        return f"({_day(x, stored)} - DATE '1970-01-01')::bigint"

    def days_in(self, text: str) -> str:
        year, month, day = (
            f"substr({text}, {start}, {length})::int" for start, length in ((1, 4), (6, 2), (9, 2))
        )
        leap = f"{year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0)"
        last = f"CASE WHEN {month} IN (4, 6, 9, 11) THEN 30 WHEN {month} <> 2 THEN 31 "
        last += f"WHEN {leap} THEN 29 ELSE 28 END"
        exists = f"{year} >= 1 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {last}"
        made = f"make_date({year}, {month}, {day}) - DATE '1970-01-01'"
        return f"CASE WHEN {exists} THEN ({made})::bigint END"

    def last_at_most(self, value: str, starts: Sequence[str], *, real: bool) -> str:
        kind = "float8" if real else "bigint"
        return f"width_bucket(({value})::{kind}, ARRAY[{', '.join(starts)}]::{kind}[]) - 1"

    def unit_text(self, u: str, stored: Stored) -> str:
        if stored.storage is Storage.DECIMAL:  # 1.0 and 1.00 are one unit
            return super().unit_text(f"trim_scale({u})", stored)
        return super().unit_text(u, stored)

    def fingerprint(self, parts: Sequence[str]) -> str:
        return f"md5(concat_ws('|', {', '.join(parts)})) COLLATE \"C\""


def _day(x: str, stored: Stored) -> str:
    moment = f"({x} AT TIME ZONE 'UTC')" if stored.storage is Storage.MOMENT else f"({x})"
    return f"least(greatest({moment}::date, DATE '0001-01-01'), DATE '9999-12-31')"


def _decimal(value: Fraction) -> str:
    """The exact decimal digits of a dyadic fraction."""
    places = value.denominator.bit_length() - 1
    digits = str(value.numerator * 5**places).rjust(places + 1, "0")
    return f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}".rstrip(".")


_OVER = _decimal(Fraction(2**1024 - 2**970))
"""From here on the nearest double is infinite: half a step beyond the largest."""
_UNDER = _decimal(Fraction(1, 2**1075))
"""Up to here the nearest double is zero: half the smallest."""


def _nearest(number: str) -> str:
    """An exact number as a double. The cast itself rounds to the nearest, but fails at the ends."""
    return (
        f"CASE WHEN abs({number}) BETWEEN 1e-300 AND 1e300 THEN {number}::float8 "
        f"WHEN {number} >= {_OVER} THEN 'inf'::float8 "
        f"WHEN {number} <= -{_OVER} THEN '-inf'::float8 "
        f"WHEN abs({number}) <= {_UNDER} THEN 0::float8 ELSE {number}::float8 END"
    )
