"""Sessions for the Spark tests: one for each module, so that each states the cluster it needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from factories import CONTRACTS, loaded


def _home(folder: Path) -> Path:
    """Spark's own folder by links: the workers of a local cluster write into it."""
    import pyspark

    home = folder / "home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return home


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Any]:
    """A session on the master that the module names as MASTER, and on this machine alone."""
    loaded(CONTRACTS / "spark_factories.py").need_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # of the contract suite, in this process
        SparkContext._active_spark_context.stop()
    if SparkContext._gateway is not None:  # its Java process has another environment
        SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
    folder = tmp_path_factory.mktemp("spark")
    patch = pytest.MonkeyPatch()
    patch.setenv("SPARK_HOME", str(_home(folder)))
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **getattr(request.module, "SETTINGS", {}),
    }
    builder = SparkSession.builder.master(request.module.MASTER)
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()
    patch.undo()
