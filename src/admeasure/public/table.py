"""A public table under the private table's schema: distinct records and how often each occurs.

Nothing here is private, so notes may count rows. What a public table must have:

- at least one of the schema's columns, and more than one distinct record, or there is nothing to
  reweight;
- a column that it lacks is filled in with every level, equally often: the largest ignorance. That
  multiplies the records, and is refused beyond `MAX_RECORDS`. A mechanism that learns from the
  common columns alone asks for a table that is not filled;
- columns that the schema does not have are never read;
- a row with a value that the schema has no level for, or that a [[zero]] rules out, is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import DataError
from admeasure.families import forbidden
from admeasure.families.support import Records, SupportModel
from admeasure.schema import Zero

MAX_RECORDS = 1 << 22


@dataclass(frozen=True, eq=False)
class PublicTable:
    """`codes[column][i]` of the i-th distinct record and its share of the table's rows."""

    name: str
    domain: Domain
    codes: Mapping[str, np.ndarray]
    shares: np.ndarray
    rows: int
    filled: Columns = ()
    notes: tuple[str, ...] = ()
    files_sha256: str | None = None
    """What the table was read from: the hash of its file, or of the hashes of its files."""

    @classmethod
    def from_codes(
        cls,
        codes: Mapping[str, np.ndarray],
        domain: Domain,
        *,
        name: str = "the public table",
        notes: Sequence[str] = (),
        fill: bool = True,
    ) -> PublicTable:
        """The table of these rows; columns that `codes` lacks are filled in unless `fill` is false.

        >>> table = PublicTable.from_codes(
        ...     {"a": np.array([0, 1, 1, 1])}, Domain(("a", "b"), (2, 2)))
        >>> table.shares.tolist(), table.filled
        ([0.125, 0.125, 0.375, 0.375], ('b',))
        """
        held = [c for c in domain.columns if c in codes]
        if not held:
            raise DataError(
                f"{name} has no column of the schema. Give a table that shares columns with the "
                "private one, under the same names."
            )
        rows = len(codes[held[0]])
        if not rows:
            raise DataError(
                f"{name} has no row that the schema can read. Check that it is the right table."
            )
        arrays = [_checked(np.asarray(codes[c]), c, domain[c], rows, name) for c in held]
        distinct, times = np.unique(np.stack(arrays, axis=1), axis=0, return_counts=True)
        found = dict(zip(held, np.ascontiguousarray(distinct.T), strict=True))
        missing = tuple(c for c in domain.columns if c not in codes)
        shares = times / rows
        if missing and fill:
            found, shares = _filled(found, shares, missing, domain, name)
            notes = [
                *notes,
                f"{name} lacks {', '.join(missing)}: every level is taken to be as frequent.",
            ]
        return cls(name, domain, found, shares, rows, missing if fill else (), tuple(notes))

    @property
    def held(self) -> Columns:
        """The schema's columns that the table has, filled in ones included."""
        return tuple(c for c in self.domain.columns if c in self.codes)

    @property
    def records(self) -> int:
        """How many distinct records there are."""
        return self.shares.size

    def start(
        self,
        total: float,
        zeros: Sequence[Zero] = (),
        initial: Literal["frequencies", "uniform"] = "frequencies",
    ) -> SupportModel:
        """The model that a run begins with, of the columns that the table has: its own shares, or
        equal ones."""
        keep = self.possible(zeros)
        kept = {c: codes[keep] for c, codes in self.codes.items()}
        shares = self.shares[keep] if initial == "frequencies" else np.ones(int(keep.sum()))
        held = Domain.of({c: self.domain[c] for c in self.held}, self.domain.stand_ins)
        return SupportModel(Records(kept, held), shares / shares.sum(), total)

    def possible(self, zeros: Sequence[Zero]) -> np.ndarray:
        """Which records no [[zero]] rules out."""
        held = [zero for zero in zeros if all(c in self.codes for c in zero.columns)]
        return ~forbidden(self.codes, held)

    def check(self, domain: Domain, zeros: Sequence[Zero]) -> tuple[str, ...]:
        """Notes on what is left out; `DataError` where too little is left."""
        if self.domain != domain:
            raise DataError(f"{self.name} was read under another schema. Read it under this one.")
        keep = self.possible(zeros)
        if keep.sum() < 2:
            raise DataError(
                f"{self.name} has {'one' if keep.sum() else 'no'} distinct record that can occur, "
                "so there is nothing to reweight. Use a larger public table, or a mechanism that "
                "needs none, such as aim."
            )
        if keep.all():
            return self.notes
        part = float(self.shares[~keep].sum())
        return (
            *self.notes,
            f"{100 * part:.2g}% of the rows of {self.name} are ruled out by a [[zero]] and are "
            "left out.",
        )

    @cached_property
    def digest(self) -> str:
        """A hash of the records and shares."""
        found = hashlib.sha256()
        for column in self.held:
            found.update(column.encode() + b"\0" + self.codes[column].astype("<i8").tobytes())
        found.update(self.shares.astype("<f8").tobytes())
        return found.hexdigest()

    def facts(self) -> dict[str, Any]:
        """What a certificate says of it."""
        return {
            "name": self.name,
            "rows": self.rows,
            "records": self.records,
            "sha256": self.digest,
            **({} if self.files_sha256 is None else {"files_sha256": self.files_sha256}),
        }


def _checked(codes: np.ndarray, column: str, levels: int, rows: int, name: str) -> np.ndarray:
    if codes.ndim != 1 or len(codes) != rows or codes.dtype.kind not in "iu":
        raise DataError(f"{name}: the codes of column {column!r} are not one whole number a row.")
    if codes.min() < 0 or codes.max() >= levels:
        raise DataError(f"{name}: the codes of column {column!r} go outside 0 to {levels - 1}.")
    return codes.astype(np.uint16 if levels > 256 else np.uint8)


def _filled(
    codes: Mapping[str, np.ndarray],
    shares: np.ndarray,
    missing: Columns,
    domain: Domain,
    name: str,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    times = domain.cells(missing)
    if times * shares.size > MAX_RECORDS:
        raise DataError(
            f"{name} lacks {', '.join(missing)}. Filling them in makes "
            f"{float(times) * shares.size:.3g} records, and {MAX_RECORDS:,} is the limit. Give a "
            "table with these columns, leave them out of the schema, or use gem-pub, which takes "
            "a table that lacks columns, or aim, which needs none."
        )
    found = {c: np.repeat(values, times) for c, values in codes.items()}
    levels = np.unravel_index(np.arange(times), domain.shape(missing))
    for column, values in zip(missing, levels, strict=True):
        dtype = np.uint16 if domain[column] > 256 else np.uint8
        found[column] = np.tile(values.astype(dtype), shares.size)
    return found, np.repeat(shares / times, times)
