"""Statistical audits: a mechanism run by the thousand on two neighbouring tables.

The statistic of a run is the log of how much likelier its transcript is under D than under D',
computed from the declared scales by replaying it on the neighbour (`replay`): the most powerful one
there is when the declarations are true, and a valid one whatever they are. Of the measurements
alone it bounds mu, of everything epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import logsumexp

from admeasure.auditing.estimate import epsilon_lower, mu_lower
from admeasure.auditing.replay import Move, compare
from admeasure.mechanisms import Mechanism
from admeasure.privacy.convert import epsilon_of
from admeasure.privacy.noise import Noise
from admeasure.sources import Source
from admeasure.workload import Workload


@dataclass(frozen=True)
class Audit:
    """Claims, and the lower bounds that the runs give. `mu` is of the Gaussian parts.

    `mu_here` is what the claims amount to for this pair of tables, which may move the answers by
    less than the sensitivity allows: the root mean square over the runs.
    """

    runs: int
    epsilon: float
    delta: float
    epsilon_lower: float
    mu: float
    mu_lower: float
    mu_here: float

    @property
    def holds(self) -> bool:
        """Whether no lower bound passes its claim."""
        return self.epsilon_lower <= self.epsilon and self.mu_lower <= self.mu


def audit(
    mechanism: Mechanism,
    workload: Workload,
    table: Source,
    neighbour: Source,
    *,
    rho: Fraction,
    delta: float,
    runs: int,
    noise: Callable[[int], Noise],
    alpha: float,
) -> Audit:
    """Run `runs` times on each table, run i with `noise(i)`, and bound what shows.

    Where the mechanism is as private as it claims, `holds` is False with probability at most
    2 alpha.
    """
    losses, gaussian, spent, here_squared = [], [], Fraction(0), 0.0
    for side, (here, there) in enumerate(((table, neighbour), (neighbour, table))):
        sign = 1 - 2 * side
        found = []
        for i in range(runs):
            pair = compare(mechanism, workload, here, there, rho, noise(side * runs + i))
            found.append((_odds(pair.moves), _odds(m for m in pair.moves if m.scores is None)))
            paid = (Fraction(m.event["rho"]) for m in pair.moves if m.scores is None)
            spent = max(spent, sum(paid, Fraction(0)))
            here_squared += sum(map(_mu_squared, pair.moves)) / (2 * runs)
        both = sign * np.array(found)
        losses.append(both[:, 0])
        gaussian.append(both[:, 1])
    claimed = epsilon_of(rho, delta)
    # The likelihoods cross at 0; the ratio e^epsilon of the definition is reached at epsilon.
    thresholds = [claimed * share for share in (0.0, 0.5, 0.75, 1.0, 1.25)]
    return Audit(
        runs=runs,
        epsilon=claimed,
        delta=delta,
        epsilon_lower=epsilon_lower(losses[0], losses[1], delta, thresholds, alpha),
        mu=float(np.sqrt(2 * float(spent))),
        mu_lower=mu_lower(gaussian[0], gaussian[1], alpha),
        mu_here=float(np.sqrt(here_squared)),
    )


def _odds(moves: Iterable[Move]) -> float:
    """How much likelier the results are under the table they came from, as a logarithm."""
    return sum(_of_values(m) if m.scores is None else _of_picks(m) for m in moves)


def _mu_squared(move: Move) -> float:
    if move.scores is not None:
        return 0.0
    return float(np.square(move.moved.astype(float)).sum()) / move.event["sigma"] ** 2


def _of_values(move: Move) -> float:
    """Of discrete Gaussians with the same scale around two answers."""
    noise = np.asarray(move.drawn, dtype=float).ravel()
    squares = np.square(noise - move.moved.ravel()).sum() - np.square(noise).sum()
    return float(squares) / (2 * move.event["sigma"] ** 2)


def _of_picks(move: Move) -> float:
    """Of a choice by the exponential mechanism; nearly so for other rules and several picks."""
    assert move.scores is not None
    step = move.event["epsilon"] / (2 * move.event["sensitivity"])
    here = step * move.scores.astype(float)
    there = here + step * move.moved.astype(float)
    odds = (here - logsumexp(here)) - (there - logsumexp(there))
    return float(np.sum(odds[move.drawn]))
