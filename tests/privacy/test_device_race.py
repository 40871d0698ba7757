"""The race on an accelerator's scores: only cells that exist take part, with the law they should.

Everything runs on whatever JAX has: with every change on the processor, where the accelerator's
code is asked for by its `Tiling`; and, marked `gpu`, on an accelerator, there also as it is used.
The law is that of exponential mechanisms one after the other, in arithmetic of many digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from types import SimpleNamespace
from typing import ClassVar

import jax
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from admeasure.auditing.replay import compare
from admeasure.domain import Domain
from admeasure.families.products.family import ProductFamily, ProductModel
from admeasure.families.products.optimise import first_rows
from admeasure.families.products.placement import Tiling
from admeasure.families.products.tensor import Layout
from admeasure.mechanisms.rap import Rap
from admeasure.planning.division import Task
from admeasure.privacy.bits import SeededBits
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.race import Race
from admeasure.privacy.scores import tiles
from admeasure.privacy.scores.accelerator import BatchPlan, DeviceScores, TileBatch, plans, scored
from admeasure.privacy.scores.score import GRID, to_grid
from admeasure.privacy.truth import Exact, ExactAnswers
from admeasure.queries import Marginal, Threshold, from_record
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours, Unit
from admeasure.workload import Workload, parse_workload

ALPHA = 1e-8
"""The chance that one chi-square test of a sound program fails; there are fewer than a hundred."""

SMALL = Tiling(tile=(4, 8), batch=(2, 2), group=8, groups=3, part=4, asked=16)
TALL = Tiling(tile=(8, 4), batch=(1, 3), group=4, groups=2, many_groups=5, part=1, asked=64)
USED = Tiling()

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 5, "d": 7})
LAYOUT = Layout.of(DOMAIN)
PAIRS = [Marginal(c) for c in combinations(DOMAIN.columns, 2)]
FEW = [Marginal([c]) for c in DOMAIN.columns]
MIXED = [Marginal(["a", "c", "d"]), Threshold(["a", "b", "d"], 2), Threshold(["b", "c"], 1), *FEW]

on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(jax.default_backend() == "cpu", reason="JAX has no accelerator"),
]


ON_GPU = [
    pytest.param(SMALL, marks=on_gpu, id="gpu, small"),
    pytest.param(USED, marks=on_gpu, id="gpu, as used"),
]
EVERYWHERE = pytest.param(SMALL, id="small")


# Only what exists.


def made_up(plan: BatchPlan, scores: np.ndarray, filling: int) -> DeviceScores:
    """The batch of a plan with given scores in its cells, and a filling beyond them."""
    rows, width = plan.static.tile
    flat, start = np.full((plan.count, rows, width), filling, np.int32), 0
    for i, s in enumerate(plan.spans):
        high, wide = s.high - s.low, s.right - s.left
        flat[i, :high, :wide] = scores[start : start + s.size].reshape(high, wide)
        start += s.size
    on_device = jax.numpy.asarray(flat.ravel())
    group, groups = plan.static.group, plan.static.groups
    return DeviceScores(plan, on_device, tiles.best(on_device, group=group, groups=groups))


def same(found, scores: np.ndarray, cut: int) -> bool:
    """Whether these are the positions and scores above the cut, found the plain way."""
    expected = [i for i, score in enumerate(scores.tolist()) if score > cut]
    return found[0].tolist() == expected and found[1].tolist() == scores[expected].tolist()


@pytest.mark.parametrize("tiling", [SMALL, TALL], ids=["small", "tall"])
@pytest.mark.parametrize("queries", [PAIRS, FEW, MIXED], ids=["pairs", "few", "mixed"])
def test_above_any_cut_are_the_cells_with_such_scores_and_no_other(tiling, queries, times, tally):
    """Also where what fills a tile up is larger than a score: it is no candidate by its value."""
    batches = plans(LAYOUT, tuple(queries), tiling)
    tops = st.sampled_from([0, 1, 3, 100, 2**30])
    cuts = (
        st.integers(-(2**70), 2**70) | st.integers(-3, 4) | st.sampled_from([-(2**63) - 1, 2**63])
    )

    @settings(max_examples=times(40, 2000), deadline=None, database=None)
    @given(st.sampled_from(batches), tops, st.integers(0, 2**32), cuts, st.integers(0, 80))
    def over_cuts(plan, top, seed, cut, most):
        scores = np.random.default_rng(seed).integers(0, top + 1, int(plan.ends[-1]))
        block = made_up(plan, scores, -1)
        for at in (cut, *np.random.default_rng(seed).choice(scores, 2).tolist(), -2, -1):
            found, count = block.above(at, most), int((scores > at).sum())
            if count <= min(most, plan.tiling.many_groups):
                assert found is not None
            assert found is None or (count <= most and same(found, scores, at))
        order = np.random.default_rng(seed).permutation(block.size)
        assert block.at(order).tolist() == scores[order].tolist()
        assert block.at(order[:0]).tolist() == []
        for filling in (-(2**31), 0, 2**31 - 2):
            found = made_up(plan, scores, filling).above(cut, 10**6)
            assert found is None or same(found, scores, cut)

    over_cuts()
    tally("accelerator: batches of scores cut and compared", times(40, 2000))


# With the law it should have.


@lru_cache
def batches(tiling: Tiling, queries: tuple, domain: Domain = DOMAIN) -> list[TileBatch]:
    """Scores of a fixed table, which a race may read again and again."""
    layout, rng = Layout.of(domain), np.random.default_rng(7)
    counts = {q: rng.integers(0, 9, layout.cells(q.columns)) for q in queries}
    model = ProductModel(domain, first_rows(layout, 12, "softmax"), 60.0, accelerator=tiling)
    assert model.placed is not None
    return list(scored(model.placed, queries, ExactAnswers(lambda q: Exact(counts[q]))))


def scores_of(made: Sequence[TileBatch]) -> list[int]:
    found = [batch.scores.at(np.arange(batch.scores.size)) for batch in made]
    return np.concatenate(found).tolist()


def weights_of(scores: list[int], step: Fraction) -> list[mpmath.mpf]:
    best, ratio = max(scores), mpmath.mpf(step.numerator) / step.denominator
    return [mpmath.exp(ratio * (score - best)) for score in scores]


def law(scores: list[int], step: Fraction, k: int) -> dict[tuple[int, ...], mpmath.mpf]:
    """P of each set of k: exponential mechanisms one after the other, order forgotten."""
    weights = weights_of(scores, step)
    ordered = {(): mpmath.mpf(1)}
    for _ in range(k):
        longer = {}
        for taken, p in ordered.items():
            left = [i for i in range(len(scores)) if i not in taken]
            total = mpmath.fsum(weights[i] for i in left)
            longer |= {(*taken, i): p * weights[i] / total for i in left}
        ordered = longer
    found: dict[tuple[int, ...], mpmath.mpf] = {}
    for taken, p in ordered.items():
        key = tuple(sorted(taken))
        found[key] = found.get(key, mpmath.mpf(0)) + p
    return found


def has_law(found: Counter, expected: dict, draws: int) -> bool:
    """Chi-square; what is expected less than ten times is put together."""
    assert set(found) <= set(expected)
    common = [key for key, p in expected.items() if p * draws >= 10]
    counts = [found[key] for key in common]
    hopes = [float(expected[key] * draws) for key in common]
    rest = draws - sum(hopes)
    if rest > 1e-6:
        counts, hopes = [*counts, draws - sum(counts)], [*hopes, rest]
    return len(hopes) < 2 or chisquare(counts, hopes, sum_check=False).pvalue > ALPHA


STEPS = {
    "no budget": Fraction(0),
    "flat": Fraction(1, 10**9),
    "gentle": Fraction(1, 4 * GRID),
    "steep": Fraction(2, GRID),
}
CASES = {
    **{f"one of few, {name}": (tuple(FEW), step, 1) for name, step in STEPS.items()},
    **{f"two of few, {name}": (tuple(FEW), step, 2) for name, step in STEPS.items()},
    "three of few, flat": (tuple(FEW), STEPS["flat"], 3),
    "one of mixed, flat": (tuple(MIXED), STEPS["flat"], 1),
    "one of mixed, gentle": (tuple(MIXED), STEPS["gentle"], 1),
}


@pytest.mark.statistical
@pytest.mark.parametrize("tiling", [EVERYWHERE, *ON_GPU])
@pytest.mark.parametrize(("queries", "step", "k"), CASES.values(), ids=CASES)
def test_who_wins_has_the_law_of_exponential_mechanisms(tiling, queries, step, k, times, tally):
    """Chi-square at 1e-8. Batches are small, so but for the first they are read by a cut; where
    scores are flat it lies below all of them."""
    made, draws, bits = batches(tiling, queries), times(1500, 20_000), SeededBits(k)
    with mpmath.workdps(40):
        expected = law(scores_of(made), step, k)
        assert abs(mpmath.fsum(expected.values()) - 1) < 1e-30
    found: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        race = Race(bits, step, k)
        for batch in made:
            race.add(batch.scores)
        found[tuple(race.result())] += 1
    assert has_law(found, expected, draws)
    tally("accelerator: races whose winners have their law", draws)


@pytest.mark.statistical
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("tiling", ON_GPU[1:])
def test_who_wins_among_many_comes_from_heights_as_the_law_says(tiling, step, times, tally):
    """Chi-square at 1e-8 over twenty ranges of scores: 280,000 cells in batches of one tile to
    sixteen, the last of 7 cells."""
    domain = Domain.of({"a": 90, "b": 50, "c": 60, "d": 7})
    queries = (Marginal([*"abc"]), Threshold([*"bc"], 1), Threshold([*"ab"], 1), Marginal(["d"]))
    made, draws, bits = batches(tiling, queries, domain), times(1000, 5000), SeededBits(9)
    scores = np.array(scores_of(made))
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, 21))[1:-1])
    ranges = np.searchsorted(edges, scores)
    with mpmath.workdps(40):
        values, places = np.unique(scores, return_inverse=True)
        weights = weights_of(values.tolist(), step)
        shares = {(int(r),): mpmath.mpf(0) for r in ranges}
        for (r, v), times_there in Counter(
            zip(ranges.tolist(), places.tolist(), strict=True)
        ).items():
            shares[(r,)] += times_there * weights[v]
        total = mpmath.fsum(shares.values())
        expected = {key: share / total for key, share in shares.items()}
    found: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        race = Race(bits, step, 1)
        for batch in made:
            race.add(batch.scores)
        found[(int(ranges[race.result()[0]]),)] += 1
    assert has_law(found, expected, draws)
    tally("accelerator: races whose winners have their law", draws)


# The same bits whatever the table.


TABLES = {
    "empty": lambda rng, size: np.zeros(size, np.int64),
    "one cell": lambda rng, size: np.eye(1, size, size // 2, dtype=np.int64)[0],
    "some cells": lambda rng, size: rng.integers(0, 50, size) * (rng.random(size) < 0.3),
    "all cells": lambda rng, size: rng.integers(1, 50, size),
    "beyond 32 bits": lambda rng, size: rng.integers(0, 2**40, size),
}
COMPILED = (tiles.answered, tiles.compared, tiles.put, tiles.best, tiles.groups_above, tiles.at)


def all_scores(tiling: Tiling, counts: dict) -> dict:
    P = first_rows(LAYOUT, 12, "softmax")
    model = ProductModel(DOMAIN, P, 60.0, accelerator=tiling)
    found = {}
    for batch in scored(model.placed, MIXED, ExactAnswers(lambda q: Exact(counts[q]))):
        batch.scores.above(-(2**40), 10**6)
        values = batch.scores.at(np.arange(batch.scores.size)).tolist()
        found |= {batch.place(i): value for i, value in enumerate(values)}
    return found


@pytest.mark.parametrize(
    "tiling",
    [
        EVERYWHERE,
        pytest.param(replace(SMALL, part=64), id="parts"),
        pytest.param(TALL, id="tall"),
        *ON_GPU,
    ],
)
def test_a_score_is_its_count_less_the_same_answer_and_shapes_are_public(tiling, tally):
    """How many cells occur changes neither what is compiled nor any other cell's score, bit for
    bit; and the answers are those of the host in double precision, to the grid's next point."""
    sizes = {q: LAYOUT.cells(q.columns) for q in MIXED}
    believed = all_scores(tiling, {q: np.zeros(n, np.int64) for q, n in sizes.items()})
    model = ProductModel(DOMAIN, first_rows(LAYOUT, 12, "softmax").astype(np.float64), 60.0)
    for query in MIXED:
        answers = to_grid(np.concatenate(list(model.blocks(query)))).tolist()
        assert len(answers) == sizes[query]
        assert max(abs(believed[query, i] - a) for i, a in enumerate(answers)) <= 1
    compiled = [function._cache_size() for function in COMPILED]
    for name, make in TABLES.items():
        rng = np.random.default_rng(len(name))
        counts = {q: make(rng, n) for q, n in sizes.items()}
        found = all_scores(tiling, counts)
        assert found == {
            (q, i): abs(min(int(counts[q][i]), 2**18) * GRID - answer)
            for (q, i), answer in believed.items()
        }
        assert [function._cache_size() for function in COMPILED] == compiled, name
    tally("accelerator: tables scored, the same bits", len(TABLES))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30, -1e30])
