"""aim-plus: its division, its last pass and its pieces, against other computations."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from admeasure.domain import closure
from admeasure.errors import UsageError
from admeasure.measurement import Measurement
from admeasure.mechanisms import build
from admeasure.mechanisms.aim_plus import AimPlus, batch_of, dearer_of, measured_part, room_of
from admeasure.parts.final_pass import HALF_HEARD, STEPS, heard, part_said, shares
from admeasure.planning.division import Task
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Marginal, Threshold
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.verbs.fit import fit
from admeasure.verbs.plan import plan
from admeasure.workload import Workload, parse_workload

LEVELS = {"a": 2, "b": 6, "c": 4, "d": 3, "e": 5}
RHO = Fraction(1, 20)


def source(neighbours: str = "add-remove") -> MemorySource:
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 60, 4000)
    codes = {
        c: np.where(rng.random(4000) < 0.7, hidden, rng.integers(0, 60, 4000)) % n
        for c, n in LEVELS.items()
    }
    columns = "".join(
        f'[[column]]\nname = "{c}"\ntype = "integer"\nminimum = 0\nmaximum = {n - 1}\n'
        for c, n in LEVELS.items()
    )
    head = f'[table]\nname = "toy"\n[privacy]\nunit = "person"\nneighbours = "{neighbours}"\n'
    return MemorySource.from_codes(codes, Schema.loads(head + columns))


def run(mechanism: AimPlus, workload: Workload | str = "all-3way", **more: str) -> Curator:
    table = source(**more)
    curator = Curator(table, Ledger(RHO), SeededNoise(3))
    if isinstance(workload, str):
        workload = parse_workload(workload, curator.domain)
    mechanism.run(Task.of(table.schema, workload), curator)
    return curator


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_budget_is_spent_as_divided_and_to_the_end(neighbours):
    mechanism = AimPlus()
    curator = run(mechanism, neighbours=neighbours)
    workload = parse_workload("all-3way", curator.domain)
    task = Task(curator.domain, workload, (), curator.unit)
    division = mechanism.divide(task, Zcdp(RHO), 1.0)
    charges = [c.cost.rho for c in curator.ledger.charges]
    assert curator.remaining.rho == 0
    assert sum(charges[:5]) == division.items[0].total.rho
    choices = [i for i, c in enumerate(curator.ledger.charges) if c.what.startswith("choice")]
    last = choices[-1] + 2
    assert sum(charges[5:last]) == division.items[1].total.rho
    assert sum(charges[last:]) == division.items[2].total.rho == RHO * Fraction(0.3)


def test_rounds_cost_the_same_or_twice_as_much_until_the_last():
    curator = run(AimPlus())
    costs = [
        choice.cost.rho + measured.cost.rho
        for choice, measured in pairwise(curator.ledger.charges)
        if choice.what.startswith("choice")
    ]
    assert costs[0] == RHO * (1 - Fraction(0.3)) / (8 * len(LEVELS))
    assert {later / earlier for earlier, later in pairwise(costs[:-1])} <= {1, 2}


@pytest.mark.parametrize("levels", [2, 3])
def test_a_round_is_divided_so_that_the_noise_of_choice_and_measurement_is_least(levels):
    """Against a search by scipy, with scipy's Gumbel and normal laws."""
    domain = Schema.coded("toy", dict.fromkeys("abcd", levels)).domain
    rho = 0.01

    def noise(alpha):
        choice = Zcdp(Fraction(rho * (1 - alpha))).epsilon_of_choice()
        sigma = Zcdp(Fraction(rho * alpha)).sigma(1)
        return stats.gumbel_r(scale=2 / choice).std() + stats.halfnorm(0, sigma).mean() * levels**3

    found = optimize.minimize_scalar(noise, bounds=(0.01, 0.99), options={"xatol": 1e-9})
    part = measured_part(domain, parse_workload("all-3way", domain))
    assert part == pytest.approx(found.x, abs=1e-4)
    assert part < 0.9


def test_large_marginals_leave_a_tenth_of_a_round_to_its_choice_unless_told_otherwise():
    curator = run(AimPlus())
    workload = parse_workload("all-3way", curator.domain)
    assert measured_part(curator.domain, workload) == 0.9
    assert measured_part(curator.domain, parse_workload("all-1way", curator.domain)) == 0.9
    for alpha, given in ((Fraction(0.9), AimPlus()), (Fraction(0.75), AimPlus(alpha=0.75))):
        choice, measured = run(given).ledger.charges[5:7]
        assert choice.what.startswith("choice")
        assert measured.cost.rho / (choice.cost.rho + measured.cost.rho) == alpha


