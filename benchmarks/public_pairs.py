"""Pairs of a private and several public tables, coded alike, for the benchmarks with public data.

Ages and hours in tens, incomes in nine bands, as the figures of the data's own page have it. For
ACS income "coarse": occupations cut to their thousands, places of birth to own state, other state,
US territory, abroad. Sampling weights and columns that repeat another one are left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from common import data_folder

Codes = dict[str, np.ndarray]

INCOME_EDGES = [1, 10_000, 20_000, 35_000, 50_000, 75_000, 100_000, 150_000]
FIPS = {"PA": 42, "NJ": 34, "OH": 39, "NY": 36, "HI": 15, "PR": 72}
PAIRS = {
    "ma2019": ("nist_ma2019", ("nist_ma2018", "nist_national2018")),
    "pa18": ("PA", ("OH", "NY", "HI", "PR")),
    "nj18": ("NJ", ("OH", "NY", "HI", "PR")),
    "pa18small": ("PA", ("OH", "NY", "HI")),
    "ct2021": ("acs_ct_2021", ("acs_ct_2019",)),
}
WORKLOADS = {
    "ma2019": "random:256:3way:seed=0",
    "pa18": "all-3way",
    "nj18": "all-3way",
    "pa18small": "all-3way",
    "ct2021": "random:512:3way",
}
SMALL_WITHOUT = {"RELP", "SCHL"}
"""What "pa18small" lacks: 1,152,000 cells are left, few enough for methods that list them all."""
LEFT_OUT = {"PWGTP", "WGTP", "INDP", "PUMA", "DENSITY", "PWeight"}
"""Weights; INDP_CAT stands for INDP; PUMA and DENSITY name places that pairs do not share."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Level counts, the private rows and each candidate's public rows, as codes."""

    levels: dict[str, int]
    private: Codes
    public: dict[str, Codes]


def pair(name: str) -> Pair:
    private, candidates = PAIRS[name]
    read = _income if name.startswith(("pa18", "nj18")) else survey
    levels, rows = read(private)
    found = Pair(levels, rows, {c: read(c)[1] for c in candidates})
    return _small(found) if name == "pa18small" else found


def _small(whole: Pair) -> Pair:
    kept = [c for c in whole.levels if c not in SMALL_WITHOUT]

    def cut(rows: Codes) -> Codes:
        return {c: rows[c] for c in kept}

    levels = {c: whole.levels[c] for c in kept}
    return Pair(levels, cut(whole.private), {n: cut(rows) for n, rows in whole.public.items()})


def _rows(table: str, where: str = "true") -> dict[str, Any]:
    path = data_folder() / f"{table}.parquet"
    return duckdb.execute(f"SELECT * FROM '{path}' WHERE {where}").fetchnumpy()


def _income(state: str) -> tuple[dict[str, int], Codes]:
    table = "acs_income_2018_by_state"
    rows = {c: np.ma.getdata(v) for c, v in _rows(table, f"ST = '{state}'").items() if c != "ST"}
    born = rows["POBP"].astype(int)
    kinds = [born == FIPS[state], born <= 56, born < 100]
    coded = {
        "AGEP": (np.clip(rows["AGEP"].astype(int) // 10, 1, 9) - 1, 9),
        "OCCP": (rows["OCCP"].astype(int) // 1000, 10),
        "POBP": (np.select(kinds, [0, 1, 2], 3), 4),
        "WKHP": (rows["WKHP"].astype(int) // 10, 10),
        "RELP": (rows["RELP"].astype(int), 18),
        "PINCP": (rows["PINCP"].astype(int), 2),
    }
    for column, levels in {"COW": 8, "SCHL": 24, "MAR": 2, "SEX": 2, "RAC1P": 5}.items():
        coded[column] = (rows[column].astype(int) - 1, levels)
    return {c: n for c, (_, n) in coded.items()}, {
        c: v.astype(np.int64) for c, (v, _) in coded.items()
    }


def survey(table: str) -> tuple[dict[str, int], Codes]:
    stored = json.loads((data_folder() / f"{table}.schema.json").read_text())
    rows = _rows(table)
    levels, codes = {}, {}
    for column in stored["columns"]:
        name = column["name"]
        if name in LEFT_OUT:
            continue
        values = rows[name]
        if column["kind"] == "numeric":
            edges = INCOME_EDGES if "inc" in name.lower() else range(10, 100, 10)
            edges = range(50, 501, 50) if name == "POVPIP" else edges
            code = np.searchsorted(list(edges), np.ma.getdata(values).astype(float), side="right")
            missing = np.ma.getmaskarray(values)
            levels[name] = len(list(edges)) + 1 + bool(column.get("nullable"))
            codes[name] = np.where(missing, levels[name] - 1, code).astype(np.int64)
        else:
            place = {str(c): i for i, c in enumerate(column["categories"])}
            codes[name] = np.array([place[str(v)] for v in values.tolist()], dtype=np.int64)
            levels[name] = len(place)
    return levels, codes
