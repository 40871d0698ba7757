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

from admeasure.errors import ResourceError, UsageError
from admeasure.families.answers import AnswersModel
from admeasure.measurement import NoisyErrors, mean_factor
from admeasure.planning import room
from admeasure.planning.division import ASSUMED_ROWS, Item, Task
from admeasure.planning.mechanism import Mechanism, Outcome
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.score import rounding
from admeasure.privacy.workload_errors import WorkloadErrors

NONE = Fraction(0)
PAIR_SECONDS, SECONDS, ROW_SECONDS = 1.5e-5, 1e-4, 1.5e-8
"""To count and to answer a marginal of two columns; one of more, and for each row of the table:
models of more rows are larger (docs/measurements/scale.md)."""
SILENT = "nothing of single marginals, any error of which lies within its noise"
NOTHING = (
    "The accuracy certificate will state nothing: any error of a table of this size lies within "
    "its noise and rounding. Leave it out (--certify 0), or ask for fewer or smaller marginals."
)
USUAL = Fraction(1, 20)
"""Where the mechanism is left to `auto`: it costs about 1% of the error
(docs/explanations/bounds.md). A mechanism that is named runs as its paper says, with all of the
budget."""


def share_of(certify: float | None, task: Task, *, by_auto: bool) -> Fraction:
    """The share of the budget that was asked for, as people write it. Where none was, the usual one
    if `auto` chose the mechanism, but for marginals that are too large to be counted whole."""
    if certify is None:
        return USUAL if by_auto and _can_be_had(task) else NONE
    if not 0 <= certify < 1:
        raise UsageError(
            f"The share for the accuracy certificate must be from 0 to below 1; it is {certify:g}. "
            "0.05 is a good one, 0 is none."
        )
    return Fraction(str(certify))


def _can_be_had(task: Task) -> bool:
    try:
        check(task, USUAL)
    except ResourceError:
        return False
    return True


def check(task: Task, share: Fraction) -> None:
    """Refuse a certificate of marginals that cannot be counted whole."""
    if share:
        marginals = task.workload.certified.marginals()
        room.check_counted(task.domain, marginals, "The accuracy certificate (--certify)")


def needs(task: Task, share: Fraction) -> float:
    """Megabytes: exact counts and the model's answers, some marginals at a time."""
    marginals = task.workload.certified.marginals() if share else ()
    return room.megabytes(task.domain, marginals, each=0, largest=32)


def seconds(task: Task, share: Fraction, rows: int | None) -> float:
    """What a run takes longer."""
    larger = SECONDS + ROW_SECONDS * (rows or ASSUMED_ROWS)
    marginals = task.workload.certified.marginals() if share else ()
    return sum(PAIR_SECONDS if len(columns) <= 2 else larger for columns in marginals)


def divide(task: Task, budget: Cost, share: Fraction) -> tuple[tuple[Item, ...], Cost]:
    """The item of the certificate, no item where there is none; and what the mechanism has."""
    if not share:
        return (), budget
    nothing = AnswersModel(task.domain, 0.0, {}, {})
    errors = WorkloadErrors(nothing, task.workload.certified, task.domain)
    cost = budget * share
    return (Item(str(errors), cost, cost.sigma(errors.l2_squared(task.unit))),), budget - cost


def foreseen(task: Task, items: Sequence[Item], rows: int | None) -> tuple[str, ...]:
    """What a plan should say of it: the precision is known before. An error lies between nothing
    and twice the rows, so that within `rows` of something says nothing."""
    if not items:
        return ()
    workload, most = task.workload.certified, math.inf if rows is None else rows
    marginals = workload.marginals()
    m = len(marginals)
    times = max(mean_factor(m), math.sqrt(m) if workload.weighs_alike else 0.0)
    slack = rounding(max(map(task.domain.cells, marginals), default=0), most)
    sample = m < task.workload.asked
    whose = f"of {m:,} marginals, a public sample, the" if sample else "the workload's"
    mean, each = (1.96 * items[0].noise / draws + slack for draws in (times, 1))
    if mean >= most:
        return (NOTHING,)
    of_each = SILENT if each >= most else f"that of each marginal within {each:,.0f}"
    return (
        f"The accuracy certificate will state {whose} mean error within {mean:,.0f} rows, and "
        f"{of_each} (95%).",
    )


def run(mechanism: Mechanism, task: Task, curator: Curator, share: Fraction = NONE) -> Outcome:
    """Run the mechanism with what is left, then buy the errors of its model."""
    items, left = divide(task, curator.budget, share)
    if not items:
        return mechanism.run(task, curator)
    outcome = mechanism.run(task, curator.within(left))
    workload = task.workload.certified
    errors = WorkloadErrors(outcome.model, workload, task.domain)
    noisy = curator.statistic(errors, items[0].cost)
    alike = workload.weighs_alike
    stated = NoisyErrors(errors.marginals, noisy.values, noisy.sigma, weighs_alike=alike)
    return replace(outcome, errors=stated)
