"""What runs in Spark's executors: rows to codes, codes to counts, counts to sums.

A task reads Arrow batches of the needed columns, encodes them by the schema's own encoder and
counts all marginals in one pass; what leaves it are counts and which rules are broken. The counts
of all tasks meet in one reduction (`add_up`). Everything here is a function of its input alone, so
that a task that Spark runs twice, or again after a machine was lost, changes nothing.

Counts are exact and private. A failure says its kind alone: its text could quote the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from admeasure.domain import Columns, Domain
from admeasure.schema.column import Column
from admeasure.schema.encode import marks, settle
from admeasure.schema.frames import Frame, Stored
from admeasure.schema.problems import Refusal, resolve
from admeasure.sources.count import BLOCK_ROWS, Counter
from admeasure.sparse import LARGEST_POSITION

CHUNK = 32_768
"""Cells of counts that travel together: the key of the reduction is the chunk's number."""

COUNT_FIELDS = "part int, cells binary, counts binary"
_COUNTS = pa.schema([("part", pa.int32()), ("cells", pa.binary()), ("counts", pa.binary())])
_OUTPUT_BYTES = 4 * 2**20
# One row short of the size from which a `Counter` takes a second thread: a task has one core.
_BLOCK = BLOCK_ROWS - 1
_HEAD = 3


@dataclass(frozen=True)
class Seen:
    """What a scan saw besides counts. `marks[i]` are the refusals in the i-th column read."""

    rows: int
    is_broken: bool
    has_lost_units: bool
    marks: tuple[tuple[Refusal, ...], ...]

    @classmethod
    def unpack(cls, head: np.ndarray) -> Seen:
        per_column = head[_HEAD:].reshape(-1, len(Refusal)) > 0
        found = tuple(tuple(r for r in Refusal if row[-r - 1]) for row in per_column)
        return cls(int(head[0]), bool(head[1]), bool(head[2]), found)


