"""Exact counts of many marginals from columns of small integer codes.

Counting is one pass of `numpy.bincount` for each joint table over blocks of rows that stay in
cache. Two things make it cheaper than one pass for each marginal that is asked:

- Marginals that fit together in one small joint table are counted once, as that joint, and
  summed out of it afterwards. Sums of exact integers are exact, so nothing is lost.
- Joints are visited in lexicographic order, so that the combined code of a common prefix of
  columns is computed once for all joints that begin with it.

`numpy.bincount` gives up the interpreter lock while it counts, hence two threads.
`benchmarks/counting.py` compares all this with the plain loop and with GROUP BY.

Joints that would not fit memory together are counted in several passes over the rows, as few as
possible (`count_in_passes`).

Nothing here is private or released: the counts are those of the private table.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import ResourceError, UsageError
from admeasure.joints import homes
from admeasure.limits import COUNTED_CELLS
from admeasure.sparse import SparseCounts

BLOCK_ROWS = 65_536
"""Rows counted at a time: the index array (8 bytes a row) stays in the second-level cache."""

MAX_JOINT_CELLS = 65_536
"""The largest joint that is counted although nobody asked for it (512 KiB of counts)."""

MAX_CELLS = COUNTED_CELLS
"""The most cells that one call may ask for, all marginals together (2 GiB of counts)."""

PASS_CELLS = 2**26
"""The most cells of joints that one pass counts (512 MiB), or one joint where it is larger."""

WIDE_COLUMNS = 64
"""Of so many columns a block's codes are kept as wide as an index, which they are added to sooner
(32 MiB a thread)."""

_THREADS = min(2, os.cpu_count() or 1)
_PLAN_BATCH = 1024
_PLAN_ROWS = 100_000


def count_marginals(
    codes: Mapping[str, np.ndarray],
    domain: Domain,
    marginals: Sequence[Columns],
    *,
    joint_cells: int | None = None,
) -> list[np.ndarray]:
    """The exact int64 count array of each marginal, in the order asked; () is the row count.

    >>> codes = {"a": np.array([0, 1, 1], np.uint8), "b": np.array([2, 0, 2], np.uint8)}
    >>> pair, rows = count_marginals(codes, Domain(("a", "b"), (2, 3)), [("a", "b"), ()])
    >>> pair.tolist(), int(rows)
    ([[0, 0, 1], [1, 0, 1]], 3)
    """
    rows = len(next(iter(codes.values()))) if codes else 0
    return count_in_passes(
        lambda _columns, _part: [codes], domain, marginals, rows=rows, joint_cells=joint_cells
    )


Read = Callable[[Columns, tuple[int, int]], Iterable[Mapping[str, np.ndarray]]]
"""The rows in chunks that hold at least these columns, for the k-th of so many passes."""


def count_in_passes(
    read: Read,
    domain: Domain,
    marginals: Sequence[Columns],
    *,
    rows: int | None = None,
    pass_cells: int = PASS_CELLS,
    joint_cells: int | None = None,
) -> list[np.ndarray]:
    """Counts of rows that can be read again and again, in as few passes as `pass_cells` allows.
    Joints that nobody asked for have at most `joint_cells`, or what so many rows make worth it."""
    marginals = [tuple(columns) for columns in marginals]
    check(domain, marginals)
    if not marginals:
        return []
    limit = joint_limit(rows) if joint_cells is None else joint_cells
    passes = plan_passes(domain, marginals, joint_cells=limit, pass_cells=pass_cells)
    found: dict[Columns, np.ndarray] = {}
    for k, homes_of_pass in enumerate(passes):
        asked = list(homes_of_pass)
        # The number of rows is told by whichever pass comes first.
        asked += [()] if k == 0 and () in marginals else []
        counter = Counter(domain, asked, rows=rows, homes=homes_of_pass)
        for chunk in read(counter.columns, (k, len(passes))):
            counter.add(chunk)
        found |= dict(zip(asked, counter.result(), strict=True))
    return in_order(found, marginals)


def plan_passes(
    domain: Domain, marginals: Sequence[Columns], *, joint_cells: int, pass_cells: int
) -> list[dict[Columns, Columns]]:
    """Shares of the marginals, each with its joint, whose joints fit together: the largest first,
    each into the first share that has room, which needs at most 11/9 of the fewest possible."""
    homes = joint_of_each(domain, marginals, min(joint_cells, pass_cells))
    shares: list[dict[Columns, Columns]] = []
    room: list[int] = []
    place: dict[Columns, int] = {}
    for joint in sorted(set(homes.values()), key=lambda joint: (-domain.cells(joint), joint)):
        cells = domain.cells(joint)
        k = next((i for i, free in enumerate(room) if free >= cells), len(room))
        if k == len(room):
            room.append(pass_cells)
            shares.append({})
        room[k] -= cells
        place[joint] = k
    for columns, joint in homes.items():
        shares[place[joint]][columns] = joint
    return shares or [{}]


class Counter:
    """Counts marginals of a table that arrives in chunks: `add` each chunk, then `result`.

    `rows` is a hint of how many rows will come (many, if not given); it decides only how the work
    is shared. Memory: the joints (at most `max_cells`, or `MAX_JOINT_CELLS` for each group of
    marginals) and a few index arrays of `BLOCK_ROWS`.
    """

    def __init__(
        self,
        domain: Domain,
        marginals: Sequence[Columns],
        *,
        rows: int | None = None,
        max_cells: int = MAX_CELLS,
        homes: Mapping[Columns, Columns] | None = None,
    ) -> None:
        self._domain = domain
        self._marginals = [tuple(columns) for columns in marginals]
        check(domain, self._marginals, max_cells)
        planned = (
            joint_of_each(domain, self._marginals, joint_limit(rows)) if homes is None else homes
        )
        self._home = dict(planned)
        self._joints = sorted(set(self._home.values()))
        self._tables = {j: np.zeros(domain.cells(j), np.int64) for j in self._joints}
        self._rows = 0

    @property
    def columns(self) -> Columns:
        """The columns that a chunk must hold, in the domain's order."""
        needed = {column for joint in self._joints for column in joint}
        return tuple(column for column in self._domain.columns if column in needed)

    def add(self, codes: Mapping[str, np.ndarray]) -> None:
        """Count one chunk of rows: an array of codes for each of `columns`, of equal length.

        Any column will do where only the row count is asked for.
        """
        lengths = {len(column) for column in codes.values()}
        if len(lengths) != 1:
            if not lengths and not self._joints:
                return
            raise ValueError("A chunk needs at least one column, all of the same length.")
        rows = lengths.pop()
        needed = self.columns
        for start in range(0, rows, BLOCK_ROWS):
            block = {c: codes[c][start : start + BLOCK_ROWS] for c in needed}
            share_out(self._joints, rows, lambda share, block=block: self._count(block, share))
        self._rows += rows

    def _count(self, block: Mapping[str, np.ndarray], joints: Sequence[Columns]) -> None:
        prefixes = Prefixes(block, self._domain)
        for joint in joints:
            table = self._tables[joint]
            index = prefixes.index(joint)
            if table.size > 4 * len(index):
                # bincount would clear and add a whole table for each block.
                np.add.at(table, index, 1)
            else:
                table += np.bincount(index, minlength=table.size)

    def result(self) -> list[np.ndarray]:
        """The counts of all rows, one array for each marginal asked. Ends the counting."""
        return in_order(dict(self.each()), self._marginals)

    def each(self) -> Iterator[tuple[Columns, np.ndarray]]:
        """Each marginal asked and its counts, once, in any order. A joint is let go with the last
        of its marginals, so that who keeps no array holds little more than the joints."""
        if () in self._marginals:
            yield (), np.array(self._rows, np.int64)
        homes = sorted(self._home.items(), key=lambda item: item[1])
        for joint, group in itertools.groupby(homes, key=lambda item: item[1]):
            tables = {joint: self._tables.pop(joint).reshape(self._domain.shape(joint))}
            for columns, _ in group:
                table = _project(tables, self._domain, joint, columns)
                yield columns, np.ascontiguousarray(table)


