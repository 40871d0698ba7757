"""Release tables and answers about people under differential privacy, and say how good they are.

>>> import admeasure
>>> release = admeasure.fit(table, "schema.toml", workload="all-3way",
...                         mechanism=admeasure.mwem(), epsilon=1, delta=1e-9)  # doctest: +SKIP
>>> release.sample(1000)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from admeasure.fitting import fit as fit
    from admeasure.limits import Limits as Limits
    from admeasure.queries import Predicate as Predicate
    from admeasure.release import Release as Release
    from admeasure.run import ChargeTo as ChargeTo
    from admeasure.schema import Schema as Schema
    from admeasure.workload import Workload as Workload

_HOMES = {
    "ChargeTo": "admeasure.run",
    "fit": "admeasure.fitting",
    "Limits": "admeasure.limits",
    "Predicate": "admeasure.queries",
    "Release": "admeasure.release",
    "Schema": "admeasure.schema",
    "Workload": "admeasure.workload",
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used, so that `admeasure --help` answers at once.

    Mechanisms are reached by their names with underscores: `admeasure.mwem()`.
    """
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if not name.startswith("_"):
        registry = importlib.import_module("admeasure.mechanisms").REGISTRY
        if name.replace("_", "-") in registry:
            return registry[name.replace("_", "-")]
    raise AttributeError(f"module 'admeasure' has no attribute {name!r}")
