"""What a view or a query of a warehouse may do: give the same rows whenever it is read.

A view is a query that runs at every scan. Rows that depend on chance, on the clock, on the order in
which the server happens to read, or on a number of rows that is cut off, would make the rows that
are counted of one unit depend on those of others. So the query is parsed and compared with a list
of what is known to be a function of the stored rows alone; whatever is not on the list is refused.
A table that was written from the refused view (`CREATE TABLE … AS`) is fixed, and is read.

No row is looked at here. Messages name the construct, which is part of a query and not of a table,
but never a constant of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from admeasure.sources.kind import NotFixed

_QUERIES = """
Select From Where Join Group Having Order Ordered Distinct Union Intersect Except Subquery With CTE
Table TableAlias Alias Column Identifier Star Literal Boolean Null Paren Tuple Values DataType
DataTypeParam Var Interval
Add Sub Mul Div IntDiv Mod And Or Not Neg EQ NEQ GT GTE LT LTE Is In Between Like ILike Escape
RegexpLike RegexpILike DPipe Case If Cast TryCast Coalesce Nullif Greatest Least Any Array Exists
NullSafeEQ NullSafeNEQ AtTimeZone Collate
Abs Ceil Floor Round Trunc Sign Lower Upper Trim Substring Length Left Right Concat ConcatWs Replace
StrPosition MD5 MD5Digest SplitPart Pad RegexpReplace Extract DateTrunc TimestampTrunc Year Month
Day TimeToStr StrToDate StrToTime DateFromParts Date
Count Min Max LogicalAnd LogicalOr
"""
"""Classes of sqlglot: functions of their arguments, and aggregates that neither an order nor
rounding changes."""
_NAMES = "btrim ltrim rtrim strpos bool_and bool_or every char_length trim_scale timezone"
_PLACES = {"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}
_WORDS = {
    "Limit": "it has a LIMIT",
    "Fetch": "it has a LIMIT",
    "Offset": "it has an OFFSET",
    "TableSample": "it draws a sample",
    "Window": "it has a window function",
    "Lateral": "it calls a table function",
}
_BESIDE = (exp.From, exp.Join, exp.In, exp.Any, exp.Exists, exp.SetOperation, exp.Subquery, exp.CTE)
"""Where a subquery may give any number of rows."""


def check(query: str, dialect: str, relation: Callable[[exp.Table], None]) -> None:
    """Raises `NotFixed` unless a query gives the same rows at every scan. `relation` is called
    with every table and view that it reads."""
    try:
        parsed = sqlglot.parse(query, read=dialect)
    except SqlglotError:
        raise NotFixed("its query cannot be parsed") from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise NotFixed("its query cannot be parsed")
    named = {cte.alias for cte in parsed[0].find_all(exp.CTE)}
    allowed, names = set(_QUERIES.split()), set(_NAMES.split())
    for node in parsed[0].walk():
        kind = type(node).__name__
        if kind == "Anonymous" and node.name.lower() in names:
            continue
        if kind not in allowed:
            known = node.name if kind == "Anonymous" else kind
            raise NotFixed(_WORDS.get(kind, f"it has {known!r}, which is not on the list"))
        _look(node)
        if isinstance(node, exp.Table) and not (node.name in named and not node.db):
            relation(node)


def _look(node: Any) -> None:
    match node:
        case exp.Table() if not isinstance(node.this, exp.Identifier):
            raise NotFixed("it calls a table function")
        case exp.With() if node.args.get("recursive"):
            raise NotFixed("it is recursive")
        case exp.Distinct() if node.args.get("on"):
            raise NotFixed("it has DISTINCT ON")
        case exp.Column() if node.name.lower() in _PLACES:
            raise NotFixed("it reads the place of a row")
        case exp.DataType() if node.this == exp.DataType.Type.USERDEFINED:
            raise NotFixed("it casts to a type that is not built in")
        case exp.Subquery() | exp.Select() if not _many(node):
            raise NotFixed("it takes a single value from a subquery")
        case exp.Join() if node.method:
            raise NotFixed("it joins by position or by the nearest value")


def _many(node: Any) -> bool:
    return node.parent is None or isinstance(node.parent, _BESIDE)
