"""Schedules spend exactly what they are given, in the steps that the papers print."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.loop import Round
from admeasure.measurement import Measurement
from admeasure.queries import Marginal
from admeasure.schedules.annealed import Annealed
from admeasure.schedules.even import Even

ALPHA = Fraction(9, 10)
QUERY = Marginal(("a",))


class Belief:
    """A model that answers every marginal with one table."""

    def __init__(self, *counts: float) -> None:
        self.table = np.array(counts, dtype=float)

    def marginals(self, columns):
        return [self.table for _ in columns]


def round_that_moved(budget, distance: float, sigma: float, cells: int) -> Round:
    """A round after which the measured marginal moved by so much in L1."""
    before, after = np.zeros(cells), np.zeros(cells)
    after[0] = distance
    answers = (Measurement(QUERY, np.zeros(cells, dtype=np.int64), sigma),)
    return Round(budget, answers, Belief(*before), Belief(*after))  # type: ignore[arg-type]


def algorithm_3(moved, sigma_squared, epsilon_squared, cells, rho, rho_used, alpha):
    """Budget annealing line by line, in the paper's letters but for squares, which are rational;
    returns σ²_{t+1} and ε²_{t+1}."""
    if moved <= math.sqrt(2 / math.pi) * math.sqrt(sigma_squared) * cells:
        epsilon_squared, sigma_squared = 2**2 * epsilon_squared, sigma_squared / 2**2
    if rho - rho_used <= 2 * (1 / (2 * sigma_squared) + epsilon_squared / 8):
        epsilon_squared = 8 * (1 - alpha) * (rho - rho_used)
        sigma_squared = 1 / (2 * alpha * (rho - rho_used))
    return sigma_squared, epsilon_squared


@settings(max_examples=100, deadline=None)
@given(
    lessons=st.lists(st.booleans(), min_size=200, max_size=200),
    columns=st.integers(1, 12),
    rho=st.fractions(Fraction(1, 10**6), Fraction(10), max_denominator=10**6),
    cells=st.integers(1, 20),
)
def test_every_round_is_what_algorithm_3_prints_and_together_they_spend_the_budget(
    lessons, columns, rho, cells
):
    rounds = 16 * columns
    schedule = Annealed(rho / rounds, ALPHA)
    # Lines 4 and 9 of Algorithm 4, and the one-way marginals of Algorithm 2.
    sigma_squared, epsilon_squared = rounds / (2 * ALPHA * rho), 8 * (1 - ALPHA) * rho / rounds
    rho_used = columns / (2 * sigma_squared)
    last, ran = None, 0
    while budget := schedule.next(rho - rho_used, last):
        assert budget.measure == 1 / (2 * sigma_squared)
        assert budget.select == epsilon_squared / 8
        rho_used += epsilon_squared / 8 + 1 / (2 * sigma_squared)
        sigma = math.sqrt(sigma_squared)
        moved = math.sqrt(2 / math.pi) * sigma * cells * (1.5 if lessons[ran] else 0.5)
        last = round_that_moved(budget, moved, sigma, cells)
        ran += 1
        if rho_used < rho:
            sigma_squared, epsilon_squared = algorithm_3(
                moved, sigma_squared, epsilon_squared, cells, rho, rho_used, ALPHA
            )
    assert rho_used == rho
    assert ran <= rounds


def test_the_last_round_is_decided_by_the_new_cost_and_not_by_the_old():
    """Left: 5 rounds of the old cost. After a round that taught little the new cost is 4, and
    5 <= 2 * 4, so the next round takes all; at the old cost there would have been five more."""
    schedule = Annealed(Fraction(1), ALPHA)
    budget = schedule.next(Fraction(6), None)
    assert budget is not None
    assert budget.select + budget.measure == 1
    dull = schedule.next(Fraction(5), round_that_moved(budget, 0.0, sigma=1.0, cells=2))
    good = schedule.next(Fraction(5), round_that_moved(budget, 9.0, sigma=1.0, cells=2))
    assert dull is not None
    assert good is not None
    assert dull.select + dull.measure == 5
    assert good.select + good.measure == 1


def test_exactly_two_rounds_left_become_one():
    """Line 8 compares with 'less or equal'."""
    schedule = Annealed(Fraction(1), ALPHA)
    budget = schedule.next(Fraction(2), None)
    assert budget is not None
    assert (budget.select, budget.measure) == (Fraction(2, 10), Fraction(18, 10))
    assert schedule.next(Fraction(0), round_that_moved(budget, 9.0, 1.0, 2)) is None


@pytest.mark.parametrize("moved", [0.999, 1.001])
def test_a_round_taught_little_when_the_model_moved_no_more_than_noise_would(moved):
    sigma, cells = 3.0, 7
    threshold = math.sqrt(2 / math.pi) * sigma * cells
    schedule = Annealed(Fraction(1), ALPHA)
    budget = schedule.next(Fraction(100), None)
    assert budget is not None
    after = schedule.next(Fraction(99), round_that_moved(budget, moved * threshold, sigma, cells))
    assert after is not None
    assert after.select + after.measure == (4 if moved < 1 else 1)


@pytest.mark.parametrize(("moved", "cost"), [(0.449, 2), (0.451, 1), (0.999, 1)])
def test_growth_and_threshold_are_what_they_are_set_to(moved, cost):
    sigma, cells = 3.0, 7
    noise = math.sqrt(2 / math.pi) * sigma * cells
    schedule = Annealed(Fraction(1), ALPHA, growth=2, threshold=0.45)
    budget = schedule.next(Fraction(100), None)
    assert budget is not None
    after = schedule.next(Fraction(99), round_that_moved(budget, moved * noise, sigma, cells))
    assert after is not None
    assert after.select + after.measure == cost


@given(st.fractions(Fraction(1, 997), 5, max_denominator=997), st.integers(1, 40))
def test_even_rounds_add_up_to_the_budget_exactly(rho, rounds):
    schedule = Even(rho / rounds / 3, rho / rounds * 2 / 3)
    left, ran = rho, 0
    while budget := schedule.next(left, None):
        assert budget.select == rho / rounds / 3
        left -= budget.select + budget.measure
        ran += 1
    assert (left, ran) == (0, rounds)
