"""log Z and the marginals of every potential, without forming the tree's clique tables.

For potentials theta_c on cliques c,

    Z = sum over x of exp(sum over c of theta_c(x_c)),    mu_c = d log Z / d theta_c.

The steps of an `Elimination` are gone through forwards for log Z and backwards for the marginals.
Two arithmetics can do that (`arithmetic`): the quick one, and where it is not sure of its answer
the one that is right for potentials of any size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from admeasure.families.graphical.inference.arithmetic import Linear, Logarithmic, Underflow
from admeasure.families.graphical.inference.elimination import Elimination
from admeasure.families.graphical.inference.tables import CliqueLayout
from admeasure.families.graphical.structure.junction_tree import JunctionTree
from admeasure.families.graphical.structure.triangulation import Clique

_PATIENCE = 5
"""How often the linear arithmetic may decline before it is no longer tried."""


class Contraction:
    """Potentials on `cliques` (sorted, distinct) inside the nodes of `tree`.

    Potentials and marginals are flat arrays: the cliques' tables in C order, one after another.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        self.cliques = tuple(cliques)
        self.layout = CliqueLayout(tree.levels, self.cliques)
        self._order = Elimination(tree, self.cliques)
        held = {a for clique in self.cliques for a in clique}
        self._free = math.fsum(math.log(n) for a, n in enumerate(tree.levels) if a not in held)
        self._linear = Linear(tree.levels)
        self._declined = 0

    def run(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """log Z and the flat marginals, as probabilities.

        Where every configuration is impossible, log Z is -inf and the marginals are 0.
        """
        # Potentials that are too wide for the linear arithmetic rarely become narrow again.
        if self._declined < _PATIENCE:
            try:
                return self.run_in(self._linear, theta)
            except Underflow:
                self._declined += 1
        return self.run_in(Logarithmic(), theta)

    @np.errstate(over="ignore", invalid="ignore")
    def run_in(
        self, arithmetic: Linear | Logarithmic, theta: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The same in one arithmetic, which raises `Underflow` where it is not sure."""
        if not self.cliques:
            return self._free, np.zeros(0)
        steps = self._order.steps
        tensors = self.layout.views(arithmetic.enter(theta, self.layout, self._free))
        ways_back = []
        for step in steps:
            made, back = arithmetic.forward(step, tensors)
            tensors.append(made)
            ways_back.append(back)
        log_z, known = arithmetic.turn(self._order.scalars, tensors)
        if not math.isfinite(log_z):
            return log_z, np.zeros(self.layout.cells)
        for step, back in zip(reversed(steps), reversed(ways_back), strict=True):
            step.backward(back, known)
        return log_z, arithmetic.leave(self.layout, tensors, known)
