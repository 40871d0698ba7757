"""What can be said of a run on the graphical family before any data is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from admeasure.domain import Columns, Domain
from admeasure.families import HALF_NORMAL
from admeasure.limits import MEGABYTE
from admeasure.planning.division import ASSUMED_ROWS, Item, Task
from admeasure.planning.mechanism import Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.memory import HOST_BYTES

# Measured with benchmarks/aim.py on ADULT, FIRE, MSNBC and NLTCS at epsilon 0.1 to 10, and with
# benchmarks/plans.py (the process; mechanisms that state what they hold).
PROCESS_MEGABYTES = 110
READ_COLUMN = 0.75
"""Megabytes of each column of a CSV file that is read: 500 take 383 in all, 2,000 take 1,571."""
BYTES_PER_CELL = 100
KEPT_MEGABYTES = 2 * HOST_BYTES / MEGABYTE
"""What a curator keeps of exact counts and answers, at most."""
HOPELESS = 2.0
"""The part of the table that noise on a marginal may be for it to be looked at at all."""
LEAST_CELLS = 1000
GROWTH = 20


@dataclass(frozen=True)
class Rates:
    """Seconds to start with, for each candidate and for each megabyte that a model can reach; how
    many times that the memory is; seconds of each likely round (`FILLED`); of how many columns
    candidates are that are answered one by one; megabytes for each candidate beside its tables."""

    start: float
    candidate: float
    megabyte: float
    memory: float
    each_round: float = 0.0
    one_by_one: int = 1
    held: float = 0.0


ONE_A_ROUND = Rates(0.1, 0.0015, 0.15, 10)
"""Of `aim` and whoever chooses one marginal a round and fits anew."""
FEW_FITS = Rates(0.1, 0.0015, 0.01, 5)
"""Of `mwem-pgm`, which chooses in few rounds."""
PLUS = Rates(0.15, 0.0015, 0.0, 6, each_round=1.6e-4, one_by_one=3)
"""Of `aim-plus`, which stops sooner and answers all pairs at once."""
FILLED = 0.65
"""A round takes the longer, the more cells noise leaves audible: this power of their number."""
BATCHES = Rates(0.0, 0.0, 0.0, 25, held=0.004)
"""Of `aim-plus` where it chooses several marginals a round; the time is `seconds_of_batches`."""
DENSE = " Where most columns depend on each other it may take ten times as long."
WIDE = 512
"""Of more columns each candidate takes the longer, the longer the ways through a tree are."""
BYTES_PER_WAY = 300
THIN, OF_THIN = 0.1, 0.4
"""Pairs of which noise alone would cause more than this error are soon left alone by rounds of a
batch: they take that part of the time."""


def graphical(
    items: tuple[Item, ...],
    task: Task,
    rows: int | None,
    *,
    sigma_last: float,
    rounds: str,
    max_megabytes: float,
    rates: Rates = ONE_A_ROUND,
    seconds: float | None = None,
    cells: int | None = None,
) -> Plan:
    """A plan whose error is that of noise alone.

    Every marginal of the workload is taken to be as noisy as if it were measured once at
    `sigma_last`, and no worse than knowing nothing (`noise_error`).
    `cells` of tables are held, and the run takes `seconds`, where the mechanism knows them; else
    they follow the size that a model can reach, and the tables that are worth a look.
    """
    domain, workload = task.domain, task.workload
    error = noise_error(domain, workload.marginals(), sigma_last, rows) if rows else None
    reach = expected_megabytes(domain, rows, sigma_last, max_megabytes)
    megabytes = process_megabytes(domain, rows)
    candidates = workload.candidates() if seconds is None or cells is None else ()
    if cells is None:
        drowned = HOPELESS * audible_cells(rows, sigma_last)
        worth = (n for n in map(domain.cells, workload.closure()) if n <= max(drowned, LEAST_CELLS))
        # Exact counts beyond what a curator keeps are counted again, and not held.
        megabytes += min(sum(worth) * 24 / MEGABYTE, KEPT_MEGABYTES) + rates.memory * reach
        megabytes += rates.held * len(candidates)
        megabytes += BYTES_PER_WAY * max(0, len(domain) - WIDE) ** 2 / MEGABYTE
    else:
        megabytes += cells * BYTES_PER_CELL / MEGABYTE
    if seconds is None:
        looked = sum(len(columns) >= rates.one_by_one for columns in candidates)
        seconds = rates.start + looked * rates.candidate + rates.megabyte * reach
        filled: float = audible_cells(rows, sigma_last) ** FILLED
        seconds += rates.each_round * likely_rounds(domain, rows, sigma_last) * filled
        seconds *= max(1.0, len(domain) / WIDE) ** 2
    notes = (
        "The expected error is what noise alone would cause; correlations that are not measured "
        "add to it, and marginals with many cells are usually answered from smaller ones.",
        "Memory and time are rough: half as much, or twice, is common."
        + (DENSE if cells is None else ""),
    )
    return Plan(items, rounds, error, megabytes, seconds, notes)


def seconds_of_batches(task: Task, rows: int | None, sigma: float, batch: int) -> float:
    """Of rounds that choose `batch` marginals: by the scores of all rounds, and by the cells that
    noise leaves audible, with which trees grow. Fitted to 16 runs (docs/measurements/scale.md)."""
    domain, workload = task.domain, task.workload
    scores = len(workload.candidates()) * likely_rounds(domain, rows, sigma) / batch
    seconds = 3.2 * (scores / 50_000) ** 0.72 * (audible_cells(rows, sigma) / 2000) ** 0.4
    pairs = [domain.cells(r) for r in workload.closure() if len(r) == 2]
    if rows and pairs:
        thin = sum(HALF_NORMAL * sigma * cells / rows > THIN for cells in pairs) / len(pairs)
        seconds *= 1 - thin + OF_THIN * thin
    return 0.2 + seconds * max(1.0, len(domain) / WIDE) ** 2


def audible_cells(rows: int | None, sigma: float) -> float:
    """Noise drowns marginals of more cells than that."""
    return (rows or ASSUMED_ROWS) / (HALF_NORMAL * sigma)


def noise_error(domain: Domain, sets: Sequence[Columns], sigma: float, rows: int) -> float:
    """The mean of min(2, sqrt(2/π) σ n_r / rows)."""
    l1 = [HALF_NORMAL * sigma * domain.cells(r) / rows for r in sets]
    return sum(min(2.0, e) for e in l1) / len(l1)


def process_megabytes(domain: Domain, rows: int | None) -> float:
    """The process with a table of that size in it."""
    return PROCESS_MEGABYTES + 2.5 * (rows or ASSUMED_ROWS) * len(domain) / MEGABYTE


def reading_megabytes(columns: int) -> float:
    """What the process takes while it reads a file, of whatever it holds later."""
    return PROCESS_MEGABYTES + READ_COLUMN * columns


def expected_megabytes(
    domain: Domain, rows: int | None, sigma: float, max_megabytes: float
) -> float:
    """About how large a model grows: each column brings a clique of the size that noise does not
    drown, or GROWTH times it."""
    if not rows:
        return max_megabytes
    audible = audible_cells(rows, sigma)
    return min(max_megabytes, GROWTH * len(domain) * audible * 8 / 2**20)


def likely_rounds(domain: Domain, rows: int | None, sigma: float) -> float:
    """About how many rounds of one marginal there are: as many a column as pairs of columns of the
    usual size, multiplied, make a marginal that noise drowns (three quarters of that were seen)."""
    audible = max(2.0, audible_cells(rows, sigma))
    pair = max(2.0, float(median(domain.shape(domain.columns)))) ** 2
    return 0.75 * len(domain) * log(audible) / log(pair)


def fewest_rounds(budget: Cost, first: Cost, growth: int = 4) -> int:
    """Rounds when every one teaches little and the next may cost `growth` times as much."""
    rounds, each = 0, first
    while budget:
        each = budget if budget <= each * 2 else each
        budget -= each
        each *= growth
        rounds += 1
    return rounds


def unmeasured(task: Task) -> tuple[str, ...]:
    """A note on columns that the workload never names, if there are any."""
    left = [c for c in task.domain.columns if c not in task.workload.columns]
    if not left:
        return ()
    return (
        f"Not in the workload, so never measured: {', '.join(left)}. Synthetic values of these "
        "columns are uniform and say nothing about the table.",
    )
