"""How a budget is divided: a value that `plan` prints and `run` spends.

A mechanism says it once, in `divide`, from public facts: its task, the budget, and a number of rows
(the one a steward states for a plan, the noisy one in a run). Shares are exact rationals, so they
add up to the budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from admeasure.domain import Domain
from admeasure.errors import BudgetError
from admeasure.privacy.cost import Cost
from admeasure.privacy.noise import LARGEST_SCALE
from admeasure.schema import Schema, Zero
from admeasure.unit import Unit
from admeasure.workload import Workload

ROWS = "number of rows"

ASSUMED_ROWS = 10_000
"""Where a plan is asked for without a number of rows."""

ASSUMES = (
    "How the budget is divided depends on the number of rows, taken to be "
    f"{ASSUMED_ROWS:,} here; give --rows."
)

TOO_SMALL = (
    "The budget is too small: divided, it asks for noise of scale {most:.3g}, and at most "
    "{largest:.3g} is drawn. Raise epsilon or delta, or ask for less. Nothing is charged."
)

ONE_WAY = "one-way marginals, each"
SELECTION = "selection, each round"
MEASUREMENT = "measurement, each round"
ROUNDS = "rounds of selection and measurement, together"


@dataclass(frozen=True)
class Task:
    """What a mechanism is to serve, all of it public."""

    domain: Domain
    workload: Workload
    zeros: tuple[Zero, ...]
    unit: Unit

    @classmethod
    def of(cls, schema: Schema, workload: Workload) -> Task:
        return cls(schema.domain, workload, schema.zeros, schema.unit)


@dataclass(frozen=True)
class Item:
    """One line of a plan: `times` charges of `cost`, or several that come to it together."""

    what: str
    cost: Cost
    sigma: float | None = None
    times: int = 1

    @property
    def total(self) -> Cost:
        return self.cost * self.times

    @property
    def noise(self) -> float:
        """`sigma`, of what is measured."""
        assert self.sigma is not None
        return self.sigma


@dataclass(frozen=True)
class Division:
    """All that a run spends, by what it is for."""

    items: tuple[Item, ...]

    def __getitem__(self, what: str) -> Item:
        return next(item for item in self.items if item.what == what)

    def total(self, what: str) -> Cost:
        """What that gets in all; nothing where the division has no such item."""
        return sum((i.total for i in self.items if i.what == what), self.items[0].cost * 0)


def by_shares(budget: Cost, parts: Sequence[tuple[str, Fraction, int]]) -> Division:
    """Each part, of a name, a share and a squared L2 sensitivity, measured for what its share is of
    all shares. Of very many parts most are alike: each kind is computed once."""
    kinds = Counter((share, l2_squared) for _, share, l2_squared in parts)
    total = sum(share * times for (share, _), times in kinds.items())
    costs = {kind: budget * kind[0] / total for kind in kinds}
    sigmas = {kind: cost.sigma(kind[1]) for kind, cost in costs.items()}
    return Division(
        tuple(
            Item(what, costs[share, l2_squared], sigmas[share, l2_squared])
            for what, share, l2_squared in parts
        )
    )


def as_noisy(what: str, l2_squared: int, one: Cost, times: int = 1) -> Item:
    """Numbers of that squared L2 sensitivity, measured with the noise that numbers of squared
    sensitivity 1 have for the cost `one`.

    Where a paper asks m queries one by one, each for a cost of its own, those of one marginal or
    threshold have this noise, and cost less than their number says: a row moves few of them.
    """
    cost = one * l2_squared
    return Item(what, cost, cost.sigma(l2_squared), times)


def evenly(what: str, unit: Unit, budget: Cost, times: int) -> Item:
    """So many marginals, all with the same noise, for the budget together."""
    each = budget / times
    return Item(what, each, each.sigma(unit.marginal_l2_squared), times)


def assumed(rows: int | None) -> tuple[str, ...]:
    """What a plan without a number of rows says where the division depends on it."""
    return () if rows else (ASSUMES,)


def check_scales(items: Iterable[Item]) -> None:
    """Refuse a division that asks for more noise than is drawn, before anything is charged."""
    most = max((item.sigma or 0.0 for item in items), default=0.0)
    if most > LARGEST_SCALE:
        raise BudgetError(TOO_SMALL.format(most=most, largest=LARGEST_SCALE))


def precision(budget: Cost) -> float:
    """1/(2σ²) of the number of rows, or any count that a row changes by one, measured for all of
    the budget: what rules for the number of rounds are written in. Under zCDP it is rho."""
    return 0.5 / budget.sigma(1) ** 2


def even_rounds(budget: Cost, rounds: int, select: Fraction, l2_squared: int) -> tuple[Item, Item]:
    """`rounds` rounds that cost the same, of which the part `select` goes to selection."""
    each = budget / rounds
    measured = each * (1 - select)
    return (
        Item(SELECTION, each * select, times=rounds),
        Item(MEASUREMENT, measured, measured.sigma(l2_squared), rounds),
    )