def test_the_last_pass_measures_inside_what_was_measured_before_and_no_more():
    workload = Workload([Marginal(("a", "b", "c")), Threshold(("d", "e"), 1)])
    curator = run(AimPlus(), workload)
    events = curator.journal.events
    last = max(i for i, e in enumerate(events) if e["event"] == "choose") + 2
    sets = [set(e["query"]["columns"]) for e in events if e["event"] == "measure"]
    before = [set(e["query"]["columns"]) for e in events[: last + 1] if e["event"] == "measure"]
    assert len(sets) > len(before)
    assert all(any(s <= b for b in before) for s in sets)
    assert all(s <= {"a", "b", "c"} or s <= {"d", "e"} for s in sets)


@pytest.mark.parametrize("left_out", [{"final_pass": 0.0}, {"shrink": "no"}, {"shrink": "end"}])
def test_pieces_can_be_left_out(left_out):
    curator = run(AimPlus(**left_out))
    assert curator.remaining.rho == 0
    last = curator.journal.events[-1]
    assert last["event"] == "measure"


@pytest.mark.parametrize(
    ("neighbours", "dearer"), [("add-remove", Fraction(1)), ("replace", Fraction(11, 8))]
)
def test_in_batches_the_budget_is_spent_as_divided_and_to_the_end(neighbours, dearer):
    """Noise at the least cost has a scale of 25 rows, under replace of 36: sqrt(2/π) times that in
    16 cells is 0.08 and 0.114 of 4,000 rows, and the square of the latter by 0.1 is 1.3."""
    mechanism = AimPlus(batch=3)
    curator = run(mechanism, neighbours=neighbours)
    assert curator.remaining.rho == 0
    events = [e for e in curator.journal.events if e["event"] != "intent"]
    kinds = "".join(e["event"][0] for e in events)
    rounds = re.fullmatch(r"mmmmm((?:c{1,3}m{1,3})+)(m*)", kinds)
    assert rounds
    first = dearer * RHO * (1 - Fraction(0.3)) / (8 * len(LEVELS))
    alpha = Fraction(measured_part(curator.domain, parse_workload("all-3way", curator.domain)))
    assert Fraction(events[5]["rho"]) == first * (1 - alpha)
    for choices, measured in re.findall(r"(c+)(m+)", rounds[1])[:-1]:
        assert len(choices) == len(measured)


def test_a_round_of_a_batch_measures_what_it_chose_and_joins_no_columns_twice():
    curator = run(AimPlus(batch=3), "all-2way")
    events = [e for e in curator.journal.events if e["event"] != "intent"]
    sets = [
        tuple((e["chosen"][0] if e["event"] == "choose" else e["query"])["columns"]) for e in events
    ]
    kinds = "".join(e["event"][0] for e in events)
    rounds = list(re.finditer("c+", kinds))
    assert max(len(r[0]) for r in rounds) == 3
    for r in rounds:
        chosen = sets[r.start() : r.end()]
        assert sets[r.end() : r.end() + len(chosen)] == chosen
        assert len(set(chosen)) == len(chosen)
        pairs = [c for c in chosen if len(c) == 2]
        assert not pairs or len(pairs) < len({c for pair in pairs for c in pair})  # a forest


def test_the_batch_follows_from_the_columns_alone_and_up_to_48_it_is_one():
    for columns, expected in ((2, 1), (48, 1), (49, 4), (100, 8), (200, 16), (500, 41)):
        domain = Schema.coded("toy", {f"c{i}": 2 for i in range(columns)}).domain
        assert batch_of(domain) == expected
    for bad in (0, -1):
        with pytest.raises(UsageError, match="batch must be at least 1"):
            AimPlus(batch=bad)


def test_a_batch_has_less_room_than_a_round_of_one():
    binary = Schema.coded("toy", {f"c{i}": 2 for i in range(60)}).domain
    large = Schema.coded("toy", {f"c{i}": 100 for i in range(60)}).domain
    for rows in (1.0, 1e9):
        assert room_of(large, 1, 80.0, rows, 1.0) == 1
        assert room_of(large, 5, 80.0, rows, 1.0) == 1 / 5
        assert room_of(binary, 5, 80.0, rows, 1.0) == pytest.approx(512 * 60 * 4 * 8 / 2**20 / 80)


