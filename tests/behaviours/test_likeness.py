"""The internal report's correlations and combinations that the table never has, from its rows."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import admeasure
from admeasure.release import Release
from admeasure.reporting import facts, likeness, truth
from admeasure.schema import Schema
from admeasure.sources.open import open_source

SCHEMA = Schema.loads("""
[table]
name = "toy"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 59
edges = [0, 20, 40, 59]
missing_values = ["-"]
[[column]]
name = "height"
type = "integer"
minimum = 0
maximum = 3
[[column]]
name = "sex"
type = "string"
enum = ["f", "m", "never"]
""")
MIDDLES = np.array([9.5, 29.5, 49.5])
RNG = np.random.default_rng(3)
AGE = RNG.integers(0, 60, 600)
ROWS = {
    "age": [str(a) if i % 10 else "-" for i, a in enumerate(AGE)],
    "height": np.minimum(AGE // 20 + RNG.integers(0, 2, 600), 3),
    "sex": np.where(AGE < 30, "f", "m"),
}


@pytest.fixture(scope="module")
def release() -> Release:
    """Its columns are independent, so that many combinations are new."""
    return admeasure.fit(
        ROWS, SCHEMA, workload="all-3way", mechanism=admeasure.independent(), epsilon=5, delta=1e-9
    )


@pytest.fixture(scope="module")
def seen(release: Release) -> truth.TruthFacts:
    gathered = facts.gather(release)
    return truth.look(release, open_source(ROWS, SCHEMA).counts, gathered.ranked, gathered.pairs)


def test_correlations_are_those_of_rows_that_have_both_values(
    release: Release, seen: truth.TruthFacts
) -> None:
    has = np.array([a != "-" for a in ROWS["age"]])
    [found] = seen.correlations
    assert found.columns == ("age", "height")
    expected = np.corrcoef(MIDDLES[np.minimum(AGE // 20, 2)[has]], ROWS["height"][has])[0, 1]
    assert found.true == pytest.approx(expected)
    (table,) = release.model.marginals([("age", "height")])
    drawn = np.argwhere(np.ones((3, 4)))
    weights = table[:3].ravel()
    spread = np.cov(MIDDLES[drawn[:, 0]], drawn[:, 1], aweights=weights)
    assert found.believed == pytest.approx(spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1]))
    assert found.apart == pytest.approx(abs(found.true - found.believed))


def test_new_combinations_are_those_that_no_row_has(
    release: Release, seen: truth.TruthFacts
) -> None:
    names = ("age", "height", "sex")
    labels = {c: SCHEMA.column(c).labels for c in names}
    bins, missing = np.minimum(AGE // 20, 2), 3
    codes = {
        "age": [int(b) if a != "-" else missing for a, b in zip(ROWS["age"], bins, strict=True)],
        "height": ROWS["height"].tolist(),
        "sex": [("f", "m").index(s) for s in ROWS["sex"]],
    }
    expected = []
    for k in (1, 2, 3):
        numbers, shares = [], []
        for columns in combinations(names, k):
            held = set(zip(*(codes[c] for c in columns), strict=True))
            (table,) = release.model.marginals([columns])
            empty = [p for p in np.ndindex(table.shape) if p not in held]
            numbers.append(sum(table[p] >= likeness.EXPECTED for p in empty))
            shares.append(sum(table[p] for p in empty) / table.sum())
            for place in empty:
                smaller = [
                    set(zip(*(codes[c] for c in part), strict=True))
                    for part in combinations(columns, k - 1)
                ]
                parts = list(combinations(place, k - 1))
                whole = k == 1 or all(p in s for p, s in zip(parts, smaller, strict=True))
                if table[place] >= likeness.EXPECTED and whole:
                    where = tuple((c, labels[c][i]) for c, i in zip(columns, place, strict=True))
                    expected.append((float(table[place]), where))
        found = seen.by_size[k - 1]
        assert (found.k, found.marginals) == (k, len(numbers))
        assert found.new == pytest.approx(np.mean(numbers))
        assert found.new_share == pytest.approx(np.mean(shares))
    largest = sorted(expected, key=lambda one: (-one[0], one[1]))[: likeness.SHOWN]
    assert [c.where for c in seen.new_largest] == [where for _, where in largest]
    assert [c.rows for c in seen.new_largest] == pytest.approx([rows for rows, _ in largest])
    assert len(largest) > 3


def test_both_stand_in_the_internal_report_alone(release: Release, tmp_path: Path) -> None:
    internal = release.report(tmp_path / "in.html", internal=ROWS).read_text()
    public = release.report(tmp_path / "out.html").read_text()
    for words in ("Correlations of numbers", "Combinations that the table never has"):
        assert words in internal
        assert words not in public


def test_a_column_of_one_value_has_no_correlation() -> None:
    one = {**ROWS, "height": np.zeros(600, dtype=int)}
    made = admeasure.fit(
        one, SCHEMA, workload="all-2way", mechanism=admeasure.independent(), epsilon=5, delta=1e-9
    )
    assert likeness.correlations(made, open_source(one, SCHEMA).counts) == ()
