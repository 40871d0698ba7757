"""Exact counts of the cells that occur, for marginals with far more cells than rows.

The codes of a row are packed into words of 62 bits, and equal words are counted by sorting: first
within some rows, then by merging what was found before with what was found since. Runs are merged
when they are of like length, so a cell is moved a logarithmic number of times. Memory follows the
cells that occur, which are at most the rows. Marginals with few cells are counted densely
(`admeasure.sources.count`), which is much faster, and thinned out.

All that is held is held to a stated limit: marginals for which it does not suffice are put off to
another pass over the rows (`count_cells_in_passes`).

Nothing here is private or released: the counts are those of the private table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ResourceError
from admeasure.sources.count import (
    BLOCK_ROWS,
    Counter,
    Prefixes,
    Read,
    check_columns,
    in_order,
    joint_limit,
    plan_passes,
    share_out,
)
from admeasure.sparse import LARGEST_POSITION, SparseCounts

MAX_BYTES = 2**31
"""What a call may hold while it counts, results included, all marginals together."""

FRESH_BYTES = 2**26
"""Packed rows that wait to be sorted, all marginals together, or an eighth of a lower limit."""

_MERGING = 5
"""What merging takes at its peak, as a multiple of what the runs take (measured)."""
_DENSE_CELLS = 2**16
_MOST_DENSE_CELLS = 2**22

Words = tuple[np.ndarray, ...]


def count_cells(
    codes: Mapping[str, np.ndarray], domain: Domain, marginals: Sequence[Columns]
) -> list[SparseCounts]:
    """The cells that occur of each marginal, in the order asked.

    >>> codes = {"a": np.array([1, 0, 1], np.uint8), "b": np.array([2, 0, 2], np.uint8)}
    >>> (found,) = count_cells(codes, Domain(("a", "b"), (2, 3)), [("a", "b")])
    >>> found.codes.tolist(), found.counts.tolist()
    ([[0, 0], [1, 2]], [1, 2])
    """
    rows = len(next(iter(codes.values()))) if codes else 0
    return count_cells_in_passes(lambda _columns, _part: [codes], domain, marginals, rows=rows)


def count_cells_in_passes(
    read: Read,
    domain: Domain,
    marginals: Sequence[Columns],
    *,
    rows: int | None = None,
    max_bytes: int = MAX_BYTES,
    dense_cells: int | None = None,
    fresh_bytes: int = FRESH_BYTES,
) -> list[SparseCounts]:
    """The same of rows that can be read again and again: one pass, or several where what is held
    at a time, results included, would pass `max_bytes`. A `ResourceError` where the results alone,
    or one marginal beside them, would. The rest is as in `CellCounter`."""
    marginals = [tuple(columns) for columns in marginals]
    check_columns(domain, marginals)
    found: dict[Columns, SparseCounts] = {}
    passes = 0
    for k in itertools.count():
        waiting = [columns for columns in dict.fromkeys(marginals) if columns not in found]
        if not waiting:
            break
        held = sum(map(_nbytes, found.values()))
        counter = CellCounter(
            domain,
            waiting,
            rows=rows,
            max_bytes=max_bytes,
            held=held,
            dense_cells=dense_cells,
            fresh_bytes=fresh_bytes,
        )
        passes = passes or counter.passes
        for chunk in read(counter.columns, (k, passes)):
            counter.add(chunk)
        found |= counter.result()
    return in_order(found, marginals)


class CellCounter:
    """Counts the cells of a table that arrives in chunks: `add` each chunk, then `result`.

    `rows` is a hint of how many will come, `held` what the caller keeps of earlier passes. The
    rest of `max_bytes` limits what is kept here: half of it is for tables of counts, what these
    leave for cells that were found. Marginals that do not fit are put off, and lack in the result;
    there is always one that is not, or a `ResourceError`. Marginals of more than `dense_cells`, or
    of what so many rows make worth a table, are counted as the cells that are found, of which
    `fresh_bytes` wait to be sorted at most.
    """

    def __init__(
        self,
        domain: Domain,
        marginals: Sequence[Columns],
        *,
        rows: int | None = None,
        max_bytes: int = MAX_BYTES,
        held: int = 0,
        dense_cells: int | None = None,
        fresh_bytes: int = FRESH_BYTES,
    ) -> None:
        self._domain = domain
        asked = dict.fromkeys(tuple(columns) for columns in marginals)
        check_columns(domain, list(asked))
        self._max_bytes, self._room = max_bytes, max_bytes - held
        table_cells = max(self._room, 0) // 16
        most = min(_dense_limit(rows) if dense_cells is None else dense_cells, table_cells)
        small = [columns for columns in asked if columns and domain.cells(columns) <= most]
        limit = joint_limit(rows)
        shares = plan_passes(domain, small, joint_cells=limit, pass_cells=table_cells)
        self.passes = len(shares)
        """How many are needed for all that was asked, as far as is known now."""
        rest = [()] if () in asked else []
        self._dense = Counter(domain, [*shares[0], *rest], rows=rows, homes=shares[0])
        self._table_bytes = 8 * sum(map(domain.cells, set(shares[0].values())))
        large = sorted({columns for columns in asked if columns} - set(small))
        self._runs = {columns: CellRuns.of(domain, columns) for columns in large}
        words = sum(len(runs.groups) for runs in self._runs.values())
        self._fresh_rows = max(1, min(fresh_bytes, max_bytes // 8) // (8 * max(words, 1)))

    @property
    def columns(self) -> Columns:
        """The columns that a chunk must hold, in the domain's order."""
        needed = {*self._dense.columns, *(c for columns in self._runs for c in columns)}
        return tuple(column for column in self._domain.columns if column in needed)

    def add(self, codes: Mapping[str, np.ndarray]) -> None:
        """Count one chunk of rows: an array of codes for each of `columns`, of equal length."""
        self._dense.add(codes)
        if not self._runs:
            return
        rows = len(next(iter(codes.values())))
        for start in range(0, rows, BLOCK_ROWS):
            block = {c: codes[c][start : start + BLOCK_ROWS] for c in self.columns}
            share_out(list(self._runs), min(rows, BLOCK_ROWS), self._adder(block))
            self._put_off()

    def _adder(self, block: Mapping[str, np.ndarray]) -> Callable[[Sequence[Columns]], None]:
        def add(share: Sequence[Columns]) -> None:
            prefixes = Prefixes(block, self._domain)
            for columns in share:
                runs = self._runs[columns]
                runs.add(tuple(map(prefixes.index, runs.groups)), self._fresh_rows)

        return add

    def _put_off(self) -> None:
        """Where the cells that were found do not fit, let the marginals go that have most of them,
        until half of the room is free for what is found next, or one is left that fits."""
        sizes = {columns: _MERGING * runs.nbytes for columns, runs in self._runs.items()}
        total, room = sum(sizes.values()), self._room - self._table_bytes
        if total <= room:
            return
        if max(sizes.values()) > self._room:
            raise self._too_many()
        for columns in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if total <= room / 2 or (len(self._runs) == 1 and total <= room):
                break
            del self._runs[columns]
            total -= sizes[columns]

    def _too_many(self) -> ResourceError:
        return ResourceError(
            "The marginals asked for have more cells that occur than fit the limit of "
            f"{self._max_bytes / 2**20:,.0f} MB. Ask for fewer or smaller marginals, give "
            "columns fewer bins, or raise the memory limit."
        )

    def result(self) -> dict[Columns, SparseCounts]:
        """The counts of all rows, of the marginals that were not put off. Ends the counting."""
        found: dict[Columns, SparseCounts] = {}
        for one in self._each():
            found[one.columns] = one
            self._room -= _nbytes(one)
            if self._room < 0:
                raise self._too_many()
        return found

    def _each(self) -> Iterator[SparseCounts]:
        for columns, table in self._dense.each():
            yield _thinned(self._domain, columns, table)
        for columns in list(self._runs):
            yield unpacked(self._domain, columns, self._runs.pop(columns))


