"""Product rows answer as a sum over all records would, whole, in blocks, and on a device."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import ResourceError
from admeasure.families.products import tensor
from admeasure.families.products.family import ProductModel
from admeasure.families.products.placement import Tiling
from admeasure.families.products.tensor import Layout, ProductAnswers
from admeasure.privacy.scores.accelerator import scored
from admeasure.privacy.scores.score import GRID, to_grid
from admeasure.privacy.truth import Exact, ExactAnswers
from admeasure.queries import Marginal, Threshold

DOMAIN = Domain(("e", "b", "a", "d", "c", "f"), (2, 3, 2, 4, 1, 3))
LAYOUT = Layout.of(DOMAIN)


def rows_of(layout: Layout, rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    P = np.empty((layout.width, rows))
    for column in layout.columns:
        span = layout.span(column)
        P[span] = rng.dirichlet(np.full(span.stop - span.start, 0.5), size=rows).T
    return P


P = rows_of(LAYOUT, 5, seed=0)
QUERIES = [
    Threshold(columns, r)
    for k in range(1, 7)
    for columns in combinations(LAYOUT.columns, k)
    for r in range(1, k + 1)
]


def brute(query: Marginal | Threshold) -> np.ndarray:
    """Mean over rows of the probability of enough agreements, one record at a time."""
    r, columns = query.at_least, query.columns
    shape = LAYOUT.shape(columns)
    answers = np.zeros(shape)
    parts = [P[LAYOUT.span(c)] for c in columns]
    for record in product(*map(range, shape)):
        weight = np.mean(np.prod([p[v] for p, v in zip(parts, record, strict=True)], axis=0))
        for target in product(*map(range, shape)):
            answers[target] += weight * (
                sum(x == y for x, y in zip(record, target, strict=True)) >= r
            )
    return answers


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_every_threshold_agrees_with_a_sum_over_all_records(query: Threshold) -> None:
    blocks = list(ProductAnswers(P, LAYOUT).blocks(query))
    got = np.concatenate(blocks).reshape(LAYOUT.shape(query.columns))
    assert np.allclose(got, brute(query), rtol=0, atol=1e-12)


def test_blocks_are_cut_by_the_memory_limit_and_say_the_same() -> None:
    query = Threshold(LAYOUT.columns, 3)
    whole = np.concatenate(list(ProductAnswers(P, LAYOUT).blocks(query)))
    blocks = list(ProductAnswers(P, LAYOUT, block_cells=30, part_numbers=100).blocks(query))
    assert len(blocks) > 4
    assert max(b.size for b in blocks) <= 30
    assert np.allclose(np.concatenate(blocks), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("limit", [1 << 24, 64])
def test_many_marginals_at_once_agree_with_one_at_a_time(limit: int) -> None:
    wanted = [c for k in range(4) for c in combinations(LAYOUT.columns, k)][::-1]
    for columns, got in zip(wanted, tensor.marginals(P, LAYOUT, wanted, limit), strict=True):
        assert got.shape == LAYOUT.shape(columns)
        assert np.allclose(got, brute(Marginal(columns)), rtol=0, atol=1e-12)


def test_a_model_answers_in_rows_and_its_marginals_agree_with_each_other() -> None:
    model = ProductModel(DOMAIN, P.astype(np.float32), total=1000.0)
    pair, single, rows = model.marginals([("b", "d"), ("d",), ()])
    assert np.allclose(pair.sum(axis=0), single)
    assert single.sum() == pytest.approx(1000)
    assert rows == pytest.approx(1000)


def test_a_query_whose_counts_would_not_fit_is_refused() -> None:
    domain = Domain.of(dict.fromkeys("abc", 1000))
    with pytest.raises(ResourceError, match=r"rap: .* 1.00e\+9 cells.*fewer bins"):
        tensor.check_query_size([Marginal("abc"[i] for i in range(3))], domain, "rap")


def placed(total: float) -> ProductModel:
    """A model scored by the accelerator's code in small tiles, on whatever JAX has."""
    tiling = Tiling(tile=(4, 8), batch=(2, 8), groups=3)
    return ProductModel(DOMAIN, P.astype(np.float32), total, accelerator=tiling)


