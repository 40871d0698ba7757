"""Best-mixture errors of the public tables, and whether noisy screenings rank as they do.

NOT PRIVATE: `mixtures` compares with the true tables, and screenings are seeded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from common import RESULTS, Record, cpu_seconds
from public_pairs import WORKLOADS, pair


def mixtures(tables: list[str]) -> Record:
    """The best-mixture error of every public table, kept in a file."""
    from admeasure.evaluation.mixture import best_mixture_error
    from admeasure.public import PublicTable
    from admeasure.schema import Schema
    from admeasure.sources.memory import MemorySource
    from admeasure.workload import parse_workload

    path = RESULTS / "best_mixture.json"
    stored: Record = json.loads(path.read_text()) if path.exists() else {}
    for name in tables:
        found = pair(name)
        schema = Schema.coded(name, found.levels)
        truth = MemorySource(found.private, schema)
        workload = parse_workload(WORKLOADS[name], schema.domain)
        for candidate, rows in found.public.items():
            if f"{name}/{candidate}" in stored:
                continue
            started = cpu_seconds()
            public = PublicTable.from_codes(rows, schema.domain, name=candidate)
            best = best_mixture_error(truth.counts, public, workload, gap=1e-6)
            stored[f"{name}/{candidate}"] = {
                "error": best.error,
                "gap": best.gap,
                "records": public.records,
                "cpu_seconds": round(cpu_seconds() - started, 1),
            }
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(stored, indent=1))
    return stored


def screenings(tables: list[str], seeds: int, epsilon: float = 0.1) -> Iterator[str]:
    """Noisy rankings against the true ones."""
    from admeasure.schema import Schema
    from admeasure.verbs.screen import screen

    true = mixtures(tables)
    for name in tables:
        found = pair(name)
        schema = Schema.coded(name, found.levels)
        for seed in range(seeds):
            started, cpu = time.perf_counter(), cpu_seconds()
            ranked = screen(
                found.private,
                found.public,
                schema,
                workload=WORKLOADS[name],
                epsilon=epsilon,
                delta=1e-9,
                seed=seed,
            )
            agreed, judged = _agreement([true[f"{name}/{c.name}"] for c in ranked.candidates])
            yield (
                f"{name:9} seed {seed} {time.perf_counter() - started:6.1f} s wall "
                f"{cpu_seconds() - cpu:6.1f} s cpu  "
                + "; ".join(
                    f"{c.name} {c.error:.4f} ± {c.noise:.4f} "
                    f"(true {true[f'{name}/{c.name}']['error']:.4f}) rank {c.rank}, {c.verdict}"
                    for c in ranked.candidates
                )
                + f"  alternative {ranked.alternative:.4f}"
                + f"  {agreed} of {judged} pairs with different true errors in their order"
            )


def _agreement(ranked: list[Record]) -> tuple[int, int]:
    """Pairs in the order of their true errors, among those whose certified intervals
    [error - gap, error] do not overlap: the others are ties as far as is known."""
    agreed = judged = 0
    for i, first in enumerate(ranked):
        for second in ranked[i + 1 :]:
            below = first["error"] < second["error"] - second["gap"]
            above = second["error"] < first["error"] - first["gap"]
            judged += below or above
            agreed += below
    return agreed, judged