def test_answers_stay_on_the_grid_whatever_the_rows_hold(bad):
    """So no sum leaves 32 bits, whatever went wrong in a fit."""
    rows = first_rows(LAYOUT, 12, "softmax")
    rows[:, 3] = bad
    (plan, *_) = plans(LAYOUT, tuple(PAIRS), SMALL)
    made = np.asarray(tiles.answered(rows, plan.tiles, 60.0 * GRID, static=plan.static))
    assert made.min() == -1
    assert made.max() <= 60 * GRID


# Whole runs.


@dataclass(frozen=True)
class OnTiles:
    """`rap` as it runs where there is an accelerator."""

    tiling: Tiling
    name: ClassVar[str] = "rap on tiles"

    def run(self, task, curator):
        options = Rap(rounds=3, queries=2, product_rows=8, steps=2)
        family = ProductFamily(options.family().how, self.tiling)
        return options.run_by(family, task, curator)


class Rows:
    """A few random rows, counted."""

    in_memory = True

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.schema = SimpleNamespace(domain=DOMAIN, unit=Unit(Neighbours.ADD_REMOVE, 1))
        self._codes = {c: rng.integers(0, DOMAIN[c], rng.integers(1, 12)) for c in DOMAIN.columns}

    def counts(self, marginals):
        found = []
        for columns in marginals:
            rows = min(map(len, self._codes.values()))
            table = np.zeros(DOMAIN.shape(columns), np.int64)
            np.add.at(table, tuple(self._codes[c][:rows] for c in columns), 1 if columns else rows)
            found.append(table)
        return found


