"""Frames in and out: pandas, polars, pyarrow, or a mapping of names to arrays or lists.

`stored` gives one column of a frame as an array of a few kinds, without looking at its values more
than it must; frames are reached through narwhals, so none of their libraries is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from admeasure.errors import DataError, UsageError
from admeasure.extras import need
from admeasure.late import LateModule
from admeasure.schema.values import quoted

if TYPE_CHECKING:
    import narwhals as nw
else:
    nw = LateModule("narwhals")

Library = Literal["pandas", "polars", "arrow", "dict"]
_LIBRARIES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}
EXACT_DOUBLE = 2**53
"""From here on a double stands for several whole numbers."""


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """One column as stored. `values` is an array (for kind "object" a list); `null` marks its
    missing entries, or is None where there are none. Days count from 1970-01-01, in UTC. Whole
    numbers below `exact` are told apart by the storage of a float."""

    kind: Literal["integer", "float", "boolean", "day", "object"]
    values: Any
    null: np.ndarray | None = None
    exact: int = EXACT_DOUBLE

    def __len__(self) -> int:
        return len(self.values)


class Frame:
    """A table in memory, read one column at a time."""

    def __init__(self, native: Any) -> None:
        self._columns: Mapping[str, Any] | None = None
        if isinstance(native, Mapping):
            self._columns = native
            self.names = list(native)
            lengths = {len(column) for column in native.values()}
            if len(lengths) > 1:
                raise DataError("The columns of the table differ in length. Make them equal.")
            self.rows = lengths.pop() if lengths else 0
            return
        try:
            frame = nw.from_native(native, eager_only=True)
        except nw.exceptions.DuplicateError:
            raise DataError("The table has two columns of one name. Rename one of them.") from None
        except TypeError:
            raise DataError(
                f"A {type(native).__name__} is not a table that can be read. Give a pandas, polars "
                "or pyarrow frame (a lazy one collected first), or a dict of columns."
            ) from None
        self._frame = frame
        self.names = list(frame.columns)
        self.rows = len(frame)

    def column(self, name: str) -> StoredColumn:
        """One column by name. Its name must occur exactly once."""
        if self.names.count(name) != 1:
            how = "no column" if name not in self.names else "two columns"
            raise DataError(f"The table has {how} {quoted(name)}. Compare it with the schema.")
        if self._columns is not None:
            return stored_array(self._columns[name])
        return _stored_series(self._frame[name])

    def identifiers(self, name: str) -> StoredColumn:
        """The column that names the unit, with times of day kept."""
        found = self.column(name)
        if found.kind != "day":
            return found
        return _objects(self._columns[name] if self._columns is not None else self._frame[name])


def stored_array(values: Any) -> StoredColumn:
    """A numpy array or a list as stored."""
    if not isinstance(values, np.ndarray):
        if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
            try:
                return _stored_series(nw.from_native(values, series_only=True))
            except TypeError:
                pass
        return _stored_list(list(values))
    if values.ndim != 1:
        raise DataError("A column of the table is not one-dimensional. Give one array a column.")
    if np.ma.isMaskedArray(values):
        return StoredColumn("object", values.tolist())
    match values.dtype.kind:
        case "i" | "u":
            return StoredColumn("integer", values)
        case "f":
            return _floats(values)
        case "b":
            return StoredColumn("boolean", values)
        case "M":
            return _days(values)
    return StoredColumn("object", values.tolist())


def _stored_list(values: list[Any]) -> StoredColumn:
    """A list of one kind of number (and None) is an array; anything else stays as it is."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) != 1 or not kinds <= {int, float, bool}:
        return StoredColumn("object", values)
    null = np.fromiter((v is None for v in values), dtype=bool, count=len(values))
    kind = kinds.pop()
    try:
        array = np.array([kind(0) if v is None else v for v in values] if null.any() else values)
    except OverflowError:
        return StoredColumn("object", values)
    if array.dtype.kind not in "ifbu":  # whole numbers too long for 64 bits
        return StoredColumn("object", values)
    if kind is float:
        null |= np.isnan(array)
    names: dict[type, Literal["integer", "float", "boolean"]]
    names = {int: "integer", float: "float", bool: "boolean"}
    if kind is int and array.dtype.kind == "f":  # numpy mixes int64 and uint64 to doubles
        return StoredColumn("object", values)
    return StoredColumn(names[kind], array, null if null.any() else None)


