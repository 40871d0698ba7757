"""Product rows answer as a sum over all records would, whole, in blocks, and on a device."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import ResourceError
from admeasure.families.products import tensor
from admeasure.families.products.family import ProductModel
from admeasure.families.products.tensor import Answers, Layout
from admeasure.privacy.score import GRID, Exact, to_grid
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
    r, columns = tensor.at_least_of(query), query.columns
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
    blocks = list(Answers(P, LAYOUT).blocks(query))
    got = np.concatenate(blocks).reshape(LAYOUT.shape(query.columns))
    assert np.allclose(got, brute(query), rtol=0, atol=1e-12)


def test_blocks_are_cut_by_the_memory_limit_and_say_the_same(monkeypatch) -> None:
    query = Threshold(LAYOUT.columns, 3)
    whole = np.concatenate(list(Answers(P, LAYOUT).blocks(query)))
    monkeypatch.setattr(tensor, "BLOCK_CELLS", 30)
    monkeypatch.setattr(tensor, "PART_NUMBERS", 100)
    blocks = list(Answers(P, LAYOUT).blocks(query))
    assert len(blocks) > 4
    assert max(b.size for b in blocks) <= 30
    assert np.allclose(np.concatenate(blocks), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("limit", [1 << 24, 64])
def test_many_marginals_at_once_agree_with_one_at_a_time(monkeypatch, limit: int) -> None:
    monkeypatch.setattr(tensor, "PART_NUMBERS", limit)
    wanted = [c for k in range(4) for c in combinations(LAYOUT.columns, k)][::-1]
    for columns, got in zip(wanted, tensor.marginals(P, LAYOUT, wanted), strict=True):
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
    with pytest.raises(ResourceError, match=r"rap: .* 1e\+09 cells.*fewer bins"):
        tensor.check_query_size([Marginal("abc"[i] for i in range(3))], domain, "rap")


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_scores_on_a_device_are_those_in_memory(monkeypatch, r: int) -> None:
    """The tiles run on whatever JAX has; here it is the processor."""
    device = pytest.importorskip("admeasure.families.products.device")
    monkeypatch.setattr(device, "SHAPES", ((4, 8), (8, 4)))
    device._plan.cache_clear()
    total, query = 500.0, Threshold(("a", "b", "d", "f"), r)
    exact = Exact(np.random.default_rng(1).integers(0, 500, 72).astype(np.int32))
    model = ProductModel(DOMAIN, P.astype(np.float32), total)
    answers = np.concatenate(list(model.blocks(query)))
    expected = np.abs(exact.values.astype(np.int64) * GRID - to_grid(answers))
    made = list(device.scores(P.astype(np.float32), LAYOUT, total, query, exact))
    assert len(made) > 1
    got = np.concatenate([block.at(np.arange(block.size)) for block in made])
    # Single precision on both sides: the grid is 1/4096 of a row.
    assert np.abs(got - expected).max() <= 2
    for block in made:
        values = block.at(np.arange(block.size))
        cut = int(np.median(values))
        places, scores = block.above(cut, 1000)
        assert sorted(places.tolist()) == np.flatnonzero(values > cut).tolist()
        assert np.array_equal(scores, values[places])
        assert block.above(-1, 1) is None
    device._plan.cache_clear()
