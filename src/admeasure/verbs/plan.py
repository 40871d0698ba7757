"""`plan`: what a budget would buy, from public facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import escape

from admeasure.errors import UsageError
from admeasure.limits import Limits
from admeasure.mechanisms import Mechanism, Plan
from admeasure.mechanisms.auto import Auto
from admeasure.notebooks import BLUE, bars, cell, largest, row, table
from admeasure.planning import bought, certified, forecast
from admeasure.planning.division import Task, check_scales
from admeasure.privacy.cost import Cost
from admeasure.request import check_worth
from admeasure.unit import Neighbours
from admeasure.verbs.given import (
    GivenSchema,
    GivenWorkload,
    choice_of,
    given_public,
    mechanism_of,
    schema_of,
    workload_of,
)

DROWNED = 1.0
"""An expected error; 2 is the largest."""
TOO_NOISY = (
    "By itself, noise would drown tables of this size (2 is as wrong as can be). Fewer columns at "
    "once (pairs in place of triples), bins and categories from a codebook, fewer rows of each "
    "unit or a larger epsilon help."
)
TOO_LARGE = (
    "This machine has less memory than that at present: here, fit would refuse. Fewer columns, "
    "pairs in place of triples, coarser bins or a simpler mechanism (independent) take less."
)
MAY_NOT_FIT = (
    "That is more memory than this machine has at present: here the run may end without a release. "
    "Fewer columns, pairs in place of triples, coarser bins, a smaller max-megabytes or a simpler "
    "mechanism (independent) take less."
)
LONG_SECONDS = 3600
TOO_LONG = (
    "That is more than an hour. Fewer columns, pairs in place of triples, coarser bins or another "
    "mechanism (aim-plus, independent) take less."
)
WARNINGS = frozenset((TOO_NOISY, TOO_LARGE, MAY_NOT_FIT, TOO_LONG, certified.NOTHING))
"""Notes that a run would hardly be worth starting with, each with what would help."""


@dataclass(frozen=True, repr=False)
class Planned:
    """A plan, and what it is a plan of."""

    mechanism: Mechanism
    epsilon: float
    delta: float
    budget: Cost
    neighbours: Neighbours
    rows: int | None
    plan: Plan

    def __repr__(self) -> str:
        """A few lines: what would be run, its largest spends, and what is expected of it."""
        made = self.plan
        shares = largest((i.what, float(i.total.ratio(self.budget))) for i in made.items)
        error = made.expected_error
        return (
            f"Plan of {self.mechanism.name}: epsilon {self.epsilon:g} at delta {self.delta:g}, "
            f"rounds: {made.rounds}. No data was read.\n"
            f"The budget goes to: {shares}\n"
            + ("" if error is None else f"Error that noise alone would cause: {error:.4f}\n")
            + f"About {made.megabytes:,.0f} MB and {made.seconds:,.0f} s. "
            "More: .plan.items, .plan.notes, .to_json()"
        )

    def _repr_html_(self) -> str:
        lines = [
            row(
                cell(item.what, "th"),
                cell(f"{item.times:,}"),
                cell(f"{100 * float(item.total.ratio(self.budget)):.1f}%"),
                cell("" if item.sigma is None else f"{item.sigma:.4g}"),
                bars((float(item.total.ratio(self.budget)), BLUE)),
            )
            for item in self.plan.items
        ]
        error = self.plan.expected_error
        noise = "" if error is None else f"<p>Error that noise alone would cause: {error:.4f}.</p>"
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.plan.notes)
        return (
            f"<div><p><b>{escape(self.mechanism.name)}</b>: {escape(self.mechanism.summary)}; "
            f"epsilon {self.epsilon:g} at delta {self.delta:g}. No data was read.</p>"
            + table(("what", "times", "of the budget", "noise, in rows", ""), lines)
            + f"{noise}{notes}</div>"
        )

    def to_json(self) -> dict[str, Any]:
        made = self.plan
        return {
            "mechanism": self.mechanism.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours.value,
            "rho": float(self.budget),
            "delta_share": float(self.budget.delta_share),
            "rows": self.rows,
            "rounds": made.rounds,
            "items": [
                {
                    "what": i.what,
                    "times": i.times,
                    "rho": float(i.cost),
                    "delta": float(i.cost.delta_share),
                    "sigma": i.sigma,
                }
                for i in made.items
            ],
            "expected_error": made.expected_error,
            "megabytes": made.megabytes,
            "seconds": made.seconds,
            "notes": list(made.notes),
        }


def plan(
    schema: GivenSchema,
    *,
    workload: GivenWorkload,
    epsilon: float,
    delta: float = 1e-9,
    mechanism: Mechanism | Auto | str | None = None,
    options: Mapping[str, str] | None = None,
    rows: int | None = None,
    public: Any = None,
    certify: float | None = None,
) -> Planned:
    """How the budget would be divided, expected error, memory and time. Touches no private data.

    `mechanism` may be a name, with `options` as texts; where none is given, public facts choose.
    `rows` is about how many the table has, if that is public; the schema may say it too. `certify`
    is as in `fit`. What `fit` would refuse is refused here, but for want of memory, which is noted:
    the plan may be for another machine.
    """
    if rows is not None and rows < 1:
        raise UsageError(f"--rows must be at least 1; it is {rows}.")
    wanted = mechanism_of(mechanism, options)
    schema = schema_of(schema)
    asked = workload_of(workload, schema)
    choice = choice_of(wanted, asked, public)
    given, schema = schema, bought.asked(schema, asked, choice.mechanism)
    chosen = given_public(choice.mechanism, public, schema)
    task = Task.of(schema, asked)
    chosen.check(task)
    rows = rows or schema.table.rows
    budget = bought.budget(schema, epsilon, delta)
    check_worth(budget, schema.unit)
    items, left = bought.divide(schema, budget)
    share = certified.share_of(certify, task, by_auto=bool(choice.why))
    certified.check(task, share)
    last, left = certified.divide(task, left, share)
    likely = replace(task, domain=bought.likely_domain(schema, budget, rows))
    made = chosen.plan(likely, left, rows)
    made = replace(made, seconds=made.seconds + certified.seconds(task, share, rows))
    check_scales((*items, *made.items, *last))
    if items or last:
        said = (*bought.foreseen(schema, budget, rows), *certified.foreseen(likely, last, rows))
        made = replace(made, items=(*items, *made.items, *last), notes=(*made.notes, *said))
    least = max(chosen.needs(task), certified.needs(task, share))
    looked = (asked.looked_at,) if asked.looked_at else ()
    notes = [*choice.notes, *looked, *made.notes, *bought.left_out(given, schema)]
    reading = forecast.reading_megabytes(len(schema.columns))
    megabytes, there = max(made.megabytes, least, reading), Limits().room()
    if made.expected_error is not None and made.expected_error > DROWNED:
        notes.append(TOO_NOISY)
    if megabytes > there:
        notes.append(TOO_LARGE if least > there else MAY_NOT_FIT)
    if made.seconds > LONG_SECONDS:
        notes.append(TOO_LONG)
    made = replace(made, megabytes=megabytes, notes=tuple(notes))
    return Planned(chosen, epsilon, delta, budget, schema.unit.neighbours, rows, made)
