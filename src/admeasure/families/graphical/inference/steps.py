"""One product of tensors of a contraction: which it takes, how their axes lie, what it makes.

A step is a value. It knows how to go forwards through an arithmetic (`arithmetic.py`), which gives
the product and a function that goes back: from what is known of the product's cells to what is
known of its operands' cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

Back = Callable[[np.ndarray], Sequence[np.ndarray]]
"""From the product's derivatives or shares to those of the operands, shaped as these."""
Made = tuple[np.ndarray, Back]
Kind = Literal["sum", "product", "absorb", "bucket"]


class Kernels(Protocol):
    """The four kinds of products."""

    def sum(self, a: np.ndarray, /) -> Made:
        """R[i] = sum over k of A[i, k]"""
        ...

    def product(self, a: np.ndarray, b: np.ndarray, /) -> Made:
        """R[z, i, j] = sum over k of A[z, i, k] B[z, j, k]"""
        ...

    def absorb(self, part: np.ndarray, whole: np.ndarray, /) -> Made:
        """R = A B, where A broadcasts against B."""
        ...

    def bucket(self, /, *factors: np.ndarray) -> Made:
        """R[x] = sum over k of the product of all F[k, x], which broadcast against each other."""
        ...


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor by number, with its axes in another order (`perm`), which gives it `shape`, and then
    joined or spread to `form`."""

    tensor: int
    perm: tuple[int, ...]
    shape: tuple[int, ...]
    form: tuple[int, ...]
    inverse: tuple[int, ...]

    def of(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        moved = tensors[self.tensor].transpose(self.perm)
        return np.ascontiguousarray(moved).reshape(self.form)

    def back(self, table: np.ndarray) -> np.ndarray:
        """A table of that form with axes in the tensor's own order."""
        return table.reshape(self.shape).transpose(self.inverse)


@dataclass(frozen=True, slots=True)
class Step:
    kind: Kind
    operands: tuple[Operand, ...]
    out: int
    shape: tuple[int, ...]

    def forward(self, kernels: Kernels, tensors: Sequence[np.ndarray]) -> Made:
        return getattr(kernels, self.kind)(*[operand.of(tensors) for operand in self.operands])

    def backward(self, back: Back, into: list[np.ndarray]) -> None:
        for operand, table in zip(self.operands, back(into[self.out]), strict=True):
            into[operand.tensor] = operand.back(table)
