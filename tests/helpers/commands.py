"""Commands in processes of their own that begin with the product's imports behind them.

One process a test process imports what the commands need and forks for each of them: a command then
takes the time of its work, where a new interpreter would import for most of a second.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

IMPORTED = (
    "admeasure.cli.answer", "admeasure.cli.app", "admeasure.cli.audit", "admeasure.cli.check",
    "admeasure.cli.draft", "admeasure.cli.fit", "admeasure.cli.plan", "admeasure.cli.report",
    "admeasure.cli.run", "admeasure.cli.sample", "admeasure.mechanisms.mst", "admeasure.release",
    "admeasure.reporting.html", "admeasure.sources.files.source", "admeasure.verbs.audit",
    "admeasure.verbs.check", "admeasure.verbs.draft", "admeasure.verbs.fit",
    "admeasure.verbs.report", "duckdb", "jinja2", "numpy", "pyarrow", "scipy.optimize",
    "scipy.sparse", "scipy.special",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    code: int
    out: bytes
    err: bytes


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def command(args: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> Ended:
    """`admeasure ARGS` in the folder and with no other environment than the given one."""
    with tempfile.TemporaryDirectory() as said:
        out, err = Path(said, "out"), Path(said, "err")
        process = _server().Process(target=_work, args=(args, folder, dict(environment), out, err))
        process.start()
        process.join(300)
        assert process.exitcode is not None, f"{args} did not end"
        return Ended(process.exitcode, out.read_bytes(), err.read_bytes())


def _work(
    args: tuple[str, ...], folder: Path, environment: dict[str, str], out: Path, err: Path
) -> None:
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    from admeasure.cli.run import run

    raise SystemExit(run(args))
