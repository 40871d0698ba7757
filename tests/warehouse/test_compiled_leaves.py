"""Thousands of leaves of private bins, in the SQL of dialects that are not at hand."""

from __future__ import annotations

import numpy as np
import pytest

from admeasure.schema import Schema
from admeasure.schema.grid import RealGrid
from admeasure.schema.storage import Storage
from admeasure.sources.memory import MemorySource
from admeasure.sources.warehouse.dialects.bigquery import BigQuery
from admeasure.sources.warehouse.dialects.snowflake import Snowflake
from admeasure.sources.warehouse.source import WarehouseSource
from translated import Translated

FINE = """
[table]
name = "people"
[privacy]
unit = "person"
[[column]]
name = "income"
type = "number"
minimum = -1
maximum = 8
bins = "private"
clamp = true
missing_values = []
[[column]]
name = "age"
type = "integer"
minimum = -1000000
maximum = 1000000
bins = "private"
other = true
missing_values = ["99999999999999999999"]
[[column]]
name = "row"
type = "integer"
minimum = 0
maximum = 63
"""


ROWS = 64
KEPT = {
    "income": ("DOUBLE", Storage.REAL),
    "age": ("BIGINT", Storage.WHOLE),
    "row": ("BIGINT", Storage.WHOLE),
}


@pytest.mark.parametrize("dialect", [BigQuery, Snowflake])
def test_thousands_of_leaves_are_told_apart_by_a_short_and_shallow_expression(
    dialect: type[BigQuery] | type[Snowflake],
) -> None:
    """Both services end a statement at about a million characters, and nest to a limit."""
    schema = Schema.loads(FINE).as_read
    rng = np.random.default_rng(1)
    grid = schema.column("income").grid
    assert isinstance(grid, RealGrid)
    starts = grid.starts
    assert len(starts) > 3000
    values = {
        "income": [*rng.choice(starts, 32).tolist(), *rng.uniform(-2, 9, 32).tolist()],
        "age": rng.integers(-1_100_000, 1_100_000, ROWS).tolist(),
        "row": list(range(ROWS)),
    }
    marginals = [("income", "row"), ("age", "row")]
    made = WarehouseSource(Translated(dialect(), values, KEPT), schema)
    made.validate()
    found = made.counts(marginals)
    for array, expected in zip(found, MemorySource(values, schema).counts(marginals), strict=True):
        assert (array == expected).all()
    expression = dialect().real_bin("v0", grid)
    assert len(expression) < 60 * len(starts)
    deepest = depth = 0
    for letter in expression:
        depth += (letter == "(") - (letter == ")")
        deepest = max(deepest, depth)
    assert deepest <= 2 + np.log2(len(starts)) + 2
