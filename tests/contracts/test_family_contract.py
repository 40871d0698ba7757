"""What every family keeps: answers in expected rows that agree, zeros, rows, storage, updates.

A case is a small model before anything is learned, and what it learns from. Whatever stands in the
registry of models, and every class of the package with an `update`, must have one; the first test
says which has none.
"""

from __future__ import annotations

import importlib
import inspect
import io
import itertools
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import chi2

from admeasure import families
from admeasure.domain import Columns, Domain
from admeasure.errors import UsageError
from admeasure.families import Codes, ImpossibleError
from admeasure.families.answers import AnswersModel
from admeasure.families.entropy_projection import EntropyProjection, ExactProjection
from admeasure.families.explicit import ExplicitModel
from admeasure.families.graphical.family import ConditionalFamily, GraphicalFamily
from admeasure.families.network.family import NetworkFamily, WorstFamily
from admeasure.families.network.generator import Size
from admeasure.families.network.training import TrainingOptions
from admeasure.families.products.family import ProductFamily
from admeasure.families.products.optimise import FitOptions
from admeasure.families.registry import MODELS
from admeasure.families.reweighting import MultiplicativeWeights
from admeasure.families.support import Records, SupportModel
from admeasure.measurement import Measurement
from admeasure.queries import Cell, Marginal
from admeasure.release.search import Target, improve, targets_of
from admeasure.schema import Zero

DOMAIN = Domain(("d", "b", "a", "c"), (2, 3, 4, 3))  # not in alphabetical order
ROWS = 400
ZERO = Zero(("a", "b"), np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]], bool))
ALL = [s for k in range(5) for s in itertools.combinations(sorted(DOMAIN.columns), k)]
"""Every marginal."""

Served = Literal["answers", "rows", "nowhere"]


@dataclass(frozen=True)
class Case:
    """`first`: the model before it learns. `family`: how it learns from `log`, made anew each time;
    None for a model that does not. `zeros`: where ZERO holds, in answers and rows, in rows, or
    nowhere. `known`: the marginals it answers."""

    name: str
    first: Callable[[], Any]
    family: Callable[[], Any] | None
    log: Callable[[], list[Measurement]]
    zeros: Served
    known: Sequence[Columns] = tuple(ALL)

    def model(self) -> Any:
        """After learning."""
        first = self.first()
        return first if self.family is None else self.family().update(first, self.log())


