"""How an address for Spark is read; no session is needed."""

from __future__ import annotations

import pytest

from admeasure.errors import UsageError
from admeasure.sources.spark.tables import Address, parse

GOOD = {
    "spark:///data/people.parquet": Address("/data/people.parquet", None, "parquet"),
    "spark:/data/people.pq": Address("/data/people.pq", None, "parquet"),
    "spark:people.csv": Address("people.csv", None, "csv"),
    "spark:people.tsv.gz": Address("people.tsv.gz", None, "csv"),
    "SPARK:people.orc": Address("people.orc", None, "orc"),
    "spark:s3a://bucket/people?format=delta": Address("s3a://bucket/people", None, "delta"),
    "spark:hdfs://host:9000/p.parquet": Address("hdfs://host:9000/p.parquet", None, "parquet"),
    "spark:///data/%3F*.parquet": Address("/data/?*.parquet", None, "parquet"),
    "spark:folder?format=parquet": Address("folder", None, "parquet"),
    "spark:people": Address(None, "people"),
    "spark:catalog.shop.people": Address(None, "catalog.shop.people"),
    "spark:?table=people.csv": Address(None, "people.csv"),
    "spark:people?master=spark://host:7077": Address(None, "people", None, "spark://host:7077"),
    "spark:people?keep=no": Address(None, "people", keep=False),
    "spark:p.parquet?keep=yes": Address("p.parquet", None, "parquet"),
    "spark:p.parquet?master=local-cluster[2,1,1024]&format=parquet": Address(
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
