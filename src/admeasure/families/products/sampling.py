"""Rows drawn from product rows by randomised rounding.

Every product row is drawn equally often, up to one, and the codes of its draws follow its
distribution column by column: with c draws, level v comes c P(v) times up to one, by systematic
sampling with a random start, in random order, independently for each column. So expectations are
those of the model and one-way counts vary less than with independent draws.

A condition on one column keeps some of its levels: each product row keeps their shares, and is
drawn in proportion to their sum (`ProductRows.without`), which is exact. What is forbidden of
several columns together, by a structural zero or a condition, is drawn again until it is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.errors import ResourceError
from admeasure.families import Codes, ImpossibleError, forbidden
from admeasure.families.products.tensor import Layout
from admeasure.families.rounding import rounded_counts
from admeasure.schema import Zero

ATTEMPTS = 200
"""How often rows that are forbidden are drawn again."""

SPREAD_NUMBERS = 1 << 22
"""Numbers made at a time where the cells of several columns are summed in every product row."""


@dataclass(frozen=True, eq=False)
class ProductRows:
    """Product rows with a share of the rows each; none of these is in one of the `zeros`."""

    P: np.ndarray
    shares: np.ndarray
    layout: Layout
    total: float
    zeros: tuple[Zero, ...]

    def without(self, cells: Sequence[Zero]) -> ProductRows:
        """Exact in cells of one column, and of several columns if no two such sets overlap and no
        structural zero does; else `total` is as if they did not."""
        P, logs = self.P.copy(), np.zeros(len(self.shares))
        with np.errstate(divide="ignore"):
            for zero in (z for z in cells if len(z.columns) == 1):
                part = P[self.layout.span(zero.columns[0])]
                part[zero.mask] = 0.0
                mass = part.sum(axis=0)
                part /= np.where(mass > 0, mass, 1.0)
                logs += np.log(mass)
            several = tuple(z for z in cells if len(z.columns) > 1)
            left = logs + np.log(self.shares)
            expected = left + sum(np.log(_mass(P, self.layout, zero)) for zero in several)
        if not np.isfinite(expected).any():
            raise ImpossibleError
        kept = np.isfinite(left)
        share = np.exp(left[kept] - left[kept].max())
        total = self.total * float(np.exp(expected).sum())
        return ProductRows(
            np.ascontiguousarray(P[:, kept]),
            share / share.sum(),
            self.layout,
            total,
            (*self.zeros, *several),
        )

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        return rounded(self.P, self.layout, rows, self.zeros, rng, self.shares)


def _mass(P: np.ndarray, layout: Layout, zero: Zero) -> np.ndarray:
    """What each product row has outside the cells of a zero."""
    open_cells = np.argwhere(~zero.mask)
    found = np.zeros(P.shape[1])
    step = max(1, SPREAD_NUMBERS // P.shape[1])
    for start in range(0, len(open_cells), step):
        some = open_cells[start : start + step]
        product = np.ones((len(some), P.shape[1]))
        for axis, column in enumerate(zero.columns):
            product *= P[layout.span(column)][some[:, axis]]
        found += product.sum(axis=0)
    return found


def rounded(
    P: np.ndarray,
    layout: Layout,
    rows: int,
    zeros: Sequence[Zero],
    rng: np.random.Generator,
    shares: np.ndarray | None = None,
) -> Codes:
    """Codes of `rows` rows, none of them in a zero; without `shares` product rows are equal."""
    weights = np.ones(P.shape[1]) if shares is None else shares
    copies = rounded_counts(weights, rows, rng) if rows else np.zeros(P.shape[1], int)
    rows_of = np.repeat(np.arange(P.shape[1]), copies)
    codes = _draw(P, layout, rows_of, rng)
    for _ in range(ATTEMPTS):
        bad = np.flatnonzero(forbidden(codes, zeros))
        if not len(bad):
            break
        if shares is None:
            chosen = rng.integers(P.shape[1], size=len(bad))
        else:
            chosen = rng.choice(P.shape[1], size=len(bad), p=shares)
        again = _draw(P, layout, np.sort(chosen), rng)
        for column, values in again.items():
            codes[column][bad] = values
    else:
        raise ResourceError(
            "Rows outside the structural zeros, or rows that meet conditions on columns together, "
            f"are too rare in this model to be drawn: {ATTEMPTS} attempts did not do. Use aim or "
            "mst, whose models hold the zeros themselves and condition exactly."
        )
    order = rng.permutation(rows)
    return {column: values[order] for column, values in codes.items()}


def _draw(P: np.ndarray, layout: Layout, rows_of: np.ndarray, rng: np.random.Generator) -> Codes:
    """`rows_of` is sorted: one draw for each entry, from that product row."""
    copies = np.bincount(rows_of, minlength=P.shape[1])
    place = np.arange(len(rows_of)) - (np.cumsum(copies) - copies)[rows_of]
    codes: Codes = {}
    for column in layout.columns:
        ends = np.cumsum(P[layout.span(column)], axis=0)
        ends /= ends[-1]
        shuffled = np.lexsort((rng.random(len(rows_of)), rows_of))
        turn = np.empty(len(rows_of), np.int64)
        turn[shuffled] = place
        u = (turn + rng.random(P.shape[1])[rows_of]) / copies[rows_of]
        # One sorted list for all rows: row i's running sums lie in (i, i + 1].
        flat = (ends + np.arange(P.shape[1])).T.ravel()
        found = np.searchsorted(flat, u + rows_of, side="right")
        levels = P[layout.span(column)].shape[0]
        code = np.minimum(found - rows_of * levels, levels - 1)
        codes[column] = _possible(P[layout.span(column)], code, rows_of)
    return codes


def _possible(P: np.ndarray, code: np.ndarray, rows_of: np.ndarray) -> np.ndarray:
    """Rounding may end on a level of probability zero at a row's end: take its likeliest then."""
    wrong = P[code, rows_of] <= 0
    if wrong.any():
        code = np.where(wrong, P.argmax(axis=0)[rows_of], code)
    return code
