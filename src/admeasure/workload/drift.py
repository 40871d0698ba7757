"""Which columns people ask about, and how their interest drifts (Avent and Korolova 2023, 5.1).

A feature distribution gives each column a probability. A threshold (or marginal) of k columns is
drawn by drawing k columns one after the other without replacement. Definition 5.2: with the columns
in descending order of their probability p_1 >= … >= p_d and a drift γ in [0, 1], give p_i the key

    k_i = (1 - 2γ) (d - i) / (d - 1) + (1 - |1 - 2γ|) u_i,    u_i uniform on [0, 1],

and hand the probabilities out again in descending order of their keys, the columns staying where
they are. γ = 0 changes nothing, γ = 1/2 shuffles, γ = 1 reverses. All of this is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import WorkloadError

Shape = Literal["uniform", "zipf", "geometric"]
SHAPES: tuple[Shape, ...] = ("uniform", "zipf", "geometric")
RATIO = 0.8
"""Of the geometric distribution: each column is asked for 0.8 times as often as the one before.
The paper does not print its own. Over 14 columns the first four hold 62% of the probability."""


@dataclass(frozen=True)
class Features:
    """Columns in the order of the historical distribution, and their probabilities now."""

    columns: Columns
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.columns) == len(self.probabilities)

    def drifted(self, gamma: float, random: Random) -> Features:
        """F_F of Definition 5.2."""
        if not 0 <= gamma <= 1:
            raise WorkloadError(f"A drift lies from 0 to 1; it is {gamma:g}.")
        d = len(self.columns)
        keys = [
            (1 - 2 * gamma) * ((d - i) / (d - 1) if d > 1 else 0.0)
            + (1 - abs(1 - 2 * gamma)) * random.random()
            for i in range(1, d + 1)
        ]
        order = sorted(range(d), key=lambda i: -keys[i])
        return Features(self.columns, tuple(self.probabilities[i] for i in order))

    def distance(self, other: Features) -> float:
        """Total variation distance to another distribution over the same columns."""
        mine = dict(zip(self.columns, self.probabilities, strict=True))
        return (
            sum(abs(mine[c] - p) for c, p in zip(other.columns, other.probabilities, strict=True))
            / 2
        )

    def draw(self, k: int, random: Random) -> Columns:
        """k columns without replacement."""
        columns, weights = list(self.columns), list(self.probabilities)
        found = []
        for _ in range(k):
            point, i = random.random() * sum(weights), 0
            while i < len(weights) - 1 and point >= weights[i]:
                point -= weights[i]
                i += 1
            found.append(columns.pop(i))
            weights.pop(i)
        return canonical(found)


def historical(domain: Domain, shape: Shape, order: int = 0, ratio: float = RATIO) -> Features:
    """F_H: uniform, 1/i (Zipf) or `ratio`^i over the columns, in a random order of the seed
    `order`."""
    if not 0 < ratio < 1:
        raise WorkloadError(f"A geometric distribution's ratio is between 0 and 1, not {ratio:g}.")
    if shape not in SHAPES:
        raise WorkloadError(
            f"There is no distribution of columns {shape!r}. There are: {', '.join(SHAPES)}."
        )
    columns, random = list(canonical(domain.columns)), Random(order)
    for i in range(len(columns) - 1, 0, -1):
        j = int(random.random() * (i + 1))
        columns[i], columns[j] = columns[j], columns[i]
    d = len(columns)
    weights = {
        "uniform": [1.0] * d,
        "zipf": [1 / i for i in range(1, d + 1)],
        "geometric": [ratio**i for i in range(d)],
    }[shape]
    return Features(tuple(columns), tuple(w / sum(weights) for w in weights))
