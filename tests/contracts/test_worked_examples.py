"""The worked examples of CONTRIBUTING.md, run as they stand there.

A kind of query that the package does not know is added by its own file and its line in
`queries/record.py`; a mechanism by its own file and its line in the registry. What everything else
makes of them is compared with sums written out over the rows.
"""

from __future__ import annotations

import csv
import itertools
import json
import random
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import admeasure
from admeasure.errors import WorkloadError
from admeasure.mechanisms import REGISTRY
from admeasure.queries import Marginal, record

LEVELS = {"a": 3, "b": 4}
SCHEMA = '[table]\nname = "t"\n[privacy]\nunit = "row"\n' + "".join(
    f'[[column]]\nname = "{name}"\ntype = "integer"\nminimum = 0\nmaximum = {n - 1}\n'
    for name, n in LEVELS.items()
)
WORKLOAD = '[[cumulated]]\ncolumns = ["a", "b"]\n\n[[marginal]]\ncolumns = ["a"]\n'


CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def example(number: int) -> dict[str, Any]:
    """The names that a code block of CONTRIBUTING.md defines."""
    blocks = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    module = sys.modules[f"example_{number}"] = ModuleType(f"example_{number}")
    place = f"CONTRIBUTING.md, block {number + 1}"
    exec(compile(blocks[number], place, "exec", dont_inherit=True), vars(module))
    return vars(module)


Cumulated = example(1)["Cumulated"]


@pytest.fixture(autouse=True)
def known(monkeypatch) -> None:
    """The lines that the examples add."""
    monkeypatch.setitem(REGISTRY, "chain", example(0)["Chain"])
    monkeypatch.setitem(record._KINDS, "cumulated", (Cumulated, ("columns",)))
    monkeypatch.setitem(record._NAMES, Cumulated, "cumulated")
    monkeypatch.setattr(record, "IN_WORKLOADS", ("marginal", "threshold", "cumulated"))


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


@pytest.mark.parametrize("mechanism", ["chain", "aim", "mst", "independent", "mwem", "pep"])
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


def test_the_new_mechanism_spends_what_it_planned(table, capsys):
    from admeasure.cli.run import run

    asked = ["--schema", table.with_name("schema.toml"), "--workload", "all-2way"]
    asked += ["--epsilon", "1", "--delta", "1e-9", "--mechanism", "chain"]
    assert run([str(part) for part in ("plan", *asked, "--json")]) == 0
    planned = json.loads(capsys.readouterr().out)["items"]
    out = table.with_name("chained")
    assert run([str(part) for part in ("fit", table, *asked, "--out", out)]) == 0
    spent = admeasure.Release.load(out).certificate
    assert [item["what"] for item in planned] == ["links"]
    assert spent.rho_spent == pytest.approx(spent.rho)
