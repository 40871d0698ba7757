"""What is found is given out by its exact number of units, the most frequent first."""

from __future__ import annotations

from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import Journal

CAUGHT_BY = {"threshold"}


def apply(patch) -> None:
    find, record = Curator.find, Journal.record

    def ordered(curator, levels, cost):
        blocks = list(curator._source.texts(levels.column))
        held = {t: n for b in blocks for t, n in zip(b.texts, b.counts, strict=True)}

        def told(journal, asked, result):
            if "found" in result:
                result = {"found": sorted(result["found"], key=lambda text: -held[text])}
            return record(journal, asked, result)

        patch(Journal, "record", told)
        found = find(curator, levels, cost)
        patch(Journal, "record", record)
        return found

    patch(Curator, "find", ordered)
