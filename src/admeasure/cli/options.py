"""Options of a mechanism, from the arguments that the verb itself does not know."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from admeasure.errors import UsageError

if TYPE_CHECKING:
    from admeasure.mechanisms import Mechanism
    from admeasure.mechanisms.auto import Auto


def mechanism_of(name: str | None, extra: Sequence[str], known: Sequence[str]) -> Mechanism | Auto:
    """The mechanism with its options; `known` are the verb's own, for a hint on a wrong one."""
    from admeasure.verbs.given import mechanism_of as built

    options = pairs(extra)
    try:
        return built(name, options)
    except UsageError as error:
        near = [m for o in options for m in difflib.get_close_matches("--" + o, known, 1, 0.75)]
        if near and "has no option" in str(error):
            raise UsageError(f"{error} Did you mean {near[0]}?") from None
        raise


def pairs(extra: Sequence[str]) -> dict[str, str]:
    """`--rounds 20 --measure=cells` as a mapping.

    >>> pairs(["--rounds", "20", "--measure=cells"])
    {'rounds': '20', 'measure': 'cells'}
    """
    found: dict[str, str] = {}
    rest = list(extra)
    while rest:
        option = rest.pop(0)
        if not option.startswith("--") or option == "--":
            raise UsageError(f"There is no place for the argument {option!r}. See --help.")
        name, equals, value = option.removeprefix("--").partition("=")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise UsageError(f"The option --{name} needs a value: --{name} VALUE.")
            value = rest.pop(0)
        if name in found:
            raise UsageError(f"The option --{name} is given twice.")
        found[name] = value
    return found
