"""A column of many codes beside ordinary ones: what `levels_of` does to the error.

    python benchmarks/levels.py                     # all ways, one seed, a table of 100,000 rows
    python benchmarks/levels.py --ways levels_of --most 32,64,128 --seeds 0,1
    ADMEASURE_DATA=… python benchmarks/levels.py --table OCCP     # occupations of a real table

The generated table has 10,000 codes in 500 blocks of 20 chapters; counts are skewed on each level.
Five of the ten ordinary columns depend on the chapter, two on the block, one on the code, two on
nothing. The real one is acs_income_2018_ca_part: 519 occupations in the 25 groups that the PUMS
data dictionary names by its prefixes (MGR, BUS, …), blocks being hundreds of codes inside them
(`OCCP`); or 202 places of birth in the continents of its ranges, blocks being tens (`POBP`). Its
other columns are as they are, ages and hours of work in bins of ten. Ways:

- levels_of: the hierarchy is given, the run cuts it;
- chapters, blocks: the hierarchy is given, and its levels by hand (`enum`), for nothing;
- codes: `enum` has all codes;
- private: `enum = "private"`, what is not found is `other`.

Errors are L1 distances between shares of the table: of chapters, blocks and codes, alone and with
another column (mean over the ten). Inside levels rows lie as sampled rows do; rows of `other` as
evenly over the codes that were not found. NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import bisect
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import admeasure
from admeasure.planning import bought, groups
from admeasure.schema.hierarchy import MOST_CUT, parts_of_levels
from common import data_folder

CHAPTERS, BLOCKS, CODES, OTHERS = 20, 500, 10_000, 10
WAYS = ("levels_of", "chapters", "blocks", "codes", "private")
GENERATED = "generated"
REAL = "acs_income_2018_ca_part"
RANGES = {
    "OCCP": (
        *((10, "MGR"), (500, "BUS"), (800, "FIN"), (1005, "CMM"), (1305, "ENG"), (1600, "SCI")),
        *((2001, "CMS"), (2100, "LGL"), (2205, "EDU"), (2600, "ENT"), (3000, "MED")),
        *((3601, "HLS"), (3700, "PRT"), (4000, "EAT"), (4200, "CLN"), (4330, "PRS")),
        *((4700, "SAL"), (5000, "OFF"), (6005, "FFF"), (6200, "CON"), (6800, "EXT")),
        *((7000, "RPR"), (7700, "PRD"), (9005, "TRN"), (9800, "MIL")),
    ),
    "POBP": (
        *((1, "United States"), (60, "US islands"), (100, "Europe"), (200, "Asia")),
        *((300, "Americas"), (400, "Africa"), (500, "Oceania")),
    ),
}
"""The first code of each group of the data dictionary."""
TENS = {"OCCP": 100, "POBP": 10}
BINNED = {"AGEP": 10, "WKHP": 10}

Parts = tuple[list[str], list[str], list[str]]
"""Of each code itself, its block, its chapter."""


@dataclass(frozen=True)
class CodedTable:
    """A table: the numbers of codes, and the levels of the other columns."""

    parts: Parts
    columns: dict[str, np.ndarray]
    levels: dict[str, int]


def case(which: str, rows: int, seed: int) -> CodedTable:
    if which != GENERATED:
        return real(which)
    levels = {f"x{i}": 3 + i % 4 for i in range(OTHERS)}
    return CodedTable(names(), table(rows, seed), levels)


def real(column: str) -> CodedTable:
    import polars

    frame = polars.read_parquet(data_folder() / f"{REAL}.parquet")
    first, groups = zip(*RANGES[column], strict=True)
    codes = sorted(frame[column].unique().to_list())
    chapters = [groups[bisect.bisect_right(first, code) - 1] for code in codes]
    blocks = [
        f"{chapter} {code // TENS[column]}" for code, chapter in zip(codes, chapters, strict=True)
    ]
    number = {code: i for i, code in enumerate(codes)}
    columns = {"code": np.array([number[code] for code in frame[column].to_list()])}
    for name in frame.columns:
        if name != column:
            values = frame[name].to_numpy().astype(int) // BINNED.get(name, 1)
            columns[name] = np.unique(values, return_inverse=True)[1]
    levels = {name: int(v.max()) + 1 for name, v in columns.items() if name != "code"}
    return CodedTable((list(map(str, codes)), blocks, chapters), columns, levels)


def names() -> Parts:
    """Of the generated table."""
    blocks = np.sort(np.random.default_rng(7).integers(0, BLOCKS, CODES - BLOCKS))
    blocks = np.sort(np.append(blocks, np.arange(BLOCKS)))
    chapters = blocks * CHAPTERS // BLOCKS
    return (
        [f"c{i:05d}" for i in range(CODES)],
        [f"block {b:03d}" for b in blocks],
        [f"chapter {c:02d}" for c in chapters],
    )


def table(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Numbers of codes, and the levels of the other columns."""
    rng = np.random.default_rng([seed, 20])
    _, blocks, chapters = (np.array(part) for part in names())
    number_of = {part: i for i, part in enumerate(np.unique(np.append(blocks, chapters)))}
    block, chapter = (np.array([number_of[p] for p in part]) for part in (blocks, chapters))
    logs = rng.normal(0, 1.0, 2 * BLOCKS)[chapter] + rng.normal(0, 1.2, 2 * BLOCKS)[block]
    weights = np.exp(logs + rng.normal(0, 1.8, CODES))
    code = rng.choice(CODES, rows, p=weights / weights.sum())
    found: dict[str, np.ndarray] = {"code": code}
    for i in range(OTHERS):
        levels = 3 + i % 4
        of = chapter if i < 5 else block if i < 7 else np.arange(CODES) if i < 8 else 0 * chapter
        odds = rng.dirichlet(np.ones(levels), of.max() + 1)
        draws = rng.random(rows)[:, None]
        found[f"x{i}"] = (draws > np.cumsum(odds, axis=1)[of[code]][:, :-1]).sum(axis=1)
    return found


