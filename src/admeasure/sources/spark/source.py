"""Tables that Spark reads, encoded and counted where their rows lie.

Each call is one Spark job. The first reads and validates the table and keeps the codes of its rows
in the executors; the others count all marginals from these codes in one scan (`task`), and
the counts of all tasks are added up in one reduction. Rows and codes stay in the cluster; counts
reach the driver. Where the schema limits the rows of a unit, a window over the unit leaves the
others out; before it values are codes already.

Nothing is released here: counts are exact, and private. Errors name columns and rules. What Spark
says of an error is dropped, since it may quote the table. At most `max_rows_per_unit` rows of each
unit are counted, and which ones depends on the rows of that unit alone (`schema.units`): this is
what every sensitivity rests on. Partitions, files and the order in which Spark reads play no part.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import DataError
from admeasure.schema.check import NO_ROWS, broken_rules
from admeasure.schema.encode import absent_columns
from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem, data_error
from admeasure.schema.values import quoted
from admeasure.sources.coarser import AddedUp
from admeasure.sources.count import MAX_JOINT_CELLS, check, check_columns, in_order
from admeasure.sources.kind import Progress
from admeasure.sources.spark.job import collect, is_remote, let_go, let_go_later
from admeasure.sources.spark.plan import check_fixed
from admeasure.sources.spark.ship import ship
from admeasure.sources.spark.tables import BROKEN, SparkTable, spark_table, spoken
from admeasure.sources.spark.task import (
    COUNT_FIELDS,
    KEPT_FIELDS,
    Encode,
    Keep,
    ScanTally,
    Seen,
    add_up,
    unpack,
)
from admeasure.sources.spark.texts import held_texts, storage_of
from admeasure.sources.spark.values import ShippedColumns
from admeasure.sources.texts import TextsOf, check_storage
from admeasure.sparse import SparseCounts, TextCounts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CHUNKS_A_REDUCER = 64
_MOST_REDUCERS = 200
_FEW_ROWS = 4
"""A marginal with more than so many cells a row travels as the cells that occur."""
_BYTES = "UTF8_BINARY"
"""The collation that is none."""
_EXACT = {"float": 2**24, "double": 2**53}
"""Below these every whole number is a number of its own."""


class SparkSource:
    """Counts of a table that Spark reads.

    The table is read and validated when the source is made. Codes of its rows, one or two bytes a
    value, then stay in the executors (Spark's MEMORY_AND_DISK), and counts are made from them until
    `close`, or until nothing refers to the source. What Spark has lost of them it makes again from
    the table; without `keep`, or after `close`, each count does so for all of them. A table that
    has changed by then is an error where its number of rows has.

    The rows that are kept of a unit are those that come first by a hash of unit and codes, or by
    `order_by` where it is given, and then by the hash. Rows that still tie are equal in all counts.
    """

    def __init__(
        self,
        data: Any,
        schema: Schema,
        *,
        order_by: Sequence[Any] = (),
        keep: bool = True,
        ship_code: bool = True,
        progress: Progress | None = None,
    ) -> None:
        has_units = schema.privacy.unit_column is not None
        encoding = schema.table.encoding
        table = spark_table(data, order_by, has_units=has_units, encoding=encoding)
        self._table = _Table(table, schema, progress, ship_code=ship_code)
        self._kept: DataFrame | None = None
        if keep and table.keep:
            self._kept = self._table.keep()
            # An application takes its codes along when it ends; Connect's goes on without us.
            weakref.finalize(self, let_go_later, self._kept).atexit = is_remote(self._kept)
        try:
            problems, self._rows, _, _ = self._table.scan(schema.names, (), ())
            if problems:
                raise data_error(problems)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take the codes out of the executors."""
        if self._kept is not None:
            let_go(self._kept)

    @property
    def in_memory(self) -> bool:
        return False

    @property
    def schema(self) -> Schema:
        return self._table.schema

    def counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        domain = self.schema.domain
        asked = [tuple(columns) for columns in marginals]
        check(domain, asked)
        distinct = list(dict.fromkeys(columns for columns in asked if columns))
        most = max(MAX_JOINT_CELLS, _FEW_ROWS * self._rows)
        dense = [columns for columns in distinct if domain.cells(columns) <= most]
        sparse = [columns for columns in distinct if domain.cells(columns) > most]
        arrays, pairs = self._scan(dense, sparse)
        found = {(): np.array(self._rows, np.int64), **dict(zip(dense, arrays, strict=True))}
        found |= {one.columns: one.dense(domain) for one in pairs}
        return in_order(found, asked)

    def sparse(self, marginals: Sequence[Columns]) -> list[SparseCounts]:
        asked = [tuple(columns) for columns in marginals]
        check_columns(self.schema.domain, asked)
        found = {one.columns: one for one in self._scan([], list(dict.fromkeys(asked)))[1]}
        return in_order(found, asked)

    def by(self, schema: Schema) -> AddedUp:
        return AddedUp(self, schema)

    def finding(self, columns: Sequence[str]) -> TextsOf:
        return self._table.finding(columns)

    def _scan(
        self, dense: Sequence[Columns], sparse: Sequence[Columns]
    ) -> tuple[list[np.ndarray], list[SparseCounts]]:
        if not dense and not sparse:
            return [], []
        used = {column for columns in (*dense, *sparse) for column in columns}
        names = tuple(n for n in self.schema.names if n in used) or self.schema.names[:1]
        problems, rows, arrays, pairs = self._table.scan(names, dense, sparse, rows=self._rows)
        if problems:
            raise data_error(problems)
        if rows != self._rows:
            words = self._table.words
            words = words[0].upper() + words[1:]
            raise DataError(f"{words} changed while it was used. Start again.")
        return arrays, pairs


def find_problems(data: Any, schema: Schema) -> list[Problem]:
    """Every rule of the schema that a table breaks; an empty list where it is sound.

    For the steward who holds the table: that a rule is broken is knowledge of the table.
    """
    has_units = schema.privacy.unit_column is not None
    found = spark_table(data, has_units=has_units, encoding=schema.table.encoding)
    table = _Table(found, schema, None, ship_code=True)
    found, rows, _, _ = table.scan(schema.names, (), ())
    return found if rows else [*found, NO_ROWS]


class _Table:
    """A table and its schema: makes plans and runs them, keeps nothing of the rows."""

    def __init__(
        self, table: SparkTable, schema: Schema, progress: Progress | None, *, ship_code: bool
    ) -> None:
        self.schema = schema
        self.words = table.words
        self._progress = progress
        with spoken(self.words):
            if ship_code:
                ship(table.frame.sparkSession)
            self._names = [name for name in table.frame.columns if name != BROKEN]
            self._types = [f.dataType for f in table.frame.schema.fields if f.name != BROKEN]
            self._has_broken = BROKEN in table.frame.columns
            # Names are compared exactly, as a schema does, so that columns go by position here.
            places = [f"k{i}" for i in range(len(self._names))] + ["broken"] * self._has_broken
            # Only a limit of rows a unit needs an order, and reading it is not free.
            order = table.order if schema.privacy.unit_column is not None else ()
            self._orders = [f"o{i}" for i in range(len(order))]
            ordered = table.frame.select("*", *order) if order else table.frame
            check_fixed(table.frame, ordered, self.words, schema.privacy.unit_column)
            self._frame = ordered.toDF(*places, *self._orders)
            # Texts are compared byte by byte, whatever the table's collation says.
            for place, stored in zip(places, self._types, strict=False):
                if getattr(stored, "collation", _BYTES) != _BYTES:
                    self._frame = self._frame.withColumn(place, self._frame[place].cast("string"))
        self._kept: DataFrame | None = None
        self._absent = absent_columns(self._names, schema)
        self._unit = schema.privacy.unit_column

    def _problems(self, seen: Seen, names: Columns) -> list[Problem]:
        """What a scan of these columns, which the table has, found to be broken."""
        if seen.is_broken:
            raise DataError(
                f"The rows of {self.words} cannot be read. A row has more or fewer fields than the "
                "header, a quote is not closed, or the text is not UTF-8."
            )
        refused = dict(zip(names, seen.marks, strict=True))
        without, inexact = seen.has_lost_units, seen.has_inexact_units
        return broken_rules(self.schema, self._absent, refused, without=without, inexact=inexact)

    def _present(self, names: Sequence[str]) -> Columns:
        absent = {problem.column for problem in self._absent}
        return tuple(name for name in names if name not in absent)

    def scan(
        self,
        names: Columns,
        dense: Sequence[Columns],
        sparse: Sequence[Columns],
        *,
        rows: int | None = None,
    ) -> tuple[list[Problem], int, list[np.ndarray], list[SparseCounts]]:
        """One job: what is broken, the number of rows, and the counts. Columns that the table
        lacks are left out of it."""
        is_kept = self._kept is not None
        names = self._present(self.schema.names if is_kept else names)
        tally = ScanTally(
            self._layout(names),
            tuple(dense),
            tuple(sparse),
            rows,
            is_coded=self._has_unit,
            is_kept=is_kept,
        )
        with spoken(self.words):
            read = self._read(names) if self._kept is None else self._kept
            if is_kept and not dense and not sparse:
                read = read.select("head").where("head is not null")
            counted = read.mapInArrow(tally, COUNT_FIELDS)
            reducers = -(-tally.chunks // _CHUNKS_A_REDUCER) + len(sparse)
            reduced = counted.repartition(min(reducers, _MOST_REDUCERS), "part")
            found = collect(reduced.mapInArrow(add_up, COUNT_FIELDS), self._progress)
        seen, arrays, pairs = unpack(found.to_batches(), tally)
        return self._problems(seen, names), seen.rows, arrays, pairs

    def keep(self) -> DataFrame:
        """From now on codes stay in the executors: the next scan makes them."""
        names = self._present(self.schema.names)
        keep = Keep(self._layout(names), self._has_unit, str(uuid.uuid4()))
        with spoken(self.words):
            self._kept = self._read(names).mapInArrow(keep, KEPT_FIELDS).persist()
        return self._kept

    def finding(self, columns: Sequence[str]) -> TextsOf:
        place = {name: self._names.index(name) for name in columns}
        for name in columns:
            check_storage(self.schema.column(name), storage_of(self._types[place[name]]))
        unit = None
        if self._unit is not None:
            of_unit = self._names.index(self._unit)
            unit = _unit(f"k{of_unit}", self._types[of_unit].typeName())
        most = self.schema.privacy.max_rows_per_unit

        def texts(name: str) -> Iterator[TextCounts]:
            column, at = self.schema.column(name), f"k{place[name]}"
            return held_texts(self._frame, column, at, unit, most, self.words)

        return texts

    @property
    def _has_unit(self) -> bool:
        return self._unit is not None and self._present([self._unit]) != ()

    def _read(self, names: Columns) -> DataFrame:
        return self._limited(names) if self._has_unit else self._values(names)

    def _values(self, names: Columns) -> DataFrame:
        """The named columns, laid out by `ShippedColumns`; nothing else is read."""
        from pyspark.sql import functions as F

        stored = self._stored(names) or [F.lit(0).alias("row")]
        return self._frame.select(*stored, *self._flags())

    def _layout(self, names: Columns) -> ShippedColumns:
        stored = [self._types[self._names.index(name)].typeName() for name in names]
        return ShippedColumns.of([self.schema.column(name) for name in names], stored)

    def _stored(self, names: Columns) -> list[Column]:
        from pyspark.sql import functions as F

        readable = [self._readable(self._names.index(name)) for name in names]
        return [F.expr(one) for one in self._layout(names).selected(readable)]

    def _readable(self, place: int) -> str:
        """A column, or, where no column of a schema could read its storage, a stand-in of which
        that is true too: null or not is all that matters then."""
        if _is_plain(self._types[place]):
            return f"k{place}"
        return f"CASE WHEN k{place} IS NOT NULL THEN X'' END"

    def _flags(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [F.col("broken").isNotNull().alias("broken")] if self._has_broken else []

    def _limited(self, names: Columns) -> DataFrame:
        """The codes of at most `max_rows_per_unit` rows of each unit. A refused row is kept
        wherever it stands, so that the table is refused because of it."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F
        from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType

        place = self._names.index(str(self._unit))
        unit_type = self._types[place]
        if not _is_plain(unit_type, or_bytes=True):
            raise DataError(
                f"Column {quoted(self._unit)} cannot name units: its values cannot be compared. "
                "Use texts, numbers or dates."
            )
        unit = F.expr(_unit(f"k{place}", unit_type.typeName()))
        lost = F.expr(_no_unit(f"k{place}", unit_type.typeName()))
        # The order is made of every column, or marginals would be of different rows.
        every = self._present(self.schema.names)
        order = [F.col(name) for name in self._orders]
        named = unit.alias("u"), lost.alias("lost")
        stored = self._frame.select(*named, *order, *self._stored(every), *self._flags())
        codes = [f"c{i}" for i in range(len(every))]
        passed = ("u", "lost", *self._orders)
        fields = [f for f in stored.schema.fields if f.name in passed]
        fields += [StructField(code, IntegerType()) for code in codes]
        fields.append(StructField("broken", BooleanType()))
        encode = Encode(self._layout(every), passed)
        coded = stored.mapInArrow(encode, StructType(fields))
        hashed = F.md5(F.concat_ws("|", *(F.col(name).cast("string") for name in ("u", *codes))))
        first = *order, hashed, *map(F.col, codes)
        number = F.row_number().over(Window.partitionBy("u").orderBy(*first))
        refused = F.col("u").isNull() | F.col("broken")
        for code in codes:
            refused |= F.col(code) < 0
        kept = coded.withColumn("n", number).where(
            (F.col("n") <= self.schema.privacy.max_rows_per_unit) | refused
        )
        asked = [F.col(f"c{every.index(name)}").alias(f"c{i}") for i, name in enumerate(names)]
        inexact = F.col("u").isNull() & ~F.col("lost")
        return kept.select(*asked, F.col("broken"), F.col("lost"), inexact.alias("inexact"))


def _unit(x: str, type_name: str) -> str:
    """A value that names a unit, in SQL; NULL for what names none, or not exactly."""
    if type_name not in _EXACT:
        return x
    exact = f"{x} = CAST(rint({x}) AS DOUBLE) AND abs({x}) < {_EXACT[type_name]}"
    return f"CASE WHEN NOT isnan({x}) AND {exact} THEN CAST({x} AS BIGINT) END"


def _no_unit(x: str, type_name: str) -> str:
    return f"({x} IS NULL OR isnan({x}))" if type_name in _EXACT else f"({x} IS NULL)"


def _is_plain(stored: Any, *, or_bytes: bool = False) -> bool:
    """Whether Arrow hands a type of Spark on as something a schema's column may read."""
    from pyspark.sql import types as T

    plain = (T.StringType, T.BooleanType, T.IntegralType, T.FractionalType, T.NullType)
    plain += (T.DateType, T.TimestampType, T.TimestampNTZType)
    return isinstance(stored, (*plain, T.BinaryType) if or_bytes else plain)
