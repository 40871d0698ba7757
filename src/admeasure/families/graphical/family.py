"""The graphical family: names and measurements on one side, the integer engine on the other.

The engine numbers attributes 0 … d - 1. Here attribute i is the i-th column in alphabetical
order, so a canonical set of columns is a sorted clique and arrays need no transposing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import ReleaseError, UsageError
from admeasure.families import Codes, ImpossibleError
from admeasure.families.graphical.inference.calibration import ContradictionError
from admeasure.families.graphical.model import MarkovRandomField
from admeasure.families.graphical.structure.junction_tree import (
    BYTES_PER_CELL,
    Clique,
    JunctionTree,
    check_limit,
)
from admeasure.families.graphical.structure.room import Room
from admeasure.families.graphical.structure.zeros import Zeros
from admeasure.limits import MEGABYTE
from admeasure.measurement import Measurement, believed_total
from admeasure.queries import Marginal
from admeasure.schema import Zero

if TYPE_CHECKING:  # estimation is imported by what fits: to answer and to sample need none of it
    from admeasure.families.graphical.estimation.estimate import Accuracy
    from admeasure.families.graphical.estimation.shrinkage import Posteriors

Shrink = Literal["no", "end", "rounds"]
"""Where measured effects are shrunk (`estimation/shrinkage.py`): nowhere, in the fit of the release
alone, or in those of the rounds as well."""


SMALLEST_SHARE = 1e-30
"""In the place of a conditional probability of 0, whose logarithm is not finite."""


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """A graphical model over named columns.

    `posteriors`: what a fit with shrinkage computed on its way, for the next one to start from.
    """

    domain: Domain
    core: MarkovRandomField
    posteriors: Posteriors = field(default_factory=dict)
    kind: ClassVar[str] = "graphical"
    adds_up: ClassVar[bool] = True

    @property
    def total(self) -> float:
        return self.core.total

    @property
    def megabytes(self) -> float:
        return self.core.megabytes

    @cached_property
    def _position(self) -> dict[str, int]:
        return {column: i for i, column in enumerate(canonical(self.domain.columns))}

    def clique(self, columns: Columns) -> Clique:
        return tuple(sorted(self._position[c] for c in columns))

    def cliques(self, sets: Iterable[Columns]) -> list[Clique]:
        """The same for many sets, most of them pairs."""
        place, found = self._position, []
        for columns in sets:
            clique = tuple([place[c] for c in columns])
            if len(clique) != 2 or clique[0] > clique[1]:
                clique = tuple(sorted(clique))
            found.append(clique)
        return found

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        return self.core.answers(self.cliques(columns))

    def without(self, cells: Sequence[Zero]) -> GraphicalModel:
        closed = [Zeros(self.clique(zero.columns), zero.mask) for zero in cells]
        try:
            return GraphicalModel(self.domain, self.core.without(closed))
        except ContradictionError:
            raise ImpossibleError from None

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        codes = self.core.sample(rows, rng)
        return {c: codes[:, self._position[c]] for c in self.domain.columns}

    def holds(self, columns: Columns) -> bool:
        """Whether the tree has a clique with all of these columns."""
        return not columns or self.core.tree.contains(self.clique(columns))

    def refitted(self, log: Sequence[Measurement], options: Mapping[str, Any]) -> GraphicalModel:
        """The model of the same structure that fits other values of what it was fitted to, by the
        same rule and without what chose it; `options` are those of the mechanism."""
        if options.get("estimate") == "conditionals":
            return ConditionalFamily(math.inf).update(self, log)
        family = GraphicalFamily(math.inf, options.get("shrink", "no"))
        held = [m for m in log if self.holds(m.query.columns)]
        return family.polished(replace(self, posteriors={}), held)

    def arrays(self) -> Mapping[str, np.ndarray]:
        return self.core.arrays()

    @classmethod
    def load(cls, domain: Domain, arrays: Mapping[str, np.ndarray]) -> GraphicalModel:
        core = MarkovRandomField.from_arrays(arrays)
        if core.levels != domain.shape(canonical(domain.columns)):
            raise ReleaseError("model.npz does not fit the schema of its release.")
        return cls(domain, core)


@dataclass(frozen=True)
class GraphicalFamily:
    """Models whose junction tree stays within `max_megabytes`, asserted at every update.

    `shrink` says which fits shrink what was measured.
    """

    max_megabytes: float = 80.0
    shrink: Shrink = "no"

    def __post_init__(self) -> None:
        if self.shrink not in get_args(Shrink):
            known = ", ".join(get_args(Shrink))
            raise UsageError(f"shrink is one of {known}; it is {self.shrink!r}.")

    def init(self, domain: Domain, zeros: Sequence[Zero] = ()) -> GraphicalModel:
        """The uniform distribution over what can occur; refuses what cannot fit or cannot be."""
        names = canonical(domain.columns)
        levels = domain.shape(names)
        rules = tuple(Zeros(tuple(sorted(map(names.index, z.columns))), z.mask) for z in zeros)
        tree = JunctionTree.build(levels, [rule.clique for rule in rules])
        check_limit(tree, self.max_megabytes)
        core = MarkovRandomField(levels, tree, {}, rules, total=1.0)
        _ = core.beliefs  # refuses zeros that leave nothing possible
        return GraphicalModel(domain, core)

    def update(self, model: GraphicalModel, log: Sequence[Measurement]) -> GraphicalModel:
        """The model of greatest entropy that fits everything measured so far."""
        from admeasure.families.graphical.estimation.estimate import IN_LOOP, IN_SHRUNK_LOOP

        if self.shrink == "rounds":
            return self._fitted(model, log, IN_SHRUNK_LOOP, model.posteriors)
        return self._fitted(model, log, IN_LOOP, None)

    def polished(self, model: GraphicalModel, log: Sequence[Measurement]) -> GraphicalModel:
        """The same, to the accuracy of a release."""
        from admeasure.families.graphical.estimation.estimate import FINAL

        return self._fitted(model, log, FINAL, None if self.shrink == "no" else {})

    def holding(self, model: GraphicalModel, marginals: Sequence[Columns]) -> GraphicalModel:
        """The same distribution on a tree that has room for these marginals."""
        tree = model.core.tree.grown(map(model.clique, marginals))
        return replace(model, core=replace(model.core, tree=tree))

    def fitting(
        self, model: GraphicalModel, candidates: Sequence[Columns], share: float
    ) -> list[Columns]:
        """The candidates with which the tree stays within `share` of the size limit.

        Where there is none, those that the tree holds already: measuring them again costs no size.
        """
        tree, limit = model.core.tree, share * self.max_megabytes * MEGABYTE / BYTES_PER_CELL
        cliques = model.cliques(candidates)
        sizes = tree.sizes_with(cliques, limit)
        fitting = [c for c, size in zip(candidates, sizes, strict=True) if size <= limit]
        held = zip(candidates, cliques, strict=True)
        return fitting or [c for c, clique in held if tree.contains(clique)]

    def room(self, model: GraphicalModel, candidates: Sequence[Columns], share: float) -> Room:
        """Which of the candidates, one after another, the tree can take within that limit."""
        limit = share * self.max_megabytes * MEGABYTE / BYTES_PER_CELL
        return Room(model.core.tree, model.cliques(candidates), limit)

    def _fitted(
        self,
        model: GraphicalModel,
        log: Sequence[Measurement],
        accuracy: Accuracy,
        known: Posteriors | None,
    ) -> GraphicalModel:
        from admeasure.families.graphical.estimation.estimate import estimate
        from admeasure.families.graphical.estimation.statistics import Observation

        seen = []
        for m in log:
            if m.query.columns:
                assert isinstance(m.query, Marginal), "the graphical family fits whole marginals"
                seen.append(Observation(model.clique(m.query.columns), m.values, m.sigma))
        tree = model.core.tree.grown(observation.clique for observation in seen)
        fit = estimate(
            model.core.levels,
            seen,
            zeros=model.core.zeros,
            tree=tree,
            start=model.core,
            total=total_of(log),
            accuracy=accuracy,
            reference_sigma=seen[0].sigma if seen else None,
            limit_megabytes=self.max_megabytes,
            known=known,
        )
        return GraphicalModel(model.domain, fit.model, fit.posteriors)


@dataclass(frozen=True)
class ConditionalFamily:
    """Bayesian networks whose conditionals are those of noisy joints, as they were measured (Zhang
    et al. 2017): negative counts are 0, and each column given its parents is the joint divided by
    its sum over the column, even where nothing is left of it.

    Each joint of the log has parents that earlier ones hold; what it adds is given those. Nothing
    is fitted, so joints that overlap need not agree with the model, and one whose columns were all
    held before is not looked at. The model is a graphical one whose potentials are conditionals.
    """

    max_megabytes: float = 80.0

    def update(self, model: GraphicalModel, log: Sequence[Measurement]) -> GraphicalModel:
        potentials: dict[Clique, np.ndarray] = {}
        placed: set[str] = set()
        for m in log:
            columns = m.query.columns
            if added := set(columns) - placed:
                axes = tuple(i for i, c in enumerate(columns) if c in added)
                potentials[model.clique(columns)] = np.log(_given(np.maximum(m.values, 0.0), axes))
                placed |= added
        tree = model.core.tree.grown(potentials)
        check_limit(tree, self.max_megabytes)
        total = total_of(log) or model.total
        core = replace(model.core, tree=tree, potentials=potentials, total=total)
        return GraphicalModel(model.domain, core)


def _given(joint: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The conditional of some axes given the others, nowhere quite 0."""
    sums = joint.sum(axis=axes, keepdims=True)
    even = 1 / math.prod(joint.shape[i] for i in axes)
    shares = np.divide(joint, sums, out=np.full(joint.shape, even), where=sums > 0)
    return np.maximum(shares, SMALLEST_SHARE)


def total_of(log: Sequence[Measurement]) -> float | None:
    """The number of rows where it was counted by itself; None leaves it to the estimation."""
    counted = [m for m in log if not m.query.columns]
    if not counted:
        return None
    for m in counted:
        if m.sigma == 0:
            return max(1.0, float(m.values))
    return believed_total(log)
