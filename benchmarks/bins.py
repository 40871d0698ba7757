"""Bins of numeric columns: how far answers about raw values are from the table, by kind of bins.

    python benchmarks/bins.py --tables adult_raw,acs_ct_2021,nist_national2019,generated
    python benchmarks/bins.py --table               # what was run so far, as the docs have it

A workload is 1,000 random conjunctions of 1 to 3 conditions, at least one of them a range of raw
values; its error is the mean distance of the expected answer from the true one, as a part of the
table. All kinds of bins have the same budget:

- private: the product's own, a share of the budget in a noisy tree;
- equal: 32 of equal width, from the public bounds, for nothing;
- privtree: Zhang, Xiao and Xie (2016), Algorithm 2 with two children and theta = 0, for that share;
- quantile: 32 by the exponential mechanism, halving (Kaplan, Schnapp and Stemmer 2022), for it.

A run leaves a line in results/bins.jsonl; a case that has one is not run again. NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import datetime
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from admeasure.planning.bins import PrivateBins
from common import RESULTS, Record, Results, cpu_seconds, data_folder, here

DELTA = 1e-9
KINDS = ("private", "equal", "privtree", "quantile")
SHARE = PrivateBins().share
"""Of the budget, for the bins of the others as for the product's own."""
QUERIES = 1000
FINE = 4096

NUMERIC: dict[str, dict[str, tuple[str, Any, Any]]] = {
    "adult_raw": {
        "age": ("integer", 17, 90),
        "fnlwgt": ("integer", 0, 1_500_000),
        "education-num": ("integer", 1, 16),
        "capital-gain": ("integer", 0, 99_999),
        "capital-loss": ("integer", 0, 5_000),
        "hours-per-week": ("integer", 1, 99),
    },
    "acs_ct_2021": {
        "Age": ("integer", 15, 96),
        "PA_Inc": ("number", 0.0, 30_000.0),
        "SS_Inc": ("number", 0.0, 50_000.0),
        "Hours_Worked": ("integer", 0, 99),
        "Income": ("number", 0.0, 1_600_000.0),
        "PWeight": ("integer", 1, 1_200),
    },
    "nist_national2019": {
        "AGEP": ("integer", 0, 99),
        "DENSITY": ("number", 0.0, 60_000.0),
        "PINCP": ("integer", -20_000, 1_500_000),
        "POVPIP": ("integer", 0, 501),
        "PWGTP": ("integer", 1, 2_100),
    },
    "generated": {
        "hours": ("integer", 0, 99),
        "income": ("number", 0.0, 1e6),
        "gain": ("integer", 0, 100_000),
        "delay": ("number", 0.0, 1e5),
        "day": ("date", datetime.date(2015, 1, 1), datetime.date(2024, 12, 31)),
    },
}
"""Columns with public bounds, as a codebook would give them."""
CATEGORIES = {
    "adult_raw": ("workclass", "marital-status", "occupation", "sex", "income", "race"),
    "acs_ct_2021": ("Sex", "Marital_Status", "COW", "Disability", "Race", "Health_Cov"),
    "nist_national2019": ("SEX", "MSP", "RAC1P", "HOUSING_TYPE", "EDU", "DEYE"),
    "generated": ("sex", "region"),
}


@cache
def raw_table(name: str) -> dict[str, np.ndarray]:
    """The columns of a table; days are days since 1970, missing is NaN."""
    if name == "generated":
        return generated(50_000, np.random.default_rng(0))
    import duckdb

    names = ", ".join(f'"{c}"' for c in (*NUMERIC[name], *CATEGORIES[name]))
    path = data_folder() / f"{name}.parquet"
    found = duckdb.connect().execute(f"SELECT {names} FROM '{path}'").fetchnumpy()
    table: dict[str, np.ndarray] = {}
    for column, values in found.items():
        if column in NUMERIC[name]:
            table[column] = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
        else:
            table[column] = np.asarray(values, dtype=object).astype(str)
    return table


