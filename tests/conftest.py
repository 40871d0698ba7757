"""Fixtures that several suites share."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from pages import build_site

TALLY = "audit: "

# A shared machine is slow now and then; speed is judged in benchmarks/, never here.
# In CI the same examples every time: a new find belongs to a developer, not to a merge.
settings.register_profile("patient", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("patient")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Of this folder, only test files: doctests are those of the product, and the scripts beside
    the tests expect to be started by hand."""
    is_script = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if is_script else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Half a million objects of modules and tests live to the end: no garbage is looked for among
    them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark first: of several processes that share the tests, one alone then starts Java."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of benchmark tables; the test is skipped where it is not there."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("ADMEASURE_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no benchmark tables at {folder}; set ADMEASURE_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def site(shared_folder: Path) -> Path:
    """The documentation as `make docs` builds it, without a warning."""
    return build_site(shared_folder)


@pytest.fixture(scope="session")
def times() -> Callable[[int, int], int]:
    """How often an attack is made: `times(few, full)` is `few` with every change, and `full` where
    ADMEASURE_AUDIT is "full", as `make audit` sets it."""
    return lambda few, full: full if os.environ.get("ADMEASURE_AUDIT") == "full" else few


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Count what a suite did: `tally("kills survived", 20)`."""
    return lambda what, times: record_property(TALLY + what, times)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    sums: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, value in report.user_properties:
                if name.startswith(TALLY):
                    sums[name] = sums.get(name, 0) + value
    if sums:
        terminalreporter.section("what the audits did")
        for name, value in sorted(sums.items()):
            terminalreporter.write_line(f"{value:>12,}  {name.removeprefix(TALLY)}")
