"""What a budget book says of a data set and of a run on it, and how it refuses one.

Accounts and entries are computed from the book's changes and stored nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction

from admeasure.errors import BudgetError, UsageError
from admeasure.privacy.changes import Change, Damage, What
from admeasure.privacy.cost import Cost, Number, as_cost, read_cost

RUNNING, RELEASED, FAILED = "running", "released", "failed"
NO_SHARE = Fraction(0)

_SPENT = ("spent", "delta_spent")


def spent_record(spent: Cost) -> dict[str, float]:
    """What a change of a charge says is spent with it."""
    share = {"delta_spent": float(spent.delta_share)} if spent.delta_share else {}
    return {"spent": float(spent), **share}


@dataclass(frozen=True)
class Account:
    """A data set: its total, what is spent, what is left."""

    dataset: str
    epsilon: float
    delta: float
    total: Cost
    spent: Cost
    created: str
    closed: str | None

    @property
    def left(self) -> Cost:
        return self.total - self.spent

    @property
    def epsilon_spent(self) -> float:
        """The epsilon that what is spent means at the data set's delta."""
        return self.spent.epsilon(self.delta)

    @property
    def epsilon_left(self) -> float:
        """The largest epsilon, at the data set's delta, that one more run could ask for, if no step
        of it may fail."""
        return _epsilon_within(self.left, self.delta)

    def granted(self, cost: Cost | Number, delta: float) -> Cost:
        """What a run that asks for this at this delta is charged; `BudgetError` where it is
        refused. `Book.reserve` says what a float is granted."""
        if self.closed is not None:
            raise BudgetError(
                f"The data set {self.dataset!r} was closed on {self.closed}: no more is released "
                "about it. Nothing was charged."
            )
        granted = asked = as_cost(cost)
        rest, slack = self.left.without_delta, self.total.without_delta / 2**50
        if isinstance(cost, float) and rest <= asked <= rest + slack:
            granted = rest
        if not granted or not granted <= self.left:
            raise BudgetError(refusal(self, asked, delta))
        return granted


@dataclass(frozen=True)
class Entry:
    """One run. `cost` is what it is charged now, `reserved` what it was charged at first;
    `epsilon` and `delta` are those of the request; dates are UTC."""

    id: int
    dataset: str
    mechanism: str
    release: str
    status: str
    cost: Cost
    reserved: Cost
    epsilon: float
    delta: float
    started: str
    ended: str | None


class State:
    """Every data set by name and every run by number, as the changes of a book make them: taken in
    one after the other, each once."""

    def __init__(self) -> None:
        self.last: Change | None = None
        """The last change that was taken in."""
        self.accounts: dict[str, Account] = {}
        self.entries: dict[int, Entry] = {}
        self.next_entry = 1

    def account(self, dataset: str, book: object) -> Account:
        if dataset not in self.accounts:
            names = ", ".join(map(repr, sorted(self.accounts)))
            raise UsageError(
                f"There is no data set {dataset!r} in the book {book}. It has {names or 'none'}; "
                "`admeasure ledger create` enters one."
            )
        return self.accounts[dataset]

    def entry(self, number: int, book: object) -> Entry:
        if number not in self.entries:
            raise UsageError(f"There is no entry {number} in the book {book}.")
        return self.entries[number]

    def history(self, dataset: str) -> tuple[Entry, ...]:
        """In the order in which they were charged."""
        return tuple(e for e in self.entries.values() if e.dataset == dataset)

    def take_in(self, changes: Iterable[Change]) -> State:
        """`Damage` where one cannot follow those before it, or where what it says was spent then is
        not the sum; what was taken in before it stands."""
        try:
            for change in changes:
                self._follow(change.what)
                self.last = change
        except (KeyError, ValueError, TypeError, ZeroDivisionError):
            raise Damage from None
        return self

    def _follow(self, what: What) -> None:
        match what["change"]:
            case "book":
                return
            case "dataset":
                account = _account(what)
                if account.dataset in self.accounts:
                    raise Damage
            case "close":
                account = self.accounts[what["dataset"]]
                if account.closed is not None:
                    raise Damage
                account = replace(account, closed=what["at"])
            case "reserve":
                entry = _entry(what)
                if entry.id in self.entries:
                    raise Damage
                account = self._charged(what, entry, entry.cost * 0)
                self.entries[entry.id] = entry
                self.next_entry = max(self.next_entry, entry.id + 1)
            case "end":
                before, cost = self.entries[what["entry"]], read_cost(what)
                if before.status != RUNNING or not cost <= before.cost:
                    raise Damage
                entry = replace(before, status=what["status"], cost=cost, ended=what["at"])
                account = self._charged(what, entry, before.cost)
                self.entries[entry.id] = entry
            case _:
                raise Damage
        self.accounts[account.dataset] = account

    def _charged(self, what: What, entry: Entry, instead_of: Cost) -> Account:
        """The account of a run that is charged its cost, in place of what it was charged before."""
        account = self.accounts[entry.dataset]
        spent = account.spent - instead_of + entry.cost
        said = {name: what[name] for name in _SPENT if name in what}
        if not entry.cost * 0 <= entry.cost or spent_record(spent) != said:
            raise Damage
        return replace(account, spent=spent)


