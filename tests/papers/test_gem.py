"""What Liu, Vietri and Wu (2021) say of GEM and GEM-Pub, on small tables; what a run keeps to."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import DataError, ResourceError, UsageError, WorkloadError
from admeasure.evaluation import compare
from admeasure.families.network.family import NetworkModel
from admeasure.mechanisms.gem import Gem
from admeasure.mechanisms.gem_pub import GemPub
from admeasure.mechanisms.independent import Independent
from admeasure.parts.course import share_of
from admeasure.planning.division import Task
from admeasure.privacy.convert import rho_of
from admeasure.privacy.journal import TrainingProgress
from admeasure.public import PublicTable
from admeasure.queries import Cell, Marginal, Threshold, WorkloadQuery
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.unit import Unit
from admeasure.verbs.fit import fit
from admeasure.workload import Workload, parse_workload

LEVELS = {"a": 4, "b": 3, "c": 5, "d": 2}
ROWS = 4000
DELTA = 1e-8
SCHEMA = Schema.coded("toy", LEVELS)
QUICK: dict[str, Any] = {"hidden": "32,32", "product_rows": 64, "steps": 50}


def make_table(seed: int = 0, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Columns that depend on each other strongly."""
    rng = np.random.default_rng(seed)
    a = rng.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])
    b = (a + (rng.random(rows) < 0.2)) % 3
    c = (a + b + (rng.random(rows) < 0.3)) % 5
    return {"a": a, "b": b, "c": c, "d": (rng.random(rows) < 0.1 + 0.3 * b).astype(np.int64)}


TABLE = make_table()
SOURCE = MemorySource(TABLE, SCHEMA)


def run(mechanism: Any, workload: Any = "all-2way", epsilon: float = 1.0, **more: Any) -> Release:
    settings = {"seed": 3, **more}
    return fit(
        TABLE,
        SCHEMA,
        workload=workload,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=DELTA,
        **settings,
    )


def replacing() -> Schema:
    schema = Schema.coded("toy", LEVELS)
    changed = schema.privacy.model_copy(update={"neighbours": "replace"})
    return schema.model_copy(update={"privacy": changed})


def error(release: Release) -> float:
    found = compare(SOURCE.counts, release.model.marginals, release.workload, SCHEMA.domain)
    return found.workload_error


def test_gem_learns_what_independent_columns_miss() -> None:
    apart = error(run(Independent()))
    assert error(run(Gem(**QUICK))) < apart / 3
    assert error(run(Gem(**QUICK, schedule="even", candidates="workload"))) < apart / 2


def test_single_queries_learn_too_and_the_marginal_trick_beats_them() -> None:
    """Appendix D.4."""
    cells = Gem(**QUICK, measure="cells", learning_rate=1e-3)
    first = error(run(replace(cells, rounds=1)))
    assert error(run(Gem(**QUICK))) < error(run(cells)) < first


def test_good_public_data_helps() -> None:
    """Section 6, at a budget at which little is learned from the private table alone."""
    public = PublicTable.from_codes(make_table(seed=9, rows=1500), SCHEMA.domain)
    helped = GemPub(**QUICK, pretrain_steps=300).with_public(public)
    assert error(run(helped, epsilon=0.05)) < 0.5 * error(run(Gem(**QUICK), epsilon=0.05))


def test_public_data_with_fewer_columns_helps() -> None:
    public = {c: v for c, v in make_table(seed=9, rows=1500).items() if c != "d"}
    mechanism = GemPub(**QUICK, pretrain_steps=300)
    release = run(mechanism, epsilon=0.05, public=public)
    assert error(release) < 0.8 * error(run(Gem(**QUICK), epsilon=0.05))
    assert release.certificate.options["public"]["rows"] == 1500


def test_a_run_learns_records_that_the_public_table_does_not_have() -> None:
    """Section 6.1: no best-mixture error bounds it. Here nobody has a = 0 in the public table."""
    rows = make_table(seed=9, rows=1500)
    public = {c: v[rows["a"] > 0] for c, v in rows.items()}
    release = run(GemPub(**QUICK, pretrain_steps=200), epsilon=4.0, public=public)
    (table,) = release.model.marginals([("a",)])
    assert table[0] / release.model.total == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("alpha", [0.5, 0.67])
def test_selection_and_noise_are_those_of_the_privacy_analysis(alpha: float) -> None:
    """Section 3.1 under replace: exponent α ε₀ n |q(P) - q(D)|, σ = 1/((1 - α) ε₀) rows, with
    ε₀ = sqrt(2ρ/(T (α² + (1 - α)²))). The exponential mechanism's own ε is twice α ε₀."""
    schema = replacing()
    mechanism = Gem(**QUICK, measure="cells", rounds=5, alpha=alpha)
    release = fit(
        TABLE, schema, workload="all-2way", mechanism=mechanism, epsilon=1, delta=DELTA, seed=1
    )
    rho = rho_of(1, DELTA)
    epsilon0 = math.sqrt(2 * rho / (5 * (alpha**2 + (1 - alpha) ** 2)))
    chosen = [e for e in release.log if e["event"] == "choose"]
    assert len(chosen) == len(release.measurements) == 5
    for event, m in zip(chosen, release.measurements, strict=True):
        assert event["epsilon"] == pytest.approx(2 * alpha * epsilon0, rel=1e-6)
        assert m.sigma == pytest.approx(1 / ((1 - alpha) * epsilon0), rel=1e-6)
        assert isinstance(m.query, Cell)


