"""Shrinkage: posterior means against integration by brute force, and what a shrunk fit keeps."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import integrate, special

from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.families.graphical.estimation.estimate import Accuracy, estimate
from admeasure.families.graphical.estimation.shrinkage import (
    Belief,
    ManyBeliefs,
    shape_weights,
    shrunk,
)
from admeasure.families.graphical.estimation.statistics import Observation, combine
from admeasure.families.graphical.family import GraphicalFamily
from admeasure.families.graphical.structure.zeros import Zeros
from admeasure.measurement import Measurement
from admeasure.mechanisms import REGISTRY, build
from admeasure.planning.mechanism import option_names
from admeasure.queries import Marginal


def moments(k: float, y: float, m: float) -> tuple[float, float]:
    """log p(y) and E(mu | y) for mu ~ Gamma(k, mean m), y ~ N(mu, 1), by quadrature in log mu."""
    log_mu = np.concatenate([np.linspace(-80 / min(k, 1), -8, 2000)[:-1], np.linspace(-8, 7, 9000)])
    mu = np.exp(log_mu)
    log_joint = k * log_mu - k / m * mu - (mu - y) ** 2 / 2
    values = np.exp(log_joint - log_joint.max())
    whole, first = (integrate.simpson(v, x=log_mu) for v in (values, values * mu))
    log_p = log_joint.max() + math.log(whole) + k * math.log(k / m) - special.gammaln(k)
    return float(log_p), float(first / whole)


SHAPES = 0.01 * 3200 ** (np.arange(15) / 14)


def example(seed: int, columns: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What was seen of some columns of 7 levels, with noise of scale 1, and believed before."""
    rng = np.random.default_rng(seed)
    priors = [rng.gamma(1.0, 4.0, 7) + 0.05 for _ in range(columns)]
    return [rng.gamma(0.4, p / 0.4) + rng.normal(size=7) for p in priors], priors


@pytest.mark.parametrize("tau", [1.0, 12.5])
@pytest.mark.parametrize(("centre", "given"), [(0.05, 2.0), (0.2, 0.5)])
@pytest.mark.parametrize("seed", range(4))
def test_posterior_means_are_those_of_brute_force(seed, centre, given, tau):
    """Cells are integrated numerically, for 15 shapes from 0.01 to 32 with log-normal weights. What
    shapes of less than a thousandth of the weight say may be left out."""
    (seen,), (prior,) = example(seed, 1)
    belief = ManyBeliefs([Belief(seen * tau, prior * tau, tau)])
    weights = shape_weights(belief.evidence(), np.array([centre]), math.inf, given)
    found = belief.means(weights)[0] / tau
    cells = list(zip(seen, prior, strict=True))
    table = np.array([[moments(k, y, m) for y, m in cells] for k in SHAPES])
    log_weight = table[:, :, 0].sum(1) - given / 2 * np.log(SHAPES / centre) ** 2
    weight = np.exp(log_weight - log_weight.max())
    expected = (weight[:, None] * table[:, :, 1]).sum(0) / weight.sum()
    assert found == pytest.approx(expected, abs=0.003, rel=0.003)
    # And it is not idle: neither what was measured nor what was believed before.
    assert np.abs(found - seen).max() > 0.1
    assert np.abs(found - prior).max() > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_columns_learn_from_each_other_what_brute_force_says(seed):
    """Of three columns the joint posterior of their shapes and of the centre, summed over all
    15 × 15 × 15 shapes and integrated over the centre."""
    centres, around, given = np.array([0.05, 0.2, 0.02]), 4.0, 2.0
    seen, priors = example(seed, 3)
    cells = [list(zip(s, p, strict=True)) for s, p in zip(seen, priors, strict=True)]
    evidence = np.array([[sum(moments(k, *c)[0] for c in t) for k in SHAPES] for t in cells])
    off = np.linspace(-6, 6, 4001)  # of the log of the factor that all centres have
    shapes = []
    for e, centre in zip(evidence, centres, strict=True):
        prior = np.exp(-given / 2 * (np.log(SHAPES / centre)[:, None] - off) ** 2)
        shapes.append(np.exp(e - e.max())[:, None] * prior / prior.sum(axis=0))
    density = np.exp(-around / 2 * off**2)
    joint = integrate.simpson(np.einsum("ix,jx,kx,x->ijkx", *shapes, density), x=off, axis=-1)
    joint /= joint.sum()
    beliefs = ManyBeliefs([Belief(s, p, 1.0) for s, p in zip(seen, priors, strict=True)])
    found = shape_weights(beliefs.evidence(), centres, around, given)
    for column in range(3):
        expected = onto(joint, (column,))
        assert found[column] / found[column].sum() == pytest.approx(expected, abs=0.002)


