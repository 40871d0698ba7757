"""What a budget book says of a data set and of a run on it, and how it refuses one."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction
from pathlib import Path

from admeasure.errors import UsageError
from admeasure.privacy.bookfile import exact
from admeasure.privacy.convert import epsilon_of, rho_of

RUNNING, RELEASED, FAILED = "running", "released", "failed"


@dataclass(frozen=True)
class Account:
    """A data set: its total, what is spent, what is left. Fractions are rho."""

    dataset: str
    epsilon: float
    delta: float
    rho: Fraction
    spent: Fraction
    created: str
    closed: str | None

    @property
    def left(self) -> Fraction:
        return self.rho - self.spent

    @property
    def epsilon_spent(self) -> float:
        """The epsilon that the spent rho means at the data set's delta."""
        return epsilon_of(self.spent, self.delta)

    @property
    def epsilon_left(self) -> float:
        """The largest epsilon, at the data set's delta, that one more run could ask for."""
        return _epsilon_within(self.left, self.delta)


@dataclass(frozen=True)
class Entry:
    """One run. `rho` is what it is charged now, `reserved` what it was charged at first;
    `epsilon` and `delta` are those of the request; dates are UTC."""

    id: int
    dataset: str
    mechanism: str
    release: str
    status: str
    rho: Fraction
    reserved: Fraction
    epsilon: float
    delta: float
    started: str
    ended: str | None


_SELECT_ENTRY = (
    "SELECT id, dataset, mechanism, release, status, rho, reserved, epsilon, delta, started, ended "
    "FROM entry"
)


def find(db: sqlite3.Connection, dataset: str) -> tuple | None:
    found = db.execute(
        "SELECT epsilon, delta, rho, created, closed FROM dataset WHERE name = ?", (dataset,)
    )
    return found.fetchone()


def read_account(db: sqlite3.Connection, dataset: str, path: Path) -> Account:
    row = find(db, dataset)
    if row is None:
        names = [name for (name,) in db.execute("SELECT name FROM dataset ORDER BY name")]
        known = f"It has {', '.join(map(repr, names))}" if names else "It has none"
        raise UsageError(
            f"There is no data set {dataset!r} in the book {path}. {known}; `admeasure ledger "
            "create` enters one."
        )
    epsilon, delta, rho, created, closed = row
    charges = db.execute("SELECT rho FROM entry WHERE dataset = ?", (dataset,))
    spent = sum((exact(charge, path) for (charge,) in charges), Fraction(0))
    return Account(dataset, epsilon, delta, exact(rho, path), spent, created, closed)


def read_entry(db: sqlite3.Connection, number: int, path: Path) -> Entry:
    row = db.execute(f"{_SELECT_ENTRY} WHERE id = ?", (number,)).fetchone()
    if row is None:
        raise UsageError(f"There is no entry {number} in the book {path}.")
    return _as_entry(row, path)


def _as_entry(row: tuple, path: Path) -> Entry:
    number, dataset, mechanism, release, status, rho, reserved, *rest = row
    epsilon, delta, started, ended = rest
    return Entry(
        id=number,
        dataset=dataset,
        mechanism=mechanism,
        release=release,
        status=status,
        rho=exact(rho, path),
        reserved=exact(reserved, path),
        epsilon=epsilon,
        delta=delta,
        started=started,
        ended=ended,
    )


def read_history(db: sqlite3.Connection, dataset: str, path: Path) -> tuple[Entry, ...]:
    rows = db.execute(f"{_SELECT_ENTRY} WHERE dataset = ? ORDER BY id", (dataset,))
    return tuple(_as_entry(row, path) for row in rows)


def refusal(account: Account, asked: Fraction, delta: float) -> str:
    """Why a request at this delta is refused: total, spent, left, asked, and what to do."""
    left = (
        "Nothing is left: no further release of this data set is possible"
        if account.left <= 0
        else f"Ask for at most epsilon = {_floor(_epsilon_within(account.left, delta))} at delta = "
        f"{delta:g}, or see `admeasure ledger show` for runs that were not settled"
    )
    return (
        f"The data set {account.dataset!r} has a total of rho = {float(account.rho):.6g} (epsilon "
        f"= {account.epsilon:g} at delta = {account.delta:g}). {float(account.spent):.6g} is "
        f"spent and {float(account.left):.6g} is left; this run asks for {float(asked):.6g} "
        f"(epsilon = {epsilon_of(asked, delta):.4g} at delta = {delta:g}). Nothing was charged. "
        f"{left}."
    )


def _epsilon_within(rho: Fraction, delta: float) -> float:
    """The largest epsilon, up to rounding, whose rho at this delta is no more than `rho`."""
    epsilon, step = epsilon_of(rho, delta), 1.0
    try:
        while epsilon > 0 and rho_of(epsilon, delta) > rho:
            epsilon -= step * math.ulp(epsilon)
            step *= 2
    except UsageError:  # below the least epsilon that has a rho
        return 0.0
    return max(epsilon, 0.0)


def _floor(epsilon: float) -> str:
    """Four digits, rounded down, so that asking for what the message says is granted."""
    value = Decimal(epsilon)
    if not value:
        return "0"
    last_digit = Decimal(1).scaleb(value.adjusted() - 3)
    return f"{float(value.quantize(last_digit, rounding=ROUND_DOWN)):g}"
