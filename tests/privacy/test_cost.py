"""What is spent is a value of one class: it adds up exactly, and only its class looks into it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admeasure.certificate import lines
from admeasure.errors import BudgetError, UsageError
from admeasure.privacy.book import Book
from admeasure.privacy.convert import delta_of, epsilon_of
from admeasure.privacy.cost import Cost, Zcdp, as_cost, budget_of
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import Journal
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Marginal
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource

SCHEMA = Schema.loads(
    """
    [table]
    name = "toy"
    [privacy]
    unit = "person"
    [[column]]
    name = "a"
    type = "string"
    enum = ["x", "y", "z"]
    """
)
SOURCE = MemorySource.from_codes({"a": np.array([0, 1, 1, 2, 2, 2])}, SCHEMA)

shares = st.fractions(0, 1, max_denominator=997)
costs = st.builds(Zcdp, st.fractions(0, 3, max_denominator=997), shares)


@given(costs, costs, shares)
def test_costs_add_up_exactly_in_both_parts(a: Zcdp, b: Zcdp, share: Fraction) -> None:
    assert a * share + a * (1 - share) == a
    assert (a + b) - b == a
    assert a <= a + b
    assert a + b >= b
    assert Zcdp.from_record(a.to_record()) == a


@given(costs, costs)
def test_a_cost_fits_only_if_both_parts_do(a: Zcdp, b: Zcdp) -> None:
    assert (a <= b) == (a.rho <= b.rho and a.delta_share <= b.delta_share)


def test_a_cost_without_a_share_of_delta_is_kept_as_it_always_was() -> None:
    assert Zcdp(Fraction(1, 3)).to_record() == {"rho": "1/3"}
    assert Zcdp.from_record({"rho": "1/3", "epsilon": 2.0}) == Zcdp(Fraction(1, 3))


def test_a_bare_number_is_a_rho() -> None:
    assert as_cost(0.25) == as_cost(Fraction(1, 4)) == Zcdp(Fraction(1, 4))


@given(
    rho=st.fractions(Fraction(1, 1000), 1, max_denominator=10**4),
    share=st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100),
)
def test_a_share_of_delta_is_taken_off_the_delta_that_converts_rho(
    rho: Fraction, share: Fraction
) -> None:
    """(ε, δ' + share)-DP wherever rho-zCDP gives (ε, δ'): checked by the other conversion."""
    delta = 1e-6
    cost = Zcdp(rho, Fraction(delta) * share)
    epsilon = cost.epsilon(delta)
    assert Fraction(delta_of(rho, epsilon)) + cost.delta_share <= Fraction(delta)
    assert epsilon > epsilon_of(rho, delta)


@given(
    epsilon=st.floats(0.05, 5),
    delta=st.sampled_from([1e-9, 1e-6, 0.01]),
    share=st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100),
)
def test_a_budget_with_a_share_of_delta_gives_just_what_was_asked_for(
    epsilon: float, delta: float, share: Fraction
) -> None:
    part = Fraction(delta) * share
    cost = budget_of(epsilon, delta, part)
    assert cost.delta_share == part
    assert Fraction(delta_of(cost.rho, epsilon)) + part <= Fraction(delta)
    assert cost.epsilon(delta) == pytest.approx(epsilon, rel=1e-6)
    assert cost.without_delta == Zcdp(cost.rho)
    assert cost.rho < budget_of(epsilon, delta).rho


@pytest.mark.parametrize("share", [1e-6, 2e-6])
def test_no_budget_gives_all_of_its_delta_away(share: float) -> None:
    with pytest.raises(UsageError, match="delta"):
        budget_of(1, 1e-6, share)


def test_who_spends_all_of_delta_is_promised_no_epsilon() -> None:
    assert Zcdp(Fraction(1, 10), Fraction(1e-6)).epsilon(1e-6) == math.inf


def test_a_ledger_without_a_share_of_delta_refuses_a_charge_of_one() -> None:
    ledger = Ledger(budget_of(1.0, 1e-6))
    with pytest.raises(BudgetError, match="delta 1e-09"):
        ledger.charge(ledger.total / 2 + Zcdp(Fraction(0), Fraction(1, 10**9)), "categories")
    assert not ledger.spent


def test_a_book_whose_total_has_no_share_of_delta_refuses_a_run_that_would_spend_one(tmp_path):
    book = Book.create(tmp_path / "book.db", "toy", epsilon=1, delta=1e-6)
    half = book.account("toy").total / 2
    asked = half + Zcdp(Fraction(0), Fraction(1, 10**9))
    with pytest.raises(BudgetError, match="delta 1e-09"):
        book.reserve("toy", asked, mechanism="aim", release="r")
    assert not book.account("toy").spent
    entry = book.entry(book.reserve("toy", half, mechanism="aim", release="r"))
    assert entry.cost == entry.reserved == half


def test_the_certificate_shows_the_share_of_delta_of_each_charge() -> None:
    ledger = Ledger(Zcdp(Fraction(1), Fraction(1, 10**6)))
    ledger.charge(Zcdp(Fraction(1, 4), Fraction(1, 10**7)), "categories of a")
    ledger.charge(Zcdp(Fraction(1, 4), Fraction(1, 10**7)), "categories of a")
    ledger.charge(ledger.remaining, "rest")
    first, rest = lines(ledger.charges)
    assert (first.times, first.rho, first.delta) == (2, 0.5, 2e-7)
    assert rest.delta == pytest.approx(8e-7)


@dataclass(frozen=True)
class Gdp:
    """A toy of another notion: μ-Gaussian differential privacy, whose μ² add up (Dong, Roth and Su
    2022, Corollary 3.3). Gaussian noise of scale σ on sensitivity Δ costs μ = Δ/σ. Choices are not
    served."""

    mu_squared: Fraction
    delta_share = Fraction(0)

    @property
    def without_delta(self) -> Gdp:
        return self

    @classmethod
    def of(cls, epsilon: float, delta: float, delta_share: Fraction | float = 0) -> Gdp:
        raise NotImplementedError

    def __add__(self, other: Gdp) -> Gdp:
        if not isinstance(other, Gdp):
            return NotImplemented
        return Gdp(self.mu_squared + other.mu_squared)

    def __sub__(self, other: Gdp) -> Gdp:
        return Gdp(self.mu_squared - other.mu_squared)

    def __mul__(self, share: Fraction | float) -> Gdp:
        return Gdp(self.mu_squared * Fraction(share))

    def __truediv__(self, parts: Fraction | float) -> Gdp:
        return Gdp(self.mu_squared / Fraction(parts))

    def __le__(self, other: Gdp) -> bool:
        if not isinstance(other, Gdp):
            return NotImplemented
        return self.mu_squared <= other.mu_squared

    def __ge__(self, other: Gdp) -> bool:
        return other <= self

    def __bool__(self) -> bool:
        return self.mu_squared != 0

    def __float__(self) -> float:
        return math.sqrt(self.mu_squared)

    def __str__(self) -> str:
        return f"mu {float(self):.6g}"

    def ratio(self, other: Gdp) -> Fraction:
        return self.mu_squared / other.mu_squared

    def sigma(self, l2_squared: int) -> float:
        return math.nextafter(math.sqrt(l2_squared / self.mu_squared), math.inf)

    def epsilon_of_choice(self) -> float:
        raise NotImplementedError

    def epsilon_of_flip(self) -> float:
        raise NotImplementedError

    def epsilon(self, delta: float) -> float:
        raise NotImplementedError

    def to_record(self) -> dict[str, str]:
        return {"mu_squared": str(self.mu_squared)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Gdp:
        return cls(Fraction(record["mu_squared"]))


def test_another_class_of_costs_goes_through_ledger_curator_journal_and_certificate() -> None:
    total: Cost = Gdp(Fraction(1))
    ledger, journal = Ledger(total), Journal()
    curator = Curator(SOURCE, ledger, SeededNoise(0), journal)
    query = Marginal(("a",))
    (measured,) = curator.measure([query], total / 4)
    assert measured.sigma == pytest.approx(2.0)
    assert journal.spent(total) == ledger.spent == Gdp(Fraction(1, 4))
    assert [line.rho for line in lines(ledger.charges)] == [0.5]
    with pytest.raises(BudgetError, match=r"asks for mu 1, but what is left is mu 0\.866"):
        curator.measure([query], total)
    resumed = Curator(
        SOURCE,
        Ledger(total),
        SeededNoise(1),
        Journal(journal.events, _results=[journal.events[-1]]),
    )
    (again,) = resumed.measure([query], total / 4)
    assert np.array_equal(again.values, measured.values)


def test_costs_of_two_classes_do_not_mix() -> None:
    with pytest.raises(TypeError):
        Ledger(Gdp(Fraction(1))).charge(Fraction(1, 2), "a rho")