CountsT = TypeVar("CountsT", np.ndarray, SparseCounts)


def in_order(counts: Mapping[Columns, CountsT], marginals: Sequence[Columns]) -> list[CountsT]:
    """The same cells asked for twice (or in another order) must not be one array."""
    given: set[frozenset[str]] = set()
    result = []
    for columns in marginals:
        again = frozenset(columns) in given
        given.add(frozenset(columns))
        result.append(counts[columns].copy() if again else counts[columns])
    return result


@dataclass
class Prefixes:
    """Combined codes of the joints of one block; the prefixes of the last joint are kept."""

    block: Mapping[str, np.ndarray]
    domain: Domain
    wide: dict[str, np.ndarray] = field(default_factory=dict)
    stack: list[tuple[str, np.ndarray]] = field(default_factory=list)

    def index(self, joint: Columns) -> np.ndarray:
        common = 0
        for (name, _), column in zip(self.stack, joint, strict=False):
            if name != column:
                break
            common += 1
        del self.stack[common:]
        for column in joint[common:]:
            if column not in self.wide and len(self.wide) < WIDE_COLUMNS:
                self.wide[column] = self.block[column].astype(np.intp)
            code = self.wide.get(column, self.block[column])
            if self.stack:
                combined = self.stack[-1][1] * self.domain[column]
                combined += code
            else:
                combined = code.astype(np.intp, copy=False)
            self.stack.append((column, combined))
        return self.stack[-1][1]


