"""The modules that Spark's executors are sent are all that they import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from admeasure.sources.spark.ship import archive


def test_the_code_that_is_shipped_runs_without_the_package(tmp_path: Path) -> None:
    """In a process that finds only the zip: executors need numpy, pyarrow, pydantic, narwhals."""
    zipped = archive(tmp_path)
    program = (
        "import sys; sys.path[:] = [sys.argv[1], *(p for p in sys.path if 'admeasure' not in p"
        " and not p.endswith('src'))]\n"
        "import admeasure.sources.spark.task as task\n"
        "assert sys.argv[1] in task.__file__, task.__file__\n"
        "heavy = {'scipy', 'opendp', 'duckdb', 'jax', 'pandas', 'polars', 'pyspark'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(zipped)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
