"""What bounds are found: values that reports show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from admeasure.domain import Columns
from admeasure.notebooks import BLUE, bars, cell, row, table
from admeasure.queries import Query

SHOWN = 10
"""Of the bounds in a notebook: half of them the worst, half the best."""

MOST = 2.0
"""No two distributions are further apart in L1."""

IntervalKind = Literal["supported", "certified", "unsupported", "trivial"]
"""How well a count is known, best first."""


def share(error: float, rows: float) -> float:
    """An L1 distance in rows as one of shares; 2 says nothing."""
    return min(MOST, error / max(1.0, rows))


@dataclass(frozen=True)
class Bound:
    """`error` >= ||M_r(D) - M_r(model)||_1 >= `low`, in rows, at the asked confidence.

    `paper` is the bound as the paper prints it, for comparison; see docs/explanations/bounds.md for
    what it leaves out.
    """

    error: float
    kind: IntervalKind
    paper: float
    low: float = 0.0


class Bounds(dict[Columns, Bound]):
    """Bounds of marginals; in a notebook the worst and the best, in shares of the rows."""

    def __init__(self, found: Mapping[Columns, Bound], rows: float) -> None:
        super().__init__(found)
        self.rows = rows

    def html(self) -> str:
        shares = {columns: share(bound.error, self.rows) for columns, bound in self.items()}
        ranked = sorted(shares, key=lambda columns: -shares[columns])
        half = SHOWN // 2
        shown = ranked if len(ranked) <= SHOWN else [*ranked[:half], *ranked[-half:]]
        lines = [
            row(
                cell(", ".join(columns), "th"),
                cell(f"{shares[columns]:.3g}"),
                cell(self[columns].kind),
                bars((shares[columns] / MOST, BLUE)),
            )
            for columns in shown
        ]
        head = ("marginal", "L1 error at most, in shares", "kind", "0 to 2")
        return table(head, lines, all_rows=len(ranked))

    def _repr_html_(self) -> str:
        return f"<div>{self.html()}</div>"


@dataclass(frozen=True)
class MeanError:
    """The mean of a workload's errors, in rows: as released, and an interval for the true one."""

    value: float
    low: float
    high: float
    confidence: float

    def in_words(self, marginals: int, rows: float, most: float = MOST) -> str:
        """As a sentence, in shares of so many rows, with two digits of what it may be off by, and
        cut at `most`, which no error passes.

        >>> MeanError(118.0, 116.1, 119.9, 0.95).in_words(455, 1000.0)[:27]
        'Mean error 0.1180 ± 0.0019:'
        >>> MeanError(1180.0, 400.0, 5000.0, 0.95).in_words(1, 1000.0)[:23]
        'Mean error 1.20 ± 0.80:'
        """
        low, high = (min(most, end / max(1.0, rows)) for end in (self.low, self.high))
        half, middle = (high - low) / 2, (high + low) / 2
        digits = max(0, 1 - math.floor(math.log10(half))) if half > 0 else 4
        return (
            f"Mean error {middle:.{digits}f} ± {half:.{digits}f}: the L1 distance of the release's "
            f"shares from the true ones, over the {marginals:,} marginals of the workload "
            f"({100 * self.confidence:g}% confidence; from noisy errors, paid for)."
        )


@dataclass(frozen=True)
class Answer:
    """A question, the model's answer, and an interval for the true one (all in rows)."""

    name: str
    query: Query
    value: float
    low: float
    high: float
    confidence: float
    kind: IntervalKind
