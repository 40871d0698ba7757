"""Counts of the cells that occur, against dictionaries and against the dense counts."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.sources.cells import CellCounter, count_cells, count_cells_in_passes
from admeasure.sources.count import count_marginals


def random_codes(domain: Domain, rows: int, seed: int) -> dict[str, np.ndarray]:
    """Codes of which a few are frequent, so that cells occur again."""
    rng = np.random.default_rng(seed)
    drawn = {c: (domain[c] * rng.random(rows) ** 3).astype(int) for c in domain.columns}
    return {c: v.astype(np.uint8 if domain[c] <= 256 else np.uint16) for c, v in drawn.items()}


def by_dictionary(codes: dict[str, np.ndarray], columns: tuple[str, ...]) -> list:
    rows = list(zip(*(codes[c].tolist() for c in columns), strict=True))
    if not columns:
        rows = [()] * len(next(iter(codes.values())))
    return sorted(collections.Counter(rows).items())


def as_list(one) -> list:
    return [(tuple(c), n) for c, n in zip(one.codes.tolist(), one.counts.tolist(), strict=True)]


@settings(max_examples=60)
@given(
    levels=st.lists(st.sampled_from([1, 2, 7, 250, 300, 60_000]), min_size=1, max_size=9),
    rows=st.integers(0, 80),
    dense=st.sampled_from([0, 1000]),
    fresh=st.sampled_from([0, 64, 10**7]),
    data=st.data(),
)
def test_any_set_of_marginals_is_counted_as_a_dictionary_would(levels, rows, dense, fresh, data):
    names = tuple(f"c{i}" for i in range(len(levels)))
    domain = Domain(names, tuple(levels))
    subsets = [(), *(c for k in (1, 2, 3, len(names)) for c in itertools.combinations(names, k))]
    asked = data.draw(st.lists(st.sampled_from(subsets), max_size=6))
    codes = random_codes(domain, rows, seed=rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=4)))
    counter = CellCounter(domain, asked, dense_cells=dense, fresh_bytes=fresh)
    for start, stop in itertools.pairwise([0, *cuts, rows]):
        counter.add({name: column[start:stop] for name, column in codes.items()})
    found = counter.result()
    assert set(found) == set(asked)
    for columns, one in found.items():
        assert one.columns == columns
        assert as_list(one) == by_dictionary(codes, one.columns)
        assert one.counts.dtype == np.int64
        assert one.codes.shape == (len(one.counts), len(one.columns))


def test_sparse_and_dense_counts_are_the_same_above_the_size_of_a_block():
    domain = Domain(tuple("abcd"), (40, 300, 5, 9))
    codes = random_codes(domain, 200_000, seed=1)
    asked = [c for k in (1, 2, 3, 4) for c in itertools.combinations("abcd", k)]
    sparse = count_cells(codes, domain, asked)
    for one, dense in zip(sparse, count_marginals(codes, domain, asked), strict=True):
        assert (one.dense(domain) == dense).all()


def test_five_hundred_columns_are_one_marginal():
    domain = Domain(tuple(f"c{i:03}" for i in range(500)), (16,) * 500)
    codes = random_codes(domain, 40, seed=2)
    codes = {name: np.tile(column, 3) for name, column in codes.items()}
    (found,) = count_cells(codes, domain, [domain.columns])
    assert as_list(found) == by_dictionary(codes, domain.columns)
    assert set(found.counts.tolist()) == {3}


def test_the_same_marginal_twice_gives_arrays_of_their_own():
    domain = Domain(("a", "b"), (2, 3))
    first, second = count_cells(random_codes(domain, 9, seed=4), domain, [("a", "b")] * 2)
    first.counts[:] = 0
    assert second.counts.sum() == 9


def test_more_cells_than_the_limit_are_refused():
    domain = Domain(("a", "b"), (60_000, 60_000))
    codes = random_codes(domain, 100_000, seed=5)
    counter = CellCounter(domain, [("a", "b")], max_bytes=1000, fresh_bytes=0)
    with pytest.raises(ResourceError, match="cells that occur") as caught:
        counter.add(codes)
    assert "\n" not in str(caught.value)


@pytest.fixture
def held(monkeypatch) -> list[int]:
    """Cells of tables, and words of cells that were found, of each counter after each chunk."""
    seen: list[int] = []
    plain = CellCounter.add

    def watched(self, codes):
        plain(self, codes)
        tables = sum(table.size for table in self._dense._tables.values())
        seen.append(tables + sum(runs.nbytes // 8 for runs in self._runs.values()))

    monkeypatch.setattr(CellCounter, "add", watched)
    return seen


NAMES = tuple(f"c{i}" for i in range(9))
TRIPLES = list(itertools.combinations(NAMES, 3))


@pytest.mark.parametrize("rows", [300, 200_000])
@pytest.mark.parametrize("dense", [True, False])
def test_marginals_that_do_not_fit_together_are_counted_in_several_passes(held, rows, dense):
    """With many rows small marginals are counted in joints of far more cells than they have."""
    domain = Domain(NAMES, (4,) * 9)
    codes = random_codes(domain, rows, seed=6)
    expected = count_marginals(codes, domain, TRIPLES)
    results = sum(int((table > 0).sum()) for table in expected) * (8 + 3)
    limit = results + 20_000
    passes = []

    def read(columns, part):
        passes.append((part, columns))
        for start in range(0, rows, 50_000):
            yield {name: codes[name][start : start + 50_000] for name in columns}

    how = {} if dense else {"dense_cells": 0, "fresh_bytes": 0}
    found = count_cells_in_passes(read, domain, [*TRIPLES, ()], rows=rows, max_bytes=limit, **how)
    assert [one.columns for one in found] == [*TRIPLES, ()]
    for one, table in zip(found, expected, strict=False):
        assert (one.dense(domain) == table).all()
    assert found[-1].counts.tolist() == [rows]
    assert 8 * max(held) <= limit
    assert 1 < len(passes) <= len(TRIPLES)
    assert [part[0] for part, _ in passes] == list(range(len(passes)))


def test_results_that_do_not_fit_are_refused_however_many_passes_there_are():
    domain = Domain(NAMES, (4,) * 9)
    codes = random_codes(domain, 5000, seed=7)
    tables = count_marginals(codes, domain, TRIPLES)
    results = sum(int((table > 0).sum()) for table in tables) * (8 + 3)
    with pytest.raises(ResourceError, match="cells that occur"):
        count_cells_in_passes(lambda *_: [codes], domain, TRIPLES, max_bytes=results - 1)


def test_packed_rows_of_many_marginals_do_not_wait_for_a_whole_block():
    """However many marginals there are, the rows that wait keep to their limit."""
    domain = Domain(NAMES, (4,) * 9)
    codes = random_codes(domain, 3000, seed=8)
    counter = CellCounter(domain, TRIPLES, dense_cells=0, fresh_bytes=2**16)
    for start in range(0, 3000, 10):
        counter.add({name: column[start : start + 10] for name, column in codes.items()})
        waiting = sum(8 * runs._fresh_rows * len(runs.groups) for runs in counter._runs.values())
        assert waiting <= 2**16
    for columns, one in counter.result().items():
        assert as_list(one) == by_dictionary(codes, columns)


def test_an_unknown_or_repeated_column_is_named():
    domain = Domain(("a", "b"), (2, 2))
    with pytest.raises(UsageError, match="'z'"):
        CellCounter(domain, [("a", "z")])
    with pytest.raises(UsageError, match="twice"):
        CellCounter(domain, [("a", "a")])
