"""What runs in Spark's executors: rows to codes, codes to counts, counts to sums.

A task reads Arrow batches of the needed columns, encodes them by the schema's own encoder and
counts all marginals in one pass (`ScanTally`); what leaves it are counts and the broken rules. Or
codes stay in the executor (`Keep`) and are counted from there. The counts of all tasks meet in one
reduction (`add_up`). Everything here is a function of its input alone, so that a task that
Spark runs twice, or again after a machine was lost, changes nothing.

Counts are exact and private. A failure says its kind alone: its text could quote the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from admeasure.domain import Columns, Domain
from admeasure.joints import batches as together
from admeasure.schema.column import Column
from admeasure.schema.encode import settle
from admeasure.schema.problems import Refusal, resolve
from admeasure.sources.cells import CellRun, CellRuns, unpacked
from admeasure.sources.count import BLOCK_ROWS, Counter, Prefixes
from admeasure.sources.spark.codes import pack as pack_codes
from admeasure.sources.spark.codes import unpack as unpack_codes
from admeasure.sources.spark.values import NotText, ShippedColumns
from admeasure.sparse import SparseCounts

CHUNK = 32_768
"""Cells of counts that travel together: the key of the reduction is the chunk's number, or a
negative one where they are cells that occur."""

COUNT_FIELDS = "part int, cells binary, counts binary"
KEPT_FIELDS = "head binary, codes binary"
"""Records of `codes`; the first one of each block has what was seen of the block."""

_COUNTS = pa.schema([("part", pa.int32()), ("cells", pa.binary()), ("counts", pa.binary())])
_OUTPUT_BYTES = 4 * 2**20
# One row short of the size from which a `Counter` takes a second thread: a task has one core.
_BLOCK = BLOCK_ROWS - 1
_FRESH_ROWS = 2 * BLOCK_ROWS
_HEAD = 4
_FLAGS = ("broken", "lost", "inexact")


@contextmanager
def _its_kind_alone() -> Iterator[None]:
    """What a failure may say."""
    try:
        yield
    except Exception as error:
        raise RuntimeError(f"admeasure: a task failed with {type(error).__name__}") from None


@dataclass(frozen=True)
class Seen:
    """What a scan saw besides counts. `marks[i]` are the refusals in the i-th column read."""

    rows: int
    is_broken: bool
    has_lost_units: bool
    has_inexact_units: bool
    marks: tuple[tuple[Refusal, ...], ...]

    @classmethod
    def unpack(cls, head: np.ndarray) -> Seen:
        per_column = head[_HEAD:].reshape(-1, len(Refusal)) > 0
        found = tuple(tuple(r for r in Refusal if row[-r - 1]) for row in per_column)
        broken, lost, inexact = (bool(flag) for flag in head[1:_HEAD])
        return cls(int(head[0]), broken, lost, inexact, found)


@dataclass(frozen=True)
class ScanTally:
    """Counting of one scan. Batches hold the columns as `layout` says, or as codes c0, c1, … where
    `is_coded`, or what `Keep` made of them where `is_kept`. `rows` is a hint for the plan of the
    counter."""

    layout: ShippedColumns
    dense: tuple[Columns, ...]
    sparse: tuple[Columns, ...] = ()
    rows: int | None = None
    is_coded: bool = False
    is_kept: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.layout.columns

    @property
    def domain(self) -> Domain:
        return Domain.of({c.name: c.levels for c in self.columns})

    @property
    def head(self) -> int:
        """Numbers before the counts: rows, flags, and a flag for each refusal of each column."""
        return _head_of(self.columns)

    @property
    def cells(self) -> int:
        return self.head + sum(self.domain.cells(m) for m in self.dense)

    @property
    def chunks(self) -> int:
        return -(-self.cells // CHUNK)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One task's part: Spark calls this with its rows."""
        with _its_kind_alone():
            yield from self._count(batches)

    def _count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        head = np.zeros(self.head, np.int64)
        counter = Counter(self.domain, self.dense, rows=self.rows)
        runs = [CellRuns.of(self.domain, m) for m in self.sparse]
        read = self._kept if self.is_kept else self._values
        for codes, rows in read(batches, head):
            counter.add(codes)
            prefixes, alone = Prefixes(codes, self.domain), np.zeros(rows, np.int64)
            for one in runs:
                words = tuple(prefixes.index(g) if g else alone for g in one.groups)
                one.add(words, _FRESH_ROWS)
        if not head[0]:
            return
        counts = counter.result()
        room = np.zeros(self.chunks * CHUNK - self.cells, np.int64)
        flat = np.concatenate([head, *(array.ravel() for array in counts), room])
        del counts
        yield from _packed(self._rows_of(flat, runs))

    def _values(self, batches: Iterable[pa.RecordBatch], head: np.ndarray) -> Iterator[_Block]:
        for table in _blocks(batches):
            codes = _codes(table, self.layout, head, is_coded=self.is_coded)
            if codes is not None:  # else the table will be refused
                yield codes, table.num_rows

    def _kept(self, batches: Iterable[pa.RecordBatch], head: np.ndarray) -> Iterator[_Block]:
        used = {column for columns in (*self.dense, *self.sparse) for column in columns}
        wanted = tuple(c.name for c in self.columns if c.name in used)

        def records() -> Iterator[pa.BinaryArray]:
            for batch in batches:
                for one in batch.column("head").drop_null().to_pylist():
                    head[:] += np.frombuffer(one, "<i8")
                if "codes" in batch.schema.names:
                    yield batch.column("codes")

        return unpack_codes(records(), self.columns, wanted, _BLOCK)

    def _rows_of(self, flat: np.ndarray, runs: Sequence[CellRuns]) -> Iterator[tuple]:
        for part in range(self.chunks):
            yield from _chunk(part, flat[part * CHUNK : (part + 1) * CHUNK])
        for number, one in enumerate(runs):
            yield from _cells(-self.chunks - number - 1, one)


