"""How an address for Spark is read; no session is needed."""

from __future__ import annotations

import pytest

from admeasure.errors import UsageError
from admeasure.sources.spark.tables import SparkAddress, parse

GOOD = {
    "spark:///data/people.parquet": SparkAddress("/data/people.parquet", None, "parquet"),
    "spark:/data/people.pq": SparkAddress("/data/people.pq", None, "parquet"),
    "spark:people.csv": SparkAddress("people.csv", None, "csv"),
    "spark:people.tsv.gz": SparkAddress("people.tsv.gz", None, "csv"),
    "SPARK:people.orc": SparkAddress("people.orc", None, "orc"),
    "spark:s3a://bucket/people?format=delta": SparkAddress("s3a://bucket/people", None, "delta"),
    "spark:hdfs://host:9000/p.parquet": SparkAddress("hdfs://host:9000/p.parquet", None, "parquet"),
    "spark:///data/%3F*.parquet": SparkAddress("/data/?*.parquet", None, "parquet"),
    "spark:folder?format=parquet": SparkAddress("folder", None, "parquet"),
    "spark:people": SparkAddress(None, "people"),
    "spark:catalog.shop.people": SparkAddress(None, "catalog.shop.people"),
    "spark:?table=people.csv": SparkAddress(None, "people.csv"),
    "spark:people?master=spark://host:7077": SparkAddress(
        None, "people", None, "spark://host:7077"
    ),
    "spark:people?keep=no": SparkAddress(None, "people", keep=False),
    "spark:p.parquet?keep=yes": SparkAddress("p.parquet", None, "parquet"),
    "spark:p.parquet?master=local-cluster[2,1,1024]&format=parquet": SparkAddress(
        "p.parquet", None, "parquet", "local-cluster[2,1,1024]"
    ),
}

BAD = [
    "spark:",
    "spark:?",
    "spark:?master=local",
    "spark://host/people.parquet",
    "spark:folder/people",
    "spark:people.parquet?format=xml",
    "spark:people?format=",
    "spark:people?format=parquet&format=csv",
    "spark:people?user=me",
    "spark:people?keep=false",
    "spark:people?keep=",
    "spark:people.parquet?table=people",
    "spark:?table=people&format=csv",
    "spark:people?master",
    "sparks:people",
]


@pytest.mark.parametrize("address", GOOD)
def test_an_address_is_read(address: str) -> None:
    assert parse(address) == GOOD[address]


@pytest.mark.parametrize("address", BAD)
def test_whatever_else_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        parse(address)
