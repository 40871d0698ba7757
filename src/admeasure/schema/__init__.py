"""The steward's first input: what is publicly known of a table, and how values become codes."""

from __future__ import annotations

from admeasure.schema.column import Column
from admeasure.schema.encode import encode_frame
from admeasure.schema.frames import to_frame
from admeasure.schema.model import Privacy, Schema, Table, Zero
from admeasure.schema.problems import Problem, Refusal

__all__ = [
    "Column",
    "Privacy",
    "Problem",
    "Refusal",
    "Schema",
    "Table",
    "Zero",
    "encode_frame",
    "to_frame",
]
