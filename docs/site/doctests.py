"""Examples in docstrings (`>>> …`) become blocks of code of the Python reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> .*\n(?:^\1\S.*(?:\n|\Z))*", re.MULTILINE)


def fenced(text: str) -> str:
    """
    >>> print(fenced("Twice:\\n\\n>>> 2 * 3\\n6\\n"))
    Twice:
    <BLANKLINE>
    ```pycon
    >>> 2 * 3
    6
    ```
    <BLANKLINE>
    """
    return _EXAMPLE.sub(lambda m: f"{m[1]}```pycon\n{m[0].rstrip()}\n{m[1]}```\n", text)


class Doctests(griffe.Extension):
    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
