"""What a private release costs: a value that adds up, and that only two places look into.

Ledger, journal, book and run hold costs; mechanisms divide them by shares. What a cost buys in
noise (`sigma`, `epsilon_of_choice`, `epsilon_of_flip`) and what it means as (epsilon, delta) is
said by its class alone, so another notion of privacy is another class here.

A class keeps three promises:

- Costs add up: releases of costs a and b, the second chosen after seeing the first, cost a + b,
  also where a run decides what to spend next from what it has seen, within a total fixed before.
- Sums are exact: ten tenths of a budget are the budget, neither a hair more nor less.
- What it buys is rounded to the private side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, Self, final

from admeasure.errors import BudgetError, UsageError
from admeasure.privacy.convert import Number, epsilon_of, rho_of
from admeasure.untrusted import rational

LARGEST_EPSILON = 1e9
"""More is not taken: scales of noise would fall below those that are drawn."""


class Cost(Protocol):
    """What is spent. `str` says it with its unit, `float` is its size where one number is shown."""

    @property
    def delta_share(self) -> Fraction:
        """The part of the guarantee's delta that is used up, by steps that may fail."""
        ...

    @property
    def without_delta(self) -> Self:
        """The same without its share of delta: what steps that cannot fail are paid from."""
        ...

    @classmethod
    def of(cls, epsilon: float, delta: float, delta_share: Number = 0, /) -> Self:
        """The largest budget with that share of delta that gives (epsilon, delta)."""
        ...

    def __add__(self, other: Self, /) -> Self: ...

    def __sub__(self, other: Self, /) -> Self: ...

    def __mul__(self, share: Number, /) -> Self: ...

    def __truediv__(self, parts: Number, /) -> Self: ...

    def __le__(self, other: Self, /) -> bool:
        """Whether it fits within the other, in every respect."""
        ...

    def __ge__(self, other: Self, /) -> bool: ...

    def __bool__(self) -> bool:
        """Whether it is anything at all."""
        ...

    def __float__(self) -> float: ...

    def ratio(self, other: Self, /) -> Fraction:
        """How many times the other it is, where shares are shown or rounds are foreseen."""
        ...

    def sigma(self, l2_squared: int) -> float:
        """The least scale of discrete Gaussian noise, for numbers of that squared L2 sensitivity,
        that costs no more than this."""
        ...

    def epsilon_of_choice(self) -> float:
        """The largest ε of an exponential mechanism that costs no more than this."""
        ...

    def epsilon_of_flip(self) -> float:
        """The largest ε of permute and flip that costs no more than this."""
        ...

    def epsilon(self, delta: float) -> float:
        """The least epsilon that this cost means at `delta`, rounded up."""
        ...

    def to_record(self) -> dict[str, str]:
        """The fields by which files keep it, exactly."""
        ...

    @classmethod
    def from_record(cls, record: Mapping[str, Any], /) -> Self:
        """The cost of a record that has those fields; `KeyError` or `ValueError` where it has
        none."""
        ...


