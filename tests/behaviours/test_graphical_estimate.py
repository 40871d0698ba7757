"""The fit: what it minimises, what it assumes, and what it does with awkward measurements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize

from admeasure.errors import ReleaseError, UsageError
from admeasure.families.graphical.estimation.estimate import Accuracy, estimate
from admeasure.families.graphical.estimation.statistics import Observation
from admeasure.families.graphical.inference.calibration import ContradictionError
from admeasure.families.graphical.model import MarkovRandomField
from admeasure.families.graphical.structure.junction_tree import JunctionTree
from admeasure.families.graphical.structure.zeros import Zeros

EXACT = Accuracy(tolerance=1e-7, iterations=3000, slack=0.1)


def onto(joint, clique):
    return joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in clique))


def problem(seed, zeros=False):
    """A random joint table, and noisy marginals of it: overlapping, nested and repeated."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    levels = tuple(int(n) for n in rng.integers(2, 4, size=d))
    joint = rng.dirichlet(np.full(int(np.prod(levels)), 0.5)).reshape(levels) * 1000
    rules = []
    if zeros:
        clique = tuple(sorted(int(a) for a in rng.choice(d, 2, replace=False)))
        mask = rng.random([levels[a] for a in clique]) < 0.3
        mask.flat[0] = False
        rules.append(Zeros(clique, mask))
        shape = [n if a in clique else 1 for a, n in enumerate(levels)]
        joint = np.where(mask.reshape(shape), 0.0, joint)
    seen = []
    for _ in range(rng.integers(1, 7)):
        size = int(rng.integers(1, min(d, 3) + 1))
        clique = tuple(sorted(int(a) for a in rng.choice(d, size, replace=False)))
        sigma = float(rng.uniform(2, 30))
        true = onto(joint, clique)
        seen.append(Observation(clique, true + rng.normal(0, sigma, true.shape), sigma))
    return levels, seen, rules


def primal(levels, seen, rules, total, ratio):
    """Maximum entropy with slack over the written-out joint, by a general-purpose optimiser.

    minimise over p: sum p log p N + (1 / 2 ratio) sum |N M p - y|^2 / sigma^2, in the softmax
    parametrisation, where any stationary point is the optimum.
    """
    possible = np.ones(levels, dtype=bool)
    for rule in rules:
        shape = [n if a in rule.clique else 1 for a, n in enumerate(levels)]
        possible &= ~rule.mask.reshape(shape)
    where = np.flatnonzero(possible)
    maps = []
    for o in seen:
        index = np.arange(o.values.size).reshape(o.values.shape)
        shape = [n if a in o.clique else 1 for a, n in enumerate(levels)]
        cell = np.broadcast_to(index.reshape(shape), levels).reshape(-1)[where]
        matrix = np.zeros((o.values.size, len(where)))
        matrix[cell, np.arange(len(where))] = 1.0
        # Cells no record can be in carry no information.
        maps.append((matrix, np.where(matrix.any(axis=1), o.values.reshape(-1), 0.0), o.sigma))

    def loss(logits):
        p = np.exp(logits - logits.max())
        p /= p.sum()
        value = total * float(p @ np.log(np.maximum(p, 1e-300)))
        grad = total * (np.log(np.maximum(p, 1e-300)) + 1)
        for matrix, y, sigma in maps:
            residual = total * (matrix @ p) - y
            value += 0.5 / ratio * float(residual @ residual) / sigma**2
            grad += total / ratio * (matrix.T @ residual) / sigma**2
        return value, p * (grad - p @ grad)

    best = optimize.minimize(
        loss,
        np.zeros(len(where)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50},
    )
    p = np.exp(best.x - best.x.max())
    joint = np.zeros(int(np.prod(levels)))
    joint[where] = total * p / p.sum()
    return joint.reshape(levels), best.fun, loss


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_fit_is_the_weighted_least_squares_fit_of_greatest_entropy(seed, zeros):
    levels, seen, rules = problem(seed, zeros)
    fit = estimate(levels, seen, zeros=rules, total=1000.0, accuracy=EXACT, reference_sigma=10.0)
    expected, _, _ = primal(levels, seen, rules, 1000.0, EXACT.slack / 10.0)
    for size in range(1, len(levels) + 1):
        for clique in itertools.combinations(range(len(levels)), size):
            np.testing.assert_allclose(
                fit.model.marginal(clique), onto(expected, clique), atol=0.05
            )


