"""Tables that Spark reads, named by an address or given as a pyspark DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admeasure.errors import UsageError
from admeasure.sources.kind import HOST, KEY, NAME, Kind, ScanOptions, Scheme, stem

if TYPE_CHECKING:
    from admeasure.schema.model import Schema
    from admeasure.schema.problems import Problem
    from admeasure.sources import Source

_GLOB = r'(?:[\w.+~"$, *\[\]{}-]|%2[0F2A]|%3F|%[57][BD]|%[89A-F][0-9A-F])*'
_GLOBS = rf"(?:{KEY})?{_GLOB}(?:/(?:{KEY})?{_GLOB})*"
_STORES = "s3|s3a|s3n|gs|gcs|hdfs|webhdfs|file|dbfs|adl|oss|abfs|abfss|wasb|wasbs|viewfs"
_CONTAINERS = "abfs|abfss|wasb|wasbs"
_PLACE = rf"(?:(?:{_STORES}):(?://{HOST})?|(?:{_CONTAINERS})://{NAME}@{HOST})?{_GLOBS}"
_VALUE = r"[\w.+\[\]*,:/-]+"

SCHEME = Scheme("spark", "spark:PATH", _PLACE, dict.fromkeys(("format", "master", "keep"), _VALUE))


class _Spark(Kind):
    schemes = (SCHEME,)
    library = "pyspark"
    needs = ("spark", "Reading a table of Spark")

    def open(self, data: Any, schema: Schema, how: ScanOptions) -> Source:
        """Memory and disk are those of the executors."""
        from admeasure.sources.spark import open_spark

        return open_spark(data, schema, progress=how.progress)

    def find_problems(self, data: Any, schema: Schema) -> list[Problem]:
        from admeasure.sources.spark.source import find_problems

        return find_problems(data, schema)

    def storage_types(self, data: Any) -> list[tuple[str, str]]:
        raise UsageError("A Spark table is not drafted. Draft from one of its files.")

    def table_name(self, data: Any) -> str:
        return stem(data)

    def identity(self, data: Any) -> str:
        from admeasure.sources.spark.tables import parse

        return repr(parse(data).identity)


SPARK = _Spark()
