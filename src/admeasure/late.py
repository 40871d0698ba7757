"""What is imported when it is asked for: modules, and the members of registries. Who needs one
does not wait for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


class Late(Mapping[str, T]):
    """What stands in a package, by name; `homes` says in which of its modules, and as what.

    >>> readers = Late("json", {"text": "decoder.JSONDecoder"})
    >>> "text" in readers, readers["text"].__name__
    (True, 'JSONDecoder')
    """

    def __init__(self, package: str, homes: Mapping[str, str]) -> None:
        self.package, self.homes = package, dict(homes)

    def __getitem__(self, name: str) -> T:
        module, _, member = self.homes[name].rpartition(".")
        return getattr(import_module(f"{self.package}.{module}"), member)

    def __contains__(self, name: object) -> bool:
        return name in self.homes

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)


class LateModule(ModuleType):
    """A module of another package that many of our processes never use.

    >>> LateModule("json").loads("[1]")
    [1]
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)
