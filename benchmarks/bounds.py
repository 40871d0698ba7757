"""What a certificate of accuracy costs and gives: bounds against true errors.

    python benchmarks/bounds.py --shares 0,0.05 --seeds 3        # ADULT, ALL-3WAY, epsilon 1
    python benchmarks/bounds.py --wide --shares 0.05             # a generated table of 100 columns

One line for each run. NOT PRIVATE: seeded noise, true errors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from common import data_folder, levels_of

STAMP = "NOT PRIVATE: seeded noise, errors against the true tables."


def adult() -> tuple[Any, Any, str]:
    from admeasure.schema import Schema

    schema = Schema.coded("adult", levels_of("adult_aim"))
    return data_folder() / "adult_aim.parquet", schema, "all-3way"


def wide(columns: int = 100, rows: int = 50_000) -> tuple[Any, Any, str]:
    """Columns of 2 to 8 levels that a hidden one decides in part; pairs are asked for."""
    import numpy as np

    from admeasure.schema import Schema

    rng = np.random.default_rng(0)
    levels = {f"x{i:03}": 2 + i % 7 for i in range(columns)}
    hidden = rng.integers(0, 5040, rows)
    table = {
        c: np.where(
            rng.random(rows) < 0.1 + 0.8 * rng.random(), hidden, rng.integers(0, 5040, rows)
        )
        % n
        for c, n in levels.items()
    }
    return table, Schema.coded("wide", levels), "all-2way"


def run(
    given: tuple[Any, Any, str], mechanism: str, epsilon: float, share: float, seed: int
) -> dict:
    import numpy as np

    from admeasure.mechanisms import build
    from admeasure.sources.open import open_source
    from admeasure.verbs.fit import fit

    data, schema, workload = given
    start = time.process_time()
    release = fit(
        data,
        schema,
        workload=workload,
        mechanism=build(mechanism, {}),
        epsilon=epsilon,
        delta=1e-9,
        seed=seed,
        certify=share,
    )
    fitted = time.process_time()
    found = release.bounds(confidence=0.95)
    bounded = time.process_time()
    source = open_source(data, schema)
    rows = int(source.counts([()])[0])
    errors, sets = {}, list(found)
    for at in range(0, len(sets), 50):
        batch = sets[at : at + 50]
        pairs = zip(batch, source.counts(batch), release.model.marginals(batch), strict=True)
        errors |= {r: float(np.abs(exact - p).sum()) for r, exact, p in pairs}
    mean = release.evidence.mean_error(0.95)
    return {
        "mechanism": mechanism,
        "epsilon": epsilon,
        "share": share,
        "seed": seed,
        "error": sum(errors.values()) / len(errors) / rows,
        "certified": mean and [mean.low / rows, mean.value / rows, mean.high / rows],
        "held": sum(b.low <= errors[r] <= b.error for r, b in found.items()) / len(found),
        "mean_bound": sum(min(2.0, b.error / rows) for b in found.values()) / len(found),
        "trivial": sum(b.kind == "trivial" for b in found.values()),
        "median_ratio": statistics.median(b.error / errors[r] for r, b in found.items()),
        "median_width": statistics.median((b.error - b.low) / rows for b in found.values()),
        "fit_seconds": round(fitted - start, 1),
        "bounds_seconds": round(bounded - fitted, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--mechanism", default="aim-plus")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shares", default="0,0.05")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    print(STAMP)
    table = wide() if given.wide else adult()
    for seed in range(given.seeds):
        for share in map(float, given.shares.split(",")):
            line = run(table, given.mechanism, given.epsilon, share, seed)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
