"""The last step of a run, if it is asked for: how far its model is from the table, for a charge.

Whatever the mechanism, a share of its budget is kept back; the mechanism runs with the rest, and
the errors of its model on the workload are then released with noise (`privacy.workload_errors`).
The model is fixed before, so that this says something of every release, and not of what could have
been released. `plan` prints what `run` spends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.families.answers import AnswersModel
from admeasure.measurement import NoisyErrors, mean_factor
from admeasure.planning import room
from admeasure.planning.division import Item
from admeasure.planning.mechanism import Mechanism, Outcome
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.workload_errors import WorkloadErrors
from admeasure.schema import Zero
from admeasure.unit import Unit
from admeasure.workload import Workload

NONE = Fraction(0)
USUAL = Fraction(1, 20)
"""Where the mechanism is left to `auto`: it costs about 1% of the error
(docs/explanations/bounds.md). A mechanism that is named runs as its paper says, with all of the
budget."""


def share_of(
    certify: float | None, domain: Domain, workload: Workload, *, by_auto: bool
) -> Fraction:
    """The share of the budget that was asked for, as people write it. Where none was, the usual one
    if `auto` chose the mechanism, but for marginals that are too large to be counted whole."""
    if certify is None:
        return USUAL if by_auto and _can_be_had(domain, workload) else NONE
    if not 0 <= certify < 1:
        raise UsageError(
            f"The share for the accuracy certificate must be from 0 to below 1; it is {certify:g}. "
            "0.05 is a good one, 0 is none."
        )
    return Fraction(str(certify))


def _can_be_had(domain: Domain, workload: Workload) -> bool:
    try:
        check(domain, workload, USUAL)
    except ResourceError:
        return False
    return True


def check(domain: Domain, workload: Workload, share: Fraction) -> None:
    """Refuse a certificate of marginals that cannot be counted whole."""
    if share:
        room.check_counted(domain, workload.marginals(), "The accuracy certificate (--certify)")


def needs(domain: Domain, workload: Workload, share: Fraction) -> float:
    """Megabytes: exact counts and the model's answers, some marginals at a time."""
    return room.megabytes(domain, workload.marginals(), each=0, largest=32) if share else 0.0


def divide(
    domain: Domain, workload: Workload, unit: Unit, budget: Cost, share: Fraction
) -> tuple[tuple[Item, ...], Cost]:
    """The item of the certificate, no item where there is none; and what the mechanism has."""
    if not share:
        return (), budget
    errors = WorkloadErrors(AnswersModel(domain, 0.0, {}, {}), workload, domain)
    cost = budget * share
    return (Item(str(errors), cost, cost.sigma(errors.l2_squared(unit))),), budget - cost


def foreseen(workload: Workload, items: Sequence[Item]) -> tuple[str, ...]:
    """What a plan should say of it: the precision is known before."""
    m = len(workload.marginals())
    times = max(mean_factor(m), math.sqrt(m) if workload.weighs_alike else 0.0)
    halves = (1.96 * (item.sigma or 0.0) for item in items)
    whose = "of those that are looked at the" if workload.sampled else "the workload's"
    return tuple(
        f"The accuracy certificate will state {whose} mean error within {half / times:,.0f} "
        f"rows, and that of each marginal within {half:,.0f} (95%)."
        for half in halves
    )


def run(
    mechanism: Mechanism,
    curator: Curator,
    workload: Workload,
    zeros: Sequence[Zero],
    share: Fraction = NONE,
) -> Outcome:
    """Run the mechanism with what is left, then buy the errors of its model."""
    items, left = divide(curator.domain, workload, curator.unit, curator.budget, share)
    if not items:
        return mechanism.run(curator, workload, zeros)
    outcome = mechanism.run(curator.within(left), workload, zeros)
    errors = WorkloadErrors(outcome.model, workload, curator.domain)
    noisy = curator.statistic(errors, items[0].cost)
    alike = workload.weighs_alike
    stated = NoisyErrors(errors.marginals, noisy.values, noisy.sigma, weighs_alike=alike)
    return replace(outcome, errors=stated)
