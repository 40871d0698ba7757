"""Parts of the program that need libraries which the base install leaves out."""

from __future__ import annotations

import importlib.util

from admeasure.errors import UsageError


def need(module: str, extra: str, what: str) -> None:
    """Raise `UsageError` unless `module` is installed. Nothing is imported.

    >>> need("json", "none", "Reading JSON")
    """
    if importlib.util.find_spec(module) is None:
        raise UsageError(
            f"{what} needs {module}, which is not installed. "
            f"Install it with: pip install 'admeasure[{extra}]'"
        )
