"""Sizes from which one way of computing is better than another, as measured.

What is computed does not depend on them: the tests move them, so that small tables go every way.
"""

from __future__ import annotations

CACHE_CELLS = 1 << 16
"""A table of more cells is cut along its first axis."""

SLICE_CELLS = 1 << 16
"""What a product of branches holds at a time, where slices are to be had."""

FUSED_CELLS = 1 << 15
"""A joint product of fewer cells is made quickly either way."""

FUSED_COST = 0.5
"""What a cell of it costs at once, where a product of two tensors costs 2."""

DEAR = float(1 << 19)
"""Cells from which a closer look at a query's cost pays for itself."""

DEAR_DEEP = float(1 << 14)
"""The same for one with a part that must itself be cut, whose cost first sight only guesses."""

DEAR_CUT = float(1 << 23)
"""The cost of cuts from which branches are considered."""

IN_CACHE = 3.0
"""So many cells of the small tables of branches take the time of one of a large table."""

CONDITIONAL_CELLS = 1 << 25
"""Of conditional tables, while a call is answered (256 MB). A larger one is held by itself."""

PASS_CELLS = 1 << 26
"""What a pass that answers all pairs may hold (512 MB): where it is refused they take ten times as
long."""

LASTING_CELLS = 1 << 20
"""Of those that are kept until the next call, which mostly needs few of them; and the model of a
round is still held while that of the next round fills its own."""

KEPT_CELLS = 1 << 23
"""Of projections, and of the table of all pairs, that are kept for later answers."""

MANY_PAIRS = 64
"""From so many pairs on, a pass over the whole tree may be cheaper than cuts one by one."""

JUDGED_CELLS = 1 << 18
"""So many (query, cut) are judged at once; each takes about a hundred bytes of a cache."""

SMALL_CELLS = 1 << 12
"""Tables of so few cells are summed all at once by a sparse matrix, larger ones each by itself."""

TOGETHER_CELLS = 1 << 14
"""Tables of one shape are computed with together, up to so many cells."""
