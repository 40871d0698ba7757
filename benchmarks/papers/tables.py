"""The tables of the papers and those that stand in for them, coded as integers, by short names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from random import Random
from typing import Any

import numpy as np

from common import data_folder, data_path, levels_of
from public_pairs import PAIRS, pair

Codes = dict[str, np.ndarray]

FILES = {
    "adult": "adult_aim",
    "msnbc": "msnbc",
    "fire": "fire_aim",
    "nltcs": "nltcs",
    "titanic": "titanic_aim",
    "salary": "salary",
    "adult-reduced": "adult_pmwpub_reduced",
    "adult-rap": "adult_rap",
    "loans-rap": "loans_rap",
}
TARGETS = {"adult": "income>50K", "titanic": "Survived"}
"""AIM's targets; of the other tables a column is drawn once and for all."""
SEVEN = ("sex", "race", "relationship", "marital-status", "occupation", "education-num", "age_10")
PLACES = (
    "City",
    "Zipcode of Incident",
    "Battalion",
    "Station Area",
    "Supervisor District",
    "Neighborhooods - Analysis Boundaries",
)
"""Columns of FIRE that say where something was; the pairs of them that `fire+zeros` rules on."""
ZERO_PAIRS = 9


@dataclass(frozen=True, eq=False)
class Table:
    """Level counts, the private rows and public tables by name."""

    name: str
    levels: dict[str, int]
    private: Codes
    public: Mapping[str, Codes] = field(default_factory=dict)
    zeros: tuple[tuple[tuple[str, str], np.ndarray], ...] = ()
    """Pairs of columns with the cells that cannot occur."""

    @cached_property
    def rows(self) -> int:
        return len(next(iter(self.private.values())))

    def schema(self, neighbours: str = "add-remove") -> Any:
        from admeasure.schema import Schema
        from admeasure.schema.zeros import ZeroEntry

        schema = Schema.coded(self.name, self.levels)
        privacy = schema.privacy.model_copy(update={"neighbours": neighbours})
        entries = []
        for (a, b), cells in self.zeros:
            for level in range(len(cells)):
                empty = np.flatnonzero(cells[level]).tolist()
                if empty:
                    entries.append(ZeroEntry(columns=(a, b), where={a: level, b: empty}))
        return schema.model_copy(update={"privacy": privacy, "zero": tuple(entries)})

    def source(self, schema: Any) -> Any:
        from admeasure.sources.memory import MemorySource

        return MemorySource(self.private, schema)

    def rule(self, workload: str) -> str:
        """The workload as the command line writes it; `target` and `skewed` are AIM's."""
        if workload == "target":
            target = TARGETS.get(self.name) or Random(0).choice(sorted(self.levels))
            return f"target:{target}:3way"
        return {"skewed": "skewed:256:3way:seed=0"}.get(workload, workload)

    def workload(self, text: str, domain: Any) -> Any:
        """The workload of a rule. `filtered:W:3way:seed=S` draws W marginals among those with at
        most as many cells as the table has rows (Aydore et al. 2021); `small:RofK:W:MOST:seed=S`
        thresholds with at most MOST targets each, for machines without an accelerator."""
        from admeasure.queries import Marginal
        from admeasure.workload import Workload, parse_workload
        from rap import thresholds

        kind, *parts = text.split(":")
        if kind == "filtered":
            k, seed = int(parts[1].removesuffix("way")), parts[2].removeprefix("seed=")
            names = sorted(domain.columns)
            small = [c for c in combinations(names, k) if domain.cells(c) <= self.rows]
            drawn = Random(int(seed)).sample(small, min(int(parts[0]), len(small)))
            return Workload(Marginal(c) for c in drawn)
        if kind == "small":
            (r, k), count, most = map(int, parts[0].split("of")), int(parts[1]), int(parts[2])
            return thresholds(domain, r, k, count, most, int(parts[3].removeprefix("seed=")))
        return parse_workload(self.rule(text), domain)


def is_there(name: str) -> bool:
    """Whether a table's file is there; SALARY is where somebody prepared it."""
    return (data_path() / f"{FILES[name]}.parquet").exists()


def table_of(name: str) -> Table:
    if name in FILES:
        return _stored(name, FILES[name])
    if name in PAIRS:
        found = pair(name)
        return Table(name, found.levels, found.private, found.public)
    if name == "adult-90":
        return _adult_90()
    if name == "fire+zeros":
        return _with_zeros(_stored("fire", FILES["fire"]))
    raise ValueError(f"There is no table {name!r}.")


def _stored(name: str, file: str) -> Table:
    levels = levels_of(file)
    return Table(name, levels, _codes(file, levels))


def _codes(file: str, levels: dict[str, int]) -> Codes:
    import duckdb

    rows = duckdb.sql(f"SELECT * FROM '{data_folder() / file}.parquet'").fetchnumpy()
    return {column: np.asarray(rows[column]) for column in levels}


def _adult_90() -> Table:
    """GEM's ADULT: 13 columns; nine tenths of the rows are private, the others public."""
    file = "adult_pmwpub"
    levels = {c: n for c, n in levels_of(file).items() if c not in ("age", "education")}
    rows = _codes(file, levels)
    order = np.random.default_rng(0).permutation(len(rows["sex"]))
    cut = len(order) // 10
    private = {c: v[order[cut:]] for c, v in rows.items()}
    public = {c: v[order[:cut]] for c, v in rows.items()}
    return Table(
        "adult-90", levels, private, {"10%": public, "7 columns": {c: public[c] for c in SEVEN}}
    )


def _with_zeros(table: Table) -> Table:
    """FIRE with cells that never occur declared impossible, in the nine pairs of places that have
    the most of them. The paper's own list is not printed."""
    found = []
    for a, b in combinations(PLACES, 2):
        counts = np.zeros((table.levels[a], table.levels[b]), dtype=np.int64)
        np.add.at(counts, (table.private[a], table.private[b]), 1)
        found.append(((a, b), counts == 0))
    found.sort(key=lambda entry: -int(entry[1].sum()))
    return Table(table.name, table.levels, table.private, zeros=tuple(found[:ZERO_PAIRS]))