@pytest.mark.parametrize("seed", range(8))
def test_measuring_twice_equals_measuring_once_with_the_joint_precision(seed):
    rng = np.random.default_rng(seed)
    levels = (3, 4)
    first, second = rng.normal(20, 5, (3, 4)), rng.normal(20, 5, (3, 4))
    joined = (first / 4 + second / 16) / (1 / 4 + 1 / 16)
    twice = estimate(
        levels,
        [Observation((0, 1), first, 2.0), Observation((0, 1), second, 4.0)],
        accuracy=EXACT,
        reference_sigma=2.0,
    )
    once = estimate(
        levels,
        [Observation((0, 1), joined, (1 / 4 + 1 / 16) ** -0.5)],
        accuracy=EXACT,
        reference_sigma=2.0,
    )
    assert twice.model.total == pytest.approx(once.model.total)
    np.testing.assert_allclose(twice.model.marginal((0, 1)), once.model.marginal((0, 1)), atol=1e-6)


def test_the_total_is_the_inverse_variance_mean_of_the_sums():
    a = np.array([10.0, 20.0, 30.0])  # sum 60, variance 3 * 4
    b = np.array([[25.0, 25.0]])  # sum 50, variance 2 * 9
    fit = estimate((3, 1, 2), [Observation((0,), a, 2.0), Observation((1, 2), b, 3.0)])
    assert fit.model.total == pytest.approx((60 / 12 + 50 / 18) / (1 / 12 + 1 / 18))
    assert fit.model.marginal(()) == pytest.approx(fit.model.total)


def test_a_warm_start_reaches_the_same_model_as_a_cold_one():
    levels, seen, _ = problem(3)
    first = estimate(levels, seen[:1], accuracy=EXACT, reference_sigma=10.0)
    cold = estimate(levels, seen, accuracy=EXACT, reference_sigma=10.0)
    warm = estimate(levels, seen, start=first.model, accuracy=EXACT, reference_sigma=10.0)
    whole = tuple(range(len(levels)))
    np.testing.assert_allclose(cold.model.marginal(whole), warm.model.marginal(whole), atol=1e-3)


def test_the_same_measurements_give_the_same_bits():
    levels, seen, _ = problem(4)
    one, two = estimate(levels, seen).model, estimate(levels, seen).model
    for clique, table in one.potentials.items():
        np.testing.assert_array_equal(table, two.potentials[clique])


def test_a_larger_tree_does_not_change_the_fit():
    levels, seen, _ = problem(6)
    whole = tuple(range(len(levels)))
    small = estimate(levels, seen, accuracy=EXACT)
    large = estimate(levels, seen, accuracy=EXACT, tree=JunctionTree.build(levels, [whole]))
    np.testing.assert_allclose(small.model.marginal(whole), large.model.marginal(whole), atol=1e-3)


def test_nothing_measured_gives_the_uniform_model():
    model = estimate((2, 5), [], total=100.0).model
    np.testing.assert_allclose(model.marginal((0, 1)), np.full((2, 5), 10.0))


@pytest.mark.parametrize(
    "values",
    [np.zeros(4), np.full(4, -50.0), np.array([-1e6, 1e6, 0.0, 3.0]), np.array([0, 0, 0, 1e9])],
    ids=["all zero", "all negative", "wild", "one huge cell"],
)
@pytest.mark.parametrize("sigma", [1e-6, 1.0, 1e9], ids=["tiny", "usual", "huge"])
def test_awkward_measurements_still_give_a_distribution(values, sigma):
    levels = (4, 3)
    seen = [
        Observation((0,), values, sigma),
        Observation((0, 1), np.outer(values, [0.2, 0.3, 0.5]), sigma),
    ]
    model = estimate(levels, seen).model
    table = model.marginal((0, 1))
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert table.sum() == pytest.approx(model.total)
    assert model.total >= 1.0


def test_nearly_exact_counts_are_reproduced():
    rng = np.random.default_rng(2)
    joint = rng.integers(0, 50, (3, 4, 2)).astype(float)
    seen = [Observation(c, onto(joint, c), 1e-3) for c in [(0, 1), (1, 2)]]
    model = estimate((3, 4, 2), seen, accuracy=EXACT).model
    for o in seen:
        np.testing.assert_allclose(model.marginal(o.clique), o.values, atol=0.02)


def test_a_marginal_with_huge_sigma_changes_nothing():
    rng = np.random.default_rng(1)
    good = Observation((0, 1), rng.uniform(10, 90, (3, 3)), 2.0)
    vague = Observation((1, 2), rng.uniform(0, 1e3, (3, 3)), 1e9)
    with_it = estimate((3, 3, 3), [good, vague], reference_sigma=2.0, accuracy=EXACT).model
    without = estimate((3, 3, 3), [good], reference_sigma=2.0, accuracy=EXACT).model
    np.testing.assert_allclose(with_it.marginal((0, 1, 2)), without.marginal((0, 1, 2)), atol=1e-3)


def test_zeros_hold_exactly_however_the_measurements_disagree():
    mask = np.zeros((3, 3), dtype=bool)
    mask[0, 2] = mask[1, :2] = True
    seen = [
        Observation((0, 1), np.full((3, 3), 100.0), 5.0),
        Observation((0, 2), np.full((3, 2), 150.0), 5.0),
    ]
    model = estimate((3, 3, 2), seen, zeros=[Zeros((0, 1), mask)]).model
    np.testing.assert_array_equal(model.marginal((0, 1))[mask], 0.0)
    assert (model.marginal((0, 1))[~mask] > 0).all()
    np.testing.assert_array_equal(model.marginal((0, 1, 2))[mask], 0.0)


