"""Columns whose levels a run finds (`enum = "private"`): what may become a level, and the column
that has them.

Before its levels are known such a column is read as one that has none but `other` (and `missing`).
Where `strip` or `ignore_case` says that texts are the same, they are sought in one spelling, small
letters without spaces around them. A charged step finds texts; they are written into the column in
alphabetical order, so that nothing but which they are is said of them. Everything here is public,
or follows from what was paid for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from admeasure.schema.values import OTHER

if TYPE_CHECKING:
    from admeasure.schema.categorical import StringColumn

MOST_FOUND = 256
"""Levels that a column can come to have: all that is checked and planned before they are known."""

LONGEST_LEVEL = 128
"""Characters of a text that can be found. A longer one is `other`."""

_UNFIT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def may_be_level(text: str) -> bool:
    """Whether a text can be found: a rule on the text alone. `other` is what the rest is called.

    >>> may_be_level("asthma"), may_be_level("two\\nlines"), may_be_level("other")
    (True, False, False)
    """
    return len(text) <= LONGEST_LEVEL and text != OTHER and not _UNFIT.search(text)


def with_levels(column: StringColumn, levels: Iterable[str]) -> StringColumn:
    """The column with these levels, in an order that is public, and `other`. Of levels that are
    read as the same one is kept."""
    form = column.sought_form
    enum = tuple(sorted({t if form is None else form.standard(t) for t in levels}))
    return column.changed(enum=enum, other=True)
