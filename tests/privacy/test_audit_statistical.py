"""Run by the thousand on a tiny domain, no mechanism shows more than it claims.

Clopper-Pearson lower bounds on epsilon at the claimed delta, and on mu of the Gaussian parts. Seeds
are fixed, so a verdict repeats itself; over the choice of seeds a sound mechanism fails its test
with probability at most 2 ALPHA. The same audit on the same mechanism with half of its noise fails.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from admeasure.audit.draws import Draws, drawn
from admeasure.audit.estimate import clopper_pearson, epsilon_lower, mu_lower
from admeasure.audit.trials import audit
from admeasure.mechanisms import REGISTRY
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.unit import Neighbours
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource

ALPHA = 1e-5
RHO, DELTA = Fraction(1, 2), 0.1
"""A large delta and a small rho: what a few thousand runs can tell apart best."""

SECONDS = 10.0
MOST_RUNS, FEWEST_RUNS, HALVED_RUNS = 2000, 300, 300


class Halved(Draws):
    """Noise of half the stated scale, and choices with twice the stated exponent."""

    def __init__(self, seed: int) -> None:
        self._noise = SeededNoise(seed)

    def draw(self, kind, scale, count, scores):
        scale = scale / 2 if scores is None else scale * 2
        return drawn(self._noise, kind, scale, count, scores)


def tables(relation: Neighbours) -> tuple[MemorySource, MemorySource]:
    schema = Schema.coded("toy", {"a": 2, "b": 2})
    privacy = schema.privacy.model_copy(update={"neighbours": relation.value})
    schema = schema.model_copy(update={"privacy": privacy})
    rows = [(0, 0)] * 4 + [(1, 0)] * 2 + [(0, 1)] * 3
    others = (rows, [*rows, (1, 1)])
    if relation is Neighbours.REPLACE:
        others = ([*rows, (0, 0)], [*rows, (1, 1)])
    first, second = (
        MemorySource.from_codes(
            {c: np.array([r[i] for r in these]) for i, c in enumerate("ab")}, schema
        )
        for these in others
    )
    return first, second


def runs_within(seconds: float, once: Callable[[], object]) -> int:
    """As many runs a table as the time allows; what is claimed does not depend on it."""
    started = time.perf_counter()
    once()
    each = 2 * (time.perf_counter() - started) / 8
    return int(min(MOST_RUNS, max(FEWEST_RUNS, seconds / each)))


@pytest.mark.statistical
@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("name", REGISTRY)
def test_no_lower_bound_passes_its_claim(name, relation, small, served, tally):
    """False alarms: 2e-5 for each mechanism and relation over the choice of seeds."""
    first, second = tables(relation)
    mechanism = small(name, first.schema)
    workload = served(mechanism, first.schema)

    def judged(runs: int):
        return audit(
            mechanism, workload, first, second,
            rho=RHO, delta=DELTA, runs=runs, noise=SeededNoise, alpha=ALPHA,
        )  # fmt: skip

    found = judged(runs_within(SECONDS, lambda: judged(4)))
    assert found.epsilon_lower <= found.epsilon
    assert found.mu_lower <= found.mu
    tally("statistical audit: runs", 2 * found.runs)
    tally("statistical audit: pairs of claims (epsilon, mu) not refuted", 1)


@pytest.mark.statistical
@pytest.mark.parametrize("name", REGISTRY)
def test_half_of_the_noise_is_found_out(name, small, served, tally):
    """Detection, with fixed seeds: the bound on mu, about twice its claim, passes it by far."""
    first, second = tables(Neighbours.ADD_REMOVE)
    mechanism = small(name, first.schema)
    workload = served(mechanism, first.schema)
    found = audit(
        mechanism, workload, first, second,
        rho=RHO, delta=DELTA, runs=HALVED_RUNS, noise=Halved, alpha=ALPHA,
    )  # fmt: skip
    if found.mu == 0:
        pytest.skip(f"{name} measures nothing, so there is no noise to halve")
    assert not found.holds
    assert found.mu_lower > found.mu
    tally("statistical audit: mechanisms with half of their noise found out", 1)


@pytest.mark.statistical
def test_half_of_the_noise_is_found_out_by_epsilon_alone(small, served, tally):
    """All of `gaussian`'s budget is measured, so epsilon itself shows it too. Seeds are fixed."""
    first, second = tables(Neighbours.ADD_REMOVE)
    mechanism = small("gaussian", first.schema)
    workload = served(mechanism, first.schema)
    found = audit(
        mechanism, workload, first, second,
        rho=RHO, delta=DELTA, runs=3000, noise=Halved, alpha=ALPHA,
    )  # fmt: skip
    assert found.epsilon_lower > found.epsilon
    tally("statistical audit: runs", 2 * found.runs)


@pytest.mark.parametrize(("successes", "trials"), [(0, 20), (3, 20), (20, 20), (500, 1000)])
def test_clopper_pearson_bounds_are_where_the_binomial_tail_is_alpha(successes, trials):
    low, high = clopper_pearson(successes, trials, 0.01)
    assert low <= successes / trials <= high
    if successes:
        assert binom.sf(successes - 1, trials, low) == pytest.approx(0.01)
    if successes < trials:
        assert binom.cdf(successes, trials, high) == pytest.approx(0.01)


def test_the_bounds_find_most_of_a_known_gaussian_and_no_more():
    """mu = 1 exactly: shifted normals. A false alarm has probability 1e-3; the seed is fixed."""
    rng = np.random.default_rng(1)
    here, there = rng.normal(0.5, 1, 20_000), rng.normal(-0.5, 1, 20_000)
    assert 0.85 < mu_lower(here, there, [0.0, 0.5], 1e-3) <= 1.0
    delta = 0.05
    exact = next(
        e
        for e in np.arange(0, 5, 0.001)
        if norm.cdf(-e + 0.5) - math.exp(e) * norm.cdf(-e - 0.5) <= delta
    )
    found = epsilon_lower(here, there, delta, [0.5, 1.0, 1.5], 1e-3)
    assert 0.5 * exact < found <= exact