@pytest.mark.parametrize("tiling", [EVERYWHERE, *ON_GPU])
def test_a_run_chooses_cells_that_exist_however_small_its_budget(tiling, times, tally):
    task = Task(DOMAIN, Workload(PAIRS), (), Unit())
    for seed in range(times(12, 60)):
        rho = (Fraction(1, 10**9), Fraction(1, 100))[seed % 2]
        curator = Curator(Rows(seed), Ledger(rho), SeededNoise(seed))
        OnTiles(tiling).run(task, curator)
        chosen = [c for e in curator.journal.events for c in e.get("chosen", ())]
        cells = [from_record(record) for record in chosen]
        assert len(set(cells)) == 6
        assert all(c < DOMAIN[n] for q in cells for n, c in zip(q.columns, q.codes, strict=True))
    tally("accelerator: whole runs", times(12, 60))


@pytest.mark.parametrize("tiling", [EVERYWHERE])
def test_runs_on_neighbours_differ_only_in_what_is_noised(tiling, times, tally):
    """On the processor alone: on a GPU a fit adds in varying order, so no two runs are alike."""
    schema = Schema.coded("toy", dict(zip(DOMAIN.columns, DOMAIN.levels, strict=True)))
    workload, rng = parse_workload("all-2way", schema.domain), np.random.default_rng(3)
    for seed in range(times(6, 60)):
        rows = int(rng.integers(2, 12))
        frame = {c: rng.integers(0, DOMAIN[c], rows) for c in DOMAIN.columns}
        pair = [frame, {c: codes[:-1] for c, codes in frame.items()}]
        table, neighbour = (MemorySource(f, schema) for f in (pair if seed % 2 else pair[::-1]))
        rho = (Fraction(1, 10**9), Fraction(1, 100), Fraction(1))[seed % 3]
        found = compare(OnTiles(tiling), workload, table, neighbour, rho, SeededNoise(seed))
        assert found.faults == ()
        assert found.choices == 3
    tally("accelerator: pairs of runs compared", times(6, 60))
