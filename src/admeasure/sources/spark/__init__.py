"""Tables that Spark reads, counted where their rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from admeasure.schema.model import Schema
    from admeasure.sources.kind import Progress
    from admeasure.sources.spark.source import SparkSource


def open_spark(
    data: Any,
    schema: Schema,
    *,
    order_by: Sequence[Any] = (),
    keep: bool = True,
    ship_code: bool = True,
    progress: Progress | None = None,
) -> SparkSource:
    """The source of a table that Spark reads: a pyspark DataFrame, whose session is used, or an
    address as in `admeasure.sources.spark.tables`.

    `order_by` (names or pyspark columns) says which rows of a unit come first; see `SparkSource`.
    With `keep` the codes of the rows stay in the executors; without it, or where an address says
    `keep=no`, every count reads and encodes the table again. With `ship_code` the executors are
    sent the modules they run; without it `admeasure` must be installed on them.
    """
    from admeasure.sources.spark.source import SparkSource

    return SparkSource(
        data, schema, order_by=order_by, keep=keep, ship_code=ship_code, progress=progress
    )
