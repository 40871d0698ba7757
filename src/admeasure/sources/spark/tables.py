"""Which table Spark is to read: a DataFrame, or an address; and the session that reads it.

    spark:///folder/people.parquet          files, by an absolute path
    spark:people.parquet                    … from the current folder
    spark:s3a://bucket/people?format=delta  … of any file system that the session knows
    spark:catalog.schema.people             a table or view
    spark:?table=people                     the same; for names that look like a path

Options follow a `?`: `format` (parquet, delta, csv, orc; needed where the suffix does not say),
`master` (where no session is active: the cluster to start one on), `table`, and `keep` (`no`: codes
of rows do not stay in the executors). Escapes like %3F are read in paths. Anything else is refused,
and so is a key or a password, which Spark would write to its logs.

No row is looked at here. Of what Spark says of an error only its fixed condition is kept, since the
rest may quote the table.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from admeasure.errors import AdmeasureError, DataError, ResourceError, UsageError
from admeasure.schema.model import is_utf8
from admeasure.schema.values import quoted
from admeasure.sources.address import printable
from admeasure.sources.spark.kind import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("parquet", "delta", "csv", "orc")
BROKEN = "_admeasure_broken"
"""Holds the text of a CSV record that does not fit the header."""

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".orc": "orc",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
}
KEEP = {"yes": True, "no": False}
_FORM = "An address for Spark has the form spark:PATH or spark:TABLE, with ?format= and &master=."
_OPTIONS = {"table", *SCHEME.options}
_TABLE = re.compile(r"[^\s/\\:?*]+")
_LOGIN = re.compile(r"[^/]*:/*[^/]*:.*@|jdbc:", re.IGNORECASE)
_CONDITION = re.compile(r"[A-Z][A-Z0-9_.]{2,80}")
_LOGS = "DataFrameQueryContextLogger", "SQLQueryContextLogger"
"""Where pyspark writes errors, with the values in them, when it makes an exception of one."""
_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "maxResultSize")


@dataclass(frozen=True)
class SparkAddress:
    """A table or a path (one of them), and how to reach it."""

    path: str | None
    table: str | None
    format: str | None = None
    master: str | None = None
    keep: bool = True

    @property
    def words(self) -> str:
        if self.path is None:
            return f"table {quoted(printable(self.table))}"
        return quoted(printable(f"spark:{self.path}").removeprefix("spark:"))

    @property
    def identity(self) -> tuple:
        return "spark", self.path, self.table, self.format


@dataclass(frozen=True)
class SparkTable:
    """Rows that Spark can read. `order` says which rows of a unit come first; those that it leaves
    equal go by their values. `keep`: whether their codes may stay in the executors."""

    frame: DataFrame
    words: str
    order: tuple[Column, ...] = ()
    keep: bool = True


def parse(address: str) -> SparkAddress:
    """Read an address.

    >>> parse("spark:///data/people.parquet")
    SparkAddress(path='/data/people.parquet', table=None, format='parquet', master=None, keep=True)
    >>> parse("spark:shop.people?master=local[2]").table
    'shop.people'
    """
    scheme, _, rest = address.partition(":")
    if scheme.lower() != "spark":
        raise UsageError(_FORM)
    place, mark, query = rest.partition("?")
    options = _options(query) if mark else {}
    master, form = options.get("master"), options.get("format")
    if form is not None and form not in FORMATS:
        raise UsageError(f"Format {quoted(form)} is unknown. Known: {', '.join(FORMATS)}.")
    if options.get("keep", "yes") not in KEEP:
        raise UsageError(f"keep={quoted(options['keep'])} is not known. Write keep=yes or keep=no.")
    keep = KEEP[options.get("keep", "yes")]
    if place.startswith("//"):
        if not place.startswith("///"):
            raise UsageError(f"{_FORM} A path after // begins with a third slash.")
        place = place[2:]
    place = unquote(place)
    if _LOGIN.match(place):
        raise UsageError(
            "A key or password does not belong in an address for Spark. Give it to the session, "
            "such as by spark.hadoop.fs.s3a.access.key in its configuration."
        )
    table = options.get("table")
    if bool(place) == bool(table):
        raise UsageError(f"{_FORM} Give a path or a table, and not both.")
    found = _SUFFIXES.get(next((s for s in _SUFFIXES if place.lower().endswith(s)), ""))
    if table is None and found is None and form is None and _TABLE.fullmatch(place):
        table, place = place, ""
    if table is not None:
        if form is not None:
            raise UsageError("A table has its own format. Leave out format=.")
        return SparkAddress(None, table, None, master, keep)
    if form is None and found is None:
        raise UsageError(
            f"The suffix of the path names no format. Add ?format= {' | '.join(FORMATS)}."
        )
    return SparkAddress(place, None, form or found, master, keep)


def _options(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        raise UsageError(f"{_FORM} Its options cannot be read.") from None
    names = [name for name, _ in pairs]
    if not all(value for _, value in pairs):
        raise UsageError(f"{_FORM} One of its options is empty.")
    if len(set(names)) < len(names) or set(names) - _OPTIONS:
        raise UsageError(f"{_FORM} It may have format=, master=, table= and keep=, each once.")
    return dict(pairs)


def spark_table(
    data: Any,
    order_by: Sequence[Any] = (),
    *,
    has_units: bool = False,
    encoding: str | None = None,
) -> SparkTable:
    """The table that a DataFrame is or an address names. `order_by`: names or pyspark columns. With
    `has_units` files that store a column in different types are refused, since Spark would read
    some of them as what they are not. CSV files are UTF-8: what Spark cannot read in another
    encoding it replaces, so that two units would become one."""
    from pyspark.sql import DataFrame

    if isinstance(data, str):
        address = parse(data)
        if address.format == "csv" and encoding is not None and not is_utf8(encoding):
            raise UsageError(
                f"CSV files in {encoding} are not read by Spark. Convert them to UTF-8, or name "
                "the file without `spark:`."
            )
        session = _session(address.master)
        with spoken(address.words):
            found = replace(_open(session, address, merge=has_units), keep=address.keep)
    elif isinstance(data, DataFrame):
        found = SparkTable(data, "the DataFrame")
    else:
        raise UsageError(
            f"A {type(data).__name__} is no table of Spark. Give a DataFrame or a text."
        )
    if not order_by:
        return found
    return replace(found, order=tuple(_order(found.frame, o) for o in order_by))


def _order(frame: DataFrame, given: Any) -> Column:
    if not isinstance(given, str):
        return given
    if frame.columns.count(given) != 1:
        raise UsageError(f"order_by names {quoted(given)}, which is not one column of the table.")
    return frame["`" + given.replace("`", "``") + "`"]


def _open(session: SparkSession, address: SparkAddress, *, merge: bool) -> SparkTable:
    if address.table is not None:
        return SparkTable(session.table(address.table), address.words)
    assert address.path is not None
    if address.format == "csv":
        frame = _csv(session, address.path)
    else:
        reader = session.read.format(str(address.format))
        if merge and address.format in {"parquet", "orc"}:
            reader = reader.option("mergeSchema", value=True)
        frame = reader.load(address.path)
    return SparkTable(frame, address.words)


def _csv(session: SparkSession, path: str) -> DataFrame:
    """Every field as text, by the rules of the DuckDB source: quotes are doubled, may hold line
    ends, and an empty field is null unless it is quoted. A record with more or fewer fields than
    the header is kept in `BROKEN`, since the error that Spark would raise quotes it."""
    from pyspark.sql.types import StringType, StructField, StructType

    options: dict[str, Any] = {
        "header": True,
        "sep": "\t" if ".tsv" in path.lower() else ",",
        "quote": '"',
        "escape": '"',
        "multiLine": True,
        "columnPruning": False,
    }
    names = session.read.options(**options).csv(path).columns
    fields = [StructField(name, StringType()) for name in (*names, BROKEN)]
    options |= {"enforceSchema": False, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN}
    return session.read.options(**options).schema(StructType(fields)).csv(path)


def _session(master: str | None) -> SparkSession:
    """The active session, or a new one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        active = SparkSession.builder.getOrCreate()
    if active is not None:
        if master is not None and active.sparkContext.master != master:
            raise UsageError(
                "A Spark session with another master is active. Stop it, or leave out master=."
            )
        return active
    try:
        conf = SparkConf()
        chosen = master or conf.get("spark.master", None) or "local[*]"
        conf.setMaster(chosen).setIfMissing("spark.app.name", "admeasure")
        conf.setIfMissing("spark.ui.showConsoleProgress", "false")
        if chosen.startswith("local"):
            # Spark would take the first python3 of the path.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            for key, value in _LOCAL.items():
                conf.setIfMissing(key, value)
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except PySparkException:
        raise UsageError(
            "No Spark session could be started. Check that Java 17 or later is installed (java "
            "-version) and that the master is right."
        ) from None


