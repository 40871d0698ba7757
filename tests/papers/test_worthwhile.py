"""Rounds of aim-plus end where the last pass would gain more by their cost."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from admeasure.families.graphical.family import GraphicalFamily
from admeasure.measurement import Measurement
from admeasure.mechanisms.aim_plus import AimPlus
from admeasure.parts.worthwhile import MOST_CELLS, View, dependence, gained, judged
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Marginal, Threshold
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.workload import Workload, parse_workload

COLUMNS = 60
RHO = Fraction(1, 80)


def choices(codes: np.ndarray, **options: float) -> tuple[int, Curator]:
    """How many marginals the rounds chose, and what they cost."""
    names = [f"c{i:02}" for i in range(codes.shape[1])]
    schema = Schema.coded("toy", dict.fromkeys(names, 3))
    source = MemorySource.from_codes({c: codes[:, i] for i, c in enumerate(names)}, schema)
    curator = Curator(source, Ledger(RHO), SeededNoise(5))
    AimPlus(**options).run(curator, parse_workload("all-2way", curator.domain), ())
    assert curator.remaining.rho == 0
    return sum(e["event"] == "choose" for e in curator.journal.events), curator


def test_rounds_of_a_thin_table_end_with_the_first_stretch_and_the_rest_goes_to_the_last_pass():
    """Independent columns, few rows: nothing is to be found."""
    codes = np.random.default_rng(0).integers(0, 3, (1000, COLUMNS))
    found, curator = choices(codes)
    assert found == COLUMNS // 12
    charges = curator.ledger.charges
    last = max(i for i, c in enumerate(charges) if c.what.startswith("choice")) + found + 1
    assert sum(c.cost.rho for c in charges[last:]) > RHO * Fraction(4, 5)
    assert choices(codes, final_pass=0.0)[0] > 3 * found  # without a last pass none gets it


def test_rounds_go_on_where_they_find_what_the_table_holds():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (20_000, COLUMNS))
    for c in range(1, COLUMNS):
        codes[:, c] = np.where(rng.random(20_000) < 0.8, codes[:, c - 1], codes[:, c])
    assert choices(codes)[0] >= COLUMNS - 1


def test_what_is_gained_is_that_of_the_formula_query_by_query():
    rng = np.random.default_rng(3)
    rows, weights = 500.0, [1.0, 3.0]
    shapes = [(2, 3), (2, 2, 2)]
    one, two = (
        View(Fraction(1), rng.uniform(100, 900, 2), [rng.normal(0, 0.1, s) for s in shapes])
        for _ in range(2)
    )
    total = 0.0
    for i, weight in enumerate(weights):
        cells = one.held[i].size
        moved = sum(abs(a - b) for a, b in zip(one.held[i].flat, two.held[i].flat, strict=True))
        chance = 2 / np.pi * cells / rows
        without = (one.noise[i] / rows**2 + moved**2 + chance) ** 0.5
        total += weight * (without - (two.noise[i] / rows**2 + chance) ** 0.5)
    assert gained(one, two, weights, rows) == pytest.approx(total / sum(weights))


def test_dependence_is_what_the_joint_distribution_has_beyond_its_columns():
    """Against the explicit joint table of three columns, two of which were measured together."""
    schema = Schema.coded("toy", {"a": 2, "b": 3, "c": 2})
    family = GraphicalFamily()
    seen = np.array([[30, 5, 10], [2, 40, 13]])
    log = [Measurement(Marginal(("a", "b")), seen, 1.0)]
    model = family.polished(family.init(schema.domain), log)
    joint = model.marginals([("a", "b", "c")])[0]
    joint = joint / joint.sum()
    sets = [*combinations("abc", 2), ("a", "b", "c")]
    for columns, found in zip(sets, dependence(model, sets), strict=True):
        axes = tuple(i for i, c in enumerate("abc") if c not in columns)
        expected = joint.sum(axis=axes)
        for cell in np.ndindex(*expected.shape):
            product = 1.0
            for axis, level in enumerate(cell):
                others = tuple(i for i in range(len(cell)) if i != axis)
                product *= expected.sum(axis=others)[level]
            assert found[cell] == pytest.approx(expected[cell] - product, abs=1e-9)


def test_rounds_are_judged_by_all_of_a_small_workload_and_by_part_of_a_large_one():
    schema = Schema.coded("toy", {"a": 2, "b": 3, "c": 2})
    workload = Workload(
        {Marginal(("a",)): 9.0, Marginal(("a", "b")): 2.0, Threshold(("a", "b"), 1): 1.0}
    )
    assert judged(schema.domain, workload) == {("a", "b"): 3.0}
    wide = Schema.coded("wide", {f"c{i:03}": 60 for i in range(100)})
    some = judged(wide.domain, parse_workload("all-2way", wide.domain))
    assert 0 < sum(map(wide.domain.cells, some)) <= MOST_CELLS