def schema(way: str, given: CodedTable) -> admeasure.Schema:
    codes, blocks, chapters = given.parts
    column: dict[str, Any] = {"name": "code", "type": "string"}
    if way in ("levels_of", "chapters", "blocks"):
        column["levels_of"] = dict(zip(codes, blocks, strict=True))
        column["levels_of"] |= dict(zip(blocks, chapters, strict=True))
        column["enum"] = {"chapters": sorted(set(chapters)), "blocks": sorted(set(blocks))}.get(
            way, "private"
        )
    else:
        column["enum"] = codes if way == "codes" else "private"
    others = [
        {"name": name, "type": "integer", "minimum": 0, "maximum": n - 1}
        for name, n in given.levels.items()
    ]
    return admeasure.Schema.model_validate(
        {"table": {"name": "codes"}, "privacy": {"unit": "person"}, "column": [column, *others]}
    )


def by_code(release: admeasure.Release, codes: list[str], other: str) -> np.ndarray:
    """Expected rows of every code with every level of another column."""
    column = release.schema.column("code")
    counts = np.asarray(release.marginal(["code", other]))
    if column.of_held is not None:
        inside = release.inside.get("code")
        parts = parts_of_levels(column.of_held, None if inside is None else inside.shares)
        found = counts[column.of_held] * parts[:, None]
        order = {name: i for i, name in enumerate(column.held or ())}
        return found[[order[name] for name in codes]]
    known = {name: i for i, name in enumerate(column.listed or ())}
    rest = [name for name in codes if name not in known]
    even = counts[len(known)] / max(1, len(rest)) if column.other else None
    return np.array([counts[known[n]] if n in known else even for n in codes])


def errors(release: admeasure.Release, given: CodedTable) -> dict[str, float]:
    rows, columns = len(given.columns["code"]), given.columns
    codes, blocks, chapters = (np.unique(p, return_inverse=True)[1] for p in given.parts)
    found: dict[str, list[float]] = {}
    for other in given.levels:
        said = by_code(release, given.parts[0], other)
        true = np.zeros(said.shape)
        np.add.at(true, (columns["code"], columns[other]), 1)
        for level, of in (("chapter", chapters), ("block", blocks), ("code", codes)):
            sums = np.zeros((of.max() + 1, said.shape[1]))
            np.add.at(sums, of, said - true)
            found.setdefault(f"{level} x", []).append(np.abs(sums).sum() / rows)
            found.setdefault(level, []).append(np.abs(sums.sum(axis=1)).sum() / rows)
    return {level: float(np.mean(each)) for level, each in sorted(found.items())}


def one(
    way: str, most: int, seed: int, which: str, rows: int, epsilon: float, mechanism: str
) -> str:
    if way == "levels_of":
        kinds = (bought.PRIVATE[0], groups.PrivateGroups(most=most), *bought.PRIVATE[2:])
        bought.PRIVATE = kinds
    given = case(which, rows, seed)
    frame = {**given.columns, "code": np.array(given.parts[0])[given.columns["code"]]}
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    release = admeasure.fit(
        frame,
        schema(way, given),
        workload="all-2way",
        epsilon=epsilon,
        delta=1e-9,
        mechanism=getattr(admeasure, mechanism.replace("-", "_"))(),
        seed=seed + 100,
    )
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    levels = release.schema.column("code").levels
    said = " ".join(f"{level} {e:.4f}" for level, e in errors(release, given).items())
    return (
        f"{way} {most if way == 'levels_of' else ''} seed {seed}: {levels} levels, {said}; "
        f"{seconds:.1f} CPU s, peak {peak / 1024:.0f} MB, {before / 1024:.0f} before the fit"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--most", default=str(MOST_CUT))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--table", default=GENERATED, choices=[GENERATED, *RANGES])
    parser.add_argument("--rows", type=int, default=100_000, help="of the generated table")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--mechanism", default="aim-plus")
    parser.add_argument("--here", action="store_true", help="in this process")
    given = parser.parse_args()
    cases = [
        (way, int(most), int(seed))
        for way in given.ways.split(",")
        for most in (given.most.split(",") if way == "levels_of" else ["0"])
        for seed in given.seeds.split(",")
    ]
    for way, most, seed in cases:
        if given.here:
            asked = given.table, given.rows, given.epsilon, given.mechanism
            print(one(way, most, seed, *asked), flush=True)
            continue
        asked = ["--ways", way, "--most", str(most), "--seeds", str(seed), "--here"]
        asked += ["--rows", str(given.rows), "--epsilon", str(given.epsilon)]
        asked += ["--mechanism", given.mechanism, "--table", given.table]
        subprocess.run([sys.executable, __file__, *asked], check=False)  # own peak of memory


if __name__ == "__main__":
    main()
