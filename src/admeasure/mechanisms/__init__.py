"""One mechanism a file, each after one paper; this page lists them."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints

from admeasure.errors import UsageError
from admeasure.mechanisms.aim import Aim
from admeasure.mechanisms.aim_plus import AimPlus
from admeasure.mechanisms.all_zero import AllZero
from admeasure.mechanisms.auto import Auto
from admeasure.mechanisms.dualquery import DualQuery
from admeasure.mechanisms.fem import Fem
from admeasure.mechanisms.gaussian import Gaussian
from admeasure.mechanisms.gem import Gem
from admeasure.mechanisms.gem_pub import GemPub
from admeasure.mechanisms.independent import Independent
from admeasure.mechanisms.ji_elkan import JiElkan
from admeasure.mechanisms.mst import Mst
from admeasure.mechanisms.mwem import Mwem
from admeasure.mechanisms.mwem_pgm import MwemPgm
from admeasure.mechanisms.mwem_rp import MwemRp
from admeasure.mechanisms.pep import Pep
from admeasure.mechanisms.pep_pub import PepPub
from admeasure.mechanisms.pmw_pub import PmwPub
from admeasure.mechanisms.privbayes import PrivBayes
from admeasure.mechanisms.privmrf import PrivMrf
from admeasure.mechanisms.privsyn import PrivSyn
from admeasure.mechanisms.rap import Rap
from admeasure.mechanisms.rap_box import RapBox
from admeasure.mechanisms.rap_softmax import RapSoftmax
from admeasure.mechanisms.residual import ResidualPlanner
from admeasure.planning.mechanism import LearnsFromPublic, Mechanism, Outcome, Plan, option_names

REGISTRY: dict[str, type[Mechanism]] = {
    m.name: m
    for m in (
        AimPlus,
        Aim,
        MwemPgm,
        MwemRp,
        Mst,
        PrivBayes,
        PrivMrf,
        PrivSyn,
        Independent,
        Gaussian,
        ResidualPlanner,
        Mwem,
        Pep,
        PmwPub,
        PepPub,
        JiElkan,
        DualQuery,
        Fem,
        Gem,
        GemPub,
        Rap,
        RapSoftmax,
        RapBox,
        AllZero,
    )
}

NAMES = (Auto.name, *REGISTRY)
"""What a person may ask for."""


def build(name: str, options: Mapping[str, str] | None = None) -> Mechanism:
    """A mechanism by its name, with options given as texts (from the command line)."""
    if name == Auto.name:
        raise UsageError(f"auto chooses a mechanism. Name one here: {', '.join(REGISTRY)}.")
    if name not in REGISTRY:
        near = difflib.get_close_matches(name, NAMES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"There is no mechanism {name!r}.{hint} There are: {', '.join(NAMES)}.")
    cls = REGISTRY[name]
    types_of = get_type_hints(cls)
    hints = {option: types_of[option] for option in option_names(cls)}
    values = {}
    for given, text in (options or {}).items():
        option = given.replace("-", "_")
        if option not in hints:
            known = ", ".join("--" + h.replace("_", "-") for h in hints) or "no options"
            shown = given if given.isprintable() else repr(given)
            raise UsageError(f"{name} has no option --{shown}. It takes {known}.")
        values[option] = _parsed(name, given, text, hints[option])
    return cls(**values)


def _parsed(mechanism: str, option: str, text: str, hint: Any) -> Any:
    """A text as a value of the option's type."""
    if get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(t for t in get_args(hint) if t is not type(None))
    if get_origin(hint) is typing.Literal:
        if text not in get_args(hint):
            raise UsageError(
                f"{mechanism}: --{option} is one of {', '.join(get_args(hint))}; it is {text!r}."
            )
        return text
    try:
        return hint(text)
    except ValueError:
        kind = {"int": "a whole number", "float": "a number"}.get(hint.__name__, hint.__name__)
        raise UsageError(f"{mechanism}: --{option} is {kind}; it is {text!r}.") from None


__all__ = ["NAMES", "REGISTRY", "LearnsFromPublic", "Mechanism", "Outcome", "Plan", "build"]