def test_choices_of_a_batch_are_dear_where_noise_is_loud_and_cost_what_those_of_one_do_else():
    domain = Schema.coded("toy", {f"c{i}": 4 for i in range(60)}).domain
    loud = 0.1 / (np.sqrt(2 / np.pi) * 16)  # a tenth of the table in 16 cells, by rows
    costs = [dearer_of(domain, 1_000.0, 1_000 * loud * times) for times in (0.01, 1, 1.4, 2, 100)]
    assert costs == [1, 1, 2, 4, 4]  # squares: 1.4² is 1.96, and 2 in eighths


def test_the_room_of_a_round_of_one_grows_with_rows_and_with_little_noise_up_to_the_limit():
    binary = Schema.coded("toy", {f"c{i}": 2 for i in range(16)}).domain
    megabytes = 8 / 2**20
    trees_of_pairs = 64 * 16 * 4
    for rows, sigma, cells in (
        (1.0, 50.0, trees_of_pairs),
        (1_000.0, 50.0, 150_000),
        (1_000.0, 2.0, 150_000),
        (1_000.0, 0.5, 600_000),
    ):
        expected = pytest.approx(cells * megabytes / 80)
        assert room_of(binary, 1, 80.0, rows, sigma) == expected
    assert room_of(binary, 1, 80.0, 100_000.0, 50.0) == 1


def test_without_its_changes_it_asks_what_aim_asks_where_weights_do_not_matter():
    """A workload of one-way marginals: all of AIM's weights are alike."""
    bare = AimPlus(
        rounds=16 * len(LEVELS),
        alpha=0.9,
        final_pass=0.0,
        penalty=1.0,
        growth=4,
        threshold=1.0,
        shrink="no",
    )
    curators = []
    for mechanism in (bare, build("aim")):
        table = source()
        curator = Curator(table, Ledger(RHO), SeededNoise(1))
        workload = parse_workload("all-1way", curator.domain)
        mechanism.run(Task.of(table.schema, workload), curator)
        curators.append(curator)
    plus, aim = ([e for e in c.journal.events if e["event"] != "intent"] for c in curators)
    assert plus == aim


@pytest.mark.parametrize("seed", range(8))
def test_shares_are_those_of_a_general_optimiser(seed):
    """Random closures, costs and earlier information; by SLSQP on the simplex."""
    rng = np.random.default_rng(seed)
    domain = Schema.coded("toy", LEVELS).domain
    cliques = [
        tuple(sorted(rng.choice(list(LEVELS), size=int(rng.integers(1, 4)), replace=False)))
        for _ in range(int(rng.integers(1, 4)))
    ]
    log = [Measurement(Marginal(c), np.zeros(domain.shape(c), dtype=int), 1.0) for c in cliques]
    sets = closure(m.query.columns for m in log)
    inside = part_said(domain, sets)
    cost, so_far = rng.uniform(0.1, 50, len(sets)), rng.uniform(1e-3, 1, len(sets))
    gain = inside * rng.uniform(0.1, 20)

    def error(s: np.ndarray) -> float:
        return float((cost * (so_far + gain @ s) ** -0.5).sum())

    best = optimize.minimize(
        error,
        np.full(len(sets), 1 / len(sets)),
        method="SLSQP",
        bounds=[(0, 1)] * len(sets),
        constraints={"type": "eq", "fun": lambda s: s.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 2000},
    )
    found = shares(cost, so_far, gain)
    assert STEPS == 60
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    assert error(found) <= best.fun * 1.003


def test_shares_of_sets_apart_are_cells_to_the_two_thirds():
    """The closed form where nothing is known and no set lies in another."""
    cells = np.array([2.0, 30.0, 500.0])
    found = shares(cells, np.full(3, 1e-9), np.eye(3) * 7)
    assert found == pytest.approx(cells ** (2 / 3) / (cells ** (2 / 3)).sum(), rel=1e-6)