@dataclass(frozen=True)
class Keep:
    """Batches as `ScanTally` reads them to records of codes, of all columns. Spark takes equal
    plans for one, so that `name` keeps two sources of a table from letting go of each other's
    codes."""

    layout: ShippedColumns
    is_coded: bool
    name: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _its_kind_alone():
            for table in _blocks(batches):
                head = np.zeros(_head_of(self.layout.columns), np.int64)
                codes = _codes(table, self.layout, head, is_coded=self.is_coded)
                records = pack_codes(codes or {}, self.layout.columns)
                seen = [head.astype("<i8").tobytes(), *[None] * (len(records) - 1)]
                columns = {"head": pa.array(seen, pa.binary()), "codes": records}
                yield pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class Encode:
    """Batches of values to batches of codes, before a window that limits the rows of a unit.
    `passed` are the columns that go through; a value that is refused has its mark for a code."""

    layout: ShippedColumns
    passed: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _its_kind_alone():
            for table in _blocks(batches):
                yield from self._encode(table).to_batches()

    def _encode(self, table: pa.Table) -> pa.Table:
        named = {name: table[name] for name in self.passed}
        broken = np.asarray(table["broken"]) if "broken" in table.column_names else None
        broken = np.zeros(table.num_rows, bool) if broken is None else broken.copy()
        try:
            found = self.layout.read(table)
        except (UnicodeDecodeError, NotText):
            broken[:] = True
            found = [(np.zeros(table.num_rows, np.int32), None)] * len(self.layout.columns)
        for i, (column, (marked, index)) in enumerate(zip(self.layout.columns, found, strict=True)):
            levels = np.arange(-len(Refusal), column.levels, dtype=np.int32)
            for refusal in Refusal:
                level = resolve(column, refusal)
                levels[refusal + len(Refusal)] = refusal if level is None else level
            coded = levels[marked + len(Refusal)]
            named[f"c{i}"] = pa.array(coded if index is None else coded[index])
        return pa.table(named | {"broken": pa.array(broken)})