def test_a_whole_marginal_costs_what_one_of_its_cells_costs() -> None:
    """Appendix A.1 under replace: σ = √2 / ((1 - α) ε₀) for every cell of the marginal."""
    schema = replacing()
    mechanism = Gem(**QUICK, schedule="even", rounds=4, alpha=0.5, candidates="workload")
    release = fit(
        TABLE, schema, workload="all-2way", mechanism=mechanism, epsilon=1, delta=DELTA, seed=1
    )
    epsilon0 = math.sqrt(2 * rho_of(1, DELTA) / (4 * 0.5))
    for m in release.measurements:
        assert isinstance(m.query, Marginal)
        assert m.sigma == pytest.approx(math.sqrt(2) / (0.5 * epsilon0), rel=1e-6)


def test_the_share_of_selection_is_the_papers() -> None:
    assert share_of(0.5) == pytest.approx(0.5)
    assert float(share_of(0.67)) == pytest.approx(0.67**2 / (0.67**2 + 0.33**2))


@pytest.mark.parametrize("measure", ["marginals", "cells"])
def test_the_annealed_schedule_needs_no_number_of_rounds_and_spends_all(measure: Any) -> None:
    release = run(Gem(**QUICK, measure=measure, schedule="annealed"))
    assert release.certificate.rho_spent == pytest.approx(release.certificate.rho)
    assert release.facts["rounds"] >= 2


def test_thresholds_take_part() -> None:
    workload = Workload([Threshold(["a", "b"], 1), Threshold(["b", "c", "d"], 2)])
    for measure in ("marginals", "cells"):
        release = run(Gem(**QUICK, measure=measure, learning_rate=1e-3), workload)
        assert error(release) < error(run(Gem(**QUICK, rounds=1, measure="cells"), workload))


def test_every_round_is_shown_as_it_ends_and_the_curve_is_kept(tmp_path: Path) -> None:
    shown: list[TrainingProgress] = []
    release = run(Gem(**QUICK), watchers=(shown.append,), out=tmp_path / "release")
    assert [p.round for p in shown] == list(range(1, int(release.facts["rounds"]) + 1))
    model = Release.load(tmp_path / "release").model
    assert isinstance(model, NetworkModel)
    assert np.array_equal(model.curve[:, 0], [p.error for p in shown])


def test_training_that_breaks_down_ends_the_run_charged_for_what_it_spent(tmp_path: Path) -> None:
    release = run(Gem(**QUICK, learning_rate=1e30), out=tmp_path / "release")
    certificate = release.certificate
    assert any("INCOMPLETE" in note for note in certificate.notes)
    assert 0 < certificate.rho_spent < certificate.rho
    (table,) = release.model.marginals([("a", "b")])
    assert np.isfinite(table).all()
    assert Release.load(tmp_path / "release").certificate == certificate


class Untouchable(dict[str, Any]):
    """A table that must not be read."""

    def __getitem__(self, key: str) -> Any:
        raise AssertionError("the table was read")


def test_a_network_too_large_for_memory_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ResourceError, match="--hidden or --product-rows"):
        fit(
            Untouchable(LEVELS),
            SCHEMA,
            workload="all-2way",
            mechanism=Gem(hidden="1000000,1000000"),
            epsilon=1,
            delta=DELTA,
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"product_rows": 10**6}, "at most 100,000"),
        ({"alpha": 1.0}, "alpha must lie between"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"learning_rate": math.nan}, "learning_rate must be positive"),
        ({"hidden": "64,x"}, "layer sizes"),
        ({"hidden": "64,0"}, "layer sizes"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
@pytest.mark.parametrize("kind", [Gem, GemPub])
def test_options_that_make_no_sense_are_refused(kind: Any, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        kind(**options)


def asked(domain: Domain, query: WorkloadQuery) -> Task:
    """One query and nothing else."""
    return Task(domain, Workload([query]), (), Unit())


def test_workloads_that_cannot_be_served_are_refused() -> None:
    wide = Domain.of(dict.fromkeys("abcdefg", 1000))
    with pytest.raises(ResourceError, match="fewer bins"):
        Gem().check(asked(wide, Marginal(["a", "b", "c"])))
    with pytest.raises(WorkloadError, match="up to 6 columns"):
        Gem().check(asked(wide, Threshold(list("abcdefg"), 1)))
    with pytest.raises(UsageError, match="the workload has 2"):
        Gem(measure="cells", rounds=5).check(asked(SCHEMA.domain, Marginal(["d"])))


def test_public_data_that_says_nothing_of_the_workload_is_refused() -> None:
    with pytest.raises(DataError, match="no column of the schema"):
        run(GemPub(**QUICK), public={"other": np.arange(5)})
    with pytest.raises(DataError, match="no column that the workload asks about"):
        run(GemPub(**QUICK), Workload([Marginal(["c"])]), public={"a": np.arange(4)})
    with pytest.raises(UsageError, match="needs a public table or a pretrained generator"):
        run(GemPub(**QUICK))


def test_a_stored_generator_is_used_as_if_it_had_just_been_pretrained(tmp_path: Path) -> None:
    path = str(tmp_path / "generator.npz")
    public = make_table(seed=9, rows=500)
    trained = GemPub(**QUICK, pretrain_steps=100, save_generator=path)
    one = run(trained, public=public)
    two = run(GemPub(**QUICK, generator=path))
    assert one.log == two.log
    for a, b in zip(
        one.model.marginals([("a", "b")]), two.model.marginals([("a", "b")]), strict=True
    ):
        assert np.array_equal(a, b)
    other = Schema.coded("other", {**LEVELS, "a": 5})
    workload = parse_workload("all-2way", other.domain)
    with pytest.raises(DataError, match="other columns or levels"):
        GemPub(**QUICK, generator=path).check(Task.of(other, workload))
    with pytest.raises(UsageError, match="not both"):
        run(GemPub(**QUICK, generator=path), public=public)
