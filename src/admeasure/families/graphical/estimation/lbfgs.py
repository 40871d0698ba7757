"""Limited-memory BFGS for a smooth convex function whose curvature is known nearly.

Liu and Nocedal (1989), with an approximate inverse of the curvature that is renewed at every step
instead of a scalar, and backtracking until the decrease is sufficient (Armijo). A step to a point
where the function is not finite is rejected like one that does not decrease it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from admeasure.families.graphical.estimation.regions import Local

_MEMORY = 20
_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-10


@dataclass(frozen=True)
class Point:
    """A place, the function's value and gradient there, and what is known of its curvature."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    curvature: Local


def minimise(
    function: Callable[[np.ndarray], Point],
    start: Point,
    *,
    done: Callable[[Point], bool],
    iterations: int,
) -> tuple[Point, int]:
    """Minimise until `done`, until no step decreases the function, or for so many iterations; and
    how many there were."""
    point = start
    pairs: list[tuple[np.ndarray, np.ndarray, float]] = []
    for iteration in range(iterations):
        if done(point):
            return point, iteration
        direction = _direction(point, pairs)
        slope = float(point.gradient @ direction)
        if not slope < 0:
            pairs.clear()
            direction = point.curvature.leap(-point.gradient)
            slope = float(point.gradient @ direction)
        found = _search(function, point, direction, slope)
        if found is None:
            if not pairs:
                return point, iteration
            pairs.clear()
            continue
        s, y = found.x - point.x, found.gradient - point.gradient
        curvature = float(s @ y)
        if curvature > 0:
            pairs.append((s, y, 1.0 / curvature))
            del pairs[:-_MEMORY]
        point = found
    return point, iterations


def _direction(point: Point, pairs: list[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    q = -point.gradient
    if not pairs:
        return point.curvature.leap(q)
    kept = []
    for s, y, rho in reversed(pairs):
        alpha = rho * float(s @ q)
        q -= alpha * y
        kept.append(alpha)
    q = point.curvature.solve(q)
    # The inverse knows how curvatures compare, the last step how large they are.
    _, y, rho = pairs[-1]
    q *= 1.0 / (rho * point.curvature.squared(y))
    for (s, y, rho), alpha in zip(pairs, reversed(kept), strict=True):
        q += (alpha - rho * float(y @ q)) * s
    return q


def _search(
    function: Callable[[np.ndarray], Point], point: Point, direction: np.ndarray, slope: float
) -> Point | None:
    step = 1.0
    # Differences below the rounding of the value itself cannot be judged.
    grain = 1e-14 * abs(point.value)
    while step > _SMALLEST_STEP:
        found = function(point.x + step * direction)
        if math.isfinite(found.value) and (
            found.value <= point.value + _SUFFICIENT * step * slope + grain
        ):
            return found
        if math.isfinite(found.value):
            # The minimum of the parabola through what is known, kept within sane bounds.
            bend = found.value - point.value - step * slope
            step *= min(0.5, max(0.1, -0.5 * slope * step / bend if bend > 0 else 0.5))
        else:
            step *= 0.1
    return None
