"""Only the ledger lowers the budget, exactly, and never below zero."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admeasure.errors import BudgetError
from admeasure.privacy.ledger import Ledger


def test_ten_tenths_of_a_budget_are_the_budget() -> None:
    ledger = Ledger(0.1)
    for _ in range(10):
        ledger.charge(Fraction(0.1) / 10, "a tenth")
    assert ledger.remaining.rho == 0
    assert ledger.spent.rho == Fraction(0.1)


def test_a_charge_that_would_pass_the_total_changes_nothing() -> None:
    ledger = Ledger(Fraction(1, 2))
    ledger.charge(Fraction(1, 3), "first")
    with pytest.raises(BudgetError, match="second asks for rho"):
        ledger.charge(Fraction(1, 6) + Fraction(1, 10**30), "second")
    assert ledger.spent.rho == Fraction(1, 3)
    assert [charge.what for charge in ledger.charges] == ["first"]


@pytest.mark.parametrize("rho", [0, -1, Fraction(-1, 10**9)])
def test_a_charge_must_be_positive(rho: Fraction) -> None:
    with pytest.raises(BudgetError, match="must be positive"):
        Ledger(1).charge(rho, "nothing")


def test_a_budget_cannot_be_negative() -> None:
    with pytest.raises(BudgetError, match="cannot be negative"):
        Ledger(-0.5)


@given(st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=30))
def test_the_charges_add_up_to_what_is_spent(charges: list[float]) -> None:
    ledger = Ledger(sum(map(Fraction, charges)))
    for rho in charges:
        ledger.charge(rho, "part")
    assert ledger.remaining.rho == 0
    assert sum(charge.cost.rho for charge in ledger.charges) == ledger.total.rho
