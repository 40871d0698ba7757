"""The fit against Private-PGM's own library on the same measurements.

Runs only where mbi 2 is installed; it stays out of the package's environment, since it brings JAX.
"""

from __future__ import annotations

import numpy as np
import pytest

from admeasure.families.graphical.estimation.estimate import Accuracy, estimate
from admeasure.families.graphical.estimation.statistics import Observation
from admeasure.families.graphical.structure.junction_tree import JunctionTree

pytest.importorskip("mbi", reason="mbi is not installed here")

LEVELS = (4, 3, 5, 2, 6)
CLIQUES = [(0,), (2,), (4,), (0, 1), (1, 2), (2, 3), (0, 1, 2), (3, 4), (0, 4)]


def measurements(seed):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(int(np.prod(LEVELS)), 0.2)).reshape(LEVELS) * 5000
    seen = []
    for clique in CLIQUES:
        true = joint.sum(axis=tuple(a for a in range(len(LEVELS)) if a not in clique))
        sigma = float(rng.uniform(5, 40))
        seen.append(Observation(clique, true + rng.normal(0, sigma, true.shape), sigma))
    return seen


def fitted_by_mbi(seen, total, steps=20_000):
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import Domain, LinearMeasurement, estimation

    names = [f"a{k}" for k in range(len(LEVELS))]
    asked = [
        LinearMeasurement(o.values.reshape(-1), tuple(names[a] for a in o.clique), stddev=o.sigma)
        for o in seen
    ]
    model = estimation.MirrorDescent().estimate(
        Domain(names, LEVELS), asked, known_total=total, iters=steps
    )
    return {
        o.clique: np.asarray(model.project(m.clique).values, dtype=float)
        for o, m in zip(seen, asked, strict=True)
    }


def objective(tables, seen):
    return sum(0.5 * (((tables[o.clique] - o.values) / o.sigma) ** 2).sum() for o in seen)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_is_no_worse_and_the_marginals_agree(seed):
    seen = measurements(seed)
    # Little slack: the least squares part is what the two have in common.
    fit = estimate(LEVELS, seen, accuracy=Accuracy(1e-4, 5000, slack=1e-3))
    tables = dict(zip(CLIQUES, fit.model.marginals(CLIQUES), strict=True))
    theirs = fitted_by_mbi(seen, fit.model.total)
    assert objective(tables, seen) <= objective(theirs, seen) * 1.001 + 0.01
    # Both are near the one projection on the set of marginals: closer than a fifth of the noise.
    for o in seen:
        assert np.sqrt(np.mean((tables[o.clique] - theirs[o.clique]) ** 2)) < 0.2 * o.sigma


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_default_fit_is_no_worse_than_a_thousand_steps_of_mirror_descent(seed):
    seen = measurements(seed)
    fit = estimate(LEVELS, seen)
    theirs = fitted_by_mbi(seen, fit.model.total, steps=1000)
    tables = dict(zip(CLIQUES, fit.model.marginals(CLIQUES), strict=True))
    assert objective(tables, seen) <= objective(theirs, seen) * 1.02


def test_the_total_is_the_same():
    from mbi import LinearMeasurement
    from mbi.estimation import minimum_variance_unbiased_total

    seen = measurements(0)
    asked = [LinearMeasurement(o.values.reshape(-1), o.clique, stddev=o.sigma) for o in seen]
    expected = float(minimum_variance_unbiased_total(asked))
    assert estimate(LEVELS, seen).model.total == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_tree_is_no_larger_than_theirs(seed):
    from mbi import Domain
    from mbi.junction_tree import hypothetical_model_size

    rng = np.random.default_rng(seed)
    levels = tuple(int(n) for n in rng.integers(2, 20, size=9))
    cliques = [
        tuple(sorted(int(a) for a in rng.choice(9, int(rng.integers(2, 4)), replace=False)))
        for _ in range(8)
    ]
    names = [f"a{k}" for k in range(9)]
    named = [tuple(names[a] for a in clique) for clique in cliques]
    theirs = hypothetical_model_size(Domain(names, levels), named)
    # Each is greedy, and neither is best on every graph.
    assert JunctionTree.build(levels, cliques).megabytes <= 1.1 * theirs
