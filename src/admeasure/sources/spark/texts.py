"""The texts of a column that Spark reads, and how many units hold each (`OpenTable.texts`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from admeasure.schema.column import Column
from admeasure.schema.forms import LetterForm
from admeasure.schema.found_levels import LONGEST_LEVEL
from admeasure.schema.storage import Storage
from admeasure.sources.spark.tables import spoken
from admeasure.sources.texts import absent_texts, in_blocks
from admeasure.sparse import TextCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STORAGES = {
    "string": Storage.TEXT,
    "boolean": Storage.BOOLEAN,
    **dict.fromkeys(("byte", "short", "integer", "long"), Storage.WHOLE),
}


def storage_of(stored: Any) -> Storage:
    """Days and moments are left out: Spark writes them by settings of the session."""
    return _STORAGES.get(stored.typeName(), Storage.OTHER)


def held_texts(
    frame: DataFrame, column: Column, place: str, unit: str | None, most: int, words: str
) -> Iterator[TextCounts]:
    """The texts at `place`; `unit` is what names units, in SQL."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    with spoken(words):
        text = F.col(place).cast("string")
        if isinstance(form := column.sought_form, LetterForm):
            text = F.trim(text) if form.strip else text
            letters, small = ("".join(pair[i] for pair in form.folded) for i in (0, 1))
            text = F.translate(text, letters, small) if letters else text
        text = text.alias("t")
        named = [text] if unit is None else [text, F.expr(unit).alias("u")]
        rows = frame.select(*named).where(f"t IS NOT NULL AND length(t) <= {LONGEST_LEVEL}")
        if absent := absent_texts(column):
            rows = rows.where(~F.col("t").isin(absent))
        if unit is not None:
            hashed = F.md5(F.concat_ws("|", F.col("u").cast("string"), F.col("t")))
            number = F.row_number().over(Window.partitionBy("u").orderBy(hashed, "t"))
            rows = rows.distinct().withColumn("n", number).where(F.col("n") <= most)
        counted = rows.groupBy("t").agg(F.count("*").alias("n")).orderBy("t")
        yield from in_blocks((row["t"], row["n"]) for row in counted.toLocalIterator())
