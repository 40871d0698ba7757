"""Takes units for one another whose names are near, as a column does that is rounded to floats."""

from __future__ import annotations

from admeasure.schema.units import row_order


def broken(ids, codes, most):
    units: dict = {}
    for i, unit in enumerate(ids):
        merged = unit[:-1]
        units.setdefault(merged, []).append((row_order(unit, codes[i]), i))
    return [i for rows in units.values() for _, i in sorted(rows)[:most]]
