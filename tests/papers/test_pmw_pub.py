"""PMW-Pub and PEP-Pub: public tables in, reweighted records out, and the bound of Proposition A.1
(Liu, Vietri, Steinke, Ullman and Wu 2021)."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import DataError, UsageError
from admeasure.mechanisms import Mechanism, build
from admeasure.mechanisms.mwem import Mwem
from admeasure.mechanisms.pep_pub import PepPub
from admeasure.mechanisms.pmw_pub import PmwPub
from admeasure.parts.reweighting import utility_bound
from admeasure.planning.division import Task
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Zcdp
from admeasure.public import PublicTable
from admeasure.public.read import read_public
from admeasure.public.table import MAX_RECORDS
from admeasure.release import Release
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.unit import Neighbours, Unit
from admeasure.verbs.fit import fit
from admeasure.workload import parse_workload

LEVELS = {"a": 4, "b": 3, "c": 3, "d": 2}
SCHEMA = Schema.coded("toy", LEVELS)


def rows(seed: int, n: int, *, tilt: float = 0.0) -> dict[str, np.ndarray]:
    """Dependent columns; `tilt` moves the distribution and not the support."""
    rng = np.random.default_rng(seed)
    p = np.array([0.5, 0.25, 0.15, 0.1]) * np.exp(tilt * np.arange(4))
    a = rng.choice(4, n, p=p / p.sum())
    b = (a + rng.choice(3, n, p=[0.7, 0.2, 0.1])) % 3
    return {"a": a, "b": b, "c": (b * rng.integers(0, 2, n)) % 3, "d": rng.integers(0, 2, n)}


PRIVATE = rows(0, 5000)


def largest_error(release: Release) -> float:
    worst = 0.0
    for pair in (("a", "b"), ("b", "c"), ("a", "d")):
        true = np.zeros(SCHEMA.domain.shape(pair))
        np.add.at(true, (PRIVATE[pair[0]], PRIVATE[pair[1]]), 1)
        worst = max(worst, float(np.abs(true - release.marginal(pair)).max()) / 5000)
    return worst


def fitted(mechanism: Mechanism, public=None, **more) -> Release:
    options = {"epsilon": 1.0, "delta": 1e-8, "seed": 0, **more}
    return fit(PRIVATE, SCHEMA, workload="all-2way", mechanism=mechanism, public=public, **options)


@pytest.mark.parametrize("mechanism", [PmwPub(rounds=30), PepPub(rounds=30)])
def test_it_improves_on_the_public_table_and_on_mwem_at_a_small_budget(mechanism) -> None:
    public = rows(1, 3000, tilt=0.3)
    start = PublicTable.from_codes(public, SCHEMA.domain).start(5000.0)
    before = 0.0
    for pair in (("a", "b"), ("b", "c"), ("a", "d")):
        true = np.zeros(SCHEMA.domain.shape(pair))
        np.add.at(true, (PRIVATE[pair[0]], PRIVATE[pair[1]]), 1)
        (table,) = start.marginals([pair])
        before = max(before, float(np.abs(true - table).max()) / 5000)
    after = largest_error(fitted(mechanism, public))
    assert after < before / 2
    assert after < largest_error(fitted(Mwem(rounds=30)))


def test_the_weights_stay_on_the_public_records() -> None:
    public = {c: v[:40] for c, v in rows(2, 3000).items()}
    release = fitted(PmwPub(rounds=10), public)
    known = set(zip(*(public[c].tolist() for c in LEVELS), strict=True))
    drawn = release.model.sample(2000, np.random.default_rng(0))
    assert set(zip(*(drawn[c].tolist() for c in LEVELS), strict=True)) <= known


def test_no_budget_gets_below_the_best_mixture_error() -> None:
    """Public rows without a = 0, which half of the private rows have."""
    public = {c: v[rows(3, 3000)["a"] > 0] for c, v in rows(3, 3000).items()}
    missing = (PRIVATE["a"] == 0).mean()
    for epsilon in (1.0, 100.0):
        release = fitted(PmwPub(rounds=60), public, epsilon=epsilon)
        assert abs(float(release.marginal(("a",))[0])) == 0
        # Every pair with a = 0 is answered 0; the largest of them is a lower bound.
        true = np.bincount(PRIVATE["d"][PRIVATE["a"] == 0]).max() / 5000
        assert largest_error(release) >= true - 1e-9
        assert missing > 0.4


def test_equal_weights_may_be_the_start() -> None:
    table = PublicTable.from_codes({c: v[:100] for c, v in PRIVATE.items()}, SCHEMA.domain)
    start = table.start(1.0, initial="uniform")
    assert np.ptp(start.weights) == 0
    assert start.weights.size == table.records
    assert fitted(PmwPub(rounds=5, initial="uniform"), table).facts["rounds"] == 5


def test_the_certificate_names_the_public_table_and_its_hash(tmp_path: Path) -> None:
    public = rows(4, 200)
    release = fitted(PmwPub(rounds=3), public)
    facts = release.certificate.options["public"]
    assert facts["rows"] == 200
    assert facts["sha256"] == PublicTable.from_codes(public, SCHEMA.domain).digest
    assert "the public table" in release.certificate.unprotected
    again = Release.load(release.save(tmp_path / "release"))
    assert again.certificate == release.certificate
    for columns in (("a", "b"), ("c",)):
        assert np.allclose(again.marginal(columns), release.marginal(columns))


# Public tables that are not as they should be


def test_a_missing_column_is_filled_in_with_every_level_and_noted() -> None:
    public = {c: v for c, v in rows(5, 300).items() if c != "b"}
    table = PublicTable.from_codes(public, SCHEMA.domain)
    model = table.start(300.0)
    (b,) = model.marginals([("b",)])
    assert np.allclose(b, 100)
    (ad,) = model.marginals([("a", "d")])
    true = np.zeros((4, 2))
    np.add.at(true, (public["a"], public["d"]), 1)
    assert np.allclose(ad, true)
    release = fitted(PmwPub(rounds=3), public)
    assert any("lacks b" in note for note in release.certificate.notes)


def test_too_many_missing_columns_are_refused_with_what_to_do() -> None:
    domain = Domain.of({"a": 4, **{f"x{i}": 50 for i in range(5)}})
    with pytest.raises(DataError, match=f"{MAX_RECORDS:,} is the limit. Give a table with these"):
        PublicTable.from_codes({"a": np.arange(4)}, domain)


def test_extra_columns_are_never_read() -> None:
    class Unreadable:
        def __len__(self) -> int:
            return 300

    table = read_public({**rows(6, 300), "name": Unreadable()}, SCHEMA)
    assert table.rows == 300
    assert table.notes == ()


def test_rows_with_values_outside_the_schema_are_left_out_and_counted() -> None:
    public = rows(7, 300)
    public["a"][:7] = 9
    table = read_public(public, SCHEMA)
    assert table.rows == 293
    (note,) = table.notes
    assert note.startswith("7 of 300 rows")
    assert " a " in note


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_are_read_as_frames_are(suffix: str, tmp_path: Path) -> None:
    import polars as pl

    public = rows(8, 300)
    public["a"][:7] = 9
    frame = pl.DataFrame({**public, "extra": ["x"] * 300})
    path = tmp_path / f"public.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    from_file, in_memory = read_public(path, SCHEMA), read_public(public, SCHEMA)
    assert from_file.digest == in_memory.digest
    assert read_public(frame, SCHEMA).digest == in_memory.digest


def test_records_that_a_zero_rules_out_are_dropped_and_noted() -> None:
    text = SCHEMA.dumps() + '\n[[zero]]\ncolumns = ["a", "d"]\nwhere = {a = 0, d = 1}\n'
    schema = Schema.loads(text)
    keep = ~((PRIVATE["a"] == 0) & (PRIVATE["d"] == 1))
    release = fit(
        {c: v[keep] for c, v in PRIVATE.items()},
        schema,
        workload="all-2way",
        mechanism=PmwPub(rounds=3),
        public=rows(9, 500),
        epsilon=1,
        delta=1e-8,
        seed=0,
    )
    assert release.marginal(("a", "d"))[0, 1] == 0
    assert any("[[zero]]" in note for note in release.certificate.notes)


BAD = {
    "no common column": ({"x": np.arange(5)}, "no column of the schema"),
    "no rows": ({c: np.zeros(0, int) for c in LEVELS}, "no row that the schema can read"),
    "no readable row": ({**rows(0, 5), "a": np.full(5, 77)}, "no row that the schema can read"),
    "one distinct row": ({c: np.zeros(50, int) for c in LEVELS}, "one distinct record"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_useless_public_table_is_refused_and_nothing_is_charged(
    case: str, tmp_path: Path
) -> None:
    public, message = BAD[case]
    book = Book.create(tmp_path / "book.db", "toy", epsilon=5, delta=1e-6)
    with pytest.raises(DataError, match=message):
        fitted(PmwPub(), public, seed=None, charge_to=ChargeTo(tmp_path / "book.db", "toy"))
    assert book.history("toy") == ()


def test_a_mechanism_that_needs_a_public_table_says_so() -> None:
    for name in ("pmw-pub", "pep-pub", "ji-elkan"):
        with pytest.raises(UsageError, match=f"{name} needs a public table. Give --public"):
            fitted(build(name))


def test_a_public_table_for_a_mechanism_that_takes_none_is_refused() -> None:
    with pytest.raises(UsageError, match="mwem learns nothing from a public table"):
        fitted(Mwem(), rows(0, 10))


def test_the_public_table_is_no_option_of_the_command_line() -> None:
    with pytest.raises(UsageError, match="has no option --public"):
        build("pmw-pub", {"public": "x.csv"})


# Proposition A.1


def as_printed(a0: float, m: int, q: int, n: float, T: int, e: float, beta: float) -> float:
    """The last display of the proof, in the paper's letters with ε₀ = ε̃ / sqrt(2 T)."""
    e0 = e / math.sqrt(2 * T)
    return (
        2 * a0
        + math.sqrt(
            4 * math.log(m) / T
            + 2 / (e0**2 * n**2)
            + 2 * math.sqrt(2 * math.log(3 / beta)) * a0 / (e0 * n * math.sqrt(T))
        )
        + 2 / (e0 * n) * math.log(q)
        + math.sqrt(math.log(3 / beta) / (2 * T))
    )


