"""From rho (zCDP) to (epsilon, delta) and back, tightly, and never in the wrong direction.

Canonne, Kamath, Steinke (2020), Proposition 12; Proposition 4 of McKenna et al. (AIM, 2022):
rho-zCDP implies (epsilon, delta)-DP for every epsilon >= 0 with

    delta = min over alpha > 1 of  exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1)
                                   * (1 - 1/alpha)^alpha.

Promise: every result is rounded to the private side. `delta_of` and `epsilon_of` are never below
the exact minimum, `rho_of` never above the exact maximum, and
`delta_of(rho_of(epsilon, delta), epsilon) <= delta` as floats.

How: any alpha gives a valid bound, so floating point may choose it (b = alpha - 1 solves the
first-order condition by bisection); the bound at that alpha is then evaluated with 120 digits and
rounded outwards. The loss against the exact optimum is of second order in the error of alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from numbers import Real

from admeasure.errors import UsageError

Number = float | Fraction

# log(1 + 1/b) for b up to 1e30 keeps 90 digits, of which SLACK takes 60 for granted.
_DIGITS = Context(prec=120, Emin=-(10**9), Emax=10**9)
_SLACK = Decimal("1e-60")
_LOG10_B = 30.0


def delta_of(rho: Number, epsilon: Number) -> float:
    """The least delta that rho-zCDP gives at this epsilon, rounded up.

    >>> f"{delta_of(0.01497, 1):.1e}"
    '1.0e-09'
    """
    r, e = _at_least_zero("rho", rho), _at_least_zero("epsilon", epsilon)
    if r == 0:
        return 0.0
    rf, ef = float(r), float(e)
    b = _solve(lambda b: (2 * b + 1) * rf - ef - math.log1p(1 / b))
    with localcontext(_DIGITS):
        log_delta = _exponent(b, _decimal(r), _decimal(e))
        if log_delta >= 0:
            return 1.0
        if log_delta < -746:  # exp(-746) is below the least positive float
            return math.ulp(0.0)
        return min(1.0, _up((log_delta + _SLACK).exp()))


def epsilon_of(rho: Number, delta: float) -> float:
    """The least epsilon >= 0 that rho-zCDP gives at this delta, rounded up.

    >>> round(epsilon_of(0.01497, 1e-9), 3)
    1.0
    """
    r, d = _at_least_zero("rho", rho), _probability(delta)
    if r == 0:
        return 0.0
    rf, odds = float(r), -math.log(d)
    b = _solve(lambda b: b * b * rf + math.log1p(b) - odds)
    with localcontext(_DIGITS):
        beta, rd = Decimal(b), _decimal(r)
        # The proposition solved for epsilon at this alpha = 1 + b.
        terms = (
            (1 + beta) * rd,
            -(1 + 1 / beta).ln(),
            -(Decimal(d).ln() + (1 + beta).ln()) / beta,
        )
        epsilon = max(0.0, _up(_sum_up(terms)))
    step = 1.0  # `delta_of` may have chosen another alpha, by rounding
    while delta_of(r, epsilon) > d:
        epsilon += step * (math.ulp(epsilon) if epsilon > 0 else math.ulp(rf))
        step *= 2
    return epsilon


def rho_of(epsilon: Number, delta: float) -> float:
    """The largest rho whose zCDP gives (epsilon, delta), rounded down.

    >>> round(rho_of(1, 1e-9), 5)
    0.01497
    """
    e, d = _positive("epsilon", epsilon), _probability(delta)
    ef, odds = float(e), -math.log(d)

    def excess(b: float) -> float:
        rho = (ef + math.log1p(1 / b)) / (2 * b + 1)
        return b * b * rho + math.log1p(b) - odds

    b = _solve(excess)
    with localcontext(_DIGITS):
        beta = Decimal(b)
        # The proposition solved for rho at this alpha = 1 + b, with its sign turned.
        terms = (
            -_decimal(e),
            -(1 + 1 / beta).ln(),
            -(Decimal(d).ln() + (1 + beta).ln()) / beta,
        )
        rho = -_up(_sum_up(terms) / (1 + beta))
    step = 1.0  # `delta_of` may have chosen another alpha, by rounding
    while rho > 0 and delta_of(rho, e) > d:
        rho -= step * math.ulp(rho)
        step *= 2
    if rho <= 0:
        raise UsageError(
            f"Epsilon {epsilon} at delta {delta} is too small to be computed with. Choose a larger "
            "epsilon or delta."
        )
    return rho


def rho_of_loose(epsilon: Number, delta: float) -> float:
    """The rho with rho + 2 sqrt(rho log(1/delta)) = epsilon. Only to reproduce papers that use it.

    Valid, but wasteful: a fifth of the budget is lost at (1, 1e-9). Not rounded outwards.
    """
    e, d = float(_positive("epsilon", epsilon)), _probability(delta)
    odds = -math.log(d)
    return (e / (math.sqrt(e + odds) + math.sqrt(odds))) ** 2


def _exponent(b: float, rho: Decimal, epsilon: Decimal) -> Decimal:
    """An upper bound of log delta at alpha = 1 + b:

    b ((1 + b) rho - epsilon) - b log(1 + 1/b) - log(1 + b).
    """
    beta = Decimal(b)
    return _sum_up(
        (
            beta * (1 + beta) * rho,
            -beta * epsilon,
            -beta * (1 + 1 / beta).ln(),
            -(1 + beta).ln(),
        )
    )


def _sum_up(terms: tuple[Decimal, ...]) -> Decimal:
    """Their sum, raised by more than every rounding of 120 digits together can lower it."""
    return sum(terms, Decimal(0)) + _SLACK * sum((abs(t) for t in terms), Decimal(0))


def _solve(increasing: Callable[[float], float]) -> float:
    """About where an increasing function of b > 0 is zero, within 1e-30 … 1e30."""
    low, high = -_LOG10_B, _LOG10_B
    for _ in range(70):
        middle = (low + high) / 2
        if increasing(10.0**middle) < 0:
            low = middle
        else:
            high = middle
    return 10.0 ** ((low + high) / 2)


def _decimal(value: Number) -> Decimal:
    if isinstance(value, Fraction):
        return Decimal(value.numerator) / Decimal(value.denominator)
    return Decimal(value)


def _up(value: Decimal) -> float:
    """The least float that is not below."""
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def _positive(name: str, value: Number) -> Number:
    number = _finite(value)
    if number is None or number <= 0:
        raise UsageError(f"{name} must be a positive finite number; it is {value}.")
    return number


def _at_least_zero(name: str, value: Number) -> Number:
    number = _finite(value)
    if number is None or number < 0:
        raise UsageError(f"{name} must be a finite number, zero or more; it is {value}.")
    return number


def _probability(delta: float) -> float:
    number = _finite(delta)
    if number is None or not 0 < number < 1:
        raise UsageError(
            f"delta must lie strictly between 0 and 1; it is {delta}. Take one far below 1/rows, "
            "such as 1e-9."
        )
    return float(number)


def _finite(value: Number) -> Number | None:
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    return value if isinstance(value, Fraction) else number
