"""A column of 10,000 codes beside ten ordinary ones: what `levels_of` does to the error.

    python benchmarks/levels.py                     # all ways, one seed, a table of 100,000 rows
    python benchmarks/levels.py --ways levels_of --most 32,64,128 --seeds 0,1

The codes are in 500 blocks of 20 chapters; counts are skewed on each level. Five of the ordinary
columns depend on the chapter, two on the block, one on the code, two on nothing. Ways:

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
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

import admeasure
from admeasure.planning import bought, groups
from admeasure.schema.hierarchy import MOST_CUT, parts_of_levels

CHAPTERS, BLOCKS, CODES, OTHERS = 20, 500, 10_000, 10
WAYS = ("levels_of", "chapters", "blocks", "codes", "private")


def names() -> tuple[list[str], list[str], list[str]]:
    """Of each code itself, its block, its chapter."""
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


def schema(way: str) -> admeasure.Schema:
    codes, blocks, chapters = names()
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
        {"name": f"x{i}", "type": "integer", "minimum": 0, "maximum": 2 + i % 4}
        for i in range(OTHERS)
    ]
    return admeasure.Schema.model_validate(
        {"table": {"name": "codes"}, "privacy": {"unit": "person"}, "column": [column, *others]}
    )


def by_code(release: admeasure.Release, other: str) -> np.ndarray:
    """Expected rows of every code with every level of another column."""
    column = release.schema.column("code")
    counts = np.asarray(release.marginal(["code", other]))
    if column.of_held is not None:
        inside = release.inside.get("code")
        parts = parts_of_levels(column.of_held, None if inside is None else inside.shares)
        found = counts[column.of_held] * parts[:, None]
        order = {name: i for i, name in enumerate(column.held or ())}
        return found[[order[name] for name in names()[0]]]
    known = {name: i for i, name in enumerate(column.listed or ())}
    rest = [name for name in names()[0] if name not in known]
    even = counts[len(known)] / max(1, len(rest)) if column.other else None
    return np.array([counts[known[n]] if n in known else even for n in names()[0]])


def errors(release: admeasure.Release, columns: dict[str, np.ndarray]) -> dict[str, float]:
    rows = len(columns["code"])
    codes, blocks, chapters = (np.unique(p, return_inverse=True)[1] for p in names())
    found: dict[str, list[float]] = {}
    for i in range(OTHERS):
        said = by_code(release, f"x{i}")
        true = np.zeros(said.shape)
        np.add.at(true, (columns["code"], columns[f"x{i}"]), 1)
        for level, of in (("chapter", chapters), ("block", blocks), ("code", codes)):
            sums = np.zeros((of.max() + 1, said.shape[1]))
            np.add.at(sums, of, said - true)
            found.setdefault(f"{level} x", []).append(np.abs(sums).sum() / rows)
            found.setdefault(level, []).append(np.abs(sums.sum(axis=1)).sum() / rows)
    return {level: float(np.mean(each)) for level, each in sorted(found.items())}


def one(way: str, most: int, seed: int, rows: int, epsilon: float, mechanism: str) -> str:
    if way == "levels_of":
        kinds = (bought.PRIVATE[0], groups.PrivateGroups(most=most), *bought.PRIVATE[2:])
        bought.PRIVATE = kinds
    columns = table(rows, seed)
    frame = {**columns, "code": np.array(names()[0])[columns["code"]]}
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    release = admeasure.fit(
        frame,
        schema(way),
        workload="all-2way",
        epsilon=epsilon,
        delta=1e-9,
        mechanism=getattr(admeasure, mechanism.replace("-", "_"))(),
        seed=seed + 100,
    )
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    levels = release.schema.column("code").levels
    said = " ".join(f"{level} {e:.4f}" for level, e in errors(release, columns).items())
    return (
        f"{way} {most if way == 'levels_of' else ''} seed {seed}: {levels} levels, {said}; "
        f"{seconds:.1f} CPU s, peak {peak / 1024:.0f} MB, {before / 1024:.0f} before the fit"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--most", default=str(MOST_CUT))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--rows", type=int, default=100_000)
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
            print(one(way, most, seed, given.rows, given.epsilon, given.mechanism), flush=True)
            continue
        asked = ["--ways", way, "--most", str(most), "--seeds", str(seed), "--here"]
        asked += ["--rows", str(given.rows), "--epsilon", str(given.epsilon)]
        asked += ["--mechanism", given.mechanism]
        subprocess.run([sys.executable, __file__, *asked], check=False)  # own peak of memory


if __name__ == "__main__":
    main()