@pytest.mark.parametrize("a0", [0.0, 0.02])
@pytest.mark.parametrize("T", [100, 3000])
def test_the_utility_bound_is_the_printed_one_with_the_papers_split(a0: float, T: int) -> None:
    n, m, q, e, beta = 1e6, 5000, 100_000, 0.5, 0.05
    e0 = e / math.sqrt(2 * T)
    ours = utility_bound(
        mixture_error=a0, support=m, queries=q, rows=n, rounds=T, epsilon=e0, sigma=1 / e0
    )
    assert ours == pytest.approx(min(1.0, as_printed(a0, m, q, n, T, e, beta)))
    # Proposition A.1 itself is the same with α₀ <= 1 under the root.
    loose = (
        2 * a0
        + math.sqrt(
            4 * math.log(m) / T
            + 4 * T / (e**2 * n**2)
            + 4 * math.sqrt(math.log(3 / beta)) / (e * n)
        )
        + 2 * math.sqrt(2 * T) / (e * n) * math.log(q)
        + math.sqrt(math.log(3 / beta) / (2 * T))
    )
    assert ours <= loose


def test_the_bound_says_nothing_for_too_few_rounds() -> None:
    few = {
        "mixture_error": 0.0,
        "support": 10,
        "queries": 10,
        "rows": 1e9,
        "epsilon": 1.0,
        "sigma": 1.0,
    }
    assert utility_bound(rounds=20, **few) == 1.0
    assert utility_bound(rounds=2000, **few) < 0.2


