"""Texts are found by their exact numbers of units."""

from __future__ import annotations

from admeasure.privacy.curator import Curator

CAUGHT_BY = {"draw"}


def apply(patch) -> None:
    def find(curator, levels, cost):
        curator.ledger.charge(cost, str(levels))
        asked = {"event": "find", "column": levels.column, **cost.to_record(), "sigma": 1.0}
        asked |= {"l2_squared": 1, "threshold": 2}
        blocks = curator._source.texts(levels.column)
        held = [(t, n) for b in blocks for t, n in zip(b.texts, b.counts, strict=True)]
        return curator.journal.record(asked, {"found": [t for t, n in held if n >= 2]})["found"]

    patch(Curator, "find", find)
