"""Limits the rows of a unit in each half of the table, and not in both together."""

from __future__ import annotations

from admeasure.schema.units import row_order


def broken(ids, codes, most):
    units: dict = {}
    for i, unit in enumerate(ids):
        half = i < len(ids) // 2
        units.setdefault((unit, half), []).append((row_order(unit, codes[i]), i))
    return [i for rows in units.values() for _, i in sorted(rows)[:most]]
