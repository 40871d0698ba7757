"""A text is found as soon as two units hold it, with noise: one unit's text often is."""

from __future__ import annotations

from admeasure.privacy.found_levels import FoundLevels

CAUGHT_BY = {"cost"}


def apply(patch) -> None:
    patch(FoundLevels, "threshold", lambda levels, unit, cost: 2)