def _nbytes(one: SparseCounts) -> int:
    return one.codes.nbytes + one.counts.nbytes


@dataclass
class CellRun:
    """Distinct cells in lexicographic order of their words, and how often each occurs."""

    words: Words
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)


class CellRuns:
    """What was found of one marginal so far. A cell is a word for each of `groups` of its columns:
    its place among their combinations."""

    @classmethod
    def of(cls, domain: Domain, columns: Columns) -> CellRuns:
        return cls(_words(domain, columns) or [()])

    def __init__(self, groups: Sequence[Columns]) -> None:
        self.groups = groups
        self._runs: list[CellRun] = []
        self._fresh: list[Words] = []
        self._fresh_rows = 0

    @property
    def nbytes(self) -> int:
        return sum(len(run) for run in self._runs) * 8 * (len(self.groups) + 1)

    def add(self, words: Words, most_fresh: int) -> None:
        self._fresh.append(words)
        self._fresh_rows += len(words[0])
        if self._fresh_rows >= most_fresh:
            self._sort()

    def _sort(self) -> None:
        if self._fresh:
            self.push(_counted(_joined(self._fresh)))
            self._fresh, self._fresh_rows = [], 0

    def push(self, run: CellRun) -> None:
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)

    def whole(self) -> CellRun:
        self._sort()
        while len(self._runs) > 1:
            last = self._runs.pop()
            self._runs.append(_merged(self._runs.pop(), last))
        empty = CellRun(tuple(np.zeros(0, np.int64) for _ in self.groups), np.zeros(0, np.int64))
        return self._runs.pop() if self._runs else empty


