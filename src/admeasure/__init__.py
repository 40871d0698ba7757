"""Release tables and answers about people under differential privacy, and say how good they are.

>>> import admeasure
>>> release = admeasure.fit(table, "schema.toml", workload="all-3way",
...                         epsilon=1, delta=1e-9)  # doctest: +SKIP
>>> release.sample(1000)  # doctest: +SKIP
>>> release.answer({"sex": "Female", "age": (30, 39)})  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from admeasure.analyses import infer as infer
    from admeasure.limits import Limits as Limits
    from admeasure.mechanisms.aim import Aim as aim
    from admeasure.mechanisms.aim_plus import AimPlus as aim_plus
    from admeasure.mechanisms.all_zero import AllZero as all_zero
    from admeasure.mechanisms.auto import Auto as auto
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
    from admeasure.mechanisms.mwem_rp import MwemRp as mwem_rp
    from admeasure.mechanisms.pep import Pep as pep
    from admeasure.mechanisms.pep_pub import PepPub as pep_pub
    from admeasure.mechanisms.pmw_pub import PmwPub as pmw_pub
    from admeasure.mechanisms.privbayes import PrivBayes as privbayes
    from admeasure.mechanisms.privmrf import PrivMrf as privmrf
    from admeasure.mechanisms.privsyn import PrivSyn as privsyn
    from admeasure.mechanisms.rap import Rap as rap
    from admeasure.mechanisms.rap_box import RapBox as rap_box
    from admeasure.mechanisms.rap_softmax import RapSoftmax as rap_softmax
    from admeasure.mechanisms.residual import ResidualPlanner as residual
    from admeasure.privacy.book import Book as Book
    from admeasure.queries import Predicate as Predicate
    from admeasure.release import Release as Release
    from admeasure.request import ChargeTo as ChargeTo
    from admeasure.schema import Schema as Schema
    from admeasure.verbs.answer import answer as answer
    from admeasure.verbs.audit import audit as audit
    from admeasure.verbs.check import check as check
    from admeasure.verbs.compare import compare as compare
    from admeasure.verbs.draft import draft as draft
    from admeasure.verbs.evaluate import evaluate as evaluate
    from admeasure.verbs.export import export as export
    from admeasure.verbs.fit import fit as fit
    from admeasure.verbs.plan import plan as plan
    from admeasure.verbs.report import report as report
    from admeasure.verbs.run_file import run_file as run_file
    from admeasure.verbs.sample import sample as sample
    from admeasure.verbs.screen import screen as screen
    from admeasure.verbs.study import study as study
    from admeasure.workload import Workload as Workload

_NOUNS = {
    "Book": "privacy.book",
    "ChargeTo": "request",
    "Limits": "limits",
    "Predicate": "queries",
    "Release": "release",
    "Schema": "schema",
    "Workload": "workload",
    "infer": "analyses",
}

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
    "audit",
    "auto",
    "check",
    "compare",
    "draft",
    "dualquery",
    "evaluate",
    "export",
    "fem",
    "fit",
    "gaussian",
    "gem",
    "gem_pub",
    "independent",
    "infer",
    "ji_elkan",
    "mst",
    "mwem",
    "mwem_pgm",
    "mwem_rp",
    "pep",
    "pep_pub",
    "plan",
    "pmw_pub",
    "privbayes",
    "privmrf",
    "privsyn",
    "rap",
    "rap_box",
    "rap_softmax",
    "report",
    "residual",
    "run_file",
    "sample",
    "screen",
    "study",
]


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))


if not TYPE_CHECKING:  # whose readers know every name from above

    def __getattr__(name: str) -> Any:
        """Names are imported when they are used, so that `admeasure --help` answers at once. A verb
        is in the file of its name; what is neither noun nor verb is a mechanism."""
        if name not in __all__:
            raise AttributeError(f"module 'admeasure' has no attribute {name!r}")
        home = _NOUNS.get(name, f"verbs.{name}")
        if find_spec(f"admeasure.{home}") is not None:
            return getattr(import_module(f"admeasure.{home}"), name)
        if name == "auto":
            return import_module("admeasure.mechanisms.auto").Auto
        return import_module("admeasure.mechanisms").REGISTRY[name.replace("_", "-")]
