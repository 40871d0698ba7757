"""Structural zeros: combinations that cannot occur."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admeasure.families.graphical.structure.triangulation import Clique


@dataclass(frozen=True)
class Zeros:
    """Cells that cannot occur: True in `mask` means impossible."""

    clique: Clique
    mask: np.ndarray
