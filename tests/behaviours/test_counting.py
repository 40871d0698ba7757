"""The counting kernel gives exact counts, however it shares the work."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.sources import count
from admeasure.sources.count import Counter, count_marginals


def random_codes(domain: Domain, rows: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, domain[name], rows).astype(
            np.uint8 if domain[name] <= 256 else np.uint16
        )
        for name in domain.columns
    }


def one_by_one(codes: dict[str, np.ndarray], domain: Domain, columns: tuple) -> np.ndarray:
    counts = np.zeros(domain.shape(columns), np.int64)
    for row in zip(*(codes[c].tolist() for c in columns), strict=True):
        counts[row] += 1
    return counts


def histogram(codes: dict[str, np.ndarray], domain: Domain, columns: tuple) -> np.ndarray:
    """By numpy's own many-dimensional histogram, which shares no code with ours."""
    edges = [np.arange(domain[c] + 1) - 0.5 for c in columns]
    return np.histogramdd(np.stack([codes[c] for c in columns], axis=1), edges)[0]


@settings(deadline=None, max_examples=60)
@given(
    levels=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    rows=st.integers(0, 60),
    limit=st.sampled_from([0, 30, 2000]),
    data=st.data(),
)
def test_any_set_of_marginals_is_counted_exactly(levels, rows, limit, data):
    names = tuple(f"c{i}" for i in range(len(levels)))
    domain = Domain(names, tuple(levels))
    subsets = [c for k in range(1, 5) for c in itertools.combinations(names, k)]
    asked = data.draw(st.lists(st.sampled_from([*subsets, ()]), max_size=12))
    codes = random_codes(domain, rows, seed=rows)
    found = count_marginals(codes, domain, asked, joint_cells=limit)
    assert len(found) == len(asked)
    for columns, array in zip(asked, found, strict=True):
        if columns:
            assert (array == one_by_one(codes, domain, columns)).all()
        else:
            assert (array.shape, int(array)) == ((), rows)
        assert array.dtype == np.int64
        assert array.flags.c_contiguous


@pytest.mark.parametrize("rows", [1000, 150_000, 300_000])
def test_every_three_way_marginal_is_exact_below_and_above_the_size_of_a_block(rows):
    domain = Domain(tuple("abcdefgh"), (32, 9, 300, 2, 16, 5, 2, 7))
    codes = random_codes(domain, rows, seed=1)
    asked = list(itertools.combinations("abcdefgh", 3))
    for columns, array in zip(asked, count_marginals(codes, domain, asked), strict=True):
        assert (array == histogram(codes, domain, columns)).all()


def test_chunks_of_any_size_add_up_to_the_whole():
    domain = Domain(tuple("abcd"), (5, 4, 3, 2))
    codes = random_codes(domain, 200_000, seed=2)
    asked = [("a", "b"), ("b", "c", "d"), ("d",), ()]
    counter = Counter(domain, asked)
    cuts = [0, 0, 1, 7, 100_000, 100_000, 199_999, 200_000]
    for start, stop in itertools.pairwise(cuts):
        counter.add({name: column[start:stop] for name, column in codes.items()})
    for found, whole in zip(counter.result(), count_marginals(codes, domain, asked), strict=True):
        assert (found == whole).all()


def test_a_marginal_with_far_more_cells_than_rows_is_exact():
    domain = Domain(("a", "b"), (3000, 2500))
    codes = random_codes(domain, 500, seed=3)
    (found,) = count_marginals(codes, domain, [("a", "b")])
    assert found.sum() == 500
    assert all(found[a, b] for a, b in zip(codes["a"], codes["b"], strict=True))
    assert np.count_nonzero(found) == len(
        {*zip(*(c.tolist() for c in codes.values()), strict=True)}
    )


def test_a_counter_asks_only_for_the_columns_it_needs():
    counter = Counter(Domain(tuple("abcd"), (2, 2, 2, 2)), [("c",), ("a", "c"), ()])
    assert counter.columns == ("a", "c")


def test_the_same_marginal_twice_gives_two_arrays():
    domain = Domain(("a", "b"), (2, 3))
    first, second = count_marginals(random_codes(domain, 9, seed=4), domain, [("a", "b")] * 2)
    first += 1
    assert second.sum() == 9


def test_more_cells_than_the_limit_are_refused_before_counting():
    domain = Domain(("a", "b", "c"), (65_536, 65_536, 2))
    with pytest.raises(ResourceError, match="fewer"):
        Counter(domain, [("a", "b")])
    with pytest.raises(ResourceError, match="limit of 10"):
        Counter(domain, [("c",)] * 20 + [("a",)], max_cells=10)


def test_an_unknown_or_repeated_column_is_named():
    domain = Domain(("a", "b"), (2, 2))
    with pytest.raises(UsageError, match="'z'"):
        Counter(domain, [("a", "z")])
    with pytest.raises(UsageError, match="twice"):
        Counter(domain, [("a", "a")])


@given(
    st.lists(st.integers(2, 40), min_size=3, max_size=9),
    st.sampled_from([0, 100, 5000]),
    st.integers(1, 3),
)
@settings(deadline=None, max_examples=40)
def test_a_plan_covers_what_is_asked_within_its_limit(levels, limit, ways):
    domain = Domain(tuple(f"c{i}" for i in range(len(levels))), tuple(levels))
    asked = list(itertools.combinations(domain.columns, ways))
    plan = count.joint_of_each(domain, asked, limit)
    largest = max(math.prod(domain.shape(columns)) for columns in asked)
    for columns in asked:
        assert set(columns) <= set(plan[columns])
        assert domain.cells(plan[columns]) <= max(limit, largest)
