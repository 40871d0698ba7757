"""A budget book that takes its rows as they are: no links, no numbers, no seal, no sums."""

from __future__ import annotations

import json

from admeasure.privacy import account, changes
from admeasure.privacy.cost import read_cost

CAUGHT_BY = "UNDERSTATED"


def apply(patch) -> None:
    def read(db, after=None):
        rows = db.execute("SELECT number, text, link FROM change ORDER BY number")
        rows = rows if after is None else ()
        try:
            return tuple(changes.Change(n, json.loads(text), link) for n, text, link in rows)
        except ValueError:
            raise changes.Damage from None

    def spend(self, what, dataset, instead_of):
        cost = read_cost(what)
        self.spent[dataset] += cost if instead_of is None else cost - instead_of

    patch(changes, "read", read)
    patch(account.Following, "_spend", spend)
