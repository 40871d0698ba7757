"""One mechanism a file, each after one paper; this page lists them."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints

from admeasure.errors import UsageError
from admeasure.late import Late
from admeasure.planning.mechanism import LearnsFromPublic, Mechanism, Outcome, Plan, option_names

REGISTRY: Late[type[Mechanism]] = Late(
    "admeasure.mechanisms",
    {
        "aim-plus": "aim_plus.AimPlus",
        "aim": "aim.Aim",
        "mwem-pgm": "mwem_pgm.MwemPgm",
        "mwem-rp": "mwem_rp.MwemRp",
        "mst": "mst.Mst",
        "privbayes": "privbayes.PrivBayes",
        "privmrf": "privmrf.PrivMrf",
        "privsyn": "privsyn.PrivSyn",
        "independent": "independent.Independent",
        "gaussian": "gaussian.Gaussian",
        "residual": "residual.ResidualPlanner",
        "mwem": "mwem.Mwem",
        "pep": "pep.Pep",
        "pmw-pub": "pmw_pub.PmwPub",
        "pep-pub": "pep_pub.PepPub",
        "ji-elkan": "ji_elkan.JiElkan",
        "dualquery": "dualquery.DualQuery",
        "fem": "fem.Fem",
        "gem": "gem.Gem",
        "gem-pub": "gem_pub.GemPub",
        "rap": "rap.Rap",
        "rap-softmax": "rap_softmax.RapSoftmax",
        "rap-box": "rap_box.RapBox",
        "all-zero": "all_zero.AllZero",
    },
)

AUTO = "auto"

NAMES = (AUTO, *REGISTRY)
"""What a person may ask for."""


def build(name: str, options: Mapping[str, str] | None = None) -> Mechanism:
    """A mechanism by its name, with options given as texts (from the command line)."""
    if name == AUTO:
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


__all__ = ["AUTO", "NAMES", "REGISTRY", "LearnsFromPublic", "Mechanism", "Outcome", "Plan", "build"]