def table() -> dict[str, np.ndarray]:
    """Dependent columns, no row in ZERO."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, ROWS)
    b = np.where(a <= 1, rng.integers(0, 2, ROWS), rng.integers(0, 3, ROWS))
    c = (a + rng.integers(0, 2, ROWS)) % 3
    return {"a": a, "b": b, "c": c, "d": (b > rng.integers(0, 3, ROWS)).astype(np.int64)}


def counts(columns: Columns) -> np.ndarray:
    found = np.zeros(DOMAIN.shape(columns))
    np.add.at(found, tuple(table()[c] for c in columns), 1)
    return found


def marginals() -> list[Measurement]:
    """Whole marginals, with noise of a fixed seed."""
    rng = np.random.default_rng(1)
    asked = [("a", "b"), ("a", "c"), ("b", "d"), ("a",), ("a", "b")]
    exact = [counts(c) for c in asked]
    return [
        Measurement(Marginal(c), np.round(t + rng.normal(0, 3, t.shape)), 3.0)
        for c, t in zip(asked, exact, strict=True)
    ]


def cells() -> list[Measurement]:
    """Single counts, with noise of a fixed seed."""
    rng = np.random.default_rng(2)
    asked = [(("a", "c"), (0, 0)), (("a", "b"), (3, 2)), (("b", "d"), (0, 1)), (("a",), (1,))]
    return [
        Measurement(Cell(c, at), np.asarray(np.round(counts(c)[at] + rng.normal(0, 2))), 2.0)
        for c, at in asked
    ]


def uniform() -> ExplicitModel:
    return ExplicitModel.uniform(DOMAIN, float(ROWS), [ZERO])


def support() -> SupportModel:
    """Records of another table, none of them in ZERO."""
    rng = np.random.default_rng(3)
    drawn = {c: rng.integers(0, n, 200) for c, n in zip(DOMAIN.columns, DOMAIN.levels, strict=True)}
    allowed = ~ZERO.mask[drawn["a"], drawn["b"]]
    codes = np.unique(np.stack([v[allowed] for v in drawn.values()]), axis=1)
    records = Records(dict(zip(drawn, codes, strict=True)), DOMAIN)
    return SupportModel(records, np.full(codes.shape[1], 1 / codes.shape[1]), float(ROWS))


def answers() -> AnswersModel:
    pair = ("a", "b")
    return AnswersModel(DOMAIN, float(ROWS), {pair: counts(pair)}, {pair: 4.0})


def weights() -> MultiplicativeWeights:
    return MultiplicativeWeights(passes=20)


TRAINING = TrainingOptions(3e-3, steps=100)
SIZE = Size((16,), 8, 32)

CASES = [
    Case("answers", answers, None, list, "nowhere", ((), ("a",), ("b",), ("a", "b"))),
    Case(
        "graphical",
        lambda: GraphicalFamily().init(DOMAIN, [ZERO]),
        GraphicalFamily,
        marginals,
        "answers",
    ),
    Case(
        "graphical-conditionals",
        lambda: GraphicalFamily().init(DOMAIN, [ZERO]),
        ConditionalFamily,
        marginals,
        "answers",
    ),
    Case("explicit-mw", uniform, weights, marginals, "answers"),
    Case("explicit-mw-cells", uniform, weights, cells, "answers"),
    Case("explicit-pep", uniform, lambda: EntropyProjection(uniform()), cells, "answers"),
    Case("explicit-dual", uniform, lambda: ExactProjection(uniform()), marginals, "answers"),
    Case("support-mw", support, weights, marginals, "answers"),
    Case("support-pep", support, lambda: EntropyProjection(support()), cells, "answers"),
    Case("support-dual", support, lambda: ExactProjection(support()), cells, "answers"),
    Case(
        "products-sparsemax",
        lambda: ProductFamily(FitOptions("sparsemax", 0.03)).init(DOMAIN, float(ROWS), 40, [ZERO]),
        lambda: ProductFamily(FitOptions("sparsemax", 0.03, steps=100)),
        marginals,
        "rows",
    ),
    Case(
        "products-box",
        lambda: ProductFamily(FitOptions("box", 0.01)).init(DOMAIN, float(ROWS), 40, [ZERO]),
        lambda: ProductFamily(FitOptions("box", 0.01, steps=100)),
        cells,
        "nowhere",
    ),
    Case(
        "products-softmax",
        lambda: ProductFamily(FitOptions("softmax", 0.1)).init(DOMAIN, float(ROWS), 40, [ZERO]),
        lambda: ProductFamily(FitOptions("softmax", 0.1, steps=100)),
        cells,
        "rows",
    ),
    Case(
        "network",
        lambda: NetworkFamily(TRAINING).init(DOMAIN, float(ROWS), SIZE, [ZERO]),
        lambda: NetworkFamily(TRAINING),
        marginals,
        "rows",
    ),
    Case(
        "network-worst",
        lambda: NetworkFamily(TRAINING).init(DOMAIN, float(ROWS), SIZE, [ZERO]),
        lambda: WorstFamily(TRAINING),
        cells,
        "rows",
    ),
]


@pytest.fixture(scope="module")
def learned() -> Callable[[Case], Any]:
    """The model of a case after it has learned, made once."""
    made: dict[str, Any] = {}

    def get(case: Case) -> Any:
        if case.name not in made:
            made[case.name] = case.model()
        return made[case.name]

    return get


Get = Callable[[Case], Any]
NO_ROWS = ("answers", "products-box")
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_with_rows = pytest.mark.parametrize(
    "case", [c for c in CASES if c.name not in NO_ROWS], ids=lambda case: case.name
)
each_that_adds_up = pytest.mark.parametrize(
    "case", [c for c in CASES if c.name != "products-box"], ids=lambda case: case.name
)
each_that_learns = pytest.mark.parametrize(
    "case", [c for c in CASES if c.family is not None], ids=lambda case: case.name
)


def onto(joint: np.ndarray, whole: Columns, columns: Columns) -> np.ndarray:
    return joint.sum(axis=tuple(i for i, c in enumerate(whole) if c not in columns))


def test_every_registered_model_and_every_family_of_the_package_has_a_case() -> None:
    assert {case.first().kind for case in CASES} == set(MODELS)
    updating = set()
    for module in pkgutil.walk_packages(families.__path__, f"{families.__name__}."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            concrete = not getattr(found, "_is_protocol", False)
            if found.__module__.startswith(families.__name__) and hasattr(found, "update"):
                updating |= {found} if concrete else set()
    assert {type(case.family()) for case in CASES if case.family is not None} == updating


@each
def test_answers_are_expected_rows_in_the_shape_of_the_marginal(case: Case, learned: Get) -> None:
    model = learned(case)
    assert model.domain == DOMAIN
    for columns, found in zip(case.known, model.marginals(case.known), strict=True):
        assert found.shape == DOMAIN.shape(columns)
        assert found.dtype == np.float64
        assert np.all(found >= 0)
        if case.name == "products-box":  # levels say nothing of each other
            assert np.all(found <= model.total)
        else:
            assert found.sum() == pytest.approx(model.total, rel=1e-6)


@each_that_adds_up
def test_marginals_of_one_model_agree_where_they_overlap(case: Case, learned: Get) -> None:
    whole = max(case.known, key=len)
    found = dict(zip(case.known, learned(case).marginals(case.known), strict=True))
    for columns in case.known:
        expected = onto(found[whole], whole, columns)
        np.testing.assert_allclose(found[columns], expected, rtol=1e-6, atol=1e-9)


@each
def test_an_answer_does_not_depend_on_what_else_is_asked_or_done_to_it(
    case: Case, learned: Get
) -> None:
    model = learned(case)
    asked = [*case.known, *reversed(case.known)]
    together = model.marginals(asked)
    kept = [found.copy() for found in together]
    for columns, found, before in zip(asked, together, kept, strict=True):
        [alone] = model.marginals([columns])
        np.testing.assert_allclose(alone, before, rtol=1e-6, atol=1e-9)
        if found.flags.writeable:
            found += 7.0  # the caller's own from now on
        if alone.flags.writeable:
            alone += 7.0
    for before, after in zip(kept, model.marginals(asked), strict=True):
        np.testing.assert_array_equal(after, before)


@each_with_rows
def test_structural_zeros_hold_exactly_where_they_are_served(case: Case, learned: Get) -> None:
    model = learned(case)
    if case.zeros == "answers":
        for columns, found in zip(ALL, model.marginals(ALL), strict=True):
            if {"a", "b"} <= set(columns):
                assert not onto(found, columns, ("a", "b"))[ZERO.mask].any()
    rows = model.sample(2000, np.random.default_rng(0))
    assert not ZERO.mask[rows["a"], rows["b"]].any()


@each_with_rows
def test_rows_lie_in_the_domain_follow_the_model_and_come_of_the_seed_alone(
    case: Case, learned: Get
) -> None:
    model = learned(case)
    for count in (1, 7, 3000):
        rows = model.sample(count, np.random.default_rng(5))
        assert set(rows) == set(DOMAIN.columns)
        for column, codes in rows.items():
            assert codes.shape == (count,)
            assert codes.dtype.kind in "iu"
            assert 0 <= codes.min() <= codes.max() < DOMAIN[column]
        again = model.sample(count, np.random.default_rng(5))
        for column, codes in rows.items():
            np.testing.assert_array_equal(again[column], codes)
    if case.zeros == "rows":
        return  # rows in a zero are drawn again, which the answers do not know of
    for columns, found in zip(ALL[1:], model.marginals(ALL[1:]), strict=True):
        share = found / found.sum()
        drawn = np.zeros(found.shape)
        np.add.at(drawn, tuple(rows[c] for c in columns), 1)
        # A seed is fixed; of independent draws a cell would be outside with probability 2e-9.
        room = 6 * np.sqrt(3000 * share * (1 - share)) + 2
        assert np.all(np.abs(drawn - 3000 * share) <= room)


def only(column: str, *levels: int) -> Zero:
    """The cells that a condition on one column closes."""
    return Zero((column,), ~np.isin(np.arange(DOMAIN[column]), levels), "a condition")


TOGETHER = Zero(("b", "d"), np.array([[0, 1], [1, 0], [0, 0]], bool), "a condition")
"""A condition on two columns together."""
CONDITIONS = {
    "one": [only("c", 1)],
    "two": [only("a", 1, 3), only("c", 0, 2)],
    "of a zero": [only("a", 0), only("b", 0, 2)],
    "together": [only("c", 0), TOGETHER],
}


@pytest.mark.statistical
@pytest.mark.parametrize("cells", CONDITIONS.values(), ids=CONDITIONS.keys())
@each_with_rows
def test_rows_with_conditions_follow_the_model_given_them(
    case: Case, learned: Get, cells: list[Zero]
) -> None:
    """Against the whole joint distribution, with the closed cells taken out by enumeration.

    One chi-square of 4,000 rows a case; rows of one sample vary less than independent ones, for
    which it would fail with probability 1e-9.
    """
    model, whole = learned(case), tuple(sorted(DOMAIN.columns))
    (joint,) = model.marginals([whole])
    for zero in [*cells, ZERO] if case.zeros == "rows" else cells:
        shape = [n if c in zero.columns else 1 for c, n in zip(whole, joint.shape, strict=True)]
        joint = np.where(zero.mask.reshape(shape), 0.0, joint)
    left = model.without(cells)
    if case.zeros == "answers":  # elsewhere answers do not know of ZERO
        assert left.total == pytest.approx(joint.sum(), rel=1e-6)
    rows = left.sample(4000, np.random.default_rng(8))
    drawn = np.zeros(joint.shape)
    np.add.at(drawn, tuple(rows[c] for c in whole), 1)
    assert not drawn[joint == 0].any()
    expected = 4000 * joint / joint.sum()
    rare = expected < 5  # put together, as the approximation asks
    pairs = [(drawn[~rare], expected[~rare]), (drawn[rare].sum(), expected[rare].sum())]
    statistic = sum(float(np.sum((d - e) ** 2 / np.maximum(e, 1e-12))) for d, e in pairs)
    assert chi2.sf(statistic, max(1, np.count_nonzero(~rare))) > 1e-9


@each_with_rows
def test_a_condition_that_nothing_meets_is_refused(case: Case, learned: Get) -> None:
    nothing = [only("a", 0, 1), only("a", 2, 3)]
    with pytest.raises(ImpossibleError, match="Widen one"):
        learned(case).without(nothing)


@each_with_rows
def test_a_search_brings_rows_nearer_to_the_model_and_into_no_zero(
    case: Case, learned: Get
) -> None:
    model = learned(case)
    near = targets_of(model, dict.fromkeys(case.known, 1.0), 700, [])
    rng = np.random.default_rng(2)
    drawn = model.sample(700, rng)
    found = improve(drawn, DOMAIN, [*near, Target.closed(ZERO)], rng)
    assert not ZERO.mask[found["a"], found["b"]].any()

    def distance(rows: Codes) -> float:
        total = 0.0
        for target in near:
            counts = np.zeros(target.counts.shape)
            np.add.at(counts, tuple(rows[c] for c in target.columns), 1)
            total += ((counts - target.counts) ** 2 / (target.counts + 1)).sum()
        return total

    assert distance(found) < distance(drawn)


@each
def test_a_model_is_the_same_after_it_was_stored(case: Case, learned: Get) -> None:
    model = learned(case)
    content = io.BytesIO()
    np.savez(content, **model.arrays())
    content.seek(0)
    with np.load(content, allow_pickle=False) as stored:
        loaded = MODELS[model.kind].load(DOMAIN, {name: stored[name] for name in stored.files})
    assert type(loaded) is type(model)
    assert loaded.total == model.total
    for one, two in zip(loaded.marginals(case.known), model.marginals(case.known), strict=True):
        np.testing.assert_array_equal(one, two)
    assert loaded.arrays().keys() == model.arrays().keys()
    for name, array in model.arrays().items():
        np.testing.assert_array_equal(loaded.arrays()[name], array)
    if case.name in NO_ROWS:
        with pytest.raises(UsageError, match="no rows"):
            model.sample(1, np.random.default_rng(0))
        return
    one, two = (m.sample(50, np.random.default_rng(1)) for m in (loaded, model))
    for column in DOMAIN.columns:
        np.testing.assert_array_equal(one[column], two[column])


@each_that_learns
def test_an_update_is_a_function_of_the_model_and_the_log_alone(case: Case, learned: Get) -> None:
    assert case.family is not None
    first, log = case.first(), case.log()
    before = {name: np.array(array) for name, array in first.arrays().items()}
    after = case.family().update(first, log)
    for name, array in learned(case).arrays().items():
        np.testing.assert_array_equal(after.arrays()[name], array)
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    for m, same in zip(log, case.log(), strict=True):
        np.testing.assert_array_equal(m.values, same.values)
        assert m.sigma == same.sigma


@each_that_learns
def test_a_model_comes_closer_to_what_was_measured(case: Case, learned: Get) -> None:
    def apart(model: Any) -> float:
        scale = ROWS / model.total
        tables = model.marginals([m.query.columns for m in case.log()])
        off = [
            m.query.answer(t) * scale - m.values for m, t in zip(case.log(), tables, strict=True)
        ]
        return sum(float((np.asarray(o) ** 2).sum()) for o in off)

    assert apart(learned(case)) < 0.8 * apart(case.first())