def add_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The reduction: rows of one part, from all tasks, to one row. Spark brings all rows of a part
    to one call; only the sums are held."""
    dense: dict[int, np.ndarray] = {}
    runs: dict[int, CellRuns] = {}
    for batch in batches:
        for part, cells, counts in _rows(batch):
            if part < 0:
                run = _run(cells, counts)
                runs.setdefault(part, CellRuns([()] * len(run.words))).push(run)
                continue
            total = dense.setdefault(part, np.zeros(CHUNK, np.int64))
            _add(total, cells, counts)
    rows = (row for part, total in dense.items() for row in _chunk(part, total))
    yield from _packed(rows)
    yield from _packed(row for part, one in runs.items() for row in _cells(part, one))


def unpack(
    batches: Iterable[pa.RecordBatch], tally: ScanTally
) -> tuple[Seen, list[np.ndarray], list[SparseCounts]]:
    """The reduction's rows, on the driver: what was seen, the arrays of the dense marginals, and
    the cells of the sparse ones."""
    domain = tally.domain
    flat = np.zeros(tally.chunks * CHUNK, np.int64)
    runs = [CellRuns.of(domain, m) for m in tally.sparse]
    for batch in batches:
        for part, cells, counts in _rows(batch):
            if part < 0:
                runs[-part - 1 - tally.chunks].push(_run(cells, counts))
            else:
                _add(flat[part * CHUNK : (part + 1) * CHUNK], cells, counts)
    arrays, start = [], tally.head
    for columns in tally.dense:
        size = domain.cells(columns)
        arrays.append(flat[start : start + size].reshape(domain.shape(columns)).copy())
        start += size
    found = [unpacked(domain, m, one) for m, one in zip(tally.sparse, runs, strict=True)]
    return Seen.unpack(flat[: tally.head]), arrays, found


_Block = tuple[dict[str, np.ndarray], int]
"""Codes and the number of their rows."""


def _head_of(columns: Sequence[Column]) -> int:
    return _HEAD + len(Refusal) * len(columns)


def _codes(
    table: pa.Table, layout: ShippedColumns, head: np.ndarray, *, is_coded: bool
) -> dict[str, np.ndarray] | None:
    """The codes of a block; its rows and what it breaks are noted in `head`."""
    head[0] += table.num_rows
    for place, name in enumerate(_FLAGS, start=1):
        if name in table.column_names:
            head[place] |= bool(np.asarray(table[name]).any())
    seen = head[_HEAD:].reshape(-1, len(Refusal))
    try:
        if is_coded:
            found = [(np.asarray(table[f"c{i}"]), None) for i in range(len(layout.columns))]
        else:
            found = layout.read(table)
    except (UnicodeDecodeError, NotText):
        head[1] = 1
        return None
    codes: dict[str, np.ndarray] = {}
    for i, (column, (marked, index)) in enumerate(zip(layout.columns, found, strict=True)):
        if len(marked) and marked.min() < 0:
            seen[i, -1 - np.unique(marked[marked < 0])] = 1
        coded = settle(column, marked)
        codes[column.name] = coded if index is None else coded[index]
    return codes


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together: encoding and counting have a cost a call."""
    some = (batch for batch in batches if batch.num_rows)
    return map(pa.Table.from_batches, together(some, lambda batch: batch.num_rows, _BLOCK))


def _chunk(part: int, counts: np.ndarray) -> Iterator[tuple]:
    """A chunk as it is, or as pairs of place and count where those are smaller; nothing for one
    without a count."""
    places = np.flatnonzero(counts)
    if not len(places):
        return
    narrow = np.min_scalar_type(int(counts.max())).newbyteorder("<")
    if len(places) * (2 + narrow.itemsize) < CHUNK * narrow.itemsize:
        yield part, places.astype("<u2").tobytes(), counts[places].astype(narrow).tobytes()
    else:
        yield part, None, counts.astype(narrow).tobytes()


def _add(total: np.ndarray, cells: bytes | None, counts: bytes) -> None:
    places = slice(None) if cells is None else np.frombuffer(cells, "<u2")
    entries = CHUNK if cells is None else len(cells) // 2
    total[places] += np.frombuffer(counts, f"<u{len(counts) // entries}").astype(np.int64)


def _cells(part: int, runs: CellRuns) -> Iterator[tuple]:
    """Cells that occur, as many at a time as a message should hold."""
    run = runs.whole()
    for start in range(0, len(run), CHUNK):
        some = slice(start, start + CHUNK)
        words = np.stack([word[some] for word in run.words])
        yield part, words.astype("<i8").tobytes(), run.counts[some].astype("<i8").tobytes()


def _run(cells: bytes | None, counts: bytes) -> CellRun:
    known = np.frombuffer(counts, "<i8").astype(np.int64)
    return CellRun(tuple(np.frombuffer(cells or b"", "<i8").reshape(-1, len(known))), known)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes | None, bytes]]:
    return zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)


def _packed(rows: Iterable[tuple]) -> Iterator[pa.RecordBatch]:
    return map(_batch, together(rows, lambda r: len(r[1] or b"") + len(r[2]), _OUTPUT_BYTES))


def _batch(rows: Sequence[tuple]) -> pa.RecordBatch:
    arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), _COUNTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_COUNTS)
