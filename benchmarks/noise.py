"""How fast the exact noise is drawn, against OpenDP, and what its duration gives away.

    python benchmarks/noise.py            # about half a minute
    python benchmarks/noise.py --json     # the same numbers for machines

Reads no data. Every number is the best of several runs, on one core.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from admeasure.privacy.noise import ExactNoise, SeededNoise

SIGMAS = [0.01, 0.5, 1.0, 3.7, 50.0, 1e3, 1e6, 1e9, 2.0**40]
SIZES = [1, 10, 1_000, 100_000, 1_000_000]


def seconds(action: Callable[[], object], at_least: float = 0.2) -> float:
    """The shortest of as many runs as fit into `at_least` seconds, three at the least."""
    best, begun, runs = float("inf"), time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - begun < at_least:
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best


def throughput() -> dict[str, dict[str, float]]:
    """Draws a second, in millions, for one million draws (100,000 at the largest sigma)."""
    table = {}
    for sigma in SIGMAS:
        size = 1_000_000 if sigma < 1e10 else 100_000
        row = {}
        for name, noise in (("exact", ExactNoise()), ("seeded", SeededNoise(0))):
            row[f"gaussian {name}"] = size / seconds(
                lambda n=noise, s=sigma, k=size: n.discrete_gaussian(s, k)
            )
        row["laplace exact"] = size / seconds(
            lambda s=sigma, k=size: ExactNoise().discrete_laplace(s, k)
        )
        table[f"{sigma:g}"] = {key: value / 1e6 for key, value in row.items()}
    return table


def small_calls() -> dict[int, float]:
    """Microseconds for one call of a size, at sigma = 37.5."""
    noise = ExactNoise()
    return {size: 1e6 * seconds(lambda k=size: noise.discrete_gaussian(37.5, k)) for size in SIZES}


def choices() -> dict[str, float]:
    """Milliseconds for a selection among random scores, flat and peaked."""
    rng = np.random.default_rng(0)
    noise = ExactNoise()
    table = {}
    for candidates in (455, 1_000_000):
        scores = rng.integers(0, 10_000, candidates)
        for name, step in (("flat", Fraction(1, 10**6)), ("peaked", Fraction(1))):
            for k in (1, 100):
                table[f"top {k} of {candidates}, {name}"] = 1e3 * seconds(
                    lambda s=scores, t=step, k=k: noise.top(s, t, k)
                )
    return table


def opendp_gaussian() -> dict[str, float]:
    """Draws a second, in millions, of OpenDP's vector measurement, for 20,000 draws."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return {}
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=int)
    zeros = [0] * 20_000
    table = {}
    for sigma in (0.5, 50.0, 1e6):
        measure = dp.m.make_gaussian(*space, scale=sigma)
        table[f"{sigma:g}"] = len(zeros) / seconds(lambda m=measure: m(zeros)) / 1e6
    return table


def duration_by_outcome(sigma: float = 100.0, calls: int = 40_000) -> dict[str, float]:
    """Median microseconds of a call for one draw, by how large the draw came out.

    The difference between the rows is what an onlooker with a clock learns from one call.
    """
    noise = ExactNoise()
    took, drawn = np.empty(calls), np.empty(calls)
    for i in range(calls):
        start = time.perf_counter()
        value = noise.discrete_gaussian(sigma, 1)
        took[i] = time.perf_counter() - start
        drawn[i] = abs(value[0]) / sigma
    groups = {"|y| < σ/2": (0, 0.5), "σ/2 to σ": (0.5, 1), "σ to 2σ": (1, 2), "over 2σ": (2, 99)}
    table = {
        name: 1e6 * float(np.median(took[(low <= drawn) & (drawn < high)]))
        for name, (low, high) in groups.items()
    }
    table["correlation with |y|"] = float(
        np.corrcoef(np.argsort(np.argsort(took)), np.argsort(np.argsort(drawn)))[0, 1]
    )
    return table


def main() -> None:
    results = {
        "million draws a second, by sigma": throughput(),
        "microseconds a call, by size": small_calls(),
        "milliseconds a selection": choices(),
        "OpenDP: million draws a second, by sigma": opendp_gaussian(),
        "microseconds for one draw, by outcome": duration_by_outcome(),
    }
    if "--json" in sys.argv[1:]:
        print(json.dumps(results, ensure_ascii=False))
        return
    for title, table in results.items():
        print(title)
        for key, value in table.items():
            cells = value.items() if isinstance(value, dict) else [("", value)]
            print(f"  {key!s:32}", "  ".join(f"{name} {number:.4g}" for name, number in cells))


if __name__ == "__main__":
    main()
