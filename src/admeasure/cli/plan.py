"""`plan`: what a budget would buy, from public facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from admeasure.cli import arguments
from admeasure.cli.arguments import mechanism_of, option
from admeasure.plain import large_and_rest
from admeasure.terminal.console import say, say_json, say_table

if TYPE_CHECKING:
    from admeasure.mechanisms import Plan
    from admeasure.verbs.plan import Planned


SHOWN = 24
"""The most lines of a split that are printed, the largest parts; --json has them all."""


def plan(
    context: typer.Context,
    schema: arguments.SchemaPath,
    workload: arguments.WorkloadText,
    epsilon: arguments.Epsilon,
    delta: arguments.Delta = 1e-9,
    mechanism: arguments.MechanismName = None,
    rows: Annotated[int | None, option("N", "About how many rows, if public.")] = None,
    public: arguments.Public = None,
    certify: arguments.Certify = None,
    *,
    json: arguments.Json = False,
) -> None:
    """How the budget would be split, expected error, memory, time. Touches no data.

    Options of the mechanism are given in the same way: --rounds 20.
    """
    from admeasure.verbs.plan import plan as planned

    made = planned(
        schema,
        workload=workload,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism_of(mechanism, context),
        rows=rows,
        public=public,
        certify=certify,
    )
    if json:
        say_json(made.to_json())
    else:
        _print(made)


def _print(planned: Planned) -> None:
    made, budget, rows = planned.plan, planned.budget, planned.rows
    say(f"{planned.mechanism.name}: {planned.mechanism.summary}")
    say(
        f"epsilon {planned.epsilon:g} at delta {planned.delta:g} allows {budget}; no data was read."
    )
    say()
    parts = [float(item.total.ratio(budget)) for item in made.items]
    shown, rest = large_and_rest(parts, SHOWN)
    lines = [
        [
            item.what,
            str(item.times),
            f"{float(item.cost):.4g}",
            f"{100 * part:.1f}%",
            "" if item.sigma is None else f"{item.sigma:.4g}",
            *([f"{float(item.cost.delta_share):.3g}"] if budget.delta_share else []),
        ]
        for item, part in ((made.items[i], parts[i]) for i in shown)
    ]
    head = ["what", "times", "rho each", "share", "noise, in rows"]
    head += ["delta each"] if budget.delta_share else []
    say_table(head, lines)
    if rest:
        together = 100 * sum(parts[i] for i in rest)
        say(f"… and {len(rest):,} more, {together:.1f}% together; --json has them all.")
    say()
    say(f"rounds           {made.rounds}")
    say(f"expected error   {_expected(made, rows)}")
    say(f"memory           about {max(0.1, made.megabytes):.1f} MB")
    say(f"time             about {_seconds(made.seconds)}, after reading the table")
    for text in made.notes:
        say(text)


def _expected(made: Plan, rows: int | None) -> str:
    if made.expected_error is not None:
        on = f" on a table of about {rows:,} rows" if rows else ""
        return f"{made.expected_error:.4f} (mean L1 distance of shares, 0 to 2){on}"
    if rows is None:
        return "not known without the number of rows; give --rows if it is public"
    return "depends on what the run will choose; see the bounds of the release"


def _seconds(seconds: float) -> str:
    """
    >>> [_seconds(s) for s in (1.2, 90, 600, 80_000)]
    ['a second', '90 seconds', '10 minutes', '22 hours']
    """
    if seconds < 1.5:
        return "a second"
    for unit, name in ((1, "seconds"), (60, "minutes")):
        if seconds < 120 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 3600:.0f} hours"
