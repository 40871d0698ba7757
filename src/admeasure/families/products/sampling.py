"""Rows drawn from product rows by randomised rounding.

Every product row is drawn equally often, up to one, and the codes of its draws follow its
distribution column by column: with c draws, level v comes c P(v) times up to one, by systematic
sampling with a random start, in random order, independently for each column. So expectations are
those of the model and one-way counts vary less than with independent draws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from admeasure.errors import ResourceError
from admeasure.families import Codes
from admeasure.families.products.tensor import Layout
from admeasure.families.rounding import rounded_counts
from admeasure.schema import Zero

ATTEMPTS = 200
"""How often rows that a structural zero forbids are drawn again."""


def rounded(
    P: np.ndarray, layout: Layout, rows: int, zeros: Sequence[Zero], rng: np.random.Generator
) -> Codes:
    """Codes of `rows` rows, none of them in a structural zero."""
    copies = rounded_counts(np.ones(P.shape[1]), rows, rng) if rows else np.zeros(P.shape[1], int)
    rows_of = np.repeat(np.arange(P.shape[1]), copies)
    codes = _draw(P, layout, rows_of, rng)
    for _ in range(ATTEMPTS):
        bad = _forbidden(codes, zeros)
        if not len(bad):
            break
        again = _draw(P, layout, np.sort(rng.integers(P.shape[1], size=len(bad))), rng)
        for column, values in again.items():
            codes[column][bad] = values
    else:
        raise ResourceError(
            "Rows outside the structural zeros are too rare in this model to be drawn. Use aim or "
            "mst, whose models hold the zeros themselves."
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


def _forbidden(codes: Codes, zeros: Sequence[Zero]) -> np.ndarray:
    bad = np.zeros(len(next(iter(codes.values()))), bool)
    for zero in zeros:
        bad |= zero.mask[tuple(codes[c] for c in zero.columns)]
    return np.flatnonzero(bad)
