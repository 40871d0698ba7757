"""A tour of the package on a bundled table: a release of UCI's Adult made with admeasure itself."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

FILES = ("schema.toml", "workload.toml", "questions.toml")


def unpack(folder: Path) -> Path:
    """Write the table, its schema, workload and questions into a folder; the table's path."""
    import gzip

    here, table = files("admeasure.demo"), folder / "adult.csv"
    table.write_bytes(gzip.decompress((here / "adult.csv.gz").read_bytes()))
    for name in FILES:
        (folder / name).write_bytes((here / name).read_bytes())
    return table
