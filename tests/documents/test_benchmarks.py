"""The benchmarks, which nobody runs every day: each can be imported and explains itself.

That they call what is there is for the type checker, which reads them with the package.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import script

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path for path in BENCHMARKS.glob("*.py") if "ArgumentParser" in path.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_benchmark_says_how_it_is_called(path: Path) -> None:
    done = script(path, "--help").ended()
    assert (done.code, done.err) == (0, b"")
    assert done.out.startswith(b"usage: " + path.name.encode())


def test_most_benchmarks_have_a_command_line() -> None:
    assert len(SCRIPTS) > 15
