"""A fitted graphical model: answers marginals, draws rows, and is stored as plain arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from admeasure.errors import ReleaseError, UsageError
from admeasure.families.graphical.inference.calibration import Beliefs, calibrate
from admeasure.families.graphical.inference.marginals import Marginals
from admeasure.families.graphical.inference.sampling import sample
from admeasure.families.graphical.structure.junction_tree import Clique, JunctionTree, check_limit
from admeasure.families.graphical.structure.zeros import Zeros

CONDITIONED_MEGABYTES = 1000.0
"""The largest tree that a condition on several attributes together may make."""


@dataclass(frozen=True, eq=False)
class MarkovRandomField:
    """p(x) ∝ exp(sum of potentials) over records that no structural zero forbids.

    `potentials` are finite log tables on sorted cliques, each inside a node of `tree`; `total` is
    the number of rows that marginals add up to. Treat the arrays as read-only.
    """

    levels: tuple[int, ...]
    tree: JunctionTree
    potentials: Mapping[Clique, np.ndarray]
    zeros: tuple[Zeros, ...]
    total: float

    @classmethod
    def uniform(cls, levels: Sequence[int], total: float) -> MarkovRandomField:
        """The model that knows nothing but the number of rows."""
        levels = tuple(int(n) for n in levels)
        return cls(levels, JunctionTree.build(levels, []), {}, (), total)

    @property
    def megabytes(self) -> float:
        return self.tree.megabytes

    @cached_property
    def beliefs(self) -> Beliefs:
        """Expected counts of every node of the tree."""
        logs = {clique: np.array(table, dtype=float) for clique, table in self.potentials.items()}
        for zero in self.zeros:
            closed = np.where(zero.mask, -np.inf, 0.0)
            logs[zero.clique] = logs[zero.clique] + closed if zero.clique in logs else closed
        return calibrate(self.tree, logs, self.total)

    @cached_property
    def _marginals(self) -> Marginals:
        return Marginals(self.beliefs)

    def marginal(self, clique: Iterable[int]) -> np.ndarray:
        """Expected counts of one set of attributes, axes sorted."""
        return self.marginals([clique])[0]

    def marginals(self, cliques: Sequence[Iterable[int]]) -> list[np.ndarray]:
        """Expected counts of many sets of attributes; far cheaper together than one by one."""
        wanted = [tuple(sorted({*clique})) for clique in cliques]
        last = len(self.levels) - 1
        for clique in wanted:
            if clique and not 0 <= clique[0] <= clique[-1] <= last:
                raise UsageError(f"{clique} names an attribute outside 0 … {last}.")
        return self.answers(wanted)

    def answers(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        """The same of sorted cliques of attributes that there are."""
        return self._marginals.answer(cliques)

    def without(self, closed: Sequence[Zeros]) -> MarkovRandomField:
        """The same distribution on the records outside `closed`, and as many rows as it has there.

        A condition on one attribute lies in a node; for one on several the tree may grow.
        """
        tree = self.tree
        for zeros in closed:
            tree = tree if tree.contains(zeros.clique) else tree.extended(zeros.clique)
        check_limit(tree, max(CONDITIONED_MEGABYTES, self.tree.megabytes))
        left = replace(self, tree=tree, zeros=(*self.zeros, *closed))
        return replace(left, total=self.total * math.exp(left.beliefs.log_z - self.beliefs.log_z))

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """(rows, attributes) codes in the smallest unsigned type, close to the model's answers."""
        return sample(self.beliefs, rows, rng)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as plain arrays for `numpy.savez`; `from_arrays` reads them back."""
        cliques = sorted(self.potentials)
        stored = {
            "levels": np.asarray(self.levels, dtype=np.int64),
            "total": np.asarray(self.total, dtype=np.float64),
            "nodes": _padded(self.tree.nodes),
            "tree_cliques": _padded(self.tree.cliques),
            "cliques": _padded(cliques),
            "zeros": _padded([zero.clique for zero in self.zeros]),
        }
        for t, clique in enumerate(cliques):
            stored[f"potential_{t}"] = np.asarray(self.potentials[clique], dtype=np.float64)
        for t, zero in enumerate(self.zeros):
            stored[f"zero_{t}"] = np.asarray(zero.mask, dtype=bool)
        return stored

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> MarkovRandomField:
        """The model that `arrays` came from, after checking that they make one."""
        try:
            levels = tuple(int(n) for n in arrays["levels"])
            total = float(arrays["total"])
            tree = JunctionTree.of_nodes(levels, _unpadded(arrays["nodes"]))
            tree = JunctionTree(levels, tree.nodes, tuple(_unpadded(arrays["tree_cliques"])))
            potentials = {
                clique: np.array(arrays[f"potential_{t}"], dtype=np.float64)
                for t, clique in enumerate(_unpadded(arrays["cliques"]))
            }
            zeros = tuple(
                Zeros(clique, np.array(arrays[f"zero_{t}"], dtype=bool))
                for t, clique in enumerate(_unpadded(arrays["zeros"]))
            )
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise _damaged("an array is missing or has the wrong form") from error
        if not levels or min(levels) < 1 or not (math.isfinite(total) and total > 0):
            raise _damaged("levels and total must be positive")
        tables = [*potentials.items(), *((zero.clique, zero.mask) for zero in zeros)]
        for clique, table in [*tables, *((c, None) for c in tree.cliques)]:
            if not clique or clique[0] < 0 or not tree.contains(clique):
                raise _damaged("a clique lies outside the tree")
            if table is not None and table.shape != tuple(levels[a] for a in clique):
                raise _damaged("a table does not fit its levels")
        if not all(np.isfinite(table).all() for table in potentials.values()):
            raise _damaged("a potential is not finite")
        return cls(levels, tree, potentials, zeros, total)


def _damaged(what: str) -> ReleaseError:
    return ReleaseError(f"The stored graphical model is damaged: {what}. Fetch it again.")


def _padded(cliques: Sequence[Clique]) -> np.ndarray:
    """Cliques as rows, filled up with -1."""
    width = max((len(clique) for clique in cliques), default=0)
    table = np.full((len(cliques), width), -1, dtype=np.int64)
    for row, clique in zip(table, cliques, strict=True):
        row[: len(clique)] = clique
    return table


def _unpadded(table: np.ndarray) -> list[Clique]:
    return [tuple(int(a) for a in row if a >= 0) for row in np.asarray(table, dtype=np.int64)]
