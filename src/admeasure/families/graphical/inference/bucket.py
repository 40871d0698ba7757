"""One attribute summed out of a product of three or more tensors, a level at a time.

    R(x) = sum over k of F_1(k, x) F_2(k, x) F_3(k, x) …

Each factor lacks some of the attributes of x, and no product of two factors is smaller than the
whole product. For one level k that is a table of R's size, which stays in a core's cache: it is
multiplied, summed and forgotten, and nothing larger than R is ever stored. Backwards the same table
times R's adjoint is the joint probability of k and x, whose sums over what a factor lacks are the
shares of its cells. Three factors that overlap in a triangle, the usual case, are done faster in
another way (`triangle`).

Factors are arrays with k first and the axes of x behind it, of length 1 where the factor lacks one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.tables import summed_onto
from admeasure.families.graphical.inference.triangle import Triangle


def summed(factors: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """R, from factors that are not negative."""
    triangle = Triangle.of(factors, shape, tuning.CACHE_CELLS)
    return _summed(factors, shape) if triangle is None else triangle.summed(factors)


def adjoints(
    factors: Sequence[np.ndarray], shape: tuple[int, ...], weight: np.ndarray
) -> list[np.ndarray]:
    """The derivatives of the sum of weight(x) R(x) by each factor's cells; where a cell is 0, what
    is said of it is not used."""
    triangle = Triangle.of(factors, shape, tuning.CACHE_CELLS)
    if triangle is not None:
        return triangle.adjoints(factors, weight)
    shares = zip(_shares(factors, shape, weight), factors, strict=True)
    return [np.divide(cells, f, out=np.zeros_like(cells), where=f > 0) for cells, f in shares]


def _summed(factors: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    if _is_large(shape):
        return np.stack([_summed(cut, shape[1:]) for cut in _cuts(factors, shape[0])])
    total = np.zeros(shape)
    for table in _joined(factors, shape, np.multiply):
        total += table
    return total


def _shares(
    factors: Sequence[np.ndarray], shape: tuple[int, ...], weight: np.ndarray
) -> list[np.ndarray]:
    """The sums of weight(x) F_1 F_2 F_3 … over what each factor lacks."""
    if _is_large(shape):
        parts = zip(_cuts(factors, shape[0]), weight, strict=True)
        return _put_together(factors, (_shares(cut, shape[1:], part) for cut, part in parts))
    found = [np.empty_like(factor) for factor in factors]
    for k, table in enumerate(_joined(factors, shape, np.multiply)):
        table *= weight
        _add_up(table, k, found)
    return found


def log_summed(factors: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """log R, from the logarithms of the factors; -inf where R is 0."""
    top = np.full(shape, -np.inf)
    for table in _joined(factors, shape, np.add):
        np.maximum(top, table, out=top)
    shift = np.where(np.isfinite(top), top, 0.0)
    total = np.zeros(shape)
    for table in _joined(factors, shape, np.add):
        table -= shift
        total += np.exp(table, out=table)
    with np.errstate(divide="ignore"):
        return np.log(total) + shift


def log_shares(
    factors: Sequence[np.ndarray], log_r: np.ndarray, weight: np.ndarray
) -> list[np.ndarray]:
    """The sums of weight(x) F_1 F_2 F_3 … / R(x) over what each factor lacks, from logarithms."""
    shift = np.where(np.isfinite(log_r), log_r, 0.0)
    found = [np.empty_like(factor) for factor in factors]
    for k, table in enumerate(_joined(factors, log_r.shape, np.add)):
        table -= shift
        np.exp(table, out=table)
        table *= weight
        _add_up(table, k, found)
    return found


def _is_large(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and math.prod(shape) > tuning.CACHE_CELLS


def _cuts(factors: Sequence[np.ndarray], length: int) -> Iterator[list[np.ndarray]]:
    """The factors at each place of the first axis behind k."""
    for place in range(length):
        yield [factor[:, place if factor.shape[1] > 1 else 0] for factor in factors]


def _put_together(
    factors: Sequence[np.ndarray], parts: Iterable[Sequence[np.ndarray]]
) -> list[np.ndarray]:
    found = [np.zeros_like(factor) for factor in factors]
    for place, part in enumerate(parts):
        for into, cells in zip(found, part, strict=True):
            into[:, place if into.shape[1] > 1 else 0] += cells
    return found


def _joined(
    factors: Sequence[np.ndarray], shape: tuple[int, ...], join: np.ufunc
) -> Iterator[np.ndarray]:
    """The factors together at each level of k, always in the same array."""
    table = np.empty(shape)
    for first, second, *others in zip(*factors, strict=True):
        join(first, second, out=table)
        for other in others:
            join(table, other, out=table)
        yield table


def _add_up(table: np.ndarray, k: int, found: Sequence[np.ndarray]) -> None:
    for into in found:
        into[k] = summed_onto(table, into.shape[1:])
