"""A schema as others describe tables: Table Schema of Frictionless, metadata of SDV. Public facts
only, of synthetic rows as `admeasure.schema.rows` spells them. `imports` reads the same forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from admeasure.schema.clock import ClockForm
from admeasure.schema.column import Column
from admeasure.schema.model import Schema
from admeasure.schema.rows import other_text

Document = dict[str, Any]

_SDV = {
    "integer": {"sdtype": "numerical", "computer_representation": "Int64"},
    "number": {"sdtype": "numerical", "computer_representation": "Float"},
    "string": {"sdtype": "categorical"},
    "boolean": {"sdtype": "boolean"},
    "date": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
}


def table_schema(schema: Schema, columns: Sequence[str]) -> Document:
    """The named columns of synthetic rows as a Table Schema. A column that others decide is of any
    type there.

    >>> schema = Schema.coded("toy", {"age": 3})
    >>> table_schema(schema, ["age"])["fields"][0]["constraints"]
    {'minimum': 0, 'maximum': 2, 'required': True}
    """
    known = {column.name: column for column in schema.columns}
    fields = [_field(known[n]) if n in known else {"name": n, "type": "any"} for n in columns]
    return {"fields": fields, "missingValues": [""]}


def sdv_metadata(schema: Schema, columns: Sequence[str]) -> Document:
    """The same as metadata of SDV, of one table.

    >>> sdv_metadata(Schema.coded("toy", {"age": 3}), ["age"])["tables"]["toy"]["columns"]
    {'age': {'sdtype': 'numerical', 'computer_representation': 'Int64'}}
    """
    known = {column.name: column for column in schema.columns}
    described = {n: _sdv(known[n]) if n in known else {"sdtype": "categorical"} for n in columns}
    return {
        "METADATA_SPEC_VERSION": "V1",
        "tables": {schema.table.name or "table": {"columns": described}},
        "relationships": [],
    }


def _field(column: Column) -> Document:
    kind = "time" if _is_clock(column) else column.type
    field: Document = {"name": column.name, "type": kind}
    for free in ("title", "description"):
        field |= {free: getattr(column, free)} if getattr(column, free) else {}
    if getattr(column, "format", None):
        field["format"] = getattr(column, "format")  # noqa: B009 (of some kinds of columns)
    if kind in ("integer", "number"):
        own = {"decimalChar": getattr(column, "decimal", None)}
        own["groupChar"] = getattr(column, "thousands", None)
        field |= {key: value for key, value in own.items() if value}
    if column.type == "boolean" and getattr(column, "true_values", None):
        field["trueValues"] = list(getattr(column, "true_values", ()))
        field["falseValues"] = list(getattr(column, "false_values", ()))
    missing = [text for text in column.missing_values or () if text]
    if column.other and column.type != "string":
        missing.append(other_text(column))
    if missing:
        field["missingValues"] = ["", *missing]
    limits = _constraints(column)
    return {**field, "constraints": limits} if limits else field


def _constraints(column: Column) -> Document:
    limits: Document = {}
    for bound in ("minimum", "maximum"):
        value = getattr(column, bound, None)
        if value is not None:
            spelled = column.type == "date" or _is_clock(column)
            limits[bound] = column.spelled(value) if spelled else value
    if column.type == "string" and column.held is not None and not column.other:
        limits["enum"] = list(column.held)
    elif column.type == "integer" and getattr(column, "enum", None):
        listed = getattr(column, "enum", ())
        limits = {"enum": list(map(column.spelled, listed) if _is_clock(column) else listed)}
    if column.missing_values is None and not column.other:
        limits["required"] = True
    return limits


def _sdv(column: Column) -> Document:
    if column.type == "integer" and getattr(column, "enum", None):
        return {"sdtype": "categorical"}
    found = dict(_SDV[column.type])
    if _is_clock(column):
        return {"sdtype": "categorical"}
    if column.type == "date" and getattr(column, "format", None):
        found["datetime_format"] = getattr(column, "format", "")
    return found


def _is_clock(column: Column) -> bool:
    """Whether rows have times of the day, as 13:45, where the column counts minutes."""
    return isinstance(column.form, ClockForm)
