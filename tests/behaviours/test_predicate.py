"""A user's own condition as a query: counted exactly, measured, learned, refused where it must."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admeasure
from admeasure.errors import UsageError, WorkloadError
from admeasure.families.network.arbitrary import Samples, answers, drawn
from admeasure.families.network.generator import Generator, Size
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement
from admeasure.mechanisms.aim import Aim
from admeasure.mechanisms.gem import Gem
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Marginal, Predicate, from_record, to_record
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.schema.decode import level_values
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours, Unit
from admeasure.verbs.fit import fit

LEVELS = {"a": 4, "b": 3, "c": 5}
SCHEMA = Schema.coded("toy", LEVELS)
RNG = np.random.default_rng(0)
A = RNG.choice(4, 3000, p=[0.5, 0.3, 0.15, 0.05])
B = (A + RNG.integers(0, 2, 3000)) % 3
TABLE = {"a": A, "b": B, "c": (A * B + RNG.integers(0, 2, 3000)) % 5}
ABOVE = Predicate(["c", "a"], lambda row: row["c"] > row["a"], "c above a")
QUICK: dict[str, Any] = {"hidden": "32,32", "product_rows": 64, "steps": 50}


def bound(predicate: Predicate, schema: Schema = SCHEMA) -> Predicate:
    levels = level_values(schema, predicate.columns)
    return Predicate(predicate.columns, predicate.function, predicate.name, levels)


def run(workload: Any, mechanism: Any = None, **more: Any) -> Release:
    return fit(
        TABLE,
        SCHEMA,
        workload=workload,
        mechanism=mechanism or Gem(**QUICK),
        epsilon=1,
        delta=1e-8,
        seed=1,
        **more,
    )


def test_the_count_is_that_of_the_rows_it_says_yes_to() -> None:
    source, query = MemorySource(TABLE, SCHEMA), bound(ABOVE)
    true = int((TABLE["c"] > TABLE["a"]).sum())
    assert int(query.answer(source.counts([("a", "c")])[0])) == true
    assert int(query.of_sparse(source.sparse([("a", "c")])[0])) == true
    curator = Curator(source, Ledger(10**9), SeededNoise(0))
    (m,) = curator.measure([query], Fraction(10**8))
    assert int(m.values) == true


def test_it_is_given_values_and_the_middle_of_bins_and_none_for_missing() -> None:
    schema = Schema.loads(
        '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
        '[[column]]\nname = "age"\ntype = "integer"\nminimum = 0\nmaximum = 99\nbins = 10\n'
        '[[column]]\nname = "job"\ntype = "string"\nenum = ["x", "y"]\nmissing_values = ["?"]\n'
    )
    seen: list[Any] = []
    query = Predicate(["age", "job"], lambda row: bool(seen.append(dict(row))), "see")
    bound(query, schema).holds(np.array([[0, 0], [9, 2]]))
    assert seen == [{"age": 4, "job": "x"}, {"age": 94, "job": None}]


@pytest.mark.parametrize("neighbours", Neighbours)
def test_one_person_moves_it_by_their_rows(neighbours: Neighbours) -> None:
    found = ABOVE.sensitivity(SCHEMA.domain, Unit(neighbours, 3))
    assert (found.l1, found.l2_squared, found.linf) == (3, 9, 3)


@pytest.mark.parametrize("neighbours", Neighbours)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 3))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_no_neighbour_moves_the_count_further_than_stated(
    neighbours: Neighbours, seed: int, rows: int
) -> None:
    """Random tables, random conditions, a person of at most `rows` rows who leaves or changes."""
    rng = np.random.default_rng(seed)
    said = rng.integers(0, 2, tuple(LEVELS.values()))
    query = bound(Predicate(["a", "b", "c"], lambda r: said[r["a"], r["b"], r["c"]], "any"))

    def person() -> np.ndarray:
        return rng.integers(0, tuple(LEVELS.values()), (int(rng.integers(0, rows + 1)), 3))

    others = rng.integers(0, tuple(LEVELS.values()), (int(rng.integers(1, 40)), 3))
    kept = person() if neighbours is Neighbours.REPLACE else np.zeros((0, 3), np.int64)
    counts = []
    for own in (person(), kept):
        table = dict(zip(LEVELS, np.concatenate([others, own]).T, strict=True))
        (found,) = MemorySource(table, SCHEMA).sparse([query.columns])
        counts.append(int(query.of_sparse(found)))
    stated = query.sensitivity(SCHEMA.domain, Unit(neighbours, rows))
    assert abs(counts[0] - counts[1]) <= stated.linf


def test_the_estimate_is_that_of_the_drawn_rows_and_its_slope_the_true_one() -> None:
    """With many samples the gradient nears that of the exact answer; five standard errors and a
    fixed seed."""
    import jax

    layout = Layout.of(SCHEMA.domain)
    made = Generator.first(layout, Size((8,), 4, 20), 1)
    made = made.with_parameters([made.parameters[0], (made.weights[1] * 10, made.biases[1])])
    P, query = made.rows(layout), bound(ABOVE)
    log = [Measurement(query, np.asarray(1500), 10.0)]
    data = drawn(P, layout, log, 3000.0, np.random.default_rng(2), samples=40_000)
    assert isinstance(data, Samples)
    mask = query.spread(np.asarray(1.0), SCHEMA.domain)

    def exact(p):
        pair = jax.numpy.einsum("ar,cr->ac", p[layout.span("a")], p[layout.span("c")]) / 20
        return (pair * mask).sum()

    assert float(answers(P, data)[0]) == pytest.approx(float(exact(P)), abs=5 * 0.5 / 200)
    way = np.random.default_rng(3).standard_normal(P.shape).astype(np.float32)
    for column in layout.columns:
        way[layout.span(column)] -= (way * P)[layout.span(column)].sum(axis=0)
    way *= P  # a direction in which every row stays a distribution
    slope = float((np.asarray(jax.grad(lambda p: answers(p, data)[0])(P)) * way).sum())
    true = float((np.asarray(jax.grad(exact)(P)) * way).sum())
    # A term is at most |φ - b| times the score, about 1 here; its mean over 40,000 rows varies by
    # less than 1/200.
    assert slope == pytest.approx(true, abs=5 / 200)


def test_gem_learns_it_and_says_how_sure_that_is(tmp_path: Path) -> None:
    release = run([ABOVE, Marginal(["b"])], out=tmp_path / "release")
    rows = release.model.sample(20_000, np.random.default_rng(0))
    true = float((TABLE["c"] > TABLE["a"]).mean())
    apart = sum(
        float((TABLE["c"] == c).mean() * (TABLE["a"] == a).mean())
        for c in range(5)
        for a in range(4)
        if c > a
    )
    learned = float((rows["c"] > rows["a"]).mean())
    assert abs(learned - true) < abs(apart - true) / 2
    assert any("score-function" in note for note in release.certificate.notes)
    assert set(release.workload.marginals()) == {("a",), ("b",), ("c",)}
    again = Release.load(tmp_path / "release")
    assert [m.query for m in again.measurements] == [m.query for m in release.measurements]
    assert ABOVE in [m.query for m in again.measurements]


def test_it_is_known_by_columns_and_name_and_its_function_is_never_stored() -> None:
    again = from_record(to_record(ABOVE))
    assert again == ABOVE
    assert hash(again) == hash(ABOVE)
    assert isinstance(again, Predicate)
    with pytest.raises(UsageError, match="does not hold its function"):
        again.holds(np.zeros((1, 2), np.int64))
    assert admeasure.Predicate is Predicate


def test_other_mechanisms_refuse_it() -> None:
    with pytest.raises(UsageError, match=r"aim cannot learn from a predicate .* Use gem"):
        run([ABOVE], Aim())
    with pytest.raises(UsageError, match="measure = marginals"):
        run([ABOVE], Gem(**QUICK, measure="cells"))


def test_a_function_that_fails_shows_on_made_up_rows_and_never_on_the_table() -> None:
    broken = Predicate(["a"], lambda row: row["z"] > 0, "broken")
    with pytest.raises(UsageError, match="'broken' raises KeyError"):
        run([broken])
    picky = Predicate(["a"], lambda row: 1 // (row["a"] - 3) < 0, "fails for 3")
    assert bound(picky).holds(np.array([[0], [3]])).tolist() == [True, False]


def test_predicates_that_do_not_fit_are_refused() -> None:
    with pytest.raises(WorkloadError, match="no column 'z'"):
        run([Predicate(["z"], bool, "z")])
    with pytest.raises(WorkloadError, match="at least one column"):
        Predicate([], bool, "none")
    with pytest.raises(UsageError, match="same columns and name"):
        run([ABOVE, Predicate(["a", "c"], bool, "c above a")])
