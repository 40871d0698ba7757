"""A budget book that takes its rows as they are: no links, no numbers, no seal, no sums."""

from __future__ import annotations

import json
from dataclasses import replace

from admeasure.privacy import account, changes

CAUGHT_BY = "UNDERSTATED"


def apply(patch) -> None:
    def read(db, after=None):
        rows = db.execute("SELECT number, text, link FROM change ORDER BY number")
        rows = rows if after is None else ()
        try:
            return tuple(changes.Change(n, json.loads(text), link) for n, text, link in rows)
        except ValueError:
            raise changes.Damage from None

    def charged(self, what, entry, instead_of):
        found = self.accounts[entry.dataset]
        return replace(found, spent=found.spent - instead_of + entry.cost)

    patch(changes, "read", read)
    patch(account.State, "_charged", charged)
