"""The conversions against Proposition 4 of AIM, minimised by brute force at 60 digits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.errors import UsageError
from admeasure.privacy import convert
from admeasure.privacy.convert import (
    delta_of,
    epsilon_of,
    rho_of,
    rho_of_loose,
)

EPSILONS = [1e-12, 1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0, 100.0, 1e4, 1e8]
DELTAS = [1e-300, 1e-30, 1e-9, 1e-5, 0.1, 0.9]


def true_delta(rho: float, epsilon: float) -> mpmath.mpf:
    """The printed formula, minimised over alpha by golden-section search on log(alpha - 1)."""
    with mpmath.workdps(60):
        r, e = mpmath.mpf(rho), mpmath.mpf(epsilon)

        def log_delta(t: mpmath.mpf) -> mpmath.mpf:
            b = mpmath.exp(t)
            alpha = 1 + b
            return b * (alpha * r - e) - mpmath.log(b) + alpha * mpmath.log(b / alpha)

        low, high = mpmath.mpf(-80), mpmath.mpf(80)
        ratio = (mpmath.sqrt(5) - 1) / 2
        x, y = high - ratio * (high - low), low + ratio * (high - low)
        fx, fy = log_delta(x), log_delta(y)
        for _ in range(150):
            if fx < fy:
                high, y, fy = y, x, fx
                x = high - ratio * (high - low)
                fx = log_delta(x)
            else:
                low, x, fx = x, y, fy
                y = low + ratio * (high - low)
                fy = log_delta(y)
        return min(mpmath.mpf(1), mpmath.exp(min(fx, fy)))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_largest_rho_keeps_the_promised_delta_in_truth_and_in_floats(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert true_delta(rho, epsilon) <= delta
    assert delta_of(rho, epsilon) <= delta


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_slightly_larger_rho_would_break_the_promise(epsilon, delta):
    rho = rho_of(epsilon, delta) * (1 + 1e-13)
    assert true_delta(rho, epsilon) > delta


@settings(deadline=None, max_examples=40)
@given(
    log_rho=st.floats(-20, 4),
    log_epsilon=st.floats(-10, 4),
)
def test_delta_is_never_below_the_true_minimum_and_hardly_above(log_rho, log_epsilon):
    rho, epsilon = 10.0**log_rho, 10.0**log_epsilon
    ours, truth = delta_of(rho, epsilon), true_delta(rho, epsilon)
    assert truth <= ours
    if truth > 1e-290:  # below, a float has few digits to be near with
        assert ours <= truth * (1 + mpmath.mpf("1e-12"))


@settings(deadline=None, max_examples=40)
@given(log_rho=st.floats(-15, 4), log_delta=st.floats(-100, -0.05))
def test_epsilon_is_never_below_the_truth_and_hardly_above(log_rho, log_delta):
    rho, delta = 10.0**log_rho, 10.0**log_delta
    epsilon = epsilon_of(rho, delta)
    assert true_delta(rho, epsilon) <= delta
    if epsilon > 1e-3:
        assert true_delta(rho, epsilon * (1 - 1e-11)) > delta


def test_the_promise_in_floats_survives_a_careless_choice_of_alpha(monkeypatch):
    """`delta_of` may choose another alpha than `rho_of` and `epsilon_of` did; they look again."""
    solve = convert._solve
    for call in (lambda: (rho_of(1, 1e-9), 1.0), lambda: (0.01, epsilon_of(0.01, 1e-9))):
        calls = itertools.count()
        monkeypatch.setattr(
            convert, "_solve", lambda f, n=calls: solve(f) * (1 if next(n) == 0 else 1.05)
        )
        rho, epsilon = call()
        assert delta_of(rho, epsilon) <= 1e-9
        assert true_delta(rho, epsilon) <= 1e-9


def test_the_reference_value_of_the_tight_and_the_loose_form():
    assert rho_of(1, 1e-9) == pytest.approx(0.01497, abs=5e-6)
    assert rho_of_loose(1, 1e-9) == pytest.approx(0.01178, abs=5e-6)


@pytest.mark.parametrize("epsilon", EPSILONS[2:])
def test_the_loose_form_has_its_epsilon_and_never_claims_more_than_the_tight_one(epsilon):
    rho = rho_of_loose(epsilon, 1e-9)
    assert rho + 2 * math.sqrt(rho * -math.log(1e-9)) == pytest.approx(epsilon, rel=1e-12)
    assert rho <= rho_of(epsilon, 1e-9)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_opendp_converts_to_the_same_epsilon(scale, delta):
    """To a relative 1e-12."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    gaussian = dp.m.make_gaussian(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=scale)
    curve = dp.c.make_zCDP_to_approxDP(gaussian).map(1)
    rho = 1 / (2 * Fraction(scale) ** 2)
    assert epsilon_of(rho, delta) == pytest.approx(curve.epsilon(delta), rel=1e-12)


def test_no_budget_gives_no_loss():
    assert delta_of(0, 1) == 0
    assert epsilon_of(0, 1e-9) == 0


def test_fractions_of_the_ledger_are_taken_exactly():
    third = Fraction(1, 3)
    assert delta_of(third, 2) >= true_delta(math.nextafter(1 / 3, 0), 2)
    assert delta_of(Fraction(1, 4), 2) == delta_of(0.25, 2)


def test_a_delta_below_every_float_is_rounded_up_to_one():
    assert delta_of(1e-9, 100) == math.ulp(0.0)


@pytest.mark.parametrize("epsilon", [-1, 0, math.inf, math.nan, "1", None, True])
def test_epsilon_must_be_positive_and_finite(epsilon):
    with pytest.raises(UsageError, match="epsilon must be a positive finite number; it is"):
        rho_of(epsilon, 1e-9)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, math.nan])
def test_delta_must_lie_between_0_and_1(delta):
    with pytest.raises(UsageError, match="delta must lie strictly between 0 and 1; it is"):
        rho_of(1, delta)


@pytest.mark.parametrize("rho", [-1, math.inf, math.nan, Fraction(-1, 3), Fraction(10) ** 400])
def test_rho_must_be_finite_and_not_negative(rho):
    with pytest.raises(UsageError, match="rho must be a finite number, zero or more"):
        delta_of(rho, 1)
