"""Keeps those rows of a unit that are rarest in the whole table: one unit decides for others."""

from __future__ import annotations

from collections import Counter


def broken(ids, codes, most):
    often = Counter(codes)
    units: dict = {}
    for i, unit in enumerate(ids):
        units.setdefault(unit, []).append((often[codes[i]], codes[i], i))
    return [i for rows in units.values() for _, _, i in sorted(rows)[:most]]
