"""Product rows on an accelerator, and how it is used. Nothing here sees a private number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from admeasure.families.products.tensor import Layout


@dataclass(frozen=True)
class Tiling:
    """How an accelerator is used."""

    tile: tuple[int, int] = (128, 4096)
    """The most lead cells × trail cells of a tile."""

    batch: tuple[int, int] = (16, 256)
    """Tiles of a call: few where all that is asked fits, else many."""

    group: int = 32
    groups: int = 1 << 14
    many_groups: int = 1 << 18
    """Groups that come back: with every batch, and where a race asks for more."""

    part: int = 4096
    """Cells that occur, for each tile of a batch, that are brought in by one call."""

    asked: int = 1 << 14
    """Positions whose scores are fetched by one call."""


def accelerator() -> Tiling | None:
    """How the accelerator that is here is used; None where there is none."""
    import jax

    return None if jax.default_backend() == "cpu" else Tiling()


@dataclass(frozen=True)
class Placed:
    """`P` of product rows on the device."""

    P: Any
    layout: Layout
    total: float
    tiling: Tiling
