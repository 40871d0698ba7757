"""How much of the private table's counts is kept and read at a time: limits, and no counts."""

from __future__ import annotations

from dataclasses import dataclass

HOST_BYTES = 1 << 30
"""What is kept of exact counts, and again of answers to choose by, where nobody says less."""

DEVICE_BYTES = 1 << 33
"""What is kept of their copies on an accelerator."""


@dataclass(frozen=True)
class Memory:
    """How exact counts are read and kept; the sizes are where one way gets better than another.

    `keep_bytes`: kept between calls of exact counts, and as much again of answers to choose by.
    `batch_cells`: counts read at a time where they are not kept (of a table in memory an eighth of
    what may be kept at most), or one marginal where it is larger. `small_cells`: marginals of at
    most so many cells are read whole while answers are streamed, larger ones as the cells that
    occur, `sparse_cells` of them together. `dense_cells`: thresholds of at most so many targets are
    answered whole (128 MB while they are made). `threads` read a table in memory.
    """

    keep_bytes: int = HOST_BYTES
    batch_cells: int = 1 << 24
    small_cells: int = 1 << 16
    sparse_cells: int = 1 << 24
    dense_cells: int = 1 << 24
    threads: int = 8


USUAL = Memory()
