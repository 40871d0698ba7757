"""Release tables and answers about people under differential privacy, and say how good they are.

>>> import admeasure
>>> release = admeasure.fit(table, "schema.toml", workload="all-3way",
...                         mechanism=admeasure.aim(), epsilon=1, delta=1e-9)  # doctest: +SKIP
>>> release.sample(1000)  # doctest: +SKIP
>>> release.answer({"sex": "Female", "age": (30, 40)})  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from admeasure.fitting import fit as fit
    from admeasure.limits import Limits as Limits
    from admeasure.mechanisms.aim import Aim as aim
    from admeasure.mechanisms.aim_plus import AimPlus as aim_plus
    from admeasure.mechanisms.all_zero import AllZero as all_zero
    from admeasure.mechanisms.dualquery import DualQuery as dualquery
    from admeasure.mechanisms.fem import Fem as fem
    from admeasure.mechanisms.gaussian import Gaussian as gaussian
    from admeasure.mechanisms.gem import Gem as gem
    from admeasure.mechanisms.gem_pub import GemPub as gem_pub
    from admeasure.mechanisms.independent import Independent as independent
    from admeasure.mechanisms.ji_elkan import JiElkan as ji_elkan
    from admeasure.mechanisms.mst import Mst as mst
    from admeasure.mechanisms.mwem import Mwem as mwem
    from admeasure.mechanisms.mwem_pgm import MwemPgm as mwem_pgm
    from admeasure.mechanisms.pep import Pep as pep
    from admeasure.mechanisms.pep_pub import PepPub as pep_pub
    from admeasure.mechanisms.pmw_pub import PmwPub as pmw_pub
    from admeasure.mechanisms.privbayes import PrivBayes as privbayes
    from admeasure.mechanisms.rap import Rap as rap
    from admeasure.mechanisms.rap_softmax import RapSoftmax as rap_softmax
    from admeasure.privacy.book import Book as Book
    from admeasure.public.screening import screen as screen
    from admeasure.queries import Predicate as Predicate
    from admeasure.release import Release as Release
    from admeasure.run import ChargeTo as ChargeTo
    from admeasure.schema import Schema as Schema
    from admeasure.verbs.answer import answer as answer
    from admeasure.verbs.check import check as check
    from admeasure.verbs.draft import draft as draft
    from admeasure.verbs.plan import plan as plan
    from admeasure.verbs.sample import sample as sample
    from admeasure.workload import Workload as Workload

_HOMES = {
    "answer": "verbs.answer",
    "check": "verbs.check",
    "draft": "verbs.draft",
    "plan": "verbs.plan",
    "sample": "verbs.sample",
    "screen": "public.screening",
    "Book": "privacy.book",
    "ChargeTo": "run",
    "Limits": "limits",
    "Predicate": "queries",
    "Release": "release",
    "Schema": "schema",
    "Workload": "workload",
    "fit": "fitting",
}
_MECHANISMS = (
    "aim",
    "aim_plus",
    "all_zero",
    "dualquery",
    "fem",
    "gaussian",
    "gem",
    "gem_pub",
    "independent",
    "ji_elkan",
    "mst",
    "mwem",
    "mwem_pgm",
    "pep",
    "pep_pub",
    "pmw_pub",
    "privbayes",
    "rap",
    "rap_softmax",
)

__all__ = [
    "Book",
    "ChargeTo",
    "Limits",
    "Predicate",
    "Release",
    "Schema",
    "Workload",
    "aim",
    "aim_plus",
    "all_zero",
    "answer",
    "check",
    "draft",
    "dualquery",
    "fem",
    "fit",
    "gaussian",
    "gem",
    "gem_pub",
    "independent",
    "ji_elkan",
    "mst",
    "mwem",
    "mwem_pgm",
    "pep",
    "pep_pub",
    "plan",
    "pmw_pub",
    "privbayes",
    "rap",
    "rap_softmax",
    "sample",
    "screen",
]


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))


if not TYPE_CHECKING:  # whose readers know every name from above

    def __getattr__(name: str) -> Any:
        """Names are imported when they are used, so that `admeasure --help` answers at once."""
        if name in _HOMES:
            return getattr(importlib.import_module(f"admeasure.{_HOMES[name]}"), name)
        if name in _MECHANISMS:
            return importlib.import_module("admeasure.mechanisms").REGISTRY[name.replace("_", "-")]
        raise AttributeError(f"module 'admeasure' has no attribute {name!r}")
