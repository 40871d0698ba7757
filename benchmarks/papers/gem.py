"""GEM's and PEP's experiments (Liu, Vietri and Wu 2021, section 7 and appendices B and D).

Replace one row, delta 1/n², the loose conversion, errors of the model's answers, best of a grid by
mean, one standard error. Reduced runs take our defaults in place of the papers' grids for what
learns by gradients: on two cores one run of the paper's network takes a quarter of an hour.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from common import Record
from papers.case import Case, by_replacement
from papers.experiment import (
    Claim,
    Experiment,
    Found,
    Panel,
    Runs,
    Scale,
    judged,
    lines,
    share_judged,
)
from papers.tables import table_of

EPSILONS = (0.1, 0.15, 0.2, 0.25, 0.5, 1.0)
FEW = (0.1, 0.25, 1.0)
SMALL, ADULT, STARRED, LOANS = "adult-reduced", "adult-90", "adult-rap", "loans-rap"
PAPER = {"hidden": "512,1024,1024", "product_rows": 1000, "steps": 100, "learning_rate": 0.0001,
         "alpha": 0.67, "measure": "cells"}  # fmt: skip
"""Table 2: the network of single queries."""
SMALLER = {"hidden": "128,256", "product_rows": 200, "measure": "cells"}
"""Of the reduced run: about a tenth of the work."""
NO_ACS = "ADULT alone; the IPUMS tables of Pennsylvania cannot be had (pmw-pub/* has stand-ins)"
ALL_METRICS = ("max_error", "mean_error", "rmse")
METRICS = {"max_error": "largest error", "mean_error": "mean error", "rmse": "RMSE"}
WORKLOADS = {SMALL: "all-3way", ADULT: "all-3way", STARRED: "random:64:3way:seed=0",
             LOANS: "random:64:3way:seed=0", "pa18": "all-3way"}  # fmt: skip


def case(table: str, name: str, epsilon: float, seed: int, public: str | None = None, **given: Any):
    judge = "present" if table == LOANS else "answers"
    return by_replacement(table, WORKLOADS[table], name, epsilon, seed, judge, public, **given)


def over(scale: Scale, seeds: int = 1, few: Sequence[float] = FEW) -> Iterator[tuple[float, int]]:
    full = scale == "full"
    yield from product(EPSILONS if full else few, range(5 if full else seeds))


def small_table(scale: Scale) -> Iterator[Case]:
    """ADULT (reduced): what lists every cell, and what learns by gradients."""
    full = scale == "full"
    for epsilon, seed in over(scale, 2):
        for t in (20, 30, 40, 50, 75, 100, 125, 150, 175, 200) if full else (50, 100):
            yield case(SMALL, "pep", epsilon, seed, measure="cells", rounds=t)
        for t in (50, 75, 100, 150, 200, 250, 300) if full else (50, 150):
            yield case(SMALL, "mwem", epsilon, seed, measure="cells", reuse="large", rounds=t)
    for epsilon, seed in over(scale):
        yield from dualqueries(SMALL, epsilon, seed, full=full)
        yield from learned(SMALL, epsilon, seed, full=full)


def dualqueries(table: str, epsilon: float, seed: int, *, full: bool) -> Iterator[Case]:
    grid = product((25, 50, 100, 250, 500), (2, 3, 4, 5)) if full else ((50, 3),)
    for samples, eta in grid:
        yield case(table, "dualquery", epsilon, seed, samples=samples, eta=eta)


def learned(table: str, epsilon: float, seed: int, *, full: bool) -> Iterator[Case]:
    """GEM on single queries and RAP with softmax rows."""
    if not full:
        yield case(table, "gem", epsilon, seed, **SMALLER)
        yield case(table, "rap-softmax", epsilon, seed)
        return
    for t in (30, 40, 50, 60, 70, 80, 90, 100, 125, 150, 175, 200):
        yield case(table, "gem", epsilon, seed, rounds=t, **PAPER)
    for t, k in product((2, 5, 10, 25, 50, 75, 100), (5, 10, 25, 50, 100)):
        yield case(table, "rap-softmax", epsilon, seed, rounds=t, queries=k, product_rows=1000)


def wide_table(scale: Scale) -> Iterator[Case]:
    for epsilon, seed in over(scale):
        yield from learned(ADULT, epsilon, seed, full=scale == "full")


def standard(scale: Scale) -> Iterator[Case]:
    yield from small_table(scale)
    yield from wide_table(scale)


def public(scale: Scale) -> Iterator[Case]:
    """GEM-Pub from a tenth of the rows, whole and with seven columns; GEM beside it."""
    for epsilon, seed in over(scale):
        yield case(ADULT, "gem", epsilon, seed)
        for name in ("10%", "7 columns"):
            yield case(ADULT, "gem-pub", epsilon, seed, name)


def support(scale: Scale) -> Iterator[Case]:
    """Poor and good support, on the stand-in of PA-18."""
    for epsilon, seed in over(scale, few=(0.25, 1.0)):
        yield case("pa18", "gem", epsilon, seed)
        for name in ("OH", "HI"):
            yield case("pa18", "gem-pub", epsilon, seed, name)
            yield case("pa18", "pmw-pub", epsilon, seed, name)
            if scale == "full":
                yield case("pa18", "pep-pub", epsilon, seed, name)


def batches(scale: Scale) -> Iterator[Case]:
    full = scale == "full"
    for epsilon, seed in over(scale, few=(1.0,)):
        for size in (10, 100, 1000) if full else (10, 100, 300):
            given = PAPER if full else {}
            yield case(ADULT, "gem", epsilon, seed, **{**given, "product_rows": size})


def resampled(scale: Scale) -> Iterator[Case]:
    for (epsilon, seed), again in product(over(scale, few=(1.0,)), ("no", "yes")):
        given = {**PAPER, "rounds": 100} if scale == "full" else {}
        yield case(ADULT, "gem", epsilon, seed, **given, resample=again)


def projections(scale: Scale) -> Iterator[Case]:
    full = scale == "full"
    grid = product((2, 5, 10, 25, 50, 75, 100), (5, 10, 25, 50, 100)) if full else ((10, 10),)
    settings = list(grid)
    for (epsilon, seed), table, name in product(
        over(scale), (SMALL, ADULT), ("rap-box", "rap", "rap-softmax")
    ):
        for t, k in settings:
            yield case(table, name, epsilon, seed, rounds=t, queries=k, product_rows=1000)


def tricks(scale: Scale) -> Iterator[Case]:
    """Whole marginals against single queries."""
    for epsilon, seed in over(scale):
        yield case(SMALL, "gem", epsilon, seed, measure="marginals")
        if scale == "full":
            yield case(SMALL, "gem", epsilon, seed, measure="cells")
        else:
            yield case(SMALL, "gem", epsilon, seed, **SMALLER)


def strategies(scale: Scale) -> Iterator[Case]:
    for epsilon, seed in over(scale, 2):
        yield case(SMALL, "residual", epsilon, seed)
    for epsilon, seed in over(scale):
        yield case(SMALL, "gem", epsilon, seed, measure="marginals")


def pasts(scale: Scale) -> Iterator[Case]:
    full = scale == "full"
    for epsilon, seed in over(scale, 2):
        for t in (100, 150, 200, 250, 300, 400, 500, 750, 1000) if full else (100, 300):
            yield case(SMALL, "mwem", epsilon, seed, measure="cells", reuse="none", rounds=t)
        for t in (50, 75, 100, 150, 200, 250, 300) if full else (50, 150):
            yield case(SMALL, "mwem", epsilon, seed, measure="cells", reuse="large", rounds=t)


def starred(scale: Scale) -> Iterator[Case]:
    full = scale == "full"
    for (epsilon, seed), table in product(over(scale), (STARRED, LOANS) if full else (STARRED,)):
        yield from learned(table, epsilon, seed, full=full)
        if full:
            grid = product((2, 5, 10, 25, 50, 75, 100), (5, 10, 25, 50, 100))
            for (t, k), name in product(grid, ("rap-box", "rap")):
                yield case(table, name, epsilon, seed, rounds=t, queries=k, product_rows=1000)
        else:
            yield case(table, "rap-box", epsilon, seed)
            yield case(table, "rap", epsilon, seed)


def line(record: Record) -> str:
    given = dict(record["options"])
    kept = {k: given[k] for k in ("measure", "reuse", "resample") if k in given}
    name = record["mechanism"] + (f" from {record['public']}" if record["public"] else "")
    return " ".join([name, *kept.values()])


def by_size(record: Record) -> str:
    return f"B = {dict(record['options'])['product-rows']}"


def panels(*measures: str, by: Callable[[Record], str] = line):
    def draw(runs: Runs) -> list[Panel]:
        return [
            Panel(table, "epsilon", METRICS[m], lines(mine, m, line=by))
            for (table,), mine in runs.groups("table")
            for m in measures
            if m in mine.records[0]
        ]

    return draw


def less(better: str, worse: str, says: str, where: str, *, tables: Sequence[str] = (),
         measure: str = "max_error", by: Callable[[Record], str] = line) -> Claim:  # fmt: skip
    """A claim that one line lies below another in every setting."""

    def judge(runs: Runs) -> Found | None:
        found = []
        for (table, epsilon), mine in runs.groups("table", "epsilon"):
            a = mine.having(lambda r: by(r) == better).best(measure)
            b = mine.having(lambda r: by(r) == worse).best(measure)
            if a and b and (not tables or table in tables):
                found.append((f"{table} {epsilon:g}", b.mean / a.mean))
        if not found:
            return None
        ours = "; ".join(f"{at}: {ratio:.2f}" for at, ratio in found)
        return share_judged(ours, statistics.fmean(r > 1 for _, r in found))

    return Claim(says, where, "in every setting", judge)


def high_answers(name: str, table: str, workload: str, total: int, tenth: int, fifth: int) -> Claim:
    """How many queries have an answer above 0.1 and 0.2 (appendix D.7)."""

    def judge(runs: Runs) -> Found | None:
        from admeasure.workload import parse_workload

        found = table_of(table)
        schema = found.schema()
        truth, asked = found.source(schema), parse_workload(workload, schema.domain)
        counts = [truth.counts([c])[0] / found.rows for c in asked.marginals()]
        ours = (sum(c.size for c in counts), *(
            sum(int((c > level).sum()) for c in counts) for level in (0.1, 0.2)))  # fmt: skip
        near = all(0.67 <= a / b <= 1.5 for a, b in zip(ours, (total, tenth, fifth), strict=True))
        return judged(f"{ours[0]:,}; {ours[1]}; {ours[2]}", holds=near, partly=True)

    says = f"queries of {name}, those with an answer above 0.1 and above 0.2"
    return Claim(says, "D.7", f"{total:,}; {tenth}; {fifth}", judge)


def below_mixture(runs: Runs) -> Found | None:
    mine = runs.where(public="HI", epsilon=max(runs.values("epsilon"), default=0.0))
    gem, pmw = (mine.where(mechanism=m).mean("max_error") for m in ("gem-pub", "pmw-pub"))
    if gem is None or pmw is None:
        return None
    return judged(f"{gem:.4f} against {pmw:.4f} from Hawaii, largest budget", holds=gem < pmw)


def bad_in_a_box(runs: Runs) -> Found | None:
    """The box's largest error as a multiple of softmax's, on ADULT against ADULT (reduced)."""
    found: dict[str, list[float]] = {SMALL: [], ADULT: []}
    for (table, _), mine in runs.groups("table", "epsilon"):
        box, soft = (mine.where(mechanism=m).best("max_error") for m in ("rap-box", "rap-softmax"))
        if box and soft:
            found[table].append(box.mean / soft.mean)
    if not all(found.values()):
        return None
    small, large = (f"{min(v):.1f} to {max(v):.1f}" for v in found.values())
    ours = f"{large} times the error of RAP-softmax on ADULT, {small} on ADULT (reduced)"
    return judged(ours, holds=min(found[ADULT]) > 2 and min(found[ADULT]) > max(found[SMALL]),
                  partly=min(found[ADULT]) > 2)  # fmt: skip


def main_claims(measure: str) -> Iterable[Claim]:
    yield less("pep cells", "mwem cells large", "PEP has less error than MWEM", "7.1",
               measure=measure)  # fmt: skip
    yield less("gem cells", "rap-softmax", "GEM has less error than RAP-softmax", "7.1",
               measure=measure)  # fmt: skip
    yield less("pep cells", "rap-softmax", "PEP has less error than RAP-softmax", "7.1",
               measure=measure)  # fmt: skip
    yield less("gem cells", "dualquery", "GEM has less error than DualQuery", "Figure 1",
               measure=measure)  # fmt: skip


OURS = "Reduced runs have our defaults for T and steps instead of the best of the grid, and for " \
    "single queries a smaller network."  # fmt: skip
PUBLIC_CLAIMS = (
    less("gem-pub from 10%", "gem", "public rows of the same table help", "7.1, Figure 2b"),
    less("gem-pub from 7 columns", "gem", "so do seven of their columns", "7.1, Figure 2b"),
)
EXPERIMENTS = (
    Experiment("gem/fig1", "largest error without public data", standard, panels("max_error"),
               tuple(main_claims("max_error")), NO_ACS, reading=OURS),
    Experiment("gem/fig2a", "public data of good and poor support", support, panels("max_error"), (
        less("gem-pub from HI", "gem", "GEM-Pub gains from a poor support too", "7.1, Figure 2a"),
        Claim("GEM-Pub gets below PMW-Pub's floor of best-mixture error", "7.1, Figure 2a",
              "best mixture over 0.1 from CA-18", below_mixture),
    ), "Pennsylvania 2018 of ACS income (11 columns) for PA-18, Hawaii for CA-18, Ohio for PA-10",
        reading=OURS),
    Experiment("gem/fig2b", "public data without six columns", public, panels("max_error"),
               PUBLIC_CLAIMS, reading=OURS + " Whole marginals in the place of single queries."),
    Experiment("gem/fig3", "batch size B", batches, panels("max_error", "mean_error", by=by_size),
               (less("B = 300", "B = 10", "a larger batch has less error", "B.1", by=by_size),),
               reading=OURS),
    Experiment("gem/fig4", "noise drawn anew in every step", resampled, panels(*ALL_METRICS), (
        less("gem no", "gem yes", "one batch of noise for the run has less error", "B.2"),
    ), reading=OURS),
    Experiment("gem/fig5", "mean error and RMSE without public data", standard,
               panels("mean_error", "rmse"), tuple(main_claims("mean_error")), NO_ACS,
               reading=OURS),
    Experiment("gem/fig6", "mean error and RMSE, good and poor support", support,
               panels(*ALL_METRICS), (
        less("gem-pub from HI", "gem", "GEM-Pub gains from a poor support too", "D.2",
             measure="mean_error"),
    ), "as gem/fig2a; PEP-Pub in the full run alone", reading=OURS),
    Experiment("gem/fig7", "mean error and RMSE without six columns", public, panels(*ALL_METRICS),
               (less("gem-pub from 7 columns", "gem", "seven public columns help", "D.2",
                     measure="mean_error"),), reading=OURS),
    Experiment("gem/fig8", "RAP and RAP-softmax", projections, panels(*ALL_METRICS), (
        less("rap-softmax", "rap-box", "RAP-softmax has less error than RAP", "D.3"),
        Claim("but for ADULT (reduced), RAP does extremely badly at every budget", "D.3", "",
              bad_in_a_box),
        less("rap", "rap-box", "ours: projected to the simplex, RAP has less error than in a box",
             "footnote 2"),
    ), NO_ACS, reading="The paper's RAP was the first version, `rap-box`; its authors project each "
        "column to the simplex since, as `rap` does."),
    Experiment("gem/fig9", "the marginal trick", tricks, panels(*ALL_METRICS), tuple(
        less("gem marginals", "gem cells", f"whole marginals lower the {METRICS[m]}", "D.4",
             measure=m) for m in ALL_METRICS
    ), NO_ACS, reading=OURS),
    Experiment("gem/fig10", "against HDMM", strategies, panels(*ALL_METRICS), (
        less("gem marginals", "residual", "GEM has less error than HDMM on ADULT (reduced)", "D.5"),
    ), "`residual`, the optimum for workloads of marginals, for HDMM; " + NO_ACS, reading=OURS),
    Experiment("gem/fig11", "MWEM with past queries", pasts, panels(*ALL_METRICS), tuple(
        less("mwem cells large", "mwem cells none", f"past queries lower the {METRICS[m]}", "D.6",
             measure=m) for m in ALL_METRICS
    ), NO_ACS),
    Experiment("gem/fig12", "ADULT* and LOANS", starred, panels(*ALL_METRICS), (
        less("gem cells", "rap-softmax", "GEM has less error than RAP-softmax", "D.7"),
        less("rap-softmax", "rap-box", "RAP-softmax has less error than RAP", "D.7"),
        high_answers("ADULT", ADULT, "all-3way", 334_128, 487, 181),
        high_answers("ADULT*", STARRED, "random:64:3way:seed=0", 458_996, 71, 28),
    ), reading=OURS + " Our 64 marginals of ADULT* are drawn among all, the paper's among the "
        "small ones; LOANS in the full run alone."),
)  # fmt: skip
