"""PrivBayes with and without a graphical model, which AIM's paper speaks of (section 8)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import product

from papers.case import Case, options
from papers.experiment import Claim, Experiment, Found, Panel, Runs, Scale, lines, share_judged

TABLES = ("adult", "nltcs", "titanic")
EPSILONS = (0.01, 0.0316, 0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0)
ERROR = "workload_error"


def networks(scale: Scale) -> Iterator[Case]:
    """PrivBayes as it is and with a graphical model."""
    full = scale == "full"
    epsilons = EPSILONS if full else (0.1, 1.0, 10.0)
    for table, epsilon, seed in product(TABLES, epsilons, range(5 if full else 2)):
        for given in ((), options(estimate="conditionals")):
            yield Case(table, "all-3way", "privbayes", epsilon, seed, given, judge="rows")


def network_panels(runs: Runs) -> list[Panel]:
    name = lambda r: "PrivBayes" if r["options"] else "PrivBayes+PGM"  # noqa: E731
    return [
        Panel(table, "epsilon", "workload error", lines(mine, ERROR, line=name, bars="range"))
        for (table,), mine in runs.groups("table")
    ]


def better_with_a_model(runs: Runs) -> Found | None:
    found = []
    for _, mine in runs.groups("table", "epsilon"):
        plain = mine.having(lambda r: bool(r["options"])).mean(ERROR)
        fitted = mine.having(lambda r: not r["options"]).mean(ERROR)
        if plain and fitted:
            found.append(plain / fitted)
    if not found:
        return None
    ours = f"PrivBayes has {min(found):.2f} to {max(found):.2f} times its error ({len(found)})"
    return share_judged(ours, statistics.fmean(r > 1 for r in found), 0.6)


EXPERIMENTS = (
    Experiment("aim/section8", "PrivBayes with and without a graphical model", networks,
               network_panels, (
        Claim("PrivBayes+PGM outperforms PrivBayes most of the time", "8", "", better_with_a_model),
    ), "ADULT, NLTCS and TITANIC"),
)  # fmt: skip