def all_scores(model: ProductModel, queries, counts) -> list[tuple[Marginal | Threshold, int, int]]:
    """Query, cell and score, in the order of the batches."""
    assert model.placed is not None
    batches = scored(model.placed, queries, ExactAnswers(lambda q: Exact(counts[q])))
    found = []
    for batch in batches:
        values = batch.scores.at(np.arange(batch.scores.size))
        found += [(*batch.place(i), int(v)) for i, v in enumerate(values)]
    return found


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_scores_on_a_device_are_those_in_memory(r: int) -> None:
    total = 500.0
    queries = [Threshold(c, r) for c in (("a", "b", "d", "f"), ("b", "d", "e", "f"))]
    rng = np.random.default_rng(1)
    counts = {q: rng.integers(0, 500, LAYOUT.cells(q.columns)) for q in queries}
    model = placed(total)
    found = all_scores(model, queries, counts)
    assert len(found) == len({(q, i) for q, i, _ in found}) == 72 + 72
    for query in queries:
        answers = np.concatenate(list(model.blocks(query)))
        expected = np.abs(counts[query] * GRID - to_grid(answers))
        got = np.array([v for _, v in sorted((i, v) for q, i, v in found if q == query)])
        # Single precision on both sides: the grid is 1/4096 of a row.
        assert np.abs(got - expected).max() <= 2


@pytest.mark.parametrize("query", [Marginal(list("abdf")), Threshold(list("abdf"), 2)], ids=str)
def test_what_is_above_a_cut_is_found_on_a_device(query) -> None:
    rng = np.random.default_rng(2)
    counts = np.where(rng.random(72) < 0.3, rng.integers(0, 99, 72), 0)
    for batch in scored(placed(400.0).placed, [query], ExactAnswers(lambda _: Exact(counts))):
        block = batch.scores
        values = block.at(np.arange(block.size))
        for cut in (int(values.max()), *np.sort(values)[[-2, -8, 4]].tolist(), -1):
            places, scores = block.above(cut, 1000) or (None, None)
            assert places.tolist() == np.flatnonzero(values > cut).tolist()
            assert np.array_equal(scores, values[places])
        assert block.above(-1, 1) is None


def test_the_groups_that_come_back_hold_every_score_above_a_limit() -> None:
    from admeasure.privacy.scores import tiles

    rng = np.random.default_rng(3)
    for scores in (
        rng.integers(-1, 2**31 - 2, 4096),
        rng.integers(-1, 4, 4096),
        np.full(4096, 7),
        np.full(4096, -1),
        np.where(np.arange(4096) == 77, 5, -1),
    ):
        for groups in (1, 8, 64, 128):
            lowest, count, which, held = map(
                np.asarray, tiles.best(scores.astype(np.int32), group=32, groups=groups)
            )
            parts = scores.reshape(-1, 32)
            reach = np.flatnonzero(parts.max(axis=1) > lowest)
            assert which[:count].tolist() == reach.tolist()
            assert np.array_equal(held[:count], parts[reach])
            # And no lower limit would do.
            assert lowest == -1 or np.sum(parts.max(axis=1) > lowest - 1) > groups


def test_cells_are_found_again_where_a_batch_has_them() -> None:
    query, other = Marginal(list("abdf")), Marginal(list("abde"))
    exact = ExactAnswers(lambda q: Exact(np.zeros(LAYOUT.cells(q.columns), np.int64)))
    seen = []
    for batch in scored(placed(400.0).placed, [query, other], exact):
        for asked in batch.queries:
            every = np.arange(LAYOUT.cells(asked.columns))
            for position in batch.positions(asked, every):
                seen.append(batch.place(position))
                assert seen[-1][0] == asked
    assert len(seen) == len(set(seen)) == 72 + 48