def _floats(values: np.ndarray) -> StoredColumn:
    exact = min(2 ** (np.finfo(values.dtype).nmant + 1), EXACT_DOUBLE)
    values = values.astype(np.float64, copy=False)
    null = np.isnan(values)
    return StoredColumn("float", values, null if null.any() else None, exact)


def _days(values: np.ndarray) -> StoredColumn:
    null = np.isnat(values)
    days = values.astype("datetime64[D]").astype(np.int64)
    return StoredColumn("day", days, null if null.any() else None)


def _stored_series(series: nw.Series[Any]) -> StoredColumn:
    dtype = series.dtype
    if dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128):
        return _filled(series, "integer", 0)
    if dtype == nw.Boolean:
        return _filled(series, "boolean", False)  # noqa: FBT003 (the value to fill with)
    if dtype.is_float():
        values = series.to_numpy()
        return _floats(values) if values.dtype.kind == "f" else _objects(series)
    if dtype == nw.Date or dtype == nw.Datetime:
        values = series.to_numpy()
        return _days(values) if values.dtype.kind == "M" else _objects(series)
    return _objects(series)


def _filled(series: nw.Series[Any], kind: Literal["integer", "boolean"], fill: Any) -> StoredColumn:
    """Nulls are filled first: an array of integers with nulls would become one of floats."""
    null = series.is_null().to_numpy()
    if not null.any():
        values, null = series.to_numpy(), None
    else:
        values = series.fill_null(fill).to_numpy()
    if values.dtype.kind not in "iub":
        return _objects(series)
    return StoredColumn(kind, values.astype(bool) if kind == "boolean" else values, null)


def _objects(series: Any) -> StoredColumn:
    if isinstance(series, nw.Series):
        values = series.to_list()
        null = series.is_null().to_numpy()
        return StoredColumn("object", values, null if null.any() else None)
    return StoredColumn("object", list(series))


def to_frame(columns: Mapping[str, Any], like: Any) -> Any:
    """Columns of values (as `decode` gives them) in the type of the caller's own frame; a dict of
    arrays where that was a dict, or where there is none."""
    if like is None or isinstance(like, Mapping):
        return dict(columns)
    library = nw.get_native_namespace(like)
    lists = {name: np.asarray(values, dtype=_dtype(values)) for name, values in columns.items()}
    match library.__name__:
        case "pandas":
            return library.DataFrame({n: _for_pandas(v, library) for n, v in lists.items()})
        case "pyarrow":
            return library.table({n: library.array(v.tolist()) for n, v in lists.items()})
    return library.DataFrame({n: v.tolist() for n, v in lists.items()}, infer_schema_length=None)


def frame_of(library: Library) -> Any:
    """A frame of that library without rows or columns; a dict for "dict"."""
    if library == "dict":
        return {}
    if library not in _LIBRARIES:
        known = ", ".join(("dict", *_LIBRARIES))
        raise UsageError(f"There is no kind of frame {library!r}. There are: {known}.")
    module = _LIBRARIES[library]
    need(module, "frames", f"A frame of {library}")
    loaded = importlib.import_module(module)
    return loaded.table({}) if library == "arrow" else loaded.DataFrame()


def _dtype(values: Any) -> Any:
    return values.dtype if isinstance(values, np.ndarray) else object


def _for_pandas(values: np.ndarray, pandas: Any) -> Any:
    """Whole numbers and booleans with nulls in pandas' nullable types, which keep them exact; days
    as timestamps."""
    if values.dtype != object:
        return values
    kind = pandas.api.types.infer_dtype(values, skipna=True)
    match kind:
        case "integer":
            return pandas.array(values, dtype="Int64")
        case "boolean":
            return pandas.array(values, dtype="boolean")
        case "floating":
            return pandas.array(values, dtype="float64")
        case "date":
            return pandas.Series(values.astype("datetime64[D]").astype("datetime64[s]"))
    return pandas.Series(values, dtype=None if kind == "string" else object)


def empty_like(frame: Any) -> Any:
    """A frame of the same type with no rows and no columns: a pattern to keep where nothing of the
    table must be kept (the categories of a column's type are values of the table)."""
    if frame is None or isinstance(frame, Mapping):
        return None if frame is None else {}
    return nw.from_native(frame, eager_only=True).head(0).select().to_native()
