"""Estimates of values inside bins, against the rows themselves: intervals are for the table's own
values, wherever in their bins these lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import admeasure
from admeasure.analyses import (
    Correlation,
    LinearRegression,
    LogisticRegression,
    Mean,
    MeanDifference,
    cells,
    infer,
)
from admeasure.analyses.places import places
from admeasure.errors import ReleaseError, UsageError
from admeasure.planning.tree import least_squares
from admeasure.release import Release, store
from admeasure.schema import Schema
from admeasure.schema.inside import Inside
from admeasure.schema.leaves import hierarchy

TEXT = """
[table]
name = "generated"
[privacy]
unit = "person"
[[column]]
name = "x"
type = "TYPE"
BINS
[[column]]
name = "g"
type = "boolean"
[[column]]
name = "y"
type = "integer"
minimum = 0
maximum = 9
"""
Rows = dict[str, np.ndarray]


def schema(bins: str, kind: str = "integer") -> Schema:
    return Schema.loads(TEXT.replace("BINS", bins).replace("TYPE", kind))


PRIVATE = 'minimum = 0\nmaximum = 400\nbins = "private"'
FAR = 'minimum = 0\nmaximum = 4000\nbins = "private"'


def skewed(seed: int, count: int = 8000) -> Rows:
    """x has a long tail, with which the others go together."""
    rng = np.random.default_rng(seed)
    x = np.minimum(np.round(rng.lognormal(3.5, 0.7, count)), 400).astype(np.int64)
    y = np.clip(np.round(1.3 * np.log1p(x) + rng.normal(0, 1.5, count)), 0, 9)
    return {"x": x, "g": rng.random(count) < 0.3 + 0.3 * (x > 40), "y": y.astype(np.int64)}


def fitted(table: Rows, of: Schema, seed: int, epsilon: float, mechanism: Any = None) -> Release:
    return admeasure.fit(
        table,
        of,
        workload="all-2way",
        mechanism=mechanism or admeasure.gaussian(),
        epsilon=epsilon,
        delta=1e-9,
        seed=seed,
    )


def slope(t: Rows, of: str, on: str) -> np.ndarray:
    return np.polyfit(t[on].astype(float), t[of].astype(float), 1)[::-1]


def log_odds(t: Rows) -> np.ndarray:
    x, beta = np.column_stack([np.ones(len(t["x"])), t["x"]]), np.zeros(2)
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ beta))
        beta += np.linalg.solve((x.T * (p * (1 - p))) @ x, x.T @ (t["g"] - p))
    return beta


MEAN: tuple[Any, Callable[[Rows], Any]] = (Mean("x"), lambda t: t["x"].mean())
CASES: dict[str, tuple[Any, Callable[[Rows], Any]]] = {
    "mean": MEAN,
    "group": (Mean("x", {"g": True}), lambda t: t["x"][t["g"]].mean()),
    "difference": (
        MeanDifference("x", {"g": True}, {"g": False}),
        lambda t: t["x"][t["g"]].mean() - t["x"][~t["g"]].mean(),
    ),
    "correlation": (Correlation("x", "y"), lambda t: np.corrcoef(t["x"], t["y"])[0, 1]),
    "on bins": (LinearRegression("y", ["x"]), lambda t: slope(t, "y", "x")),
    "of bins": (LinearRegression("x", ["y"]), lambda t: slope(t, "x", "y")),
    "logistic": (LogisticRegression({"g": True}, ["x"]), log_odds),
}


def held(release: Release, table: Rows, case: tuple[Any, Callable[[Rows], Any]]) -> list[bool]:
    analysis, of = case
    found = infer(release, analysis)
    truths = np.atleast_1d(of(table)).tolist()
    return [a.noise[0] <= t <= a.noise[1] for a, t in zip(found, truths, strict=True)]


@pytest.mark.statistical
@pytest.mark.parametrize("bins", [PRIVATE, FAR])
def test_a_mean_of_private_bins_is_that_of_the_table(
    times: Callable[[int, int], int], bins: str
) -> None:
    """Fails with probability below 1e-7 where intervals hold in 93% or more, for the table and for
    the population. With a far maximum the last bin is nearly all of the range."""
    runs, of = times(12, 200), schema(bins)
    population = skewed(10**6, 10**6)["x"].mean()
    table_held = population_held = 0
    for seed in range(runs):
        table = skewed(seed)
        [found] = infer(fitted(table, of, seed, 1.0, admeasure.aim_plus()), Mean("x"))
        table_held += found.noise[0] <= table["x"].mean() <= found.noise[1]
        low, high = found.noise_and_sampling
        population_held += low <= population <= high
        assert found.inside == 0
    least = binom.ppf(1e-7, runs, 0.93)
    assert table_held >= least
    assert population_held >= least


@pytest.mark.statistical
def test_statistics_of_private_bins_are_those_of_the_table(
    times: Callable[[int, int], int],
) -> None:
    """All but the mean are wider by what places inside bins can do with other columns, and hold
    more often than is claimed: false alarm below 1e-7."""
    runs, of = times(4, 100), schema(PRIVATE)
    missed = dict.fromkeys(CASES, 0)
    for seed in range(runs):
        table = skewed(seed)
        release = fitted(table, of, seed, 10.0)
        for name, case in CASES.items():
            missed[name] += not all(held(release, table, case))
    # Two coefficients: twice the error.
    most = binom.isf(1e-7 / len(CASES), runs, 0.1)
    assert max(missed.values()) <= most, missed


EDGES = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99)
BINNED = schema(f"edges = {list(EDGES)}")
PLACES: dict[str, Callable[[np.ndarray, Rows, np.random.Generator], np.ndarray]] = {
    "lows": lambda width, t, rng: 0 * width,
    "highs": lambda width, t, rng: width,
    "by group": lambda width, t, rng: np.where(t["g"], width, 0),
    "by y": lambda width, t, rng: np.where(t["y"] > 4, width, 0),
    "against y": lambda width, t, rng: np.where(t["y"] > 4, 0, width),
    "outwards": lambda width, t, rng: np.where(t["bin"] > 4, width, 0),
    "inwards": lambda width, t, rng: np.where(t["bin"] > 4, 0, width),
    "evenly": lambda width, t, rng: rng.integers(0, width, endpoint=True),
}


@pytest.mark.parametrize("place", PLACES)
def test_intervals_hold_wherever_in_the_bins_of_a_schema_values_lie(place: str) -> None:
    """Noise is small here beside what places do, so that nothing is left to chance: the narrowest
    part for places is many times the scale of the noise."""
    rng = np.random.default_rng(5)
    bins = rng.binomial(9, 0.45, 20_000)
    y = np.clip(bins + rng.integers(-2, 3, len(bins)), 0, 9)
    table: Rows = {"bin": bins, "g": rng.random(len(bins)) < 0.2 + 0.06 * bins, "y": y}
    starts = np.array(EDGES[:-1])
    width = np.append(np.diff(EDGES[:-1]) - 1, EDGES[-1] - EDGES[-2])
    table["x"] = starts[bins] + PLACES[place](width[bins], table, rng)
    given = {name: table[name] for name in ("x", "g", "y")}
    release = fitted(given, BINNED, 1, 50.0)
    for name, case in CASES.items():
        assert all(held(release, table, case)), name
    [mean] = infer(release, Mean("x"))
    assert 4 < mean.inside < 5.5
    [share] = infer(release, Mean({"x": (0, 49)}))
    assert share.inside == 0


def test_a_release_without_counts_of_leaves_knows_the_ends_of_bins_alone() -> None:
    """As those of before they were kept: the interval is wider, and holds."""
    table = skewed(3)
    release = fitted(table, schema(PRIVATE), 3, 50.0)
    leaf = release.inside["x"]
    old = replace(release, inside={"x": Inside(leaf.starts, leaf.shares)})
    [new_one], [old_one] = (infer(r, Mean("x")) for r in (release, old))
    assert old_one.value == new_one.value
    assert old_one.inside > 0 == new_one.inside
    assert old_one.noise[0] < new_one.noise[0] < new_one.noise[1] < old_one.noise[1]
    assert all(held(old, table, MEAN))


@pytest.mark.parametrize(
    ("bins", "epsilon"), [("edges = [0, 20, 30, 40, 60, 1000]", 10.0), (FAR, 1.0)]
)
@pytest.mark.parametrize("name", ["correlation", "on bins", "logistic"])
def test_what_bins_leave_open_is_refused(bins: str, epsilon: float, name: str) -> None:
    release = fitted(skewed(0), schema(bins), 0, epsilon)
    with pytest.raises(UsageError, match="bins of 'x' are too wide"):
        infer(release, CASES[name][0])
    for told in ("mean", "difference", "of bins"):
        assert all(held(release, skewed(0), CASES[told]))


@pytest.mark.parametrize("bins", [PRIVATE, "minimum = 0\nmaximum = 400\nbins = 60"])
def test_of_pairs_alone_a_regression_has_the_same_values_and_no_narrower_intervals(
    monkeypatch: pytest.MonkeyPatch, bins: str
) -> None:
    """What places do is bounded in each pair by itself then, which is more."""
    release = fitted(skewed(1), schema(bins), 1, 10.0, admeasure.aim())
    analysis = LinearRegression("y", ["x", {"g": True}])
    whole = infer(release, analysis)
    monkeypatch.setattr(cells, "MOST_CELLS", 10 * release.schema.domain["x"])
    for one, two in zip(whole, infer(release, analysis), strict=True):
        assert two.value == pytest.approx(one.value, rel=1e-6)
        assert 0 < one.inside < two.inside
        assert two.noise[0] < one.noise[0] < one.noise[1] < two.noise[1]


@pytest.mark.parametrize("size", [1, 3, 17, 90])
def test_least_squares_of_a_tree_are_those_of_its_matrix(size: int) -> None:
    """And their covariance is that of the normal equations; numpy's dense solvers say both."""
    levels = hierarchy(np.arange(size), days=False)
    rng = np.random.default_rng(size)
    ends = [np.append(first[1:], size) for first in levels]
    a = np.array(
        [
            (np.arange(size) >= first) & (np.arange(size) < end)
            for starts, stops in zip(levels, ends, strict=True)
            for first, end in zip(starts, stops, strict=True)
        ],
        dtype=float,
    )
    noisy = rng.normal(0, 9, len(a))
    divided = np.split(noisy, np.cumsum([len(first) for first in levels])[:-1])
    found = least_squares(levels, divided)
    np.testing.assert_allclose(found, np.linalg.lstsq(a, noisy, rcond=None)[0], atol=1e-9)
    weights = rng.normal(0, 1, (2, size))
    zeros = [np.zeros((2, len(first))) for first in levels[:-1]]
    expected = np.linalg.solve(a.T @ a, weights.T).T
    np.testing.assert_allclose(least_squares(levels, [*zeros, weights]), expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_places_are_those_of_synthetic_values(kind: str) -> None:
    """Means and variances inside bins against a million drawn values: ten standard errors."""
    release = fitted(skewed(4), schema(PRIVATE, kind), 4, 5.0)
    column, rng = release.schema.column("x"), np.random.default_rng(0)
    assert column.grid is not None
    for inside in (release.inside["x"], None):
        known = places(column, inside)
        for level in range(0, column.regular, 9):
            codes = np.full(20_000, level)
            drawn = (inside.draw if inside else lambda _, c, r: column.grid.draw(c, r))(  # type: ignore[union-attr]
                column.grid, codes, rng
            )
            spread = max(float(drawn.std()), 1e-9)
            assert abs(drawn.mean() - known.means[level]) < 10 * spread / len(codes) ** 0.5
            fourth = float(((drawn - drawn.mean()) ** 4).mean()) ** 0.5
            off = abs(drawn.var() - known.variances[level])
            assert off <= 10 * fourth / len(codes) ** 0.5 + 1e-9


def test_counts_of_leaves_are_stored_and_read_back(tmp_path: Any) -> None:
    release = fitted(skewed(6), schema(PRIVATE), 6, 5.0)
    again = Release.load(release.save(tmp_path / "release"))
    one, two = release.inside["x"], again.inside["x"]
    assert one.counts is not None
    np.testing.assert_array_equal(one.counts, two.counts)
    assert one.sigma == two.sigma > 0
    assert infer(again, Mean("x")) == infer(release, Mean("x"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"sigma0": np.zeros(2)},
        {"sigma0": np.array(-1.0)},
        {"sigma0": np.array(np.nan)},
        {"sigma0": np.array("a")},
        {"counts0": np.zeros(3)},
        {"counts0": np.full(401, np.inf)},
        {"counts0": np.zeros(401, dtype=np.int64)},
    ],
)
def test_wrong_counts_of_leaves_are_refused(tmp_path: Any, wrong: dict[str, np.ndarray]) -> None:
    release = fitted(skewed(6), schema(PRIVATE), 6, 5.0)
    from admeasure.release.contents import leaf_arrays, read_inside

    arrays = leaf_arrays(release.inside, release.schema) | wrong
    with pytest.raises(ReleaseError, match="does not fit"):
        read_inside(release.schema, {store.INSIDE: store.pack_arrays(arrays)})
