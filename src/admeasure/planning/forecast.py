"""What can be said of a run on the graphical family before any data is touched."""

from __future__ import annotations

from admeasure.domain import Domain
from admeasure.families import HALF_NORMAL
from admeasure.planning.mechanism import Item, Plan
from admeasure.privacy.cost import Cost
from admeasure.workload import Workload

# Measured with benchmarks/aim.py on ADULT, FIRE, MSNBC and NLTCS at epsilon 0.1 to 10.
PROCESS_MEGABYTES = 160
MEMORY_PER_MODEL = 17
SECONDS_PER_MEGABYTE = 2.4
GROWTH = 20


def graphical(
    items: tuple[Item, ...],
    domain: Domain,
    workload: Workload,
    rows: int | None,
    *,
    sigma_last: float,
    rounds: str,
    max_megabytes: float,
) -> Plan:
    """A plan whose error is that of noise alone.

    Every marginal of the workload is taken to be as noisy as if it were measured once at
    `sigma_last`, and no worse than knowing nothing: the mean of min(2, sqrt(2/π) σ n_r / rows).
    """
    error = None
    if rows:
        l1 = [HALF_NORMAL * sigma_last * domain.cells(r) / rows for r in workload.marginals()]
        error = sum(min(2.0, e) for e in l1) / len(l1)
    closure = workload.closure()
    cells = sum(domain.cells(r) for r in closure)
    reach = expected_megabytes(domain, rows, sigma_last, max_megabytes)
    megabytes = PROCESS_MEGABYTES + cells * 24 / 2**20 + MEMORY_PER_MODEL * reach
    seconds = 1.0 + len(closure) * 0.005 + SECONDS_PER_MEGABYTE * reach
    notes = (
        "The expected error is what noise alone would cause; correlations that are not measured "
        "add to it, and marginals with many cells are usually answered from smaller ones.",
        "Memory and time are rough, and rather high than low: they follow the size that a model "
        "can reach at this budget.",
    )
    return Plan(items, rounds, error, megabytes, seconds, notes)


def expected_megabytes(
    domain: Domain, rows: int | None, sigma: float, max_megabytes: float
) -> float:
    """About how large a model grows: noise drowns marginals of more than rows / (sqrt(2/π) σ)
    cells, and each column brings a clique of that size or GROWTH times it."""
    if not rows:
        return max_megabytes
    audible = rows / (HALF_NORMAL * sigma)
    return min(max_megabytes, GROWTH * len(domain) * audible * 8 / 2**20)


def fewest_rounds(budget: Cost, first: Cost, growth: int = 4) -> int:
    """Rounds when every one teaches little and the next may cost `growth` times as much."""
    rounds, each = 0, first
    while budget:
        each = budget if budget <= each * 2 else each
        budget -= each
        each *= growth
        rounds += 1
    return rounds


def unmeasured(domain: Domain, workload: Workload) -> tuple[str, ...]:
    """A note on columns that the workload never names, if there are any."""
    left = [c for c in domain.columns if c not in workload.columns]
    if not left:
        return ()
    return (
        f"Not in the workload, so never measured: {', '.join(left)}. Synthetic values of these "
        "columns are uniform and say nothing about the table.",
    )