def test_a_plan_shows_the_bound() -> None:
    public = PublicTable.from_codes(rows(1, 300), SCHEMA.domain)
    from admeasure.workload import parse_workload

    workload = parse_workload("all-2way", SCHEMA.domain)
    mechanism = PmwPub(rounds=2000).with_public(public)
    plan = mechanism.plan(Task.of(SCHEMA, workload), Zcdp(Fraction(1, 10)), 10**7)
    assert any("Proposition A.1" in note and "95%): 0." in note for note in plan.notes)


def test_the_bound_holds_in_a_run_as_the_theorem_has_it() -> None:
    """One seeded run with the average of the iterates and no reuse; the bound holds with
    probability 95%, and with much room in practice."""
    release = fitted(
        PmwPub(rounds=100, reuse="none", output="average", initial="uniform"),
        PRIVATE,
        epsilon=20.0,
    )
    select = next(e for e in release.log if e["event"] == "choose")
    bound = utility_bound(
        mixture_error=0.0,
        support=int(release.model.arrays()["weights"].size),
        queries=sum(LEVELS[a] * LEVELS[b] for a in LEVELS for b in LEVELS if a < b),
        rows=5000,
        rounds=100,
        epsilon=select["epsilon"],
        sigma=release.measurements[-1].sigma,
    )
    assert largest_error(release) <= bound < 1


@pytest.mark.parametrize(("mechanism", "pace"), [(Mwem(), 1.0), (PmwPub(), 0.5), (PepPub(), 0.5)])
def test_the_default_number_of_rounds_follows_from_budget_and_rows(mechanism, pace) -> None:
    """T = pace (n sqrt(ρ) / m)^(2/3): eight times the budget is twice as many rounds."""
    public = PublicTable.from_codes(rows(1, 100), SCHEMA.domain)
    if not isinstance(mechanism, Mwem):
        mechanism = mechanism.with_public(public)
    workload = parse_workload("all-2way", SCHEMA.domain)
    unit = Unit(Neighbours.REPLACE)  # its number of rows is public, so all of ρ is for the rounds

    def planned(rho: Fraction, n: int) -> int:
        return int(mechanism.plan(Task(SCHEMA.domain, workload, (), unit), Zcdp(rho), n).rounds)

    for rho, n in ((Fraction(1, 100), 10_000), (Fraction(1, 10), 3_000)):
        assert planned(rho, n) == round(pace * (n * math.sqrt(rho)) ** (2 / 3))
    assert planned(Fraction(1, 10**6), 100) == 5
    assert planned(Fraction(100), 10**7) == 1000
