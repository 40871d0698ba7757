"""What a table holds beside what its schema says: for the steward's own eyes.

NOT PRIVATE: findings quote values and count rows of the private table. They are made only where the
holder of the table asks for them on a terminal (`check --show`, `fit --show`), and go nowhere else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from admeasure.schema.categorical import StringColumn
from admeasure.schema.clock import CLOCKS, ClockForm
from admeasure.schema.column import Column
from admeasure.schema.forms import DayForm, Form, NumberForm
from admeasure.schema.problems import Refusal, resolve
from admeasure.schema.values import date_from_text, number_from_text, quoted

FEW = 5
"""Values that are shown of each kind."""
_KEPT = 10_000
FORMATS = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y%m%d", "%d/%m/%y"),
    *("%m/%d/%y", "%d.%m.%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y"),
    *("%d-%b-%y", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S"),
    *("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p"),
)
_GROUPS = (
    *((",", None, '`decimal = ","`'), (",", ".", '`decimal = ","` and `thousands = "."`')),
    *((".", ",", '`thousands = ","`'), (".", " ", '`thousands = " "`')),
    (",", " ", '`decimal = ","` and `thousands = " "`'),
    (".", "'", '`thousands = "\'"`'),
)
_WORDS = {
    Refusal.MISSING: "missing",
    Refusal.UNREADABLE: "not of the type",
    Refusal.OUTSIDE: "outside the bounds",
    Refusal.NOT_IN_ENUM: "not in enum",
    Refusal.WRONG_STORAGE: "stored in another form",
}


@dataclass(frozen=True)
class Finding:
    """A line about a column. `is_likely`: it looks like a mistake of the schema, by which a budget
    would be spent on nothing."""

    column: str
    text: str
    is_likely: bool = False

    def __str__(self) -> str:
        return f"{quoted(self.column)}: {self.text}"


@dataclass
class _Seen:
    """The values of one column, by what becomes of them."""

    column: Column
    rows: int = 0
    refused: dict[Refusal, Counter] = field(default_factory=dict)
    counts: Counter = field(default_factory=Counter)
    outside: Counter = field(default_factory=Counter)
    """Values that are clamped."""
    least: float = math.inf
    greatest: float = -math.inf

    def add(self, value: Any, rows: int) -> None:
        code = self.column.code_of(value)
        self.rows += rows
        if code < 0:
            kept = self.refused.setdefault(Refusal(code), Counter())
            _count(kept, value, rows)
            return
        self.counts[code] += rows
        number = self.column.ordinal_of(value)
        grid = self.column.grid
        if number is None or grid is None:
            return
        if not grid.low <= number <= grid.high:
            _count(self.outside, value, rows)
            return
        self.least, self.greatest = min(self.least, number), max(self.greatest, number)


def _count(kept: Counter, value: Any, rows: int) -> None:
    """Values beyond the first thousands are counted and not kept."""
    key = value if value in kept or len(kept) < _KEPT else None
    kept[key] += rows


def look(column: Column, values: Iterable[tuple[Any, int]]) -> list[Finding]:
    """What there is to say of a column, given its distinct values and how many rows have each."""
    seen = _Seen(column.as_read())
    for value, rows in values:
        seen.add(value, rows)
    if not seen.rows:
        return [Finding(column.name, "no rows")]
    if column.is_sought:  # the run finds its levels: none is listed yet
        seen.refused.pop(Refusal.NOT_IN_ENUM, None)
    found = [*_refused(seen), *_clamped(seen), *_levels(seen)]
    return [Finding(column.name, text, likely) for text, likely in found]


def _refused(seen: _Seen) -> Iterator[tuple[str, bool]]:
    column = seen.column
    for refusal, kept in sorted(seen.refused.items(), reverse=True):
        rows = sum(kept.values())
        level = resolve(column, refusal)
        if refusal is Refusal.MISSING and level is not None:
            continue
        what = f"{_share(rows, seen.rows)} {_WORDS[refusal]}: {_few(kept)}"
        goes = "refused" if level is None else "taken for `other`"
        texts = [value for value in kept if isinstance(value, str)]
        hint = _hint(column, refusal, texts)
        likely = refusal is Refusal.UNREADABLE or bool(hint) or rows > seen.rows / 5
        mistake = level is not None and likely
        yield f"{what}. They are {goes}.{hint}", mistake


def _clamped(seen: _Seen) -> Iterator[tuple[str, bool]]:
    rows = sum(seen.outside.values())
    if rows:
        share = _share(rows, seen.rows)
        text = f"{share} outside {seen.column.bounds_text}: {_few(seen.outside)}. They are clamped."
        yield text, rows > seen.rows / 10


def _levels(seen: _Seen) -> Iterator[tuple[str, bool]]:
    column = seen.column
    held = sum(seen.counts.values())
    if not held:
        return
    empty = [code for code in range(column.regular) if not seen.counts[code]]
    if column.grid is None and empty:
        labels = ", ".join(quoted(column.regular_label(code)) for code in empty[:FEW])
        more = f" and {len(empty) - FEW} more" if len(empty) > FEW else ""
        yield f"{len(empty)} of {column.regular} levels never occur: {labels}{more}", False
    if column.grid is not None and seen.least <= seen.greatest:
        part = (seen.greatest - seen.least) / max(column.grid.high - column.grid.low, 1e-300)
        if part < 0.2:
            ends = column.values_of(np.array([seen.least, seen.greatest], _dtype(column)))
            text = (
                f"values go from {ends[0]} to {ends[1]}, and the bounds are {column.bounds_text}: "
            )
            yield f"{text}{len(empty)} of {column.regular} levels are empty", False
    code, most = seen.counts.most_common(1)[0]
    if column.regular > 2 and most > 0.9 * held:
        label = quoted(column.regular_label(code))
        yield f"{_share(most, seen.rows)} in the level {label}: finer levels would show more", False


def _dtype(column: Column) -> type:
    return np.float64 if column.holds_reals else np.int64


def _hint(column: Column, refusal: Refusal, texts: list[str]) -> str:
    """A form that reads what the column does not, if there is one."""
    if not texts or refusal not in (Refusal.UNREADABLE, Refusal.NOT_IN_ENUM):
        return ""
    match column.type:
        case "date":
            forms = [f'`format = "{f}"`' for f in FORMATS if _mostly(texts, DayForm(f), "date")]
        case "integer" if any(_mostly(texts, ClockForm(f), "number") for f in CLOCKS):
            forms = [f'`format = "{f}"`' for f in CLOCKS if _mostly(texts, ClockForm(f), "number")]
        case "integer" | "number":
            forms = [said for d, t, said in _GROUPS if _mostly(texts, NumberForm(d, t), "number")]
        case "boolean" if len(set(texts)) <= 4:
            forms = [f"`true_values` and `false_values` of {', '.join(map(quoted, set(texts)))}"]
        case "string":
            return _letters(column, texts)
        case _:
            forms = []
    if forms:
        return f" Read by {' or '.join(forms[:3])}."
    if column.type in ("integer", "number") and _mostly(texts, _Unsigned(), "number"):
        return " A sign or a unit stands beside the number: take it out of the table."
    return ""


class _Unsigned:
    """Numbers with a few letters or signs around them, as €1,234.50, 5 kg and 12%."""

    def standard(self, text: str) -> str | None:
        found = re.fullmatch(r"[^\d.,+-]{0,4}([+-]?[\d.,' ]*\d)[^\d]{0,4}", text)
        return re.sub(r"[,' ]", "", found[1]) if found else None


def _mostly(texts: list[str], form: Form | _Unsigned, kind: str) -> bool:
    """Whether a form reads nine of ten texts: the rest may be words for missing."""
    reader = date_from_text if kind == "date" else number_from_text
    read = [form.standard(text.strip(" ")) for text in texts]
    return 10 * sum(r is not None and reader(r) is not None for r in read) >= 9 * len(texts)


def _letters(column: Column, texts: list[str]) -> str:
    if not isinstance(column, StringColumn):
        return ""
    loose = column.model_copy(update={"strip": True, "ignore_case": True})
    if any(loose.code_of(text) >= 0 for text in texts):
        return " Some are read by `strip = true` or `ignore_case = true`."
    return ""


def _share(rows: int, of: int) -> str:
    return f"{rows:,} of {of:,} rows ({100 * rows / of:.0f}%)"


def _few(kept: Counter) -> str:
    shown = [(value, n) for value, n in kept.most_common(FEW + 1) if value is not None][:FEW]
    if not shown:
        return "empty"
    texts = [f"{quoted(value)} ({rows:,})" for value, rows in shown]
    return ", ".join(texts) + (", …" if len(kept) > len(shown) else "")