def test_even_columns_are_shrunk_further_where_all_are_even():
    """A column seen alike beside others, even ones and uneven ones; in a round it is all one."""
    rows, tau = 400.0, 40.0
    column = np.array([130.0, 60.0, 100.0, 110.0])
    even = rows / 4 + tau * np.array([1, -1, 0.5, -0.5])
    uneven = np.array([370.0, 20.0, 10.0, 0.0])
    levels = [4] * 41
    off = {}
    for columns in ("alone", "together"):
        for kind, other in (("even", even), ("uneven", uneven)):
            tables = [column, *[other] * 40]
            seen = [Observation((i,), t, tau) for i, t in enumerate(tables)]
            _, posteriors = shrunk(levels, combine(levels, seen, ()), (), rows, {}, columns)
            off[columns, kind] = np.abs(posteriors[0,].table - rows / 4).sum()
    assert off["together", "even"] < 0.8 * off["together", "uneven"]
    assert off["alone", "even"] == off["alone", "uneven"]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_a_posterior_mean_lies_between_nothing_and_far_beyond_what_was_seen(scale):
    """From hardly any noise to nothing but noise: finite, not negative, and with hardly any noise
    what was measured."""
    seen = np.array([-3.0, 0.0, 0.2, 5.0, 40.0, 3e4, 1e7])
    prior = np.array([1e-12, 0.0, 1.0, 1e-3, 1e5, 7.0, 1e7])
    belief = ManyBeliefs([Belief(seen, prior, scale)])
    (found,) = belief.means(shape_weights(belief.evidence(), np.array([0.2]), math.inf, 0.5))
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found[1] == 0
    if scale < 1:
        assert found[3:] == pytest.approx(seen[3:], rel=1e-3)


def onto(joint: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
    return joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in clique))


def observed(joint, cliques, sigma, seed=0):
    rng = np.random.default_rng(seed)
    tables = {c: onto(joint, c) for c in cliques}
    return [Observation(c, t + rng.normal(0, sigma, t.shape), sigma) for c, t in tables.items()]


JOINT = np.random.default_rng(5).gamma(0.3, 60.0, (4, 5, 3))
CLIQUES = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]


def test_with_hardly_any_noise_a_shrunk_fit_is_the_plain_one():
    seen = observed(JOINT, CLIQUES, 1e-3)
    accuracy = Accuracy(tolerance=1e-5, iterations=3000)
    plain = estimate(JOINT.shape, seen, accuracy=accuracy).model
    gentle = estimate(JOINT.shape, seen, accuracy=accuracy, known={}).model
    for clique in CLIQUES:
        assert gentle.marginal(clique) == pytest.approx(plain.marginal(clique), abs=0.05)


def test_shrinking_brings_noisy_marginals_closer_to_the_truth():
    """20 tables with cells that vary around independence as much as their means (of tables that are
    much sparser the plain fit is as good), each fitted both ways. The seeds are fixed, and the mean
    gain is many times its spread."""
    gains = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rates = rng.gamma(1.0, np.outer(rng.gamma(0.3, 1, 30), rng.gamma(0.3, 1, 20)))
        joint = rng.multinomial(4000, (rates / rates.sum()).reshape(-1)).reshape(30, 20)
        seen = observed(joint, [(0,), (1,), (0, 1)], 20.0, seed)
        errors = [
            np.abs(estimate(joint.shape, seen, known=known).model.marginal((0, 1)) - joint).sum()
            for known in (None, {})
        ]
        gains.append(errors[1] / errors[0])
    assert np.mean(gains) + 5 * np.std(gains) / math.sqrt(len(gains)) < 1


