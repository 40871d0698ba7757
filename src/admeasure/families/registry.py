"""Every kind of model that a release can hold, by the name under which it is stored.

The contract suite of families judges whatever stands here.
"""

from __future__ import annotations

from admeasure.families.answers import AnswersModel
from admeasure.families.explicit import ExplicitModel
from admeasure.families.graphical.family import GraphicalModel
from admeasure.families.network.family import NetworkModel
from admeasure.families.products.box import BoxModel
from admeasure.families.products.family import ProductModel
from admeasure.families.support import SupportModel

MODELS = {
    model.kind: model
    for model in (
        AnswersModel,
        BoxModel,
        ExplicitModel,
        GraphicalModel,
        NetworkModel,
        ProductModel,
        SupportModel,
    )
}