def _account(what: What) -> Account:
    total = read_cost(what)
    return Account(
        dataset=what["dataset"],
        epsilon=what["epsilon"],
        delta=what["delta"],
        total=total,
        spent=total * 0,
        created=what["at"],
        closed=None,
    )


def _entry(what: What) -> Entry:
    cost = read_cost(what)
    return Entry(
        id=what["entry"],
        dataset=what["dataset"],
        mechanism=what["mechanism"],
        release=what["release"],
        status=RUNNING,
        cost=cost,
        reserved=cost,
        epsilon=what["epsilon"],
        delta=what["delta"],
        started=what["at"],
        ended=None,
    )


def refusal(account: Account, asked: Cost, delta: float) -> str:
    """Why a request at this delta is refused: total, spent, left, asked, and what to do."""
    total, share, free = account.total, asked.delta_share, account.left.delta_share
    spent, left = (f"{float(c):.6g}" for c in (account.spent, account.left))
    if total.delta_share or share:
        spent, left = str(account.spent), str(account.left)
    if account.left.without_delta <= account.left * 0:
        advice = "Nothing is left: no further release of this data set is possible"
    elif share > free:
        advice = (
            f"Finding levels takes a share of delta ({float(share):.3g} here), and "
            + (f"{float(free):.3g} is left of what" if total.delta_share else "none")
            + " was set aside when the data set was entered (`ledger create --delta-share`). Give "
            "the columns their levels (`enum = […]`)"
        )
        advice += ", or ask for a smaller delta" if free else ""
        if account.spent <= account.total * 0:
            advice += (
                ", or, as nothing was spent on it yet, enter it under another name with a share, "
                f"such as {account.delta / 2:g}"
            )
    else:
        most = _floor(_epsilon_within(account.left, delta, share))
        advice = (
            f"Ask for at most epsilon = {most} at delta = {delta:g}, or see `admeasure ledger "
            "show` for runs that were not settled"
        )
    return (
        f"The data set {account.dataset!r} has a total of {total} (epsilon "
        f"= {account.epsilon:g} at delta = {account.delta:g}). {spent} is "
        f"spent and {left} is left; this run asks for {asked} "
        f"(epsilon = {asked.epsilon(delta):.4g} at delta = {delta:g}). Nothing was charged. "
        f"{advice}."
    )


def _epsilon_within(left: Cost, delta: float, share: Fraction = NO_SHARE) -> float:
    """The largest epsilon, up to rounding, whose budget at this delta, with a share of it, fits
    within what is left."""
    if share >= delta:
        return 0.0
    epsilon, step = left.without_delta.epsilon(float(Fraction(delta) - share)), 1.0
    try:
        while epsilon > 0 and not left.of(epsilon, delta, share) <= left:
            epsilon -= step * math.ulp(epsilon)
            step *= 2
    except UsageError:  # below the least epsilon that has a budget
        return 0.0
    return max(epsilon, 0.0)


def _floor(epsilon: float) -> str:
    """Four digits, rounded down, so that asking for what the message says is granted."""
    value = Decimal(epsilon)
    if not value:
        return "0"
    last_digit = Decimal(1).scaleb(value.adjusted() - 3)
    return f"{float(value.quantize(last_digit, rounding=ROUND_DOWN)):g}"
