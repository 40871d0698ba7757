"""No neighbours move a computed score by more than its sensitivity, in the arithmetic used.

A search: adversarial model answers (huge, tiny, negative, halfway between points of the grid, close
to powers of two), tables and people by the thousand, each score's move compared in whole numbers.
The same search finds such pairs at once for the scores as textbooks write them, in floating point.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import admeasure
from admeasure.domain import Domain
from admeasure.errors import ResourceError
from admeasure.privacy.scores.dependence import Dependence
from admeasure.privacy.scores.score import GRID, LARGEST
from admeasure.privacy.scores.signed import SignedError
from admeasure.privacy.scores.streamed import CellErrors, MarginalErrors
from admeasure.privacy.scores.whole import CellError, LargestError, MarginalError
from admeasure.privacy.truth import Exact, ExactAnswers
from admeasure.queries import Marginal, Threshold
from admeasure.unit import Neighbours, Unit

UNITS = [Unit(relation, rows) for relation in Neighbours for rows in (1, 2, 5)]
PAIRS = 3000
NAMES = ("a", "b", "c")


def adversarial(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Model answers that rounding finds hard."""
    size = int(np.prod(shape))
    kinds = [
        lambda: rng.normal(size=size) * 10.0 ** rng.integers(-12, 9),
        lambda: (rng.integers(-(2**20), 2**20, size) + 0.5) / GRID,
        lambda: np.nextafter((rng.integers(-(2**20), 2**20, size) + 0.5) / GRID, rng.normal()),
        lambda: 2.0 ** rng.integers(-40, 30, size) + rng.normal(size=size) * 1e-9,
        lambda: np.full(size, 0.1) * rng.integers(1, 100, size),
        lambda: np.full(size, 2.0**36 / size) + rng.random(size),
        lambda: -0.1 * rng.integers(1, 100, size),
        lambda: np.where(rng.random(size) < 0.5, -0.0, 5e-324),
    ]
    return np.asarray(kinds[rng.integers(len(kinds))]()).reshape(shape)


def neighbouring(rng: np.random.Generator, shape: tuple[int, ...], unit: Unit):
    """Counts of two neighbouring tables; large counts as well as none."""
    cells = int(np.prod(shape))
    base = rng.integers(0, 10 ** rng.integers(0, 8), cells)
    base[rng.random(cells) < 0.3] = 0

    def person(rows: int) -> np.ndarray:
        if rng.random() < 0.5:
            return rows * np.eye(1, cells, rng.integers(cells), dtype=np.int64)[0]
        return np.bincount(rng.integers(0, cells, rows), minlength=cells)

    rows = unit.max_rows
    if unit.neighbours is Neighbours.ADD_REMOVE:
        old, new = np.zeros(cells, np.int64), person(int(rng.integers(1, rows + 1)))
    elif rows == 1:
        old, new = person(1), person(1)
    else:
        old, new = person(int(rng.integers(0, rows + 1))), person(int(rng.integers(0, rows + 1)))
    pair = [(base + own).astype(np.int64).reshape(shape) for own in (old, new)]
    return pair if rng.random() < 0.5 else pair[::-1]


def shapes(rng: np.random.Generator, fewest: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 9, rng.integers(fewest, 4)))


def marginal_error(rng, shape, *, weighted: bool):
    query = Marginal(NAMES[: len(shape)])
    weights = {query.columns: rng.random() * 10.0 ** rng.integers(-9, 9), ("z",): rng.random()}
    penalty = {query.columns: float(np.abs(rng.normal()) * 10.0 ** rng.integers(-9, 12))}
    answers = {query.columns: adversarial(rng, shape)}
    return MarginalError(answers, penalty, weights if weighted else None), query


def largest_error(rng, shape):
    query = Marginal(NAMES[: len(shape)])
    return LargestError({query.columns: adversarial(rng, shape)}), query


def cell_error(rng, shape):
    names = NAMES[: len(shape)]
    r = int(rng.integers(1, len(names) + 1))
    query = Marginal(names) if rng.random() < 0.5 else Threshold(names, r)
    return CellError({query: adversarial(rng, shape)}), query


def dependence(rng, shape):
    query = Marginal(NAMES[: len(shape)])
    child = query.columns[rng.integers(len(shape))]
    return Dependence(frozenset(query.columns) - {child}), query


def signed_error(rng, shape):
    names = NAMES[: len(shape)]
    query = Marginal(names) if rng.random() < 0.5 else Threshold(names, 1)
    return SignedError({query: adversarial(rng, shape)}, int(rng.integers(1, 200))), query


class Believed:
    """Model answers that come in blocks, and know nothing of an accelerator."""

    def __init__(self, answers: np.ndarray) -> None:
        self.domain = Domain(NAMES[: answers.ndim], answers.shape)
        self._flat = answers.ravel()

    def blocks(self, query):
        half = len(self._flat) // 2
        yield from (part for part in (self._flat[:half], self._flat[half:]) if len(part))

    placed = None


def cell_errors(rng, shape):
    names = NAMES[: len(shape)]
    query = Marginal(names) if rng.random() < 0.5 else Threshold(names, 1)
    return CellErrors(Believed(adversarial(rng, shape))), query


