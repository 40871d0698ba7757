"""No version with a known fault may be installed: floors, constraints and what is here agree.

The faults are those of the table in docs/dependencies.md, which is kept by hand.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
_ROW = re.compile(r"\| ([a-z0-9-]+) \| ([0-9][0-9.]*) \| (.+) \| (20\d\d-\d\d) \|")
_NUMBERED = re.compile(r"CVE-\d{4}-\d{4,}|GHSA(-[a-z0-9]{4}){3}|PYSEC-\d{4}-\d+")


def faults() -> list[tuple[str, Version, str]]:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    section = text.partition("## Floors above known faults")[2]
    return [(name, Version(mended), fault) for name, mended, fault, _ in _ROW.findall(section)]


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(one) for group in (project["dependencies"], *extras) for one in group]


def lowest(requirement: Requirement) -> Version | None:
    floors = [Version(s.version) for s in requirement.specifier if s.operator in (">=", "==")]
    return max(floors, default=None)


def test_the_table_is_read_and_every_fault_has_a_number():
    rows = (ROOT / "docs" / "dependencies.md").read_text().count("| 2026-11 |")
    assert len(faults()) == rows > 15
    assert all(_NUMBERED.search(fault) for _, _, fault in faults())


@pytest.mark.parametrize(("name", "mended", "fault"), faults(), ids=str)
def test_a_floor_is_above_the_fault(name, mended, fault):
    named = [r for r in requirements() if canonicalize_name(r.name) == name]
    assert named, f"{name} has a known fault and no floor in pyproject.toml"
    for requirement in named:
        floor = lowest(requirement)
        assert floor is not None, f"{requirement} has no floor"
        assert floor >= mended, f"{requirement} allows {fault}"


def test_every_requirement_of_a_user_has_a_floor():
    ours = [r for r in requirements() if canonicalize_name(r.name) != "admeasure"]
    assert not [str(r) for r in ours if lowest(r) is None]


def test_constraints_satisfy_every_floor():
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = {canonicalize_name(n): Version(v) for n, v in (line.split("==") for line in lines)}
    for requirement in requirements():
        held = pinned.get(canonicalize_name(requirement.name))
        if held is not None:
            assert held in requirement.specifier, f"{requirement} is not met by {held}"
    for name, mended, fault in faults():
        assert pinned[name] >= mended, fault


def test_what_is_installed_has_none_of_the_faults():
    for name, mended, fault in faults():
        try:
            here = Version(version(name))
        except PackageNotFoundError:
            continue
        assert here >= mended, fault