def test_sets_weigh_what_the_queries_that_read_them_weigh():
    workload = Workload({Marginal(tuple("abc")): 2.0, Threshold(tuple("bcd"), 2): 3.0})
    sets = [("a",), ("b",), ("d",), ("b", "c"), ("a", "d"), ("a", "b", "c")]
    assert list(workload.reading(sets)) == [2.0, 5.0, 3.0, 5.0, 0.0, 2.0]
    assert heard(np.array([0.0, HALF_HEARD * 5, 1e9]), 5.0) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 1.0}, "alpha"),
        ({"final_pass": 1.0}, "final-pass"),
        ({"final_pass": 1e-30}, "final-pass"),  # its noise could not be drawn
        ({"penalty": -0.1}, "penalty"),
        ({"penalty": float("nan")}, "penalty"),
        ({"growth": 1}, "growth"),
        ({"threshold": -1.0}, "threshold"),
        ({"max_megabytes": 0.0}, "max-megabytes"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(UsageError, match=f"aim-plus: {words}"):
        AimPlus(**options)


def test_few_rounds_are_refused_before_anything_is_charged():
    schema = Schema.coded("toy", LEVELS)
    task = Task.of(schema, parse_workload("all-2way", schema.domain))
    with pytest.raises(UsageError, match="at least the workload's 5 columns"):
        AimPlus(rounds=4).check(task)


def test_a_release_that_does_not_name_its_penalty_has_the_paper_s(tmp_path):
    """As releases of `aim` were written before there was another one."""
    given = source()
    every = np.indices(tuple(LEVELS.values())).reshape(len(LEVELS), -1)
    codes = dict(zip(LEVELS, every, strict=True))
    release = fit(
        codes,
        given.schema,
        workload="all-3way",
        mechanism=build("aim"),
        epsilon=0.5,
        delta=1e-6,
        seed=0,
    )
    folder = release.save(tmp_path / "release")
    head = json.loads((folder / "release.json").read_text())
    assert head["selections"]
    for selection in head["selections"]:
        del selection["penalty"]
    (folder / "release.json").write_text(json.dumps(head))
    assert Release.load(folder).bounds() == release.bounds()


def test_a_large_column_and_its_copy_are_measured_together() -> None:
    """Their pair has 3,600 cells, and noise on all of them is more than the table."""
    rng = np.random.default_rng(0)
    rows, levels = 20_000, 60
    large = rng.integers(levels, size=rows)
    small = {name: rng.integers(3, size=rows) for name in "cdefgh"}
    schema = Schema.coded("t", {"a": levels, "b": levels, **dict.fromkeys(small, 3)})
    release = fit(
        {"a": large, "b": large, **small}, schema, workload="all-2way",
        mechanism=build("aim-plus", {}), epsilon=1, delta=1e-6, seed=1,
    )  # fmt: skip
    assert any(m.query.columns == ("a", "b") for m in release.measurements)
    believed = release.model.marginals([("a", "b")])[0]
    exact = np.diag(np.bincount(large, minlength=levels))
    assert np.abs(believed - exact).sum() < 0.2 * rows


def test_a_plan_knows_that_pairs_are_answered_at_once_and_triples_one_by_one():
    """48 columns of large levels took 3 CPU s where 21 were said, by the number of pairs and by a
    tree that fills all its room; 30 columns took 9 for triples and 1 for pairs."""
    large = Schema.coded("large", {f"c{i:02}": 4 + i for i in range(48)})
    options: Any = {"workload": "all-2way", "mechanism": "aim-plus", "rows": 42_535}
    made = plan(large, epsilon=3, **options).plan
    assert made.seconds < 10
    assert any("ten times as long" in note for note in made.notes)
    small = Schema.coded("small", {f"c{i:02}": 6 for i in range(30)})
    pairs, triples = (
        plan(small, epsilon=1, **options | {"workload": which}).plan
        for which in ("all-2way", "all-3way")
    )
    assert triples.seconds > 3 * pairs.seconds


def test_a_plan_of_all_triples_of_a_wide_table_says_the_time_of_its_pairs():
    """Pairs are what rounds choose and are judged by, and what says whether these end soon."""
    schema = Schema.coded("wide", {f"c{i:03}": 4 for i in range(100)})
    for rows in (5_000, 100_000):
        pairs, triples = (
            plan(schema, workload=which, epsilon=1, mechanism="aim-plus", rows=rows).plan
            for which in ("all-2way", "all-3way")
        )
        assert triples.seconds == pytest.approx(pairs.seconds, rel=0.1)