@pytest.mark.parametrize("first", [0, 1], ids=["a whole level", "parts of levels"])
def test_what_cannot_occur_stays_out_and_the_number_of_rows_stays(first):
    mask = np.zeros((4, 5), dtype=bool)
    mask[0, first:] = mask[2, 2] = True
    joint = JOINT * ~mask[:, :, None]
    seen = observed(joint, CLIQUES, 6.0)
    zeros = (Zeros((0, 1), mask),)
    model = estimate(joint.shape, seen, zeros=zeros, total=700.0, known={}).model
    assert (model.marginal((0, 1))[mask] == 0).all()
    assert model.marginal((0, 1, 2)).sum() == pytest.approx(700.0)
    statistics = combine(joint.shape, seen, zeros)
    tables, posteriors = shrunk(joint.shape, statistics, zeros, 700.0, {})
    assert (posteriors[(0, 1)].table[mask] == 0).all()
    assert posteriors[(0, 1)].table.sum() == pytest.approx(700.0, rel=0.2)
    for s in tables:
        assert (s.mean[~s.possible] == 0).all()


def test_a_posterior_is_kept_until_more_is_known_of_its_marginal():
    seen = observed(JOINT, CLIQUES, 6.0)
    first = estimate(JOINT.shape, seen, known={}).posteriors
    assert set(first) == {c for k in (1, 2) for c in combinations(range(3), k)}
    slight = [*seen, Observation((2,), onto(JOINT, (2,)), 600.0)]
    again = estimate(JOINT.shape, slight, known=first).posteriors
    assert all(again[c] is first[c] for c in first)
    more = [*seen, Observation((2,), onto(JOINT, (2,)), 6.0)]
    moved = estimate(JOINT.shape, more, known=first).posteriors
    assert {c for c in first if moved[c] is not first[c]} == {(2,)}


def test_every_mechanism_on_the_graphical_family_can_shrink():
    can = {name for name, kind in REGISTRY.items() if "shrink" in option_names(kind)}
    assert can >= {"aim", "aim-plus", "mst", "mwem-pgm", "privbayes", "independent"}
    for name in can:
        assert build(name, {"shrink": "end"}).shrink == "end"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="shrink is one of no, end, rounds; it is 'yes'"):
        GraphicalFamily(shrink="yes")  # type: ignore[arg-type]


def test_what_is_measured_inside_larger_marginals_is_fitted_in_a_round():
    """Seven triples of 18 levels with noise, then a pair of one of them with the same noise: 18
    times as precise as what its triple says of it, though a small part of all cells measured. The
    model's pair then is off by less than 1.5 sigma a cell, where it was off by more than 3. (Of
    324 normal errors the root mean square exceeds 1.3 with a chance of less than 1e-12.)"""
    rng, sigma, triples = np.random.default_rng(0), 80.0, range(7)
    names = [[f"t{t}{a}" for a in "abc"] for t in triples]
    domain = Domain.of({name: 18 for triple in names for name in triple})
    truth = [rng.dirichlet(np.full(18**3, 5.0)).reshape(18, 18, 18) * 1e6 for _ in triples]

    def measured(columns, exact):
        return Measurement(Marginal(columns), exact + rng.normal(0, sigma, exact.shape), sigma)

    family = GraphicalFamily(shrink="rounds")
    log = [measured(tuple(n), table) for n, table in zip(names, truth, strict=True)]
    before = family.update(family.init(domain), log)
    pair, exact = tuple(names[0][:2]), truth[0].sum(2)
    after = family.update(before, [*log, measured(pair, exact)])

    def off(model):
        return float(np.sqrt(np.mean((model.marginals([pair])[0] - exact) ** 2))) / sigma

    assert off(before) > 3
    assert off(after) < 1.5