@final
@dataclass(frozen=True)
class Zcdp:
    """δ-approximate `rho`-zCDP (Bun and Steinke 2016, Definition 8.1), δ the `delta_share`; nearly
    always it is 0, which is plain rho-zCDP.

    Adding up: rho's add up (Lemma 2.3), and so do the deltas (Lemma 8.2), also when the second
    release was chosen after seeing the first; for a total fixed in advance it holds under full
    adaptivity (Whitehouse, Ramdas, Rogers and Wu 2023, the zCDP filter). One cost fits within
    another if both parts do.

    Buying noise: Gaussian noise and choices need no delta, so what is bought follows from rho.
    Discrete Gaussian noise of scale σ on integers of squared L2 sensitivity Δ² costs Δ²/(2σ²)
    (Canonne, Kamath and Steinke 2020, Theorem 14); an ε-bounded-range choice ε²/8 (Cesar and Rogers
    2021, Lemma 3.4); an ε-DP choice ε²/2 (Bun and Steinke 2016, Proposition 1.4). The share of
    delta is for a step that fails with that probability, such as a threshold.

    As (epsilon, delta): outside an event of probability `delta_share` the release is rho-zCDP, so
    it is (ε, δ' + `delta_share`)-DP wherever rho-zCDP gives (ε, δ'). So the share is taken off
    delta, and what is left of delta converts rho.

    >>> half = Zcdp(Fraction(1, 2))
    >>> half / 3 + half * Fraction(2, 3) == half
    True
    """

    rho: Fraction
    delta_share: Fraction = Fraction(0)

    @classmethod
    def of(cls, epsilon: float, delta: float, delta_share: Number = 0) -> Zcdp:
        """What is left of delta when the share is taken off is what rho has."""
        if LARGEST_EPSILON < epsilon < math.inf:  # what is no number is refused below
            raise UsageError(
                f"epsilon {epsilon:g} promises nothing to anybody: at most {LARGEST_EPSILON:g} is "
                "taken. Choose one below 10, to protect people."
            )
        if not delta_share:
            return cls(Fraction(rho_of(epsilon, delta)))
        share = Fraction(delta_share)
        return cls(Fraction(rho_of(epsilon, _left(delta, share))), share)

    @property
    def without_delta(self) -> Zcdp:
        return Zcdp(self.rho)

    def __add__(self, other: Zcdp) -> Zcdp:
        if not isinstance(other, Zcdp):
            return NotImplemented
        return Zcdp(self.rho + other.rho, self.delta_share + other.delta_share)

    def __sub__(self, other: Zcdp) -> Zcdp:
        if not isinstance(other, Zcdp):
            return NotImplemented
        return Zcdp(self.rho - other.rho, self.delta_share - other.delta_share)

    def __mul__(self, share: Number) -> Zcdp:
        exact = Fraction(share)
        return Zcdp(self.rho * exact, self.delta_share * exact)

    def __truediv__(self, parts: Number) -> Zcdp:
        return self * (1 / Fraction(parts))

    def __le__(self, other: Zcdp) -> bool:
        if not isinstance(other, Zcdp):
            return NotImplemented
        return self.rho <= other.rho and self.delta_share <= other.delta_share

    def __ge__(self, other: Zcdp) -> bool:
        return other <= self if isinstance(other, Zcdp) else NotImplemented

    def __bool__(self) -> bool:
        return bool(self.rho or self.delta_share)

    def __float__(self) -> float:
        return float(self.rho)

    def __str__(self) -> str:
        share = f" and delta {float(self.delta_share):.6g}" if self.delta_share else ""
        return f"rho {float(self.rho):.6g}{share}"

    def ratio(self, other: Zcdp) -> Fraction:
        return self.rho / other.rho if other.rho else Fraction(0)

    def sigma(self, l2_squared: int) -> float:
        """The smallest double σ with l2_squared / (2 σ²) <= rho, checked in exact arithmetic."""
        if self.rho <= 0:
            raise BudgetError(f"A measurement needs a positive rho; it is {float(self.rho)}.")
        sigma = math.sqrt(l2_squared / (2 * self.rho))
        while Fraction(sigma) ** 2 * 2 * self.rho < l2_squared:
            sigma = math.nextafter(sigma, math.inf)
        return sigma

    def epsilon_of_choice(self) -> float:
        """The largest double ε, up to rounding, with ε²/8 <= rho."""
        if self.rho <= 0:
            raise BudgetError(f"A choice needs a positive rho; it is {float(self.rho)}.")
        epsilon = math.sqrt(8 * self.rho)
        while Fraction(epsilon) ** 2 > 8 * self.rho:
            epsilon = math.nextafter(epsilon, 0.0)
        return epsilon

    def epsilon_of_flip(self) -> float:
        return (self / 4).epsilon_of_choice()  # ε²/8 <= rho/4 is ε²/2 <= rho

    def epsilon(self, delta: float) -> float:
        if not self.delta_share:
            return epsilon_of(self.rho, delta)
        left = _left(delta, self.delta_share)
        return epsilon_of(self.rho, left) if left > 0 else math.inf

    def to_record(self) -> dict[str, str]:
        share = {"delta_share": str(self.delta_share)} if self.delta_share else {}
        return {"rho": str(self.rho), **share}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Zcdp:
        return cls(_exact(record["rho"]), _exact(record.get("delta_share", 0)))


def _left(delta: float, share: Fraction) -> float:
    """What a share leaves of delta, rounded down."""
    left = Fraction(delta) - share
    rounded = float(left)
    return math.nextafter(rounded, -math.inf) if Fraction(rounded) > left else rounded


@lru_cache(maxsize=1 << 14)
def _of_text(text: str) -> Fraction:
    return rational(text)


def _exact(value: Any) -> Fraction:
    """Of a text of a file, of which many are the same."""
    return _of_text(value) if isinstance(value, str) else rational(value)


def in_decimal(number: float) -> Fraction:
    """A number as it is written, so that a tenth of 1e-9 is what whoever writes 1e-10 means.

    >>> in_decimal(1e-9) / 10 == in_decimal(1e-10)
    True
    """
    return rational(repr(float(number)))


def budget_of(epsilon: float, delta: float, delta_share: Number = 0) -> Zcdp:
    """The budget that is divided and charged where (epsilon, delta) is asked for; a share of that
    delta is for steps that may fail."""
    return Zcdp.of(epsilon, delta, delta_share)


def read_cost(record: Mapping[str, Any]) -> Zcdp:
    """The cost that a record of a file holds; `KeyError` or `ValueError` where it holds none. The
    fields of a class are its own, so here a second class would be told from the first."""
    return Zcdp.from_record(record)


def as_cost(value: Cost | Number) -> Cost:
    """A cost as it is; a bare number is a rho."""
    return Zcdp(rational(value)) if isinstance(value, Fraction | float | int) else value