def marginal_errors(rng, shape):
    model = Believed(adversarial(rng, shape))
    return MarginalErrors(model, float(rng.random() * 10)), Marginal(NAMES[: len(shape)])


MAKERS = {
    "MarginalError": lambda rng, shape: marginal_error(rng, shape, weighted=False),
    "MarginalError, weighted": lambda rng, shape: marginal_error(rng, shape, weighted=True),
    "LargestError": largest_error,
    "CellError": cell_error,
    "Dependence": dependence,
    "SignedError": signed_error,
    "CellErrors": cell_errors,
    "MarginalErrors": marginal_errors,
}


def scores_of(score, query, counts: np.ndarray) -> list[int]:
    """All scores, also of one that computes them in blocks, as whole numbers."""
    if hasattr(score, "of"):
        return [int(x) for x in np.ravel(score.of(query, counts))]
    blocks = score.blocks([query], ExactAnswers(lambda asked: Exact(asked.answer(counts))))
    return [int(x) for b in blocks for x in b.scores.at(np.arange(b.scores.size))]


def classes_with(*members: str) -> set[type]:
    """All classes of the package, but protocols, that have these members."""
    found = set()
    for info in pkgutil.walk_packages(admeasure.__path__, "admeasure."):
        if info.name.endswith("__main__"):
            continue
        for _, kind in inspect.getmembers(importlib.import_module(info.name), inspect.isclass):
            ours = kind.__module__.startswith("admeasure.")
            if ours and not getattr(kind, "_is_protocol", False):
                found |= {kind} if all(hasattr(kind, m) for m in members) else set()
    return found


def test_every_score_of_the_package_is_searched():
    found = {kind.__name__ for kind in classes_with("sensitivity", "chosen")}
    assert found
    assert found <= {name.split(",")[0] for name in MAKERS}


@pytest.mark.parametrize("members", [("sensitivity", "chosen")])
def test_what_is_computed_from_exact_counts_lies_in_the_trusted_core(members):
    """Scores, and statistics that the curator adds noise to."""
    found = classes_with(*members)
    assert found
    assert {kind.__module__.split(".")[1] for kind in found} == {"privacy"}


@pytest.mark.parametrize("name", MAKERS)
def test_no_neighbours_are_found_whose_score_moves_further_than_stated(name, tally):
    rng = np.random.default_rng(len(name))
    nearest = 0.0
    for _ in range(PAIRS):
        unit = UNITS[rng.integers(len(UNITS))]
        shape = shapes(rng, 2 if name == "Dependence" else 1)
        score, query = MAKERS[name](rng, shape)
        before, after = neighbouring(rng, shape, unit)
        pair = (scores_of(score, query, counts) for counts in (before, after))
        moved = [abs(y - x) for x, y in zip(*pair, strict=True)]
        assert max(moved) <= score.sensitivity(unit)
        nearest = max(nearest, max(moved) / score.sensitivity(unit))
    # The search comes near what is allowed, or it would not be one.
    assert nearest > (0.5 if name == "Dependence" else 0.99)
    tally("floating point: pairs of neighbours searched", PAIRS)


def test_the_same_search_finds_a_textbook_score_in_floating_point_wanting():
    """||counts - answers||_1 as a sum of doubles moves by more than the number of rows changed."""
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(PAIRS):
        unit = UNITS[rng.integers(len(UNITS))]
        shape = shapes(rng, 1)
        answers = adversarial(rng, shape)
        before, after = neighbouring(rng, shape, unit)
        moved = abs(float(np.abs(after - answers).sum()) - float(np.abs(before - answers).sum()))
        broken += moved > unit.rows_changed
    assert broken > 0


@pytest.mark.parametrize("cells", [2, 1 << 10, 1 << 16])
def test_answers_whose_sum_would_wrap_around_are_refused_and_never_computed(cells):
    """63 bits hold the score of 2**37 rows; more would make neighbours' scores fall apart."""
    query = Marginal(["a"])
    answers = {("a",): np.full(cells, 1.01 * LARGEST / cells)}
    score = MarginalError(answers, {("a",): 0.0}, {("a",): 1.0})
    with pytest.raises(ResourceError):
        score.of(query, np.zeros(cells, np.int64))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_answers_that_are_no_numbers_are_refused(bad):
    query = Marginal(["a"])
    for score in (
        MarginalError({("a",): np.array([1.0, bad])}, {("a",): 0.0}),
        CellError({query: np.array([1.0, bad])}),
    ):
        with pytest.raises(ResourceError):
            score.of(query, np.array([1, 2]))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_largest_score_that_is_computed_fits_64_bits(weighted):
    query = Marginal(["a"])
    half = np.array([0.0, 0.99 * LARGEST])
    weights = {("a",): 1.0} if weighted else None
    score = MarginalError({("a",): half}, {("a",): 0.0}, weights)
    (value,) = score.of(query, np.array([int(0.99 * LARGEST), 0]))
    exact = (int(0.99 * LARGEST) * GRID + round(0.99 * LARGEST * GRID)) * (4096 if weighted else 1)
    assert int(value) == exact
    assert exact < 2**63
