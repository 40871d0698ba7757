"""The codes that a written selection stands for: in `[[zero]]` tables and in query files.

A selection is a value, a list of selections, a range `{from = …, to = …}` with both ends included,
or `{level = "other"}` / `{level = "missing"}`. Values are raw values, read as the table's values
are. A selection must consist of whole levels: one that cuts through a bin is refused with the bin's
edges, which are public. In a number column a range that ends on an edge includes the bin below that
edge and not the bin above. In a column with a hierarchy a value is one of its codes or groups.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from admeasure.errors import SchemaError
from admeasure.schema.grid import PartlyCovered, RealGrid
from admeasure.schema.portion import Portion
from admeasure.schema.problems import Refusal
from admeasure.schema.rules import Reads
from admeasure.schema.storage import Storage
from admeasure.schema.values import day, quoted

if TYPE_CHECKING:
    from admeasure.schema.column import Column

RANGE = re.compile(r"(\S{1,30}?) ?(?:\.\.|–| to ) ?(\S{1,30})")
"""How people write one."""


def codes_of(column: Column, selection: object) -> np.ndarray:
    """The sorted, distinct codes of a selection, as int64; a `SchemaError` says what is wrong."""
    if column.of_held is not None:
        return _whole(column, portion_of(column, selection))
    if isinstance(selection, (list, tuple, set, frozenset)):
        if not selection:
            raise _wrong(column, "an empty list", "Name at least one value")
        return np.unique(np.concatenate([codes_of(column, part) for part in selection]))
    if isinstance(selection, Mapping):
        return _of_mapping(column, selection)
    return _of_value(column, selection)


def portion_of(column: Column, selection: object) -> Portion:
    """What a selection takes of a column with a hierarchy."""
    assert column.held is not None
    held, besides = np.zeros(len(column.held), dtype=bool), np.zeros(0, dtype=np.int64)
    several = isinstance(selection, (list, tuple, set, frozenset))
    if several and not selection:
        raise _wrong(column, "an empty list", "Name at least one value")
    for one in selection if several else (selection,):
        span = None if isinstance(one, Mapping) else column.span_of(one)
        if span is not None:
            held[slice(*span)] = True
        else:
            found = _of_mapping(column, one) if isinstance(one, Mapping) else _of_value(column, one)
            besides = np.union1d(besides, found)
    return Portion(column, held, besides)


def _whole(column: Column, portion: Portion) -> np.ndarray:
    if not portion.is_whole:
        code = int(np.setdiff1d(portion.touched, portion.covered)[0])
        raise _wrong(
            column,
            f"a part of the level {quoted(column.regular_label(code))}",
            "Ask for whole levels, or count sampled rows; questions that are written with `where` "
            "may also name codes inside of levels",
        )
    return portion.touched


def _of_mapping(column: Column, selection: Mapping[Any, Any]) -> np.ndarray:
    keys = set(selection)
    if keys == {"level"}:
        return _of_level(column, selection["level"])
    if not keys or not keys <= {"from", "to"}:
        raise _wrong(
            column, "a table it cannot read", 'Use {from = …, to = …} or {level = "other"}'
        )
    if column.grid is None:
        raise _wrong(column, "a range", f"Type {column.type} takes a value or a list of values")
    low = _end(column, selection["from"]) if "from" in selection else -math.inf
    high = _end(column, selection["to"]) if "to" in selection else math.inf
    if low > high:
        raise _wrong(column, "a range that is empty", "Write the smaller end as `from`")
    return _covered(column, low, high, "range")


def _of_level(column: Column, level: object) -> np.ndarray:
    codes = {"other": column.other_code, "missing": column.missing_code}
    if not isinstance(level, str) or level not in codes:
        raise _wrong(column, f"the level {quoted(level)}", 'Use "other" or "missing"')
    code = codes[level]
    if code is None:
        field = "`other = true`" if level == "other" else "`missing_values = […]`"
        raise _wrong(column, f"the level {level!r}, which it does not have", f"Declare {field}")
    return np.array([code], dtype=np.int64)


def _of_value(column: Column, value: object) -> np.ndarray:
    code = column.code_of(_known(column, value))
    if code == Refusal.MISSING and column.missing_code is not None:
        return np.array([column.missing_code], dtype=np.int64)
    if code >= 0 and column.grid is None:
        return np.array([code], dtype=np.int64)
    if code >= 0:
        end = _end(column, value)
        return _covered(column, end, end, "value")
    raise _wrong(column, f"the value {quoted(value)}", _advice(column, value, code))


def _known(column: Column, value: object) -> object:
    """A text that is not spelled as the table spells it may be a standard one: a question of the
    same form is asked of any table."""
    form = column.form
    if form is None or not isinstance(value, str) or form.standard(value.strip(" ")) is not None:
        return value
    read = column.rules[Storage.TEXT].reads.reader(value)
    if read is None or read != read:
        return value
    is_day = column.rules[Storage.TEXT].reads is Reads.DAY
    return day(read) if is_day else read


def _advice(column: Column, value: object, code: int) -> str:
    if code == Refusal.OUTSIDE:
        return f"It is outside {column.bounds_text}"
    near = difflib.get_close_matches(str(value), _known_texts(column), n=1)
    if near:
        return f"It is not a level; did you mean {quoted(near[0])}?"
    if column.grid is not None and (ends := RANGE.fullmatch(str(value))):
        return f"Write a range as {{ from = {ends[1]}, to = {ends[2]} }}"
    return f"It is not a level of this column, whose type is {column.type}"


def _known_texts(column: Column) -> list[str]:
    """The texts that a value may be meant to be."""
    if column.of_held is not None:
        return [*map(str, column.listed or ()), *map(str, column.held or ())]
    return list(column.labels) if column.grid is None else []


def _end(column: Column, value: object) -> float:
    end = column.ordinal_of(_known(column, value))
    if end is None:
        raise _wrong(column, f"the end {quoted(value)} of a range", f"The type is {column.type}")
    return end


def _covered(column: Column, low: float, high: float, what: str) -> np.ndarray:
    grid = column.grid
    assert grid is not None
    if low == high and isinstance(grid, RealGrid) and grid.low <= low <= grid.high:
        # One point of a continuous bin is never the whole of it.
        raise _partly(column, grid.place(low), what)
    try:
        codes = grid.covered(low, high)
    except PartlyCovered as cut:
        raise _partly(column, cut.code, what) from None
    if not len(codes):
        raise _wrong(
            column, f"a {what} that holds no level", f"Its bounds are {column.bounds_text}"
        )
    return codes.astype(np.int64)


def _partly(column: Column, code: int, what: str) -> SchemaError:
    label = column.regular_label(code)
    return _wrong(
        column,
        f"a {what} that takes only a part of the bin {label}, and a release knows nothing smaller",
        "Ask for whole bins; `edges = […]` in the schema of the next run puts them where you ask",
    )


def _wrong(column: Column, what: str, advice: str) -> SchemaError:
    end = "" if advice.endswith("?") else "."
    return SchemaError(f"Column {quoted(column.name)} is asked for {what}. {advice}{end}")