def test_zeros_on_a_clique_that_was_never_measured_hold_too():
    mask = np.zeros((2, 3, 2), dtype=bool)
    mask[1, 2, 0] = True
    seen = [Observation((0, 1), np.full((2, 3), 20.0), 1.0)]
    model = estimate((2, 3, 2), seen, zeros=[Zeros((0, 1, 2), mask)]).model
    assert model.marginal((0, 1, 2))[1, 2, 0] == 0.0
    np.testing.assert_allclose(model.marginal((0, 1)), np.full((2, 3), 20.0), atol=1.0)


def test_contradictory_zeros_are_a_clear_error():
    nothing = np.ones((2,), dtype=bool)
    with pytest.raises(ContradictionError, match="no possible record"):
        estimate((2, 2), [Observation((1,), np.ones(2), 1.0)], zeros=[Zeros((0,), nothing)])
    # The first rule leaves only x1 = 1, which the second forbids.
    rules = [
        Zeros((0, 1), np.array([[True, False], [True, False]])),
        Zeros((1, 2), np.array([[False, False], [True, True]])),
    ]
    seen = [Observation((0, 1), np.ones((2, 2)), 1.0)]
    with pytest.raises(ContradictionError):
        estimate((2, 2, 2), seen, zeros=rules)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (Observation((0,), np.zeros(3), 1.0), "shape"),
        (Observation((1, 0), np.zeros((2, 2)), 1.0), "sorted"),
        (Observation((5,), np.zeros(2), 1.0), "below 2"),
        (Observation((0,), np.zeros(2), 0.0), "positive"),
        (Observation((0,), np.array([1.0, np.nan]), 1.0), "not finite"),
    ],
)
def test_a_measurement_that_cannot_be_used_is_refused(observation, message):
    with pytest.raises(UsageError, match=message):
        estimate((2, 2), [observation])


def test_a_tree_without_a_measured_clique_is_refused():
    with pytest.raises(UsageError, match="Extend it"):
        estimate(
            (2, 2), [Observation((0, 1), np.ones((2, 2)), 1.0)], tree=JunctionTree.build((2, 2), [])
        )


@pytest.mark.parametrize(
    ("levels", "cliques"),
    [
        ((6,), [(0,)]),
        ((1, 1), [(0,), (0, 1)]),
        ((1000, 3), [(0,), (0, 1)]),
        ((3, 3, 3), [(0, 1, 2), (0,), (1, 2)]),
        ((3, 3, 3, 3), [(0,), (2,)]),
    ],
)
def test_edge_shapes_are_fitted_closely(levels, cliques):
    rng = np.random.default_rng(0)
    joint = rng.uniform(50, 100, levels)
    seen = [Observation(c, onto(joint, c), 0.5) for c in cliques]
    model = estimate(levels, seen, accuracy=EXACT).model
    for o in seen:
        np.testing.assert_allclose(model.marginal(o.clique), o.values, atol=0.5)


def test_a_model_survives_storage_as_plain_arrays(tmp_path):
    levels, seen, rules = problem(1, zeros=True)
    model = estimate(levels, seen, zeros=rules).model
    np.savez(tmp_path / "model.npz", **model.arrays())
    with np.load(tmp_path / "model.npz", allow_pickle=False) as stored:
        back = MarkovRandomField.from_arrays(stored)
    whole = tuple(range(len(levels)))
    np.testing.assert_array_equal(back.marginal(whole), model.marginal(whole))
    assert back.megabytes == model.megabytes
    assert back.tree == model.tree
    rows = [m.sample(50, np.random.default_rng(0)) for m in (model, back)]
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: a.pop("levels"),
        lambda a: a.pop("potential_0"),
        lambda a: a.update(total=np.asarray(np.nan)),
        lambda a: a.update(potential_0=np.zeros((1, 1, 1, 1))),
        lambda a: a.update(potential_0=np.full_like(a["potential_0"], np.inf)),
        lambda a: a.update(nodes=np.array([[0, 1], [99, 1]])),
        lambda a: a.update(cliques=a["cliques"] + 50),
    ],
)
def test_a_damaged_model_is_refused(damage):
    levels, seen, _ = problem(2)
    arrays = estimate(levels, seen).model.arrays()
    damage(arrays)
    with pytest.raises(ReleaseError, match="damaged"):
        MarkovRandomField.from_arrays(arrays)


def test_an_attribute_outside_the_domain_is_refused():
    model = MarkovRandomField.uniform((2, 2), 10.0)
    with pytest.raises(UsageError, match="outside"):
        model.marginal((0, 2))
