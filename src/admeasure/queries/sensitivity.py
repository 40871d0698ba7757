"""How far one person can move a query's answer: exact integers, one formula for every query.

Every query of the package counts rows: a row raises some cells of the answer by one each and
leaves the others alone. Write A(x) for the set of cells that a row x raises, and

    c (`touched`)   = the most cells that one row raises, max |A(x)|,
    d (`exchanged`) = the most cells in which two rows differ, max |A(x) Δ A(y)|,

and m for the rows that one person may have. Let v be the change of the answer.

Add or remove a person: v = ± Σ 1[A(x_i)] over at most m rows. Each term has L1 norm at most c, L2
norm at most √c and largest entry 1, so by the triangle inequality

    ‖v‖₁ ≤ m c,   ‖v‖₂² ≤ m² c,   ‖v‖∞ ≤ m,

with equality where all m rows are alike and raise c cells.

Replace a person: v = Σ 1[A(x_i)] - Σ 1[A(y_j)] over p old and q new rows. With m = 1 the number
of rows is public, p = q = 1, and ‖v‖₁ = ‖v‖₂² = |A(x) Δ A(y)| ≤ d. With m > 1 the two people may
have different numbers of rows (none included). Pair off min(p, q) rows and leave |p - q| single:

    ‖v‖₁ ≤ min(p, q) d + |p - q| c ≤ m max(c, d),
    ‖v‖₂ ≤ min(p, q) √d + |p - q| √c ≤ m √max(c, d).

Both are attained: by m like rows against m like rows that differ from them in d cells, or by m
like rows against none. No cell gains more than q ≤ m or loses more than p ≤ m, so ‖v‖∞ ≤ m.

A query that no replacement can move (every column has one level) is still charged as if one cell
could change: a sensitivity of 0 would leave the scale of its noise undefined.
"""

from __future__ import annotations

from dataclasses import dataclass

from admeasure.unit import Neighbours, Unit


@dataclass(frozen=True)
class Sensitivity:
    """Bounds on the change of an answer between neighbours: ‖v‖₁, ‖v‖₂² and ‖v‖∞."""

    l1: int
    l2_squared: int
    linf: int


def of_counts(unit: Unit, *, touched: int, exchanged: int) -> Sensitivity:
    """The sensitivity of a query whose rows raise at most `touched` cells by one each, and of
    which any two rows differ in at most `exchanged` cells. The argument is above."""
    m = unit.max_rows
    if unit.neighbours is Neighbours.ADD_REMOVE:
        cells = touched
    else:
        cells = max(exchanged, 1) if m == 1 else max(exchanged, touched)
    return Sensitivity(l1=m * cells, l2_squared=m * m * cells, linf=m)


def of_one_count(unit: Unit) -> Sensitivity:
    """A single counting query: a row counts or does not, so it moves by at most m under both
    relations (a replaced person takes m rows away or brings m, never both at once)."""
    return of_counts(unit, touched=1, exchanged=1)
