"""Exact answers in blocks are those of whole tables, and what is kept of them is bounded."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.families.products.family import ProductModel
from admeasure.families.products.optimise import first_rows
from admeasure.families.products.tensor import Layout
from admeasure.privacy import reading, truth
from admeasure.privacy.counts import KeptCounts
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.memory import Memory
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.reading import AnswerReader
from admeasure.privacy.scores.streamed import CellErrors
from admeasure.privacy.truth import Exact, ExactAnswers
from admeasure.queries import Cell, Marginal, Threshold, ThresholdCell
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource

LEVELS = {"a": 5, "b": 4, "c": 3, "d": 6}
_RNG = np.random.default_rng(0)
TABLE = {c: _RNG.choice(n, 300, p=_RNG.dirichlet(np.full(n, 0.3))) for c, n in LEVELS.items()}
SOURCE = MemorySource(TABLE, Schema.coded("toy", LEVELS))
DOMAIN: Domain = SOURCE.schema.domain
QUERIES = [
    Threshold(columns, r)
    for k in (1, 2, 3, 4)
    for columns in combinations(sorted(LEVELS), k)
    for r in range(1, k + 1)
]


LARGE = Memory(small_cells=0, dense_cells=0, batch_cells=0)
"""Every query counts as one that is too large to be held whole."""


def reader_of(source, memory: Memory = LARGE) -> AnswerReader:
    return AnswerReader(source, lambda columns: SOURCE.counts([columns])[0], memory)


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_blocks_of_large_queries_are_parts_of_the_whole(query: Threshold) -> None:
    expected = np.ravel(query.answer(SOURCE.counts([query.columns])[0]))
    answers = reader_of(SOURCE)(query)
    assert not isinstance(answers, Exact)
    assert answers.size == len(expected)
    for low, high in ((0, answers.size), (0, 1), (answers.size // 3, answers.size // 2 + 1)):
        assert np.array_equal(answers.block(low, high), expected[low:high])
    places, values = answers.cells()
    assert np.array_equal(places, np.flatnonzero(expected))
    assert np.array_equal(values, expected[places])


def test_a_block_belongs_to_who_asked_for_it() -> None:
    for query in QUERIES:
        answers = reader_of(SOURCE)(query)
        before = answers.block(0, answers.size)
        answers.block(0, answers.size)[:] = -1
        assert np.array_equal(answers.block(0, answers.size), before)


def test_single_answers_from_the_cells_that_occur() -> None:
    found = dict(zip([("a", "c", "d")], SOURCE.sparse([("a", "c", "d")]), strict=True))
    (counts,) = SOURCE.counts([("a", "c", "d")])
    for codes in np.ndindex(*counts.shape):
        cell = Cell(["a", "c", "d"], codes)
        assert truth.of_cells(cell, found["a", "c", "d"]) == cell.answer(counts)
        some = ThresholdCell(["a", "c", "d"], 2, codes)
        assert truth.of_cells(some, found["a", "c", "d"]) == some.answer(counts)


def test_large_queries_are_chosen_and_measured_as_small_ones_are() -> None:
    """The same noise and the same integers, so the same queries and answers."""
    P = first_rows(Layout.of(DOMAIN), 20, "softmax")
    score = CellErrors(ProductModel(DOMAIN, P, 300.0))
    asked = [Marginal(["a", "b", "d"]), Threshold(["a", "b", "c", "d"], 2)]

    def outcome(memory: Memory):
        keeper = Curator(SOURCE, Ledger(10), SeededNoise(3), memory=memory)
        chosen = keeper.top_k(score, asked, 8, Fraction(1))
        return chosen, [int(m.values) for m in keeper.measure(chosen, Fraction(1))]

    assert outcome(LARGE) == outcome(Memory())


def test_what_is_expected_is_read_together_and_within_a_limit() -> None:
    read: list[int] = []

    class Spy:
        schema, in_memory = SOURCE.schema, False

        def counts(self, marginals):
            return SOURCE.counts(marginals)

        def sparse(self, marginals):
            read.append(len(marginals))
            return SOURCE.sparse(marginals)

    marginals = [Marginal(c) for c in combinations(sorted(LEVELS), 2)]
    reader = reader_of(Spy(), Memory(small_cells=0, sparse_cells=60))
    reader.expect(marginals)
    for query in marginals:
        reader(query)
    assert sum(read) == len(marginals)
    assert 1 < len(read) < len(marginals)


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_what_threads_read_is_what_one_would_read(monkeypatch, threads: int) -> None:
    monkeypatch.setattr(reading.os, "cpu_count", lambda: 8)
    marginals = [Marginal(c) for k in (1, 2, 3) for c in combinations(sorted(LEVELS), k)]
    reader = reader_of(SOURCE, replace(LARGE, threads=threads))
    reader.expect(marginals)
    for query in marginals:
        found, expected = reader.sparse(query.columns), SOURCE.sparse([query.columns])[0]
        assert found.columns == query.columns
        assert np.array_equal(found.codes, expected.codes)
        assert np.array_equal(found.counts, expected.counts)


def test_answers_are_kept_only_as_far_as_they_fit() -> None:
    made: list[Marginal] = []

    def make(query):
        made.append(query)
        return Exact(SOURCE.counts([query.columns])[0])

    first, second, third = (Marginal(c) for c in ("a", "b", "d") for c in [[c]])
    room = make(first).nbytes
    made.clear()
    lent = ExactAnswers(make, room)
    for query in (first, second, second, third, first, second):
        lent.of(query)
    assert made == [first, second, third, second]


@pytest.mark.parametrize("keep_cells", [0, 20, 60, 10**6])
def test_a_curator_keeps_no_more_counts_than_it_may_and_answers_as_one_that_keeps_all(
    keep_cells: int,
) -> None:
    """What is kept, and what is read at a time unless it is one marginal, fits the limit."""
    read: list[list[int]] = []

    class Spy:
        schema, in_memory = SOURCE.schema, False

        def counts(self, marginals):
            read.append([DOMAIN.cells(columns) for columns in marginals])
            return SOURCE.counts(marginals)

        def sparse(self, marginals):
            return SOURCE.sparse(marginals)

    pairs = [Marginal(c) for c in combinations(sorted(LEVELS), 2)]
    sizes = [DOMAIN.cells(query.columns) for query in pairs]

    def values(keeper: Curator) -> list[list]:
        rounds = [keeper.measure(pairs, Fraction(1)) for _ in range(2)]
        return [m.values.tolist() for measured in rounds for m in measured]

    keeper = Curator(Spy(), Ledger(10), SeededNoise(3), memory=Memory(8 * keep_cells))
    assert values(keeper) == values(Curator(SOURCE, Ledger(10), SeededNoise(3)))
    assert sum(table.size for table in keeper._kept.kept.values()) <= keep_cells
    assert all(len(cells) == 1 or sum(cells) <= keep_cells for cells in read)
    if sum(sizes) <= keep_cells:
        assert read == [sizes]


@pytest.mark.parametrize("keep_cells", [0, 20, 60, 10**6])
def test_counts_are_there_in_whatever_order_a_step_asks_for_them(keep_cells: int) -> None:
    """One again that was given back, and one that was not announced: a batch holds few of them."""
    pairs = list(combinations(sorted(LEVELS), 2))
    kept = KeptCounts(SOURCE, Memory(8 * keep_cells))
    step = kept.of_step(pairs[:4])
    for columns in [*pairs, *pairs[::-1], pairs[0], pairs[3], pairs[1]]:
        assert np.array_equal(step.of(columns), SOURCE.counts([columns])[0])

    tables = [Marginal(columns) for columns in [*pairs, *pairs]]
    keeper = Curator(SOURCE, Ledger(10), SeededNoise(3), memory=Memory(8 * keep_cells))
    measured = keeper.measure(tables, Fraction(1))
    assert [m.query for m in measured] == tables


@pytest.mark.parametrize("keep_bytes", [0, 400, 10**9])
def test_what_may_be_kept_of_answers_changes_no_choice(keep_bytes: int) -> None:
    score = CellErrors(ProductModel(DOMAIN, first_rows(Layout.of(DOMAIN), 20, "softmax"), 300.0))

    def chosen(keeper: Curator):
        return [keeper.top_k(score, QUERIES, 5, Fraction(1)) for _ in range(2)]

    memory = Memory(keep_bytes, small_cells=12)
    keeper = Curator(SOURCE, Ledger(10), SeededNoise(3), memory=memory)
    assert chosen(keeper) == chosen(Curator(SOURCE, Ledger(10), SeededNoise(3)))
    assert keeper._answers._bytes <= keep_bytes


def test_copies_are_kept_only_as_far_as_they_fit() -> None:
    lent, made = ExactAnswers(lambda query: Exact(np.zeros(1, np.int64)), device_bytes=10), []

    def make(key: str) -> str:
        made.append(key)
        return key

    for key in ("x", "y", "x", "y"):
        assert lent.copied(key, lambda key=key: make(key), lambda _: 6) == key
    assert made == ["x", "y", "y"]
