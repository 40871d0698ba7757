"""A kind of query that the package does not know is added as docs/architecture.md says: by its own
file and its line in `queries/record.py`. Everything else takes it from there.

The new kind is a table of cumulated counts, checked against sums written out over the rows.
"""

from __future__ import annotations

import csv
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import admeasure
from admeasure.domain import Columns, Domain
from admeasure.errors import WorkloadError
from admeasure.mechanisms import REGISTRY
from admeasure.queries import Marginal, Sensitivity, Where, record
from admeasure.queries.query import as_counts, check_columns
from admeasure.queries.sensitivity import of_counts
from admeasure.unit import Unit

LEVELS = {"a": 3, "b": 4}
SCHEMA = '[table]\nname = "t"\n[privacy]\nunit = "row"\n' + "".join(
    f'[[column]]\nname = "{name}"\ntype = "integer"\nminimum = 0\nmaximum = {n - 1}\n'
    for name, n in LEVELS.items()
)
WORKLOAD = '[[cumulated]]\ncolumns = ["a", "b"]\n\n[[marginal]]\ncolumns = ["a"]\n'


@dataclass(frozen=True)
class Cumulated:
    """For each cell: how many rows have no larger code in any column. One row counts in every cell
    at or above its own: all of them, where its codes are 0."""

    columns: Columns

    def __init__(self, columns: Sequence[str]) -> None:
        object.__setattr__(self, "columns", tuple(sorted(columns)))

    def __str__(self) -> str:
        return f"cumulated ({', '.join(self.columns)})"

    def shape(self, domain: Domain) -> tuple[int, ...]:
        return domain.shape(self.columns)

    def answer(self, counts: np.ndarray) -> np.ndarray:
        summed = as_counts(counts, len(self.columns))
        for axis in range(len(self.columns)):
            summed = summed.cumsum(axis=axis)
        return summed

    def spread(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        spread = np.broadcast_to(values, self.shape(domain))
        for axis in range(len(self.columns)):
            spread = np.flip(np.flip(spread, axis).cumsum(axis=axis), axis)
        return spread

    def cell(self, codes: Sequence[int]) -> Where:
        return Where(self.columns, [range(code + 1) for code in codes])

    def sensitivity(self, domain: Domain, unit: Unit) -> Sensitivity:
        cells = domain.cells(self.columns)
        return of_counts(unit, touched=cells, exchanged=cells)

    def validate(self, domain: Domain) -> None:
        check_columns(self.columns, domain)


@pytest.fixture(autouse=True)
def known(monkeypatch) -> None:
    """The line that a new kind adds."""
    monkeypatch.setitem(record._KINDS, "cumulated", (Cumulated, ("columns",)))
    monkeypatch.setitem(record._NAMES, Cumulated, "cumulated")
    for module in (record, *map(_module, ("files", "workload"))):
        monkeypatch.setattr(module, "IN_WORKLOADS", ("marginal", "threshold", "cumulated"))


def _module(name: str):
    import importlib

    return importlib.import_module(f"admeasure.workload.{name}")


@pytest.fixture
def rows() -> list[tuple[int, int]]:
    chance = random.Random(5)
    return [(chance.randrange(3), min(3, int(chance.expovariate(0.8)))) for _ in range(2_000)]


@pytest.fixture
def table(rows, tmp_path) -> Path:
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b"), *rows])
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return path


def fit(table: Path, mechanism: str, out: Path | None = None) -> admeasure.Release:
    return admeasure.fit(
        table,
        table.with_name("schema.toml"),
        workload=table.with_name("workload.toml"),
        mechanism=REGISTRY[mechanism](),
        epsilon=1_000,
        delta=1e-9,
        seed=1,
        out=out,
    )


@pytest.mark.parametrize("mechanism", ["aim", "mst", "independent", "mwem", "pep", "gaussian"])
def test_a_mechanism_answers_a_kind_of_query_that_is_new(mechanism, table, rows, tmp_path):
    fit(table, mechanism, tmp_path / "release")
    release = admeasure.Release.load(tmp_path / "release")
    query = Cumulated(["a", "b"])
    assert query in release.workload
    (counts,) = release.model.marginals([query.columns])
    below = {
        (a, b): sum(x <= a and y <= b for x, y in rows)
        for a, b in itertools.product(range(3), range(4))
    }
    rough = 250 if mechanism == "independent" else 30
    for cell, true in below.items():
        assert query.answer(counts)[cell] == pytest.approx(true, abs=rough)


def test_a_file_of_a_workload_has_it_and_its_order_is_fixed():
    workload = admeasure.Workload.loads(WORKLOAD)
    assert workload.queries == (Marginal(["a"]), Cumulated(["a", "b"]))
    assert admeasure.Workload.loads(workload.dumps()) == workload


@pytest.mark.parametrize("mechanism", ["dualquery", "fem", "rap", "rap-softmax"])
def test_a_mechanism_that_asks_for_targets_refuses_it_by_name(mechanism, table):
    with pytest.raises(WorkloadError, match=r"cumulated \(a, b\).* such as aim"):
        fit(table, mechanism)


def test_its_errors_are_judged(table, capsys):
    from admeasure.cli.run import run

    fit(table, "aim", table.with_name("release"))
    given = ["--schema", table.with_name("schema.toml"), "--workload"]
    asked = [
        "evaluate",
        table.with_name("release"),
        table,
        *given,
        table.with_name("workload.toml"),
    ]
    assert run([str(part) for part in asked]) == 0
    assert "cumulated" in capsys.readouterr().out
