"""Every kind of model that a release can hold, by the name under which it is stored.

The contract suite of families judges whatever stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from admeasure.domain import Domain
from admeasure.families import Model
from admeasure.late import Late


class Loads(Protocol):
    """A class of models, as the reader of a release needs it."""

    def load(self, domain: Domain, arrays: Mapping[str, np.ndarray]) -> Model: ...


MODELS: Late[Loads] = Late(
    "admeasure.families",
    {
        "answers": "answers.AnswersModel",
        "box": "products.family.BoxModel",
        "explicit": "explicit.ExplicitModel",
        "graphical": "graphical.family.GraphicalModel",
        "network": "network.family.NetworkModel",
        "products": "products.family.ProductModel",
        "support": "support.SupportModel",
    },
)