def generated(rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Heaps, heavy tails, nine of ten zero, and days that are thicker lately and on Mondays."""
    sex, region = rng.choice(["f", "m"], rows), rng.choice(list("abcdef"), rows)
    hours = np.clip(np.rint(rng.normal(38, 12, rows) + 3 * (sex == "m")), 0, 99)
    which = rng.random(rows)
    hours = np.where(which < 0.45, 40.0, np.where(which < 0.65, np.rint(hours / 5) * 5, hours))
    income = np.exp(rng.normal(10.2, 0.9, rows)) * (hours / 40 + 0.2)
    which = rng.random(rows)
    income = np.where(which < 0.35, np.rint(income / 5000) * 5000, income)
    income = np.where((which > 0.35) & (which < 0.7), np.rint(income / 1000) * 1000, income)
    gain = np.where(rng.random(rows) < 0.9, 0.0, np.rint(np.exp(rng.normal(8, 1, rows))))
    delay = (rng.pareto(1.2, rows) + 1) * (1 + (region == "a"))
    day = 20088 - np.floor(rng.exponential(700, rows))
    day = np.where(rng.random(rows) < 0.3, np.floor(day / 7) * 7 + 4, day)
    bounds = ((0, 99), (0, 1e6), (0, 1e5), (0, 1e5), (16436, 20088))
    numbers = (hours, np.round(income, 2), gain, np.round(delay, 2), day)
    named = ("hours", "income", "gain", "delay", "day")
    table = {n: np.clip(v, *b) for n, v, b in zip(named, numbers, bounds, strict=True)}
    return {**table, "sex": sex, "region": region}


# Bins of the others, as edges; numpy's noise, since nothing here is private.


def ends(kind: str, low: Any, high: Any) -> tuple[float, float]:
    if kind == "date":
        low, high = (d.toordinal() - 719_163 for d in (low, high))
    return float(low), float(high)


def fine_edges(kind: str, low: float, high: float) -> np.ndarray:
    """One cell a value, or FINE of equal width."""
    if kind == "number":
        return np.linspace(low, high, FINE + 1)
    cells = min(FINE, int(high - low) + 1)
    return np.unique(np.append(np.ceil(np.linspace(low, high + 1, cells + 1)[:-1]), high + 1))


def privtree(counts: np.ndarray, rho: float, rng: np.random.Generator) -> list[int]:
    """The first cells of the leaves of PrivTree: pure epsilon-DP is epsilon²/2-zCDP."""
    epsilon = math.sqrt(2 * rho)
    scale = 3 / epsilon  # (2 beta - 1) / ((beta - 1) epsilon) with beta = 2
    decay = scale * math.log(2)
    summed, found, open_ = np.append(0, np.cumsum(counts)), [], [(0, len(counts), 0)]
    while open_:
        first, last, depth = open_.pop()
        biased = max(summed[last] - summed[first] - depth * decay, -decay)
        if last - first > 1 and biased + rng.laplace(0, scale) > 0:
            middle = (first + last) // 2
            open_ += [(first, middle, depth + 1), (middle, last, depth + 1)]
        else:
            found.append(first)
    return sorted(found)


def quantiles(counts: np.ndarray, rho: float, rng: np.random.Generator) -> list[int]:
    """The first cells of up to 32 bins, by halving five times: a level of disjoint choices costs
    epsilon²/8."""
    step = math.sqrt(8 * rho / 5) / 2
    found, parts = {0}, [(0, len(counts))]
    for _ in range(5):
        halves = []
        for first, last in parts:
            if last - first < 2:
                continue
            summed = np.cumsum(counts[first:last])[:-1]
            score = -np.abs(summed - counts[first:last].sum() / 2)
            cut = first + 1 + int(np.argmax(step * score + rng.gumbel(size=len(score))))
            found.add(cut)
            halves += [(first, cut), (cut, last)]
        parts = halves
    return sorted(found)


def edges_of(
    kind: str, column: tuple[str, Any, Any], values: np.ndarray, rho: float, rng: Any
) -> list[float]:
    type_, low, high = column[0], *ends(*column)
    if kind == "equal":
        cells = 32 if type_ == "number" else min(32, int(high - low) + 1)
        whole = np.linspace(low, high + (type_ != "number"), cells + 1)[:-1]
        starts = whole if type_ == "number" else np.ceil(whole)
    else:
        edges = fine_edges(type_, low, high)
        counts = np.histogram(values[~np.isnan(values)], np.append(edges[:-1], np.inf))[0]
        made = (privtree if kind == "privtree" else quantiles)(counts, rho, rng)
        starts = edges[made]
    return [*(s for s in starts.tolist() if s < high), high]


def schema_of(table: str, kind: str, columns: dict[str, np.ndarray], rho: float, rng: Any) -> str:
    """A schema file; the bins of the others are written into it."""
    lines = ["[table]", f'name = "{table}"', "[privacy]", 'unit = "person"']
    for name, column in NUMERIC[table].items():
        lines += ["[[column]]", f'name = "{name}"', f'type = "{column[0]}"']
        if np.isnan(columns[name]).any():
            lines.append("missing_values = []")
        if kind == "private":
            lines += [f"minimum = {column[1]}", f"maximum = {column[2]}", 'bins = "private"']
        else:
            share = rho * float(SHARE) / len(NUMERIC[table])
            edges = edges_of(kind, column, columns[name], share, rng)
            lines.append(f"edges = [{', '.join(written(column[0], e) for e in edges)}]")
    for name in CATEGORIES[table]:
        listed = ", ".join(f'"{v}"' for v in sorted(set(columns[name])))
        lines += ["[[column]]", f'name = "{name}"', 'type = "string"', f"enum = [{listed}]"]
    return "\n".join(lines)


def written(type_: str, edge: float) -> str:
    if type_ == "date":
        return datetime.date.fromordinal(int(edge) + 719_163).isoformat()
    return str(int(edge)) if type_ == "integer" else repr(edge)


@cache
def as_given(table: str) -> dict[str, Any]:
    """The columns as a caller would have them."""
    columns = raw_table(table)
    given: dict[str, Any] = dict(columns)
    for name, (type_, _, _) in NUMERIC[table].items():
        values = columns[name]
        if type_ == "date":
            given[name] = values.astype("datetime64[D]").astype(object)
        elif type_ == "integer":
            given[name] = np.array([None if np.isnan(v) else int(v) for v in values], object)
    return given


# Questions and expected answers.


@dataclass(frozen=True)
class Condition:
    """A range with both ends, or a value."""

    column: str
    low: Any
    high: Any

    def holds(self, values: np.ndarray) -> np.ndarray:
        return (values >= self.low) & (values <= self.high)


def conjunctions(
    columns: dict[str, np.ndarray], numeric: list[str], rng: np.random.Generator
) -> list[list[Condition]]:
    found = []
    for _ in range(QUERIES):
        size = int(rng.integers(1, 4))
        first = str(rng.choice(numeric))
        others = [c for c in columns if c != first]
        chosen = [first, *rng.choice(others, size - 1, replace=False).tolist()]
        found.append([_condition(c, columns[c], rng) for c in chosen])
    return found


def _condition(name: str, values: np.ndarray, rng: np.random.Generator) -> Condition:
    if values.dtype != np.float64:
        value = str(rng.choice(values))
        return Condition(name, value, value)
    low, high = np.sort(rng.choice(np.unique(values[~np.isnan(values)]), 2))
    return Condition(name, float(low), float(high))


def weights(release: Any, condition: Condition) -> np.ndarray:
    """The part of each level that a condition is expected to hold for."""
    column = release.schema.column(condition.column)
    found = np.zeros(column.levels)
    if column.grid is None:
        found[column.code_of(condition.low)] = 1
        return found
    grid, inside = column.grid, release.inside.get(condition.column)
    starts = grid.starts if inside is None else inside.starts
    shares = np.ones(len(starts)) if inside is None else inside.shares
    codes = grid.place_all(starts)
    last = np.append(starts[1:], grid.high + (column.type != "number"))
    covered = _covered(starts, last, condition, real=column.type == "number")
    mass = np.bincount(codes, shares, grid.size)
    even = np.bincount(codes, minlength=grid.size)
    part = np.where(mass[codes] > 0, shares / np.where(mass > 0, mass, 1)[codes], 1 / even[codes])
    found[: grid.size] = np.bincount(codes, part * covered, grid.size)
    return found


def _covered(starts: np.ndarray, last: np.ndarray, asked: Condition, *, real: bool) -> np.ndarray:
    """The part of [start, last) in the range, whole numbers or doubles."""
    low, high = asked.low, asked.high
    if not real:
        inside = np.minimum(last - 1, high) - np.maximum(starts, low) + 1
        return np.clip(inside / (last - starts), 0, 1)
    points = last == np.nextafter(starts, np.inf)
    wide = np.where(points, 1.0, last - starts)
    part = np.clip((np.minimum(last, high) - np.maximum(starts, low)) / wide, 0, 1)
    return np.where(points, (starts >= low) & (starts <= high), part)


def answers(release: Any, questions: list[list[Condition]]) -> np.ndarray:
    asked = [tuple(sorted(c.column for c in q)) for q in questions]
    distinct = sorted(set(asked))
    tables = dict(zip(distinct, release.model.marginals(distinct), strict=True))
    found = []
    for question, names in zip(questions, asked, strict=True):
        table, by_name = tables[names], {c.column: c for c in question}
        for name in reversed(names):
            table = table @ weights(release, by_name[name])
        found.append(float(table))
    return np.array(found)


@cache
def answered(table: str, seed: int) -> tuple[list[list[Condition]], np.ndarray]:
    """The questions of a seed, and their true answers."""
    columns = raw_table(table)
    asked = conjunctions(columns, list(NUMERIC[table]), np.random.default_rng(seed))
    met = ([c.holds(columns[c.column]) for c in question] for question in asked)
    return asked, np.array([np.logical_and.reduce(each).sum() for each in met])


def run_job(job: Record) -> Record:
    from admeasure.mechanisms import build
    from admeasure.privacy.cost import Zcdp, budget_of
    from admeasure.schema import Schema
    from admeasure.verbs.fit import fit

    table, kind = job["table"], job["bins"]
    columns, rng = raw_table(table), np.random.default_rng(job["seed"])
    rho = budget_of(job["epsilon"], DELTA)
    epsilon = job["epsilon"]
    if kind in ("privtree", "quantile"):
        epsilon = Zcdp(rho.rho * (1 - SHARE)).epsilon(DELTA)
    schema = Schema.loads(schema_of(table, kind, columns, float(rho.rho), rng))
    started = cpu_seconds()
    release = fit(
        as_given(table),
        schema,
        workload="all-2way",
        mechanism=build(job["mechanism"], {}),
        epsilon=epsilon,
        delta=DELTA,
        seed=job["seed"],
    )
    questions, truth = answered(table, job["seed"])
    error = np.abs(answers(release, questions) - truth) / len(columns[CATEGORIES[table][0]])
    sizes = np.array(list(map(len, questions)))
    return {
        "distance": float(error.mean()),
        "by_conditions": [float(error[sizes == k].mean()) for k in (1, 2, 3)],
        "bins": {c: release.schema.column(c).regular for c in NUMERIC[table]},
        "seconds": round(cpu_seconds() - started, 2),
        "kind": kind,
    }


def report(records: list[Record]) -> None:
    """A row for each table and epsilon: error in hundredths of the table, with standard errors."""
    grouped: dict[tuple[Any, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        grouped[r["table"], r["mechanism"], r["epsilon"]][r["kind"]].append(100 * r["distance"])
    print("NOT PRIVATE\n| table | mechanism | epsilon | " + " | ".join(KINDS) + " |")
    print("| --- | --- | ---: |" + " ---: |" * len(KINDS))
    for key, kinds in sorted(grouped.items()):
        cells = [_cell(kinds.get(kind, [])) for kind in KINDS]
        print("| " + " | ".join([*map(str, key), *cells]) + " |")


def _cell(errors: list[float]) -> str:
    if not errors:
        return ""
    spread = statistics.stdev(errors) / math.sqrt(len(errors)) if len(errors) > 1 else math.nan
    return f"{statistics.mean(errors):.3f} ± {spread:.3f} ({len(errors)})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Bins of numeric columns.")
    parser.add_argument("--tables", default=",".join(NUMERIC))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--epsilons", default="0.3,1,3")
    parser.add_argument("--mechanisms", default="mst")
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", action="store_true", help="print what was run so far")
    args = parser.parse_args()
    results = Results(RESULTS / "bins.jsonl")
    if not args.table:
        first, last = map(int, args.seeds.split(":"))
        asked = (args.epsilons, args.mechanisms, args.tables, args.kinds)
        jobs: list[Record] = [
            {"table": t, "bins": k, "epsilon": float(e), "mechanism": m, "seed": s}
            for s, e, m, t, k in product(range(first, last), *(a.split(",") for a in asked))
        ]
        for r in here(jobs, run_job, results=results, again=args.again):
            print(r["table"], r["kind"], r["epsilon"], r["seed"], r["distance"], flush=True)
    report(list(results.read().values()))


if __name__ == "__main__":
    main()
