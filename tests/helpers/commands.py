"""Commands and scripts in processes of their own that begin with the product's imports behind them.

One process a test process imports what they need and forks for each of them: a command then takes
the time of its work, where a new interpreter would import for most of a second. Not for tests that
look at the memory of a process, at its imports or at its start.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

IMPORTED = (
    "admeasure.auditing.release", "admeasure.cli.app", "admeasure.cli.eyes",
    "admeasure.cli.profile", "admeasure.cli.run",
    "admeasure.conclusions", "admeasure.mechanisms.mst", "admeasure.privacy.book",
    "admeasure.release", "admeasure.reporting.html", "admeasure.reporting.text",
    "admeasure.sources.files.source", "admeasure.sources.memory",
    "admeasure.verbs.answer", "admeasure.verbs.audit", "admeasure.verbs.check",
    "admeasure.verbs.draft", "admeasure.verbs.fit", "admeasure.verbs.plan",
    "admeasure.verbs.report", "admeasure.verbs.sample", "admeasure.verbs.screen", "duckdb",
    "jinja2", "numpy", "pyarrow", "scipy.optimize", "scipy.sparse", "scipy.special",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    code: int
    out: bytes
    err: bytes


class Started:
    """A process at work. What it says is kept in a folder that goes when it has ended."""

    def __init__(self, target: str | Path, args: tuple[str, ...], **where: object) -> None:
        self._said = tempfile.TemporaryDirectory()
        self._out, self._err = Path(self._said.name, "out"), Path(self._said.name, "err")
        self._process: BaseProcess = _server().Process(
            target=_work, args=(target, args, where, self._out, self._err)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def code(self) -> int | None:
        """None as long as it runs; of a process that a signal ended, its negative number."""
        return self._process.exitcode

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self, seconds: float = 300) -> Ended:
        """Wait for its end."""
        self._process.join(seconds)
        assert self.code is not None, "the process did not end"
        with self._said:
            return Ended(self.code, _read(self._out), _read(self._err))


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def command(
    args: tuple[str, ...], folder: Path, environment: Mapping[str, str] | None = None
) -> Started:
    """`admeasure ARGS` in the folder, with this process' environment or the given one alone."""
    return Started("", args, folder=folder, environment=_environment(environment))


def script(path: Path, *args: object, environment: Mapping[str, str] | None = None) -> Started:
    """`python PATH ARGS` in the folder at hand."""
    own = _environment(environment)
    return Started(path, tuple(map(str, args)), folder=Path.cwd(), environment=own)


def program(text: str, args: tuple[str, ...], folder: Path) -> Started:
    """`python -c TEXT ARGS` in a folder."""
    return Started(text, args, folder=folder, environment=_environment(None))


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    return dict(os.environ if given is None else given)


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _work(
    target: str | Path, args: tuple[str, ...], where: dict[str, object], out: Path, err: Path
) -> None:
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.chdir(where["folder"])  # type: ignore[arg-type]
    os.environ.clear()
    os.environ.update(where["environment"])  # type: ignore[arg-type]
    tempfile.tempdir = None
    if not target:
        from admeasure.cli.run import run

        raise SystemExit(run(args))
    warnings.simplefilter("ignore")
    if isinstance(target, Path):
        sys.argv = [str(target), *args]
        sys.path.insert(0, str(target.parent))
        runpy.run_path(str(target), run_name="__main__")
    else:
        sys.argv = ["-c", *args]
        exec(compile(target, "<program>", "exec"), {"__name__": "__main__"})