_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # What is spilled and shuffled holds codes of rows, and names of units.
    "spark.io.encryption.enabled": "true",
}


@contextlib.contextmanager
def spoken(words: str) -> Iterator[None]:
    """Turns an error of Spark into one of ours, which quotes nothing of it but its condition."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    logs = [PySparkLogger.getLogger(name) for name in _LOGS]
    were = [log.disabled for log in logs]
    for log in logs:
        log.disabled = True
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _translated(error, words) from None
    finally:
        for log, was in zip(logs, were, strict=True):
            log.disabled = was


def _translated(error: Exception, words: str) -> AdmeasureError:
    said = str(error)
    if any(word in said for word in _OUT_OF_MEMORY):
        return ResourceError(
            f"Reading {words} takes more memory than Spark was given. Raise the memory of its "
            "executors (spark.executor.memory, spark.executor.memoryOverhead) or of its driver."
        )
    lacking = re.search(r"No module named '(numpy|pyarrow|pydantic|narwhals|admeasure)", said)
    if lacking:
        return UsageError(
            f"The Python of Spark's executors lacks {lacking[1]}. Install it there, or ship it "
            "with spark.archives."
        )
    if "CANNOT_MERGE" in said:
        return DataError(
            f"The files of {words} store a column in different types, so that rows of one unit "
            "cannot be told from those of others. Store it in one type, as texts or as whole "
            "numbers."
        )
    condition = _condition(error)
    if condition in {"PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"}:
        return UsageError(f"Spark finds no such table: {words}. Check the address.")
    reason = f" ({condition})" if condition else ""
    return DataError(
        f"The rows of {words} cannot be read by Spark{reason}. Check that the files are whole and "
        "that executors reach them; the cluster's own logs, which are private, say more."
    )


def _condition(error: Exception) -> str | None:
    """The fixed name Spark has for an error, if it has one."""
    get = getattr(error, "getCondition", None)
    found = get() if get is not None else None
    return found if isinstance(found, str) and _CONDITION.fullmatch(found) else None
