"""A table without rows is a table like any other: nothing tells one person from nobody.

Every mechanism runs on it under both relations, every source counts it, and no command that spends
budget refuses it. Only `check`, which is for whoever holds the table, says that it is empty.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admeasure.cli.run import run
from admeasure.errors import UsageError
from admeasure.mechanisms import REGISTRY, Mechanism, build
from admeasure.planning.mechanism import LearnsFromPublic
from admeasure.privacy.convert import rho_of
from admeasure.public import PublicTable
from admeasure.queries import Marginal
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from admeasure.verbs.screen import screen
from admeasure.workload import Workload
from factories import sources

LEVELS = {"a": 3, "b": 2, "c": 2}
EMPTY: dict[str, list[Any]] = {**{name: [] for name in LEVELS}, "id": []}
QUICK = {"hidden": "8,8", "product-rows": "16", "steps": "5", "rounds": "2"}
SMALL = {"gem": QUICK, "gem-pub": {**QUICK, "pretrain-steps": "10"}}
UNITS = [("add-remove", 1), ("add-remove", 2), ("replace", 1), ("replace", 2)]


def schema(neighbours: str = "add-remove", most: int = 1) -> Schema:
    unit = 'unit_column = "id"\n' if most > 1 else ""
    columns = "".join(
        f'[[column]]\nname = "{name}"\ntype = "integer"\nminimum = 0\nmaximum = {n - 1}\n'
        for name, n in LEVELS.items()
    )
    return Schema.loads(
        f'[table]\nname = "toy"\n[privacy]\nunit = "person"\nneighbours = "{neighbours}"\n'
        f"max_rows_per_unit = {most}\n{unit}{columns}"
    )


def ready(name: str, given: Schema) -> Mechanism:
    mechanism = build(name, SMALL.get(name))
    if isinstance(mechanism, LearnsFromPublic):
        rng = np.random.default_rng(0)
        codes = {c: rng.integers(0, n, 30) for c, n in LEVELS.items()}
        return mechanism.with_public(PublicTable.from_codes(codes, given.domain))
    return mechanism


@pytest.mark.parametrize(("neighbours", "most"), UNITS)
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_mechanism_runs_on_a_table_without_rows(
    name: str, neighbours: str, most: int, tmp_path: Path
) -> None:
    given = schema(neighbours, most)
    release = fit(
        EMPTY,
        given,
        workload=Workload([Marginal(("a", "b")), Marginal(("b", "c"))]),
        mechanism=ready(name, given),
        epsilon=1.0,
        delta=1e-6,
        out=tmp_path / "release",
    )
    assert release.certificate.rho == rho_of(1.0, 1e-6)
    loaded = Release.load(tmp_path / "release")
    assert np.isfinite(loaded.marginal(("a", "b"))).all()
    try:
        assert len(loaded.sample(7)["a"]) == 7
    except UsageError as error:
        assert "has no rows to sample" in str(error)  # noqa: PT017 (mechanisms of answers alone)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("factory", sources())
def test_every_source_counts_a_table_without_rows(factory: Any, most: int, tmp_path: Path) -> None:
    source = factory(EMPTY, schema(most=most), tmp_path)
    none, pairs = source.counts([(), ("a", "b")])
    assert int(none) == 0
    assert pairs.shape == (3, 2)
    assert not pairs.any()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(schema().dumps())
    Path("nobody.csv").write_text("a,b,c\n")
    Path("one.csv").write_text("a,b,c\n0,1,0\n")
    Path("public.csv").write_text("a,b,c\n0,1,0\n1,0,0\n2,1,1\n")
    return tmp_path


@pytest.mark.parametrize("table", ["nobody.csv", "one.csv"])
def test_the_exit_code_of_a_fit_does_not_tell_one_person_from_nobody(
    folder: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--schema", "schema.toml", "--workload", "all-2way", "--epsilon", "1"]
    assert run(["fit", table, *common, "--mechanism", "mst", "--out", "release"]) == 0
    assert run(["screen", table, *common, "--public", "public.csv"]) == 0
    assert "no rows" not in capsys.readouterr().err


def test_check_tells_the_steward_that_a_table_is_empty(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "nobody.csv", "--schema", "schema.toml"]) == 3
    assert "has no rows" in capsys.readouterr().err


def test_a_screening_of_nobody_is_one_like_any_other() -> None:
    public = {"one": {"a": [0, 1, 2], "b": [1, 0, 1], "c": [0, 0, 1]}}
    found = screen(EMPTY, public, schema(), workload="all-2way", epsilon=1.0, delta=1e-6)
    assert len(found.candidates) == 1
    assert np.isfinite(found.candidates[0].error)
