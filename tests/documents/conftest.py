"""A folder with the files that the documentation speaks of."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import once

ROWS = 1_000
TOGETHER = '[[marginal]]\ncolumns = ["age", "hours-per-week", "income", "sex"]\n'
RUN = """
data = "people.csv"
schema = "schema.toml"
workload = "workload.toml"
out = "run"

[budget]
epsilon = 1
"""
PLAN = """
[study]
epsilons = [1]
seeds = 1
workloads = ["workload.toml"]

[[table]]
name = "adult"
data = "adult.csv"
schema = "schema.toml"

[[mechanism]]
name = "independent"
"""


@pytest.fixture(scope="session")
def bundle(shared_folder) -> Path:
    """The demo's table, of which a thousand rows are enough, and a release of it, made once."""
    return once(shared_folder, "bundle", _bundle)


def _bundle(folder: Path) -> None:
    import admeasure
    from admeasure.demo import unpack

    folder.mkdir()
    unpack(folder)
    lines = (folder / "adult.csv").read_text().splitlines(keepends=True)
    for name in ("adult", "people", "private", "last-year", "next-state"):
        (folder / f"{name}.csv").write_text("".join(lines[: ROWS + 1]))
    (folder / "compare.toml").write_text(PLAN)
    (folder / "release.toml").write_text(RUN)
    import polars

    polars.read_csv(folder / "people.csv").write_parquet(folder / "people.parquet")
    asked = (folder / "workload.toml").read_text() + TOGETHER
    admeasure.fit(
        folder / "people.csv",
        folder / "schema.toml",
        workload=admeasure.Workload.loads(asked),
        epsilon=30,  # at 10 a pair of these thousand rows was left unmeasured once in a while
        delta=1e-9,
        out=folder / "release",
    )
