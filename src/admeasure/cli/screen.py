"""`screen`: which public table to use, if any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from admeasure.cli import arguments
from admeasure.cli.arguments import charge_to, option
from admeasure.errors import UsageError
from admeasure.terminal.bars import progress
from admeasure.terminal.console import banner, say, say_json, say_table, warn
from admeasure.terminal.exits import resumable

if TYPE_CHECKING:
    from admeasure.verbs.screen import Screening


def screen(
    data: arguments.Data,
    public: Annotated[list[str], option("DATA", "A public table; give one or more.")],
    schema: arguments.SchemaPath,
    workload: arguments.WorkloadText,
    epsilon: arguments.Epsilon,
    delta: arguments.Delta = 1e-9,
    fit_epsilon: Annotated[float, option("E", "The budget of the fit to come.")] = 1.0,
    marginals: Annotated[int, option("N", "Judge on at most so many queries.")] = 256,
    time_limit: Annotated[
        float,
        option(
            "SECONDS", "Fail where a table takes longer; all is charged then, and nothing released."
        ),
    ] = float("inf"),
    ledger: arguments.LedgerBook = None,
    dataset: arguments.LedgerDataset = None,
    seed: arguments.Seed = None,
    out: Annotated[
        Path | None,
        option("DIR", "Keep the result here; a run can be resumed then.", "--out", "-o"),
    ] = None,
    *,
    resume: arguments.Resume = False,
    json: arguments.Json = False,
) -> None:
    """Rank public tables by what a reweighting of them could achieve. Costs EPSILON."""
    from admeasure.release.store import partial_folder
    from admeasure.verbs.screen import screen as run_screen

    book = charge_to(ledger, dataset)
    names = _names(public)
    if seed is not None:
        warn("NOT PRIVATE: --seed makes the noise repeatable. For tests and research only.")
    try:
        with progress() as make:
            make(f"screening {len(names)} public table(s)")
            found = run_screen(
                data,
                names,
                schema,
                workload=workload,
                epsilon=epsilon,
                delta=delta,
                fit_epsilon=fit_epsilon,
                marginals=marginals,
                time_limit=time_limit,
                out=out,
                charge_to=book,
                seed=seed,
                resume=resume,
            )
    except KeyboardInterrupt:
        if out is None:
            raise
        raise resumable(partial_folder(out)) from None
    if json:
        say_json(found.to_json())
    else:
        _print(found, fit_epsilon)


def _names(public: Sequence[str]) -> dict[str, str]:
    """Paths by a short name: the file's own where that tells them apart."""
    short = [Path(p).name for p in public]
    if len(set(public)) < len(public):
        raise UsageError("A public table is named twice. Name each once.")
    return dict(zip(short if len(set(short)) == len(short) else public, public, strict=True))


def _print(found: Screening, fit_epsilon: float) -> None:
    from admeasure.certificate import SEEDED

    banner("" if found.private else SEEDED)
    lines = [
        [
            f"{c.rank}{' (tie)' if c.tied_with else ''}",
            c.name,
            f"{c.error:.4f}",
            f"{c.low:.4f} to {c.high:.4f}",
            f"{c.records:,}",
            c.verdict,
        ]
        for c in found.candidates
    ]
    heads = ["rank", "public table", "best-mixture error", "95% interval", "records", "verdict"]
    say_table(heads, lines)
    say()
    if any(c.tied_with for c in found.candidates):
        say(
            f"Tables marked as tied are not told apart: differences below {found.resolution:.4f} "
            "are within the noise at this budget. Take the one that is nearer in time or place, or "
            "screen with a larger epsilon."
        )
    if found.marginals < found.of_marginals:
        say(
            f"Judged on {found.marginals} of the workload's {found.of_marginals} queries, drawn at "
            "random; on all of them the errors can only be larger."
        )
    say(
        f"No reweighting of a table has a smaller largest error than its best-mixture error. "
        f"Without public data, noise on every marginal at epsilon {fit_epsilon:g} would have about "
        f"{found.alternative:.4f}."
    )
    if all(c.verdict == "do not use" for c in found.candidates):
        say("None of these tables should be used: aim or gaussian can do better without.")
    say(f"Spent: rho {found.rho:.6g} (epsilon {found.epsilon:g} at delta {found.delta:g}).")
    for c in found.candidates:
        for text in c.notes:
            say(text)
