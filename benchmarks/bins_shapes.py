"""One column at a time: how far its values are from the table's, by kind of bins.

    python benchmarks/bins_shapes.py

Three shapes of 50,000 rows, each with rho = 1e-4 for one column: hours with heaps, incomes with a
heavy tail and round sums, and a column of which 92% is zero. For each kind of bins the largest
distance of the distribution functions (Kolmogorov) and the area between them in standard
deviations of the column (Wasserstein), with standard errors over the seeds.

- private: the tree of the product, all of rho;
- privtree: half of rho for the tree, half for counts of its leaves, uniform inside;
- quantile: half of rho for 32 about equally full bins, half for their counts, uniform inside;
- equal: all of rho for counts of 32 bins of equal width, uniform inside.

NOT PRIVATE: numpy's noise, true errors.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np

from admeasure.planning.tree import estimate
from admeasure.schema.leaves import hierarchy, whole_starts
from bins import KINDS, fine_edges, privtree, quantiles

ROWS, RHO, SEEDS = 50_000, 1e-4, 20
Shape = tuple[np.ndarray, int, int]
Pieces = tuple[np.ndarray, np.ndarray]
"""Where pieces of a distribution begin, with the end of the last, and the share of each."""


def hours(rng: np.random.Generator) -> Shape:
    values = np.clip(np.rint(rng.normal(38, 13, ROWS)), 0, 99)
    which = rng.random(ROWS)
    values = np.where(which < 0.47, 40, np.where(which < 0.65, np.rint(values / 5) * 5, values))
    return values, 0, 99


def income(rng: np.random.Generator) -> Shape:
    values, which = np.exp(rng.normal(10.5, 0.9, ROWS)), rng.random(ROWS)
    by = np.where(which < 0.35, 5000, np.where(which < 0.7, 1000, 1))
    return np.clip(np.rint(values / by) * by, 0, 1_000_000), 0, 1_000_000


def mostly_zero(rng: np.random.Generator) -> Shape:
    values = np.rint(np.exp(rng.normal(8.5, 1, ROWS)))
    return np.where(rng.random(ROWS) < 0.92, 0, np.clip(values, 0, 100_000)), 0, 100_000


def private(values: np.ndarray, low: int, high: int, rng: np.random.Generator) -> Pieces:
    starts = np.array(whole_starts(low, high, log=False))
    counts = np.histogram(values, np.append(starts, np.inf))[0]
    levels = hierarchy(starts, days=False)
    sigma = math.sqrt(len(levels) / (2 * RHO))
    noisy = [np.add.reduceat(counts, f) + rng.normal(0, sigma, len(f)) for f in levels]
    return np.append(starts, high + 1), estimate(levels, noisy, sigma).leaves


def other(kind: str, values: np.ndarray, low: int, high: int, rng: np.random.Generator) -> Pieces:
    edges = fine_edges("integer", low, high)
    counts = np.histogram(values, np.append(edges[:-1], np.inf))[0]
    if kind == "equal":
        cells = min(32, len(counts))
        first = (np.arange(cells) * len(counts)) // cells
        return _measured(edges, counts, first, RHO, rng)
    found = privtree if kind == "privtree" else quantiles
    return _measured(edges, counts, np.array(found(counts, RHO / 2, rng)), RHO / 2, rng)


def _measured(
    edges: np.ndarray, counts: np.ndarray, first: np.ndarray, rho: float, rng: np.random.Generator
) -> Pieces:
    noise = rng.normal(0, math.sqrt(1 / (2 * rho)), len(first))
    held = np.maximum(np.add.reduceat(counts, first) + noise, 0)
    return np.append(edges[first], edges[-1]), held


def distances(values: np.ndarray, pieces: Pieces) -> tuple[float, float]:
    """Kolmogorov and Wasserstein, of whole numbers that are uniform inside pieces."""
    starts, shares = pieces
    below = np.append(0, np.cumsum(shares / shares.sum()))
    grid = np.arange(int(starts[0]), int(starts[-1]) + 1)
    found = np.interp(grid, starts, below)
    true = np.searchsorted(np.sort(values), grid, side="left") / len(values)
    gaps = np.abs(true - found)
    return float(gaps.max()), float(gaps[:-1].sum() / values.std())


def main() -> None:
    shapes: dict[str, Callable[[np.random.Generator], Shape]] = {
        "hours, heaped": hours,
        "income": income,
        "92% zero": mostly_zero,
    }
    print("NOT PRIVATE: seeded noise, true errors")
    print("| shape | " + " | ".join(KINDS) + " |")
    print("| --- |" + " ---: |" * len(KINDS))
    for name, shape in shapes.items():
        cells = []
        for kind in KINDS:
            found = []
            for seed in range(SEEDS):
                rng = np.random.default_rng(seed)
                values, low, high = shape(rng)
                made = private if kind == "private" else lambda *a, k=kind: other(k, *a)
                found.append(distances(values, made(values, low, high, rng)))
            ks, area = zip(*found, strict=True)
            cells.append(f"{_mean(ks)} / {_mean(area)}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def _mean(numbers: tuple[float, ...]) -> str:
    spread = statistics.stdev(numbers) / math.sqrt(len(numbers))
    return f"{statistics.mean(numbers):.3f} ± {spread:.3f}"


if __name__ == "__main__":
    main()
