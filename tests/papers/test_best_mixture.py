"""Best-mixture error: both solvers against brute force, its sensitivity, and screening."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from admeasure.domain import Domain
from admeasure.errors import DataError, ResourceError, UsageError
from admeasure.evaluation.mixture import best_mixture_error
from admeasure.families.mixture import Game, by_levels, exact, first_order
from admeasure.privacy.best_mixture import TOLERANCE, BestMixtureError
from admeasure.privacy.book import Book
from admeasure.privacy.scores.score import GRID
from admeasure.public import PublicTable
from admeasure.queries import Marginal, Query, Threshold
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours, Unit
from admeasure.verbs.screen import screen
from admeasure.workload import Workload, parse_workload

DOMAIN = Domain(("a", "b", "c"), (3, 3, 2))
QUERIES: list[Query] = [
    Marginal(["a", "b"]),
    Marginal(["b", "c"]),
    Threshold(["a", "b", "c"], 2),
]


def random_rows(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    return {
        c: rng.choice(k, n, p=rng.dirichlet(np.ones(k)))
        for c, k in zip(DOMAIN.columns, DOMAIN.levels, strict=True)
    }


def answers_of(rows: dict[str, np.ndarray], query: Query) -> np.ndarray:
    table = np.zeros(DOMAIN.shape(query.columns), dtype=np.int64)
    np.add.at(table, tuple(rows[c] for c in query.columns), 1)
    return query.answer(table)


def brute_force(records: dict[str, np.ndarray], private: dict[str, np.ndarray]) -> float:
    """The same program with a dense matrix made record by record."""
    m, n = len(records["a"]), len(private["a"])
    columns = []
    for i in range(m):
        one = {c: v[i : i + 1] for c, v in records.items()}
        columns.append(np.concatenate([np.ravel(answers_of(one, q)) for q in QUERIES]))
    matrix = np.stack(columns, axis=1).astype(float)
    a = np.concatenate([np.ravel(answers_of(private, q)) for q in QUERIES]) / n
    ones = -np.ones((len(a), 1))
    found = linprog(
        np.append(np.zeros(m), 1),
        A_ub=np.block([[matrix, ones], [-matrix, ones]]),
        b_ub=np.concatenate([a, -a]),
        A_eq=np.append(np.ones(m), 0)[None],
        b_eq=[1],
    )
    return float(found.fun)


def game_of(public: PublicTable, private: dict[str, np.ndarray], **limit: int) -> Game:
    n = len(private["a"])
    answers = [answers_of(private, q) / n for q in QUERIES]
    return Game(public.start(1.0), QUERIES, answers, **limit)


@pytest.mark.parametrize("seed", range(6))
def test_all_solvers_find_what_a_dense_linear_program_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    private = random_rows(rng, 200)
    public = PublicTable.from_codes(random_rows(rng, 3 + 4 * seed), DOMAIN)
    expected = brute_force(dict(public.codes), private)
    game = game_of(public, private)
    by_program = exact(game)
    assert by_program.error == pytest.approx(expected, abs=1e-7)
    assert by_program.gap < 1e-7
    for found, gap in ((first_order(game, 1e-3), 1e-3), (by_levels(game, 1e-6), 1e-6)):
        assert found.gap <= gap
        assert found.lower - 1e-9 <= expected <= found.error + 1e-9


def test_products_are_the_same_with_the_matrix_and_without() -> None:
    rng = np.random.default_rng(4)
    private, public = random_rows(rng, 50), PublicTable.from_codes(random_rows(rng, 20), DOMAIN)
    kept = game_of(public, private)
    counted = game_of(public, private, exact_entries=0)
    mu, v = rng.random(public.records), rng.normal(size=kept.answers.size) * kept.seen
    assert np.allclose(kept.product(mu), counted.product(mu), atol=1e-12)
    assert np.allclose(kept.transposed(v), counted.transposed(v), atol=1e-12)


@pytest.mark.parametrize("kept", [True, False])
def test_a_method_that_is_stopped_hands_its_bounds_to_the_next(kept) -> None:
    rng = np.random.default_rng(5)
    private, public = random_rows(rng, 200), PublicTable.from_codes(random_rows(rng, 9), DOMAIN)
    game = game_of(public, private)
    known = by_levels(game, 1e-4, rounds=1, steps=3) if kept else None
    found = first_order(game, 1e-3, known=known)
    assert found.gap <= 1e-3
    assert found.lower - 1e-9 <= brute_force(dict(public.codes), private) <= found.error + 1e-9


def test_the_weights_that_are_returned_have_the_error_that_is_returned() -> None:
    rng = np.random.default_rng(9)
    private = random_rows(rng, 300)
    public = PublicTable.from_codes(random_rows(rng, 30), DOMAIN)
    game = game_of(public, private)
    for found in (exact(game), first_order(game, 1e-3), by_levels(game, 1e-5)):
        assert found.weights.min() >= 0
        assert found.weights.sum() == pytest.approx(1)
        model = public.start(1.0).reweighted(found.weights)
        errors = [
            np.abs(q.answer(t) - answers_of(private, q) / 300).max()
            for q, t in zip(QUERIES, model.marginals([q.columns for q in QUERIES]), strict=True)
        ]
        assert max(errors) == pytest.approx(found.error, abs=1e-9)


def test_a_table_whose_support_holds_the_private_one_has_no_error() -> None:
    rng = np.random.default_rng(1)
    private = random_rows(rng, 100)
    schema = Schema.coded("toy", dict(zip(DOMAIN.columns, DOMAIN.levels, strict=True)))
    public = PublicTable.from_codes(private, schema.domain)
    workload = Workload([Marginal(["a", "b"]), Marginal(["b", "c"])])
    found = best_mixture_error(MemorySource(private, schema).counts, public, workload)
    assert found.error < 1e-6


def test_what_no_public_record_has_is_missing_in_full() -> None:
    private = {"a": np.array([0, 0, 1, 2]), "b": np.zeros(4, int), "c": np.zeros(4, int)}
    public = PublicTable.from_codes(
        {"a": np.array([1, 2]), "b": np.zeros(2, int), "c": np.zeros(2, int)}, DOMAIN
    )
    assert exact(game_of(public, private)).error == pytest.approx(0.5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(list(Neighbours)), st.integers(1, 3))
def test_one_person_moves_the_statistic_by_no_more_than_is_declared(
    seed: int, neighbours: Neighbours, most: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 60)
    unit = Unit(neighbours, most)
    gone, come = rng.integers(0, most + 1), rng.integers(0, most + 1)
    if neighbours is Neighbours.ADD_REMOVE:
        come = 0
    extra = random_rows(rng, int(come))
    other = {c: np.concatenate([v[gone:], extra[c]]) for c, v in rows.items()}
    public = PublicTable.from_codes(random_rows(rng, 12), DOMAIN)
    statistic = BestMixtureError("x", public.start(60.0), QUERIES)
    here, there = (int(statistic.of([_counts(r, q) for q in QUERIES])) for r in (rows, other))
    assert (here - there) ** 2 <= statistic.l2_squared(unit)
    # Lemma A.2 itself, but for the solver's tolerance and the grid.
    assert abs(here - there) <= unit.max_rows * GRID + 2


def _counts(rows: dict[str, np.ndarray], query: Query) -> np.ndarray:
    table = np.zeros(DOMAIN.shape(query.columns), dtype=np.int64)
    np.add.at(table, tuple(rows[c] for c in query.columns), 1)
    return table


# screen

LEVELS = {"a": 4, "b": 3, "c": 2}
SCHEMA = Schema.coded("toy", LEVELS)


def people(seed: int, n: int, *, without: int | None = None) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    rows = {"a": a, "b": (a + rng.integers(0, 2, n)) % 3, "c": rng.integers(0, 2, n)}
    keep = np.ones(n, bool) if without is None else a != without
    return {c: v[keep] for c, v in rows.items()}


PRIVATE = people(0, 4000)
CANDIDATES = {"good": people(1, 2000), "poor": people(2, 2000, without=0)}


def screened(**more):
    options = {"epsilon": 0.5, "delta": 1e-8, "seed": 1, **more}
    return screen(PRIVATE, CANDIDATES, SCHEMA, workload="all-2way", **options)


def test_screening_ranks_a_good_table_first_and_warns_of_a_poor_one() -> None:
    found = screened(epsilon=2.0, fit_epsilon=0.5, seed=0)
    assert [c.name for c in found.candidates] == ["good", "poor"]
    good, poor = found.candidates
    assert good.verdict == "use"
    assert poor.verdict == "do not use"
    source = MemorySource(PRIVATE, SCHEMA)
    public = PublicTable.from_codes(CANDIDATES["poor"], SCHEMA.domain)
    true = best_mixture_error(source.counts, public, parse_workload("all-2way", SCHEMA.domain))
    assert poor.low <= true.error <= poor.high


def test_screening_charges_what_it_says_and_no_more(tmp_path: Path) -> None:
    book = Book.create(tmp_path / "book.db", "toy", epsilon=5, delta=1e-6)
    found = screened(seed=None, charge_to=ChargeTo(tmp_path / "book.db", "toy"))
    (entry,) = book.history("toy")
    assert entry.mechanism == "screen"
    assert float(book.account("toy").spent.rho) == pytest.approx(found.rho)
    assert found.private


def test_a_candidate_that_cannot_be_used_stops_the_screening_before_anything_is_charged(
    tmp_path: Path,
) -> None:
    book = Book.create(tmp_path / "book.db", "toy", epsilon=5, delta=1e-6)
    charge_to = ChargeTo(tmp_path / "book.db", "toy")
    bad = {**CANDIDATES, "empty": {c: np.zeros(0, int) for c in LEVELS}}
    with pytest.raises(DataError, match="empty has no row"):
        screen(
            PRIVATE,
            bad,
            SCHEMA,
            workload="all-2way",
            epsilon=0.5,
            delta=1e-8,
            charge_to=charge_to,
        )
    assert book.history("toy") == ()


def test_screening_needs_a_candidate() -> None:
    with pytest.raises(UsageError, match="at least one public table"):
        screen(PRIVATE, {}, SCHEMA, workload="all-2way", epsilon=1, delta=1e-8)


def test_a_large_workload_is_screened_on_a_part_that_does_not_depend_on_data() -> None:
    found = screened(marginals=2)
    assert (found.marginals, found.of_marginals) == (2, 3)


def test_candidates_within_the_noise_are_reported_as_tied_and_share_a_rank() -> None:
    pair = {"one": people(1, 2000), "other": people(3, 2000), "poor": CANDIDATES["poor"]}
    options = {"workload": "all-2way", "epsilon": 2.0, "delta": 1e-8, "seed": 0}
    found = screen(PRIVATE, pair, SCHEMA, **options)
    by_name = {c.name: c for c in found.candidates}
    assert by_name["one"].tied_with == ("other",)
    assert by_name["other"].tied_with == ("one",)
    assert by_name["poor"].tied_with == ()
    assert [c.rank for c in found.candidates] == [1, 1, 3]
    # 95% of the difference of two independent normal noises
    assert found.resolution == pytest.approx(1.96 * 2**0.5 * by_name["one"].noise, rel=1e-3)


def test_the_noise_is_that_of_one_row_up_to_the_tolerance() -> None:
    """σ = (1 + τ) / sqrt(2 ρ) for a candidate that has ρ; the rest is the noisy row count."""
    found = screened(epsilon=0.5)
    rho = 0.9 * found.rho / 2
    assert found.candidates[0].noise * 4000 == pytest.approx(1.1 / (2 * rho) ** 0.5, rel=0.05)


def test_a_screening_that_passes_its_time_limit_releases_nothing_and_is_charged(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("admeasure.families.mixture.EXACT_ENTRIES", 0)
    book = Book.create(tmp_path / "book.db", "toy", epsilon=5, delta=1e-6)
    charge_to = ChargeTo(tmp_path / "book.db", "toy")
    with pytest.raises(ResourceError, match="not certified in 1e-09 seconds"):
        screened(seed=None, charge_to=charge_to, time_limit=1e-9)
    assert book.account("toy").spent.rho > 0
    with pytest.raises(UsageError, match="time limit must be positive"):
        screened(time_limit=0)


def test_the_noise_accounts_for_the_tolerance_of_the_solver() -> None:
    statistic = BestMixtureError("x", PublicTable.from_codes(PRIVATE, SCHEMA.domain).start(1.0), [])
    assert statistic.l2_squared(Unit(max_rows=2)) >= ((2 + TOLERANCE) * GRID) ** 2


def test_the_command_line_ranks_and_prints(tmp_path: Path, capsys) -> None:
    import json

    import polars as pl

    from admeasure.cli.run import run

    for name, table in {"private": PRIVATE, **CANDIDATES}.items():
        pl.DataFrame(table).write_csv(tmp_path / f"{name}.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA.dumps())
    arguments = [
        "screen",
        str(tmp_path / "private.csv"),
        *("--public", str(tmp_path / "poor.csv"), "--public", str(tmp_path / "good.csv")),
        *("--schema", str(tmp_path / "schema.toml"), "--workload", "all-2way"),
        *("--epsilon", "1", "--delta", "1e-8", "--seed", "0"),
    ]
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in found["candidates"]] == ["good.csv", "poor.csv"]
    assert [(c["rank"], c["tied_with"]) for c in found["candidates"]] == [(1, []), (2, [])]
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    assert "do not use" in printed
    assert "tied" not in printed
    twice = [*arguments, "--public", str(tmp_path / "good2.csv")]
    pl.DataFrame(people(7, 2000)).write_csv(tmp_path / "good2.csv")
    assert run(twice) == 0
    printed = capsys.readouterr().out
    assert printed.count("1 (tie)") == 2
    assert "not told apart: differences below" in printed