def _project(
    tables: dict[Columns, np.ndarray], domain: Domain, joint: Columns, columns: Columns
) -> np.ndarray:
    """Sum a marginal out of a joint, one axis at a time; `tables` keeps what is in between."""
    while len(joint) > len(columns):
        # The longest axis first: what remains to be summed is then smallest.
        drop = max((c for c in joint if c not in columns), key=domain.__getitem__)
        smaller = tuple(c for c in joint if c != drop)
        if smaller not in tables:
            tables[smaller] = tables[joint].sum(axis=joint.index(drop))
        joint = smaller
    return tables[joint].transpose([joint.index(c) for c in columns])


def check_columns(domain: Domain, marginals: Sequence[Columns]) -> None:
    """Refuse marginals that name an unknown column, or one twice."""
    for columns in marginals:
        for column in columns:
            if column not in domain:
                raise UsageError(
                    f"Marginal {columns!r} names column {column!r}, which is not in the schema. "
                    "Name another."
                )
        if len(set(columns)) != len(columns):
            raise UsageError(f"Marginal {columns!r} names a column twice; name each column once.")


def check(domain: Domain, marginals: Sequence[Columns], max_cells: int = MAX_CELLS) -> None:
    """Refuse what cannot be counted, or not held, before anything is counted."""
    check_columns(domain, marginals)
    cells = sum(domain.cells(columns) for columns in set(marginals))
    if cells > max_cells:
        raise ResourceError(
            f"The marginals asked for have {cells:,} cells together, more than the limit of "
            f"{max_cells:,}. Ask for fewer or smaller marginals, or give columns fewer bins."
        )


def joint_limit(rows: int | None) -> int:
    """A joint is worth its cells only where summing it out is cheaper than another pass."""
    if rows is None:
        return MAX_JOINT_CELLS
    return min(MAX_JOINT_CELLS, rows // 16) if rows >= _PLAN_ROWS else 0


def joint_of_each(
    domain: Domain, marginals: Sequence[Columns], limit: int
) -> dict[Columns, Columns]:
    """For each marginal the joint table, itself in canonical order, that it is summed from."""
    wanted = [columns for columns in marginals if columns]
    if not limit:
        return {columns: canonical(columns) for columns in wanted}
    return homes(domain, wanted, limit, _PLAN_BATCH)


def share_out(
    work: Sequence[Columns], rows: int, count: Callable[[Sequence[Columns]], None]
) -> None:
    """Do the work in a few threads: a run of neighbours for each, so that common prefixes stay
    together. Few rows are not worth the threads."""
    if rows < BLOCK_ROWS or len(work) < 2 or _THREADS < 2:
        count(work)
        return
    size = -(-len(work) // _THREADS)
    list(_pool().map(count, [work[i : i + size] for i in range(0, len(work), size)]))


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """One pool a process: a forked child must not inherit the threads of its parent."""
    pid = os.getpid()
    if pid not in _pools:
        _pools[pid] = ThreadPoolExecutor(_THREADS, thread_name_prefix="admeasure-count")
    return _pools[pid]