def _joined(parts: Iterable[Words]) -> Words:
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _counted(words: Words) -> CellRun:
    if len(words) == 1:
        words[0].sort()
    else:
        order = np.lexsort(words[::-1])
        words = tuple(word[order] for word in words)
    starts = _starts(words)
    counts = np.diff(starts, append=len(words[0]))
    return CellRun(tuple(word[starts] for word in words), counts.astype(np.int64, copy=False))


def _merged(first: CellRun, second: CellRun) -> CellRun:
    words = _joined((first.words, second.words))
    counts = np.concatenate((first.counts, second.counts))
    # A stable sort finds that these are two sorted runs and merges them.
    order = np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words[::-1])
    words = tuple(word[order] for word in words)
    counts = counts[order]
    del order
    starts = _starts(words)
    if not len(starts):
        return CellRun(words, counts)
    return CellRun(tuple(word[starts] for word in words), np.add.reduceat(counts, starts))


def _starts(words: Words) -> np.ndarray:
    """Where a cell begins that is not the one before."""
    if not len(words[0]):
        return np.zeros(0, np.intp)
    begins = np.zeros(len(words[0]), bool)
    begins[0] = True
    for word in words:
        begins[1:] |= word[1:] != word[:-1]
    return np.flatnonzero(begins)


def _dense_limit(rows: int | None) -> int:
    """Cells up to which a table of counts is cheaper than sorting the rows."""
    expected = _MOST_DENSE_CELLS if rows is None else rows // 4
    return min(_MOST_DENSE_CELLS, max(_DENSE_CELLS, expected))


def _words(domain: Domain, columns: Columns) -> list[Columns]:
    """Columns that follow each other, as many to a word as its bits hold."""
    groups: list[list[str]] = []
    cells = 1
    for column in columns:
        if not groups or cells * domain[column] > LARGEST_POSITION:
            groups.append([])
            cells = 1
        groups[-1].append(column)
        cells *= domain[column]
    return [tuple(group) for group in groups]


def _code_type(domain: Domain, columns: Columns) -> type[np.unsignedinteger]:
    return np.uint8 if max(domain.shape(columns), default=1) <= 256 else np.uint16


def _thinned(domain: Domain, columns: Columns, table: np.ndarray) -> SparseCounts:
    flat = table.reshape(-1)
    (places,) = np.nonzero(flat)
    codes = np.empty((len(places), len(columns)), _code_type(domain, columns))
    for i, code in enumerate(np.unravel_index(places, table.shape) if columns else ()):
        codes[:, i] = code
    return SparseCounts(columns, codes, flat[places])


def unpacked(domain: Domain, columns: Columns, runs: CellRuns) -> SparseCounts:
    run = runs.whole()
    codes = np.empty((len(run), len(columns)), _code_type(domain, columns))
    place = len(columns)
    for group, word in reversed(list(zip(runs.groups, run.words, strict=True))):
        rest = word.copy()
        for column in reversed(group):
            place -= 1
            rest, codes[:, place] = np.divmod(rest, domain[column])
    return SparseCounts(columns, codes, run.counts)
