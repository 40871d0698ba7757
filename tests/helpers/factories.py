"""Every source that the suites run over: the factories of tests/contracts/*_factories.py.

Each of these modules has FACTORIES, which make a source of columns of Python values (None is null),
a schema and a folder to write to; it may have MARKS for the tests that use them.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CONTRACTS = Path(__file__).parents[1] / "contracts"


def loaded(path: Path) -> ModuleType:
    """A module by its path, once a process."""
    name = f"admeasure_tests_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def sources() -> list[Any]:
    """The factories, as parameters of a test."""
    return [
        pytest.param(make, id=key, marks=getattr(module, "MARKS", ()))
        for module in map(loaded, sorted(CONTRACTS.glob("*_factories.py")))
        for key, make in module.FACTORIES.items()
    ]
