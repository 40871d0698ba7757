"""Sources that Spark reads, for the contract suite: files, a view and a DataFrame.

One session, with two tasks at a time, serves all tests of the process. It is started by the first
of them, not when the suite is collected.
"""

from __future__ import annotations

import atexit
import datetime
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admeasure.schema.model import Schema
from admeasure.sources import Source

Values = dict[str, list[Any]]
SPARK = Path(__file__).parents[1] / "spark"
Factory = Callable[[Values, Schema, Path], Source]


def no_spark() -> str | None:
    """Why Spark cannot run here, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'admeasure[spark]'"
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and shutil.which("java") is None:
        return "there is no Java: run tests/spark/install.sh"
    return None


def need_spark() -> None:
    """Skips the test, or fails it where ADMEASURE_NEEDS_SPARK=1."""
    reason = no_spark()
    if reason is not None:
        (pytest.fail if os.environ.get("ADMEASURE_NEEDS_SPARK") == "1" else pytest.skip)(reason)


def home(folder: Path) -> Path:
    """Spark's own folder by links: the workers of a local cluster write into it."""
    import pyspark

    links = folder / "home"
    links.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (links / entry.name).symlink_to(entry)
    return links


@cache
def place() -> Path:
    """A folder for Spark, and the environment of its one Java process, which outlives sessions: its
    start is what costs most."""
    folder = Path(tempfile.mkdtemp(prefix="admeasure-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ |= {
        "SPARK_HOME": str(home(folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(SPARK), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    return folder


def started(master: str, **settings: str) -> Any:
    """A session on this machine alone. Its code is compiled quickly rather than well, since most of
    what the tests ask for runs once."""
    from pyspark.sql import SparkSession

    folder = place()
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.python.daemon.module": "quick_daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **settings,
    }
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found


def session() -> Any:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    return started("local[2]")


def _type(values: list[Any]) -> pa.DataType | None:
    """What Arrow would not guess: numbers of two kinds are doubles."""
    kinds = {type(v) for v in values if v is not None}
    return pa.float64() if kinds == {int, float} else None


def _arrow(values: Values) -> pa.Table:
    return pa.table({name: pa.array(column, _type(column)) for name, column in values.items()})


def _open(data: Any, schema: Schema, **options: Any) -> Source:
    from admeasure.sources.spark import open_spark

    return open_spark(data, schema, **options)


def parquet_parts(values: Values, schema: Schema, folder: Path) -> Source:
    """Two parts, whose names sort in the order of their rows; the later one is the larger, which
    Spark reads first."""
    need_spark()
    session()
    table = _arrow(values)
    third = len(table) // 3
    (folder / "people").mkdir(exist_ok=True)
    pq.write_table(table[:third], folder / "people" / "part-0.parquet")
    pq.write_table(table[third:], folder / "people" / "part-1.parquet")
    return _open(f"spark://{folder}/people?format=parquet", schema)


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        value = value.isoformat(sep=" ")
    return '"' + str(value).replace('"', '""') + '"'


def csv(values: Values, schema: Schema, folder: Path) -> Source:
    need_spark()
    session()
    records = [values, *zip(*values.values(), strict=True)]
    text = "".join(",".join(map(_field, record)) + "\n" for record in records)
    (folder / "people.csv").write_text(text, encoding="utf-8", newline="")
    return _open(f"spark://{folder}/people.csv", schema)


def data_frame(values: Values, schema: Schema, _: Path) -> Source:
    need_spark()
    return _open(session().createDataFrame(_arrow(values)), schema)


def repartitioned(values: Values, schema: Schema, _: Path) -> Source:
    """Rows in five partitions, in an order that is none, and read again for every count."""
    need_spark()
    return _open(session().createDataFrame(_arrow(values)).repartition(5), schema, keep=False)


MARKS = (pytest.mark.spark,)
FACTORIES: dict[str, Factory] = {"spark csv": csv, "spark repartitioned": repartitioned}
"""Texts and typed columns, in one part and in many; the others read as one of these does, and are
judged in `make audit`."""
if os.environ.get("ADMEASURE_AUDIT") == "full":
    FACTORIES |= {"spark parquet parts": parquet_parts, "spark DataFrame": data_frame}