@dataclass(frozen=True)
class Tally:
    """Counting of one scan: `columns` are those that batches hold, as x0, x1, … (values), or as
    c0, c1, … where `is_coded`. `rows` is a hint for the plan of the counter."""

    columns: tuple[Column, ...]
    dense: tuple[Columns, ...]
    sparse: tuple[Columns, ...] = ()
    rows: int | None = None
    is_coded: bool = False

    @property
    def domain(self) -> Domain:
        return Domain.of({c.name: c.levels for c in self.columns})

    @property
    def head(self) -> int:
        """Numbers before the counts: rows, flags, and a flag for each refusal of each column."""
        return _HEAD + len(Refusal) * len(self.columns)

    @property
    def cells(self) -> int:
        return self.head + sum(self.domain.cells(m) for m in self.dense)

    @property
    def chunks(self) -> int:
        return -(-self.cells // CHUNK)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One task's part: Spark calls this with its rows."""
        try:
            yield from self._count(batches)
        except Exception as error:
            raise RuntimeError(f"admeasure: a task failed with {type(error).__name__}") from None

    def _count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        head = np.zeros(self.head, np.int64)
        counter = Counter(self.domain, self.dense, rows=self.rows)
        pairs = [Pairs.empty(self.domain.shape(m)) for m in self.sparse]
        for table in _blocks(batches):
            head[0] += table.num_rows
            codes = self._codes(table, head)
            if codes is None:
                continue
            counter.add(codes)
            for one, columns in zip(pairs, self.sparse, strict=True):
                one.add([codes[c] for c in columns], table.num_rows)
        if not head[0]:
            return
        counts = counter.result()
        room = np.zeros(self.chunks * CHUNK - self.cells, np.int64)
        flat = np.concatenate([head, *(array.ravel() for array in counts), room])
        del counts
        yield from _packed(self._rows_of(flat, pairs))

    def _codes(self, table: pa.Table, head: np.ndarray) -> dict[str, np.ndarray] | None:
        """The codes of a block; what it breaks is noted in `head`."""
        flags = [name for name in ("broken", "lost") if name in table.column_names]
        for name in flags:
            head[1 + (name == "lost")] |= bool(np.asarray(table[name]).any())
        seen = head[_HEAD:].reshape(-1, len(Refusal))
        codes: dict[str, np.ndarray] = {}
        try:
            for i, column in enumerate(self.columns):
                if self.is_coded:
                    marked, index = np.asarray(table[f"c{i}"]), None
                else:
                    marked, index = _marked(column, table[f"x{i}"])
                if len(marked) and marked.min() < 0:
                    seen[i, -1 - np.unique(marked[marked < 0])] = 1
                coded = settle(column, marked)
                codes[column.name] = coded if index is None else coded[index]
        except UnicodeDecodeError:
            head[1] = 1
            return None
        return codes

    def _rows_of(self, flat: np.ndarray, pairs: Sequence[Pairs]) -> Iterator[tuple]:
        for part in range(self.chunks):
            yield from _chunk(part, flat[part * CHUNK : (part + 1) * CHUNK])
        for number, one in enumerate(pairs):
            yield from one.rows(self.chunks + number)


@dataclass(frozen=True)
class Encode:
    """Batches of values to batches of codes, before a window that limits the rows of a unit.
    `passed` are the columns that go through; a value that is refused has its mark for a code."""

    columns: tuple[Column, ...]
    passed: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for table in _blocks(batches):
                yield from self._encode(table).to_batches()
        except Exception as error:
            raise RuntimeError(f"admeasure: a task failed with {type(error).__name__}") from None

    def _encode(self, table: pa.Table) -> pa.Table:
        named = {name: table[name] for name in self.passed}
        broken = np.asarray(table["broken"]) if "broken" in table.column_names else None
        broken = np.zeros(table.num_rows, bool) if broken is None else broken.copy()
        for i, column in enumerate(self.columns):
            try:
                marked, index = _marked(column, table[f"x{i}"])
            except UnicodeDecodeError:
                broken[:] = True
                marked, index = np.zeros(table.num_rows, np.int32), None
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
    pairs: dict[int, Pairs] = {}
    for batch in batches:
        for part, cells, counts in _rows(batch):
            if part < 0:  # see `Pairs.rows`: the parts of pairs are marked by their sign
                one = Pairs.unpack(cells, counts)
                pairs[part] = pairs[part].merged(one) if part in pairs else one
                continue
            total = dense.setdefault(part, np.zeros(CHUNK, np.int64))
            _add(total, cells, counts)
    rows = (row for part, total in dense.items() for row in _chunk(part, total))
    yield from _packed(rows)
    yield from _packed(row for part, one in pairs.items() for row in one.rows(-part - 1))


def unpack(
    batches: Iterable[pa.RecordBatch], tally: Tally
) -> tuple[Seen, list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """The reduction's rows, on the driver: what was seen, the arrays of the dense marginals, and
    codes and counts of the sparse ones."""
    domain = tally.domain
    flat = np.zeros(tally.chunks * CHUNK, np.int64)
    pairs = [Pairs.empty(domain.shape(m)) for m in tally.sparse]
    for batch in batches:
        for part, cells, counts in _rows(batch):
            if part < 0:
                place = -part - 1 - tally.chunks
                pairs[place] = pairs[place].merged(Pairs.unpack(cells, counts))
            else:
                _add(flat[part * CHUNK : (part + 1) * CHUNK], cells, counts)
    arrays, start = [], tally.head
    for columns in tally.dense:
        size = domain.cells(columns)
        arrays.append(flat[start : start + size].reshape(domain.shape(columns)).copy())
        start += size
    shapes = [domain.shape(m) for m in tally.sparse]
    found = [one.codes(shape) for one, shape in zip(pairs, shapes, strict=True)]
    return Seen.unpack(flat[: tally.head]), arrays, found


class Pairs:
    """Cells that occur, and how often. A cell is one or more whole numbers (`words`), each the
    position among the combinations of some columns, so that any number of columns fits."""

    def __init__(self, words: np.ndarray, counts: np.ndarray, shape: tuple[int, ...] = ()) -> None:
        self.words = words
        self.counts = counts
        self._shape = shape
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = 0

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Pairs:
        width = len(_grouped(shape))
        return cls(np.zeros((width, 0), np.int64), np.zeros(0, np.int64), shape)

    @classmethod
    def unpack(cls, cells: bytes | None, counts: bytes) -> Pairs:
        known = np.frombuffer(counts, "<i8")
        return cls(np.frombuffer(cells or b"", "<i8").reshape(-1, len(known)), known)

    def add(self, codes: Sequence[np.ndarray], rows: int) -> None:
        words = []
        for group in _grouped(self._shape):
            word = np.zeros(rows, np.int64)
            for axis in group:
                word *= self._shape[axis]
                word += codes[axis]
            words.append(word)
        one = _distinct(np.stack(words), np.ones(rows, np.int64))
        self._pending.append(one)
        self._waiting += len(one[1])
        if self._waiting > max(len(self.counts), 2 * BLOCK_ROWS):  # a merge costs what it holds
            self._settle()

    def _settle(self) -> None:
        if self._pending:
            words = np.concatenate([self.words, *(w for w, _ in self._pending)], axis=1)
            counts = np.concatenate([self.counts, *(c for _, c in self._pending)])
            self.words, self.counts = _distinct(words, counts)
            self._pending, self._waiting = [], 0

    def merged(self, other: Pairs) -> Pairs:
        self._pending.append((other.words, other.counts))
        self._waiting += len(other.counts)
        if self._waiting > max(len(self.counts), 2 * BLOCK_ROWS):
            self._settle()
        return self

    def rows(self, part: int) -> Iterator[tuple]:
        """For the reduction, as many cells at a time as a message should hold. Parts of pairs are
        the negative ones."""
        self._settle()
        for start in range(0, len(self.counts), CHUNK):
            some = slice(start, start + CHUNK)
            words = np.ascontiguousarray(self.words[:, some])
            yield -part - 1, words.astype("<i8").tobytes(), self.counts[some].tobytes()

    def codes(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """(cells, columns) in lexicographic order, and the counts."""
        self._settle()
        codes = np.empty((len(self.counts), len(shape)), np.uint16)
        for group, word in zip(_grouped(shape), self.words, strict=True):
            rest = word.copy()
            for axis in reversed(group):
                rest, codes[:, axis] = np.divmod(rest, shape[axis])
        return codes, self.counts


def _grouped(shape: tuple[int, ...]) -> list[list[int]]:
    """Runs of axes whose combinations can be numbered in one word."""
    groups: list[list[int]] = [[]]
    size = 1
    for axis, levels in enumerate(shape):
        if size * levels > LARGEST_POSITION:
            groups.append([])
            size = 1
        groups[-1].append(axis)
        size *= levels
    return groups


def _distinct(words: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each cell once, in order, with the sum of its counts."""
    if not len(counts):
        return words, counts
    order = np.lexsort(words[::-1])
    words, counts = words[:, order], counts[order]
    is_new = np.append(True, (words[:, 1:] != words[:, :-1]).any(axis=0))
    return words[:, is_new], np.add.reduceat(counts, np.flatnonzero(is_new))


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together: encoding and counting have a cost a call."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if pending and rows + batch.num_rows > _BLOCK:
            yield pa.Table.from_batches(pending)
            pending, rows = [], 0
        if batch.num_rows:
            pending.append(batch)
            rows += batch.num_rows
    if pending:
        yield pa.Table.from_batches(pending)


def _marked(column: Column, stored: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
    """Codes or marks, and for each row its place among them (None: one for each row). Texts and
    decimals are told apart by Arrow first, so that each distinct one is read once."""
    if not (pa.types.is_string(stored.type) or pa.types.is_decimal(stored.type)):
        return marks(column, Frame({"x": stored}).column("x")), None
    encoded = pa.concat_arrays(stored.chunks).dictionary_encode()
    distinct = marks(column, Stored("object", encoded.dictionary.to_pylist()))
    if not encoded.null_count:
        return distinct, encoded.indices.to_numpy()
    index = encoded.indices.fill_null(len(distinct)).to_numpy()
    return np.append(distinct, np.int32(Refusal.MISSING)), index


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


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes | None, bytes]]:
    return zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)


def _packed(rows: Iterable[tuple]) -> Iterator[pa.RecordBatch]:
    pending: list[tuple] = []
    size = 0
    for row in rows:
        pending.append(row)
        size += len(row[1] or b"") + len(row[2])
        if size > _OUTPUT_BYTES:
            yield _batch(pending)
            pending, size = [], 0
    if pending:
        yield _batch(pending)


def _batch(rows: Sequence[tuple]) -> pa.RecordBatch:
    arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), _COUNTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_COUNTS)
