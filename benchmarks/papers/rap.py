"""RAP's experiments on workloads that are known (Avent and Korolova 2023, sections 3.4 and 4.3).

Replace one row, delta 1/n², the loose conversion, the largest error of any query, least over T and
K by mean. Every seed draws its own workload. Reduced runs are of ADULT, with few marginals and 200
product rows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from admeasure.privacy.convert import rho_of_loose
from admeasure.studies.budgets import delta_for
from common import Record
from papers import rap_future
from papers.case import Case, by_replacement
from papers.experiment import (
    Claim,
    Experiment,
    Found,
    Panel,
    Point,
    Runs,
    Scale,
    judged,
    lines,
    share_judged,
)
from papers.rap_search import (
    ERROR,
    adaptive,
    best_at_k,
    best_pairs,
    both_claims,
    heat,
    many_rounds,
    one_product,
    r_of,
    size_of,
    with_fields,
)
from papers.tables import table_of

ADULT, LOANS = "adult-rap", "loans-rap"
T_GRID, K_GRID = (1, 4, 16, 64), (4, 16, 64, 256)
FEW = ((1, 64), (4, 4), (4, 16), (4, 64), (16, 4), (16, 16))
"""Of the reduced run: T and K."""
NO_LOANS = "ADULT alone in the reduced run"
PLAIN, WHOLE = "RAP, not adaptive", "RAP, whole marginals"
MOST = 200_000
"""Targets of a threshold in the reduced run."""


def case(table: str, workload: str, name: str, epsilon: float, seed: int, **given: Any) -> Case:
    judge = "present" if name.startswith("rap") else "answers"
    return by_replacement(table, workload, name, epsilon, seed, judge, **given)


def grid(scale: Scale) -> Sequence[tuple[int, int]]:
    return list(product(T_GRID, K_GRID)) if scale == "full" else FEW


def marginals(scale: Scale, kind: str = "random") -> Iterator[Case]:
    """RAP over its grid, without choosing, and All-0."""
    full = scale == "full"
    for table, size, epsilon, seed in product(
        (ADULT, LOANS) if full else (ADULT,),
        (1, 4, 16, 64, 256) if full else (4, 16, 64),
        (0.01, 0.1, 1.0),
        range(5 if full else 2),
    ):
        workload = f"{kind}:{size}:3way:seed={seed}"
        rows = 1000 if full else 200
        for t, k in grid(scale):
            yield case(table, workload, "rap", epsilon, seed, rounds=t, queries=k,
                       product_rows=rows)  # fmt: skip
        for measure in ("all", "all-cells"):
            yield case(table, workload, "rap", epsilon, seed, measure=measure, product_rows=rows)
        yield case(table, workload, "gaussian", epsilon, seed, measure="cells")
        yield case(table, workload, "all-zero", epsilon, seed)


def filtered(scale: Scale) -> Iterator[Case]:
    yield from (c for c in marginals(scale) if adaptive(c.to_json()))
    yield from (c for c in marginals(scale, "filtered") if adaptive(c.to_json()))


def thresholds(scale: Scale) -> Iterator[Case]:
    full = scale == "full"
    for table, size, epsilon, r, seed in product(
        (ADULT, LOANS) if full else (ADULT,),
        (1, 4, 16, 64, 256) if full else (4,),
        (0.1, 1.0) if full else (0.1,),
        (1, 2, 3, 4),
        range(5 if full else 1),
    ):
        rule = f"threshold:{r}of4:{size}:seed={seed}" if full else (
            f"small:{r}of4:{size}:{MOST}:seed={seed}")  # fmt: skip
        for t, k in grid(scale):
            yield case(table, rule, "rap", epsilon, seed, rounds=t, queries=k,
                       product_rows=1000 if full else 200)  # fmt: skip
        yield case(table, rule, "all-zero", epsilon, seed)


def sizes(scale: Scale) -> Iterator[Case]:
    full = scale == "full"
    for r, rows, seed in product(
        (1, 2, 3, 4), (500, 1000, 2000) if full else (50, 200, 500), range(5 if full else 1)
    ):
        rule = f"threshold:{r}of4:64:seed={seed}" if full else f"small:{r}of4:4:{MOST}:seed={seed}"
        for t, k in grid(scale) if full else ((4, 16), (16, 4)):
            yield case(ADULT, rule, "rap", 0.1, seed, rounds=t, queries=k, product_rows=rows)


def speeds(scale: Scale) -> Iterator[Case]:
    full = scale == "full"
    for table in (ADULT, LOANS) if full else (ADULT,):
        for size in (1, 4, 16, 64, 256, 364 if table == ADULT else 1024):
            if full or size <= 256:
                workload, rows = f"random:{size}:3way:seed=0", 1000 if full else 200
                yield case(table, workload, "rap", 0.1, 0, rounds=16, queries=4, product_rows=rows)
                yield case(table, workload, "rap", 0.1, 0, measure="all-cells", product_rows=rows)


def line(record: Record) -> str:
    if record["mechanism"] == "all-zero":
        return "All-0"
    if record["mechanism"] == "gaussian":
        return "GM, run"
    measure = dict(record["options"]).get("measure")
    return {"all": WHOLE, "all-cells": PLAIN}.get(measure or "", "RAP")


def gaussian_error(table: str, queries: float, epsilon: float) -> float:
    """GM: one noise for each of m queries; the median of the largest of m noises, exactly.

    Its error does not depend on the table, so nothing has to be run: sigma = sqrt(m / (2 rho)) / n,
    and the largest of m absolute values has the median sigma Φ⁻¹((1 + 2^(-1/m)) / 2).
    """
    from scipy.special import ndtri

    rows = table_of(table).rows
    rho = rho_of_loose(epsilon, delta_for("1/n^2", rows))
    # 1 - (1 + 2^(-1/m)) / 2 = (1 - 2^(-1/m)) / 2, without losing small numbers
    tail = -math.expm1(-math.log(2) / queries) / 2
    return -float(ndtri(tail)) * math.sqrt(queries / (2 * rho)) / rows


def _gaussian(runs: Runs, x: str) -> list[Point]:
    found = []
    for (at,), mine in runs.where(mechanism="all-zero").groups(x):
        each = [gaussian_error(r["table"], r["queries"], r["epsilon"]) for r in mine.records]
        mean = min(1.0, statistics.fmean(each))
        found.append(Point(at, mean, mean, mean, len(each), "closed form"))
    return found


def present_panels(runs: Runs) -> list[Panel]:
    sized = with_fields(runs, size=size_of)
    found = []
    for (table, epsilon), mine in sized.groups("table", "epsilon"):
        drawn = lines(mine, ERROR, x="size", line=line)
        drawn["GM"] = _gaussian(mine, "size")
        notes = {"RAP": best_pairs(drawn.get("RAP", ()))}
        title = f"{table}, epsilon {epsilon:g}; (T, K)"
        found.append(Panel(title, "|W|", "present error", drawn, notes=notes))
    return found


def threshold_panels(runs: Runs) -> list[Panel]:
    found = []
    for (table, epsilon), mine in with_fields(runs, r=r_of).groups("table", "epsilon"):
        drawn = lines(mine, ERROR, x="r", line=line)
        drawn["GM"] = _gaussian(mine, "r")
        notes = {"RAP": best_pairs(drawn.get("RAP", ()))}
        title = f"{table}, epsilon {epsilon:g}; (T, K)"
        found.append(Panel(title, "r", "present error", drawn, "y", notes=notes))
    return found


def adaptive_is_best(runs: Runs) -> Found | None:
    found = []
    for _, mine in runs.groups("table", "workload", "epsilon"):
        best = mine.having(adaptive).best(ERROR)
        rest = mine.having(lambda r: line(r) not in ("RAP", WHOLE))  # the latter is ours
        others = [r[ERROR] for r in rest.records]
        zero = mine.where(mechanism="all-zero").records
        if best and others and zero:
            others.append(gaussian_error(zero[0]["table"], zero[0]["queries"], zero[0]["epsilon"]))
            found.append(min(others) / best.mean)
    if not found:
        return None
    ours = f"the next best has {min(found):.1f} to {max(found):.1f} times the error"
    return share_judged(f"{ours} ({len(found)} settings)", statistics.fmean(r > 1 for r in found))


def plain_is_zero(runs: Runs) -> Found | None:
    """Without choosing, RAP is near All-0 for all but the smallest workloads, and below GM."""
    near: dict[int, list[float]] = {}
    better = []
    for (_, _, epsilon), mine in runs.groups("table", "workload", "epsilon"):
        zero = mine.where(mechanism="all-zero").records
        plain = mine.having(lambda r: line(r) == PLAIN).mean(ERROR)
        if zero and plain is not None:
            near.setdefault(size_of(zero[0]), []).append(plain / zero[0][ERROR])
            better.append(plain < gaussian_error(zero[0]["table"], zero[0]["queries"], epsilon))
    if not near:
        return None
    by = "; ".join(f"|W| {n}: {min(v):.2f} to {max(v):.2f}" for n, v in sorted(near.items()))
    larger = [r for n, v in near.items() if n > min(near) for r in v] or near[min(near)]
    ours = f"All-0's error times {by}; below GM in {sum(better)} of {len(better)}"
    return judged(ours, holds=min(larger) > 0.8 and all(better),
                  partly=statistics.median(larger) > 0.8)  # fmt: skip


def as_computed(runs: Runs) -> Found | None:
    """The runs of GM against its closed form."""
    found = [
        r[ERROR] / gaussian_error(r["table"], r["queries"], r["epsilon"])
        for r in runs.where(mechanism="gaussian").records
    ]
    if not found:
        return None
    middle = statistics.median(found)
    ours = f"{min(found):.2f} to {max(found):.2f} times the closed form, median {middle:.2f} "
    return judged(f"{ours}({len(found)} runs)", holds=0.9 < middle < 1.1)


def every_size_served(runs: Runs) -> Found | None:
    """The largest workload that was run without choices."""
    mine = runs.having(lambda r: line(r) == PLAIN)
    if not mine:
        return None
    largest = max(mine.records, key=lambda r: r["cells"])
    ours = f"{largest['cells']:,} queries: {largest['cpu_seconds']:.0f} processor seconds, "
    return judged(f"{ours}{largest['peak_megabytes']:,.0f} MB", holds=largest["cells"] > 1e6)


def regression(runs: Runs, x: str) -> tuple[float, float, np.ndarray] | None:
    """Appendix A: the likelihood-ratio test of the model with the filter against the one without;
    its p, the full model's adjusted R², and its coefficients of the filter."""
    from scipy.stats import chi2

    rows = []
    for (workload, epsilon), mine in runs.having(adaptive).groups("workload", "epsilon"):
        best = mine.best(ERROR)
        queries = runs.where(workload=workload).having(lambda r: r.get("cells")).values("cells")
        size = size_of(mine.records[0]) if x == "size" else (queries or [0])[0]
        if best and size:
            filter_on = float(workload.startswith("filtered"))
            rows += [(epsilon, math.log(size), filter_on, value) for value in best.values]
    levels = sorted({r[0] for r in rows})
    if len(rows) < 4 * len(levels) or len(levels) < 2 or len({r[2] for r in rows}) < 2:
        return None
    dummies = np.array([[1.0, *(float(r[0] == e) for e in levels[1:])] for r in rows])
    at = np.array([[r[1]] for r in rows])
    restricted = np.hstack([dummies, dummies * at])
    full = np.hstack([restricted, restricted * np.array([[r[2]] for r in rows])])
    y = np.array([r[3] for r in rows])
    n, wide = len(y), full.shape[1]
    if n <= wide:
        return None
    squares = [float(np.square(y - X @ np.linalg.lstsq(X, y, rcond=None)[0]).sum())
               for X in (restricted, full)]  # fmt: skip
    statistic = n * math.log(squares[0] / squares[1])
    total = float(np.square(y - y.mean()).sum())
    adjusted = 1 - (squares[1] / (n - wide)) / (total / (n - 1))
    beta = np.linalg.lstsq(full, y, rcond=None)[0]
    return float(chi2.sf(statistic, wide - restricted.shape[1])), adjusted, beta[wide // 2 :]


def holm(values: Sequence[float]) -> list[float]:
    """Holm and Bonferroni's adjusted p-values, in the order given."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found, least = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(values) - rank) * values[i]))
        found[i] = least
    return found


def filter_claim(x: str, says: str, printed: str, level: float = 0.05) -> Claim:
    def judge(runs: Runs) -> Found | None:
        both = [regression(runs, "size"), regression(runs, "queries")]
        mine = both[0 if x == "size" else 1]
        if mine is None:
            return None
        known = [r[0] for r in both if r is not None]
        adjusted = dict(zip(known, holm(known), strict=True))[mine[0]]
        ours = f"p = {mine[0]:.3g}, Holm-Bonferroni {adjusted:.3g}, adjusted R² {mine[1]:.2f}"
        return judged(ours, holds=adjusted < level)

    return Claim(says, "3.4.3", printed, judge)


def larger_is_better(runs: Runs) -> Found | None:
    found = []
    for _, mine in runs.groups("workload"):
        by = {}
        for record in mine.records:
            by.setdefault(int(dict(record["options"])["product-rows"]), []).append(record[ERROR])
        if len(by) > 1:
            found.append(min(by[max(by)]) / min(by[min(by)]))
    if not found:
        return None
    ours = f"largest n' has {min(found):.2f} to {max(found):.2f} times the error of the smallest"
    return share_judged(ours, statistics.fmean(r <= 1.02 for r in found), 0.75)


def rows_panels(runs: Runs) -> list[Panel]:
    shown = with_fields(runs, rows=lambda r: int(dict(r["options"])["product-rows"]), r=r_of)
    name = lambda r: f"r = {r['r']}"  # noqa: E731
    return [
        Panel(ADULT, "n'", y, lines(shown, m, x="rows", line=name))
        for m, y in ((ERROR, "present error"), ("cpu_seconds", "processor seconds"))
        if shown
    ]


def speed_panels(runs: Runs) -> list[Panel]:
    shown = with_fields(runs, size=size_of)
    drawn = lines(shown, "seconds", x="size", line=lambda r: f"{r['table']}, {line(r)}")
    return [Panel("T = 16, K = 4; not adaptive", "|W|", "seconds", drawn)] if drawn else []


def served(runs: Runs) -> Found | None:
    if not runs.having(adaptive):
        return None
    largest = max(runs.having(adaptive).records, key=size_of)
    rate = 16 * largest["cells"] / largest["seconds"]
    ours = (
        f"{size_of(largest)} marginals, {largest['cells']:,} queries, {rate:,.0f} scored a second"
    )
    return judged(ours, holds=rate > 28_000)


EXPERIMENTS = (
    Experiment("rap/fig1", "time against the size of the workload", speeds, speed_panels, (
        Claim("queries answered in a second", "4.3.2", "28,000 on an RTX 3090", served),
        Claim("the variant without choices serves large workloads too", "3.2", "slowly",
              every_size_served),
    ), NO_LOANS, reading="Ours counts each query once a round."),
    Experiment("rap/fig2", "present error of 3-way marginals", marginals, present_panels, (
        Claim("RAP with its best T, K has less error than without choosing, GM and All-0", "3.4.1",
              "significantly", adaptive_is_best),
        Claim("without choosing RAP is near All-0, and below GM", "3.4.1", "nearly identical",
              plain_is_zero),
        Claim("GM answers each query with noise of its own", "Definition 2.10",
              "closed form", as_computed),
    ), NO_LOANS, reading="`RAP, whole marginals` measures each marginal with all of its share of "
        "the budget, which one noise a query does not gain from."),
    Experiment("rap/fig3", "T and K against |W|", marginals, heat("size", "epsilon"), (
        Claim("errors at one T K are alike", "3.4.2", "diagonal bands", one_product),
    ), NO_LOANS),
    Experiment("rap/fig4", "T and K against epsilon", marginals, heat("epsilon", "size"),
               tuple(both_claims()), NO_LOANS),
    Experiment("rap/fig5", "large marginals filtered out: by |W|", filtered, claims=(
        filter_claim("size", "filtering changes the error", "p = 0.026 on ADULT, 0.623 on LOANS"),
    ), stands_in=NO_LOANS),
    Experiment("rap/fig6", "large marginals filtered out: by the number of queries", filtered,
               claims=(
        filter_claim("queries", "filtering changes the error at the same number of queries",
                     "p < 0.0001 on both"),
    ), stands_in=NO_LOANS),
    Experiment("rap/fig7", "r-of-4 thresholds", thresholds, threshold_panels, (
        Claim("RAP has less error than GM and All-0", "4.3.1", "in all settings", adaptive_is_best),
        Claim("its error is least at r = k", "4.3.1", "", best_at_k),
    ), NO_LOANS + ", thresholds of few targets"),
    Experiment("rap/fig8", "T and K of thresholds", thresholds, heat("r", "epsilon"), (
        Claim("for r < k many rounds of few queries are best", "4.3.1", "", many_rounds),
    ), NO_LOANS + ", thresholds of few targets"),
    Experiment("rap/fig9", "the number of product rows", sizes, rows_panels, (
        Claim("more product rows lower the error a little", "4.3.2", "mild", larger_is_better),
    ), NO_LOANS + ", thresholds of few targets"),
    *rap_future.EXPERIMENTS,
)  # fmt: skip
