"""How the bundled table was made: a release of UCI's Adult, by admeasure itself.

    python -m admeasure.demo.make ADULT OUT

ADULT is the raw table (train and test part, 48,842 rows, CSV or Parquet with the names of
adult.names). OUT gets `adult.csv.gz`, synthetic rows, and `certificate.yaml`. The noise comes from
the operating system, so that every run makes another table.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from admeasure.mechanisms.aim import Aim
from admeasure.schema import Schema
from admeasure.schema.write import write_table
from admeasure.verbs.fit import fit

ROWS, EPSILON, DELTA = 48_842, 3.0, 1e-9


def make(adult: str, out: Path) -> None:
    """Fit AIM to every three columns together and draw as many rows as the table has."""
    schema = Schema.loads((files("admeasure.demo") / "schema.toml").read_text())
    release = fit(adult, schema, workload="all-3way", mechanism=Aim(), epsilon=EPSILON, delta=DELTA)
    with tempfile.TemporaryDirectory() as folder:
        release.save(Path(folder) / "release")
        certificate = (Path(folder) / "release" / "certificate.yaml").read_bytes()
        write_table(release.sample_columns(ROWS), Path(folder) / "adult.csv")
        table = (Path(folder) / "adult.csv").read_bytes()
    out.mkdir(parents=True, exist_ok=True)
    (out / "adult.csv.gz").write_bytes(gzip.compress(table, 9, mtime=0))
    (out / "certificate.yaml").write_bytes(certificate)


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
