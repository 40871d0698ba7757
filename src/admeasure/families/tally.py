"""Weighted counts of many marginals of a list of records, by bincount.

Codes are kept as they come (one or two bytes a cell); the combined code of a marginal is made when
it is needed, with the code of a common beginning shared between neighbours. Marginals are counted
through small joints (`admeasure.joints`), on two threads: bincount gives up the interpreter lock.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.joints import homes, summed

JOINT_CELLS = 4096
"""A joint this small stays in the first-level cache while it is counted."""

KEPT_BYTES = 1 << 27
"""Combined codes that are kept because updates ask for them again and again."""

_THREADS = min(2, os.cpu_count() or 1)
_WORTH_THREADS = 1 << 18


class Tally:
    """Rows of codes, counted with weights.

    >>> tally = Tally({"a": np.array([0, 1, 1]), "b": np.array([0, 0, 1])},
    ...               Domain(("a", "b"), (2, 2)))
    >>> tally.counts(np.array([1.0, 2.0, 4.0]), [("a",), ("a", "b")])[0].tolist()
    [1.0, 6.0]
    """

    def __init__(self, codes: Mapping[str, np.ndarray], domain: Domain) -> None:
        self.codes = codes
        self.domain = domain
        self.rows = len(next(iter(codes.values())))
        self._kept: dict[Columns, np.ndarray] = {}
        self._homes = lru_cache(maxsize=8)(lambda marginals: homes(domain, marginals, JOINT_CELLS))

    def index(self, columns: Columns) -> np.ndarray:
        """The place of each row in the flattened table of a marginal."""
        if columns in self._kept:
            return self._kept[columns]
        index = np.zeros(self.rows, dtype=np.intp)
        for column in columns:
            index *= self.domain[column]
            index += self.codes[column]
        if (len(self._kept) + 1) * index.nbytes <= KEPT_BYTES:
            self._kept[columns] = index
        return index

    def count(self, weights: np.ndarray, columns: Columns) -> np.ndarray:
        """One marginal."""
        return _table(self.index(columns), weights, columns, self.domain)

    def counts(self, weights: np.ndarray, marginals: Sequence[Columns]) -> list[np.ndarray]:
        """Many marginals."""
        home = self._homes(tuple(marginals))
        joints = sorted(set(home.values()))
        if self.rows * len(joints) < _WORTH_THREADS or _THREADS == 1:
            tables = self._joints(weights, joints)
        else:
            size = -(-len(joints) // _THREADS)
            parts = [joints[i : i + size] for i in range(0, len(joints), size)]
            with ThreadPoolExecutor(_THREADS) as pool:
                done = pool.map(lambda part: self._joints(weights, part), parts)
                tables = {joint: table for part in done for joint, table in part.items()}
        return [summed(tables[home[c]], home[c], c) for c in marginals]

    def _joints(self, weights: np.ndarray, joints: Sequence[Columns]) -> dict[Columns, np.ndarray]:
        """Tables of joints in lexicographic order, the combined code of a common beginning
        computed once."""
        tables = {}
        stack: list[tuple[str, np.ndarray]] = [("", np.zeros(self.rows, dtype=np.intp))]
        for joint in joints:
            common = 0
            while (
                common < min(len(stack) - 1, len(joint)) and stack[common + 1][0] == joint[common]
            ):
                common += 1
            del stack[common + 1 :]
            for column in joint[common:]:
                index = stack[-1][1] * self.domain[column]
                index += self.codes[column]
                stack.append((column, index))
            tables[joint] = _table(stack[-1][1], weights, joint, self.domain)
        return tables


def _table(index: np.ndarray, weights: np.ndarray, columns: Columns, domain: Domain) -> np.ndarray:
    flat = np.bincount(index, weights=weights, minlength=domain.cells(columns))
    return flat.reshape(domain.shape(columns))
