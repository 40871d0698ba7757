"""What a threshold on noisy counts of texts is worth, computed apart from `privacy.found_levels`:
by the exact weights of the discrete Gaussian, in decimal digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction

from admeasure.privacy.events import Event
from admeasure.sparse import TextCounts

_DIGITS = 40
_MOST_TERMS = 1 << 21


def keyed(blocks: Iterable[TextCounts]) -> dict[str, int]:
    """All counts together: watched runs are small."""
    return {
        text: int(count)
        for block in blocks
        for text, count in zip(block.texts, block.counts, strict=True)
    }


def found_by(held: Mapping[str, int], noise: Mapping[str, int], least: int, most: int) -> list[str]:
    """What passes, in alphabetical order; the largest where it is too much."""
    passing = [(-(n + noise[text]), text) for text, n in held.items() if n + noise[text] >= least]
    return sorted(text for _, text in sorted(passing)[:most])


def is_worth(event: Event) -> bool:
    """Whether the scale of a `find` is worth its rho, and its threshold its share of delta."""
    changed, sigma, rho = event["l2_squared"], Fraction(event["sigma"]), Fraction(event["rho"])
    if changed < 1 or sigma <= 0 or changed > 2 * sigma**2 * rho:
        return False
    if event["threshold"] < 2:
        return False
    passes = chance(event["sigma"], event["threshold"] - 1)
    share = Fraction(event.get("delta_share", 0))
    return 1 - (1 - passes) ** changed <= Decimal(share.numerator) / Decimal(share.denominator)


def chance(sigma: float, least: int) -> Decimal:
    """P(Z >= least) of discrete Gaussian noise, by adding up its weights from the far end on."""
    with localcontext() as context:
        context.prec = _DIGITS
        width = 2 * Decimal(sigma) ** 2
        # exp(-z²/w) by the ratio of neighbours, exp(-(2z+1)/w), itself from its neighbour.
        weight, ratio, step = Decimal(1), (-1 / width).exp(), (-2 / width).exp()
        below, above, z = Decimal(0), Decimal(0), 0
        while z < _MOST_TERMS and (z <= least or weight > above.scaleb(-_DIGITS)):
            below, above = (below + weight, above) if z < least else (below, above + weight)
            weight, ratio, z = weight * ratio, ratio * step, z + 1
        return above / (2 * (below + above) - 1)
