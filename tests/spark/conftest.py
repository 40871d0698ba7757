"""Sessions for the Spark tests: one for each module, so that each states the cluster it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from factories import CONTRACTS, loaded


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A session on the master that the module names as MASTER, and on this machine alone."""
    spark = loaded(CONTRACTS / "spark_factories.py")
    spark.need_spark()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:  # of the contract suite, in this process
        SparkContext._active_spark_context.stop()
    found = spark.started(request.module.MASTER, **getattr(request.module, "SETTINGS", {}))
    yield found
    found.stop()
