"""What is run, listed and written."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatch
from pathlib import Path

from common import RESULTS, Record, data_folder
from papers import aim, costs, gem, pmw, rap
from papers.case import Case
from papers.experiment import Experiment, Scale
from papers.page import STAMP, show, write
from papers.pieces import Pieces, carry_out

EXPERIMENTS: tuple[Experiment, ...] = (
    *aim.EXPERIMENTS,
    *pmw.EXPERIMENTS,
    *gem.EXPERIMENTS,
    *rap.EXPERIMENTS,
)


def main() -> None:
    given = _arguments()
    scale: Scale = "full" if given.full else "reduced"
    chosen = [e for e in EXPERIMENTS if any(fnmatch(e.name, p) for p in given.only)]
    if not chosen:
        names = ", ".join(e.name for e in EXPERIMENTS)
        sys.exit(f"No experiment is named {' or '.join(given.only)}. There are: {names}.")
    pieces = Pieces(given.out / "pieces")
    if given.list:
        print("\n".join(costs.listed(chosen, pieces)))
        return
    print(STAMP)
    if not given.page:
        data_folder()
        cases = _ordered([case for e in chosen for case in e.cases(scale)])
        missing = pieces.missing(cases, retry=given.retry)
        hours = sum(map(costs.seconds_of, missing)) / 3600
        print(
            f"{len(missing)} of {len(set(cases))} jobs to run, about {hours:.1f} processor hours."
        )
        done = carry_out(
            pieces,
            missing,
            workers=given.jobs,
            seconds=given.limit,
            megabytes=given.megabytes,
        )
        for number, record in enumerate(done, 1):
            print(f"{number}/{len(missing)} {_said(record)}", flush=True)
    # The page is of all experiments, whatever part was run.
    shown = [show(e, pieces, scale) for e in EXPERIMENTS]
    print(write(shown, given.out / scale, scale))
    if given.keep is not None:
        print(write(shown, given.keep, scale, page=False))


def _ordered(cases: list[Case]) -> list[Case]:
    """Seed by seed, so that a stopped run has some of everything; the long ones of a seed first, so
    that none is left alone at the end."""
    return sorted(dict.fromkeys(cases), key=lambda c: (c.seed, -costs.seconds_of(c)))


def _said(record: Record) -> str:
    case = Case.from_json(record["case"])
    head = f"{case.table} {case.workload} {case.line} epsilon {case.epsilon:g} seed {case.seed}"
    if "failure" in record:
        return f"{head}: {record['failure']}: {record['error']}"
    names = ("workload_error", "max_error", "future", "all_cpu_seconds")
    return head + "".join(f" {n}={record[n]:.4g}" for n in names if n in record)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="papers", description="The papers' figures by our code.")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--reduced", action="store_true", help="about 2 hours on 2 cores (default)")
    scale.add_argument("--full", action="store_true", help="the papers' own grids and seeds")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="such as 'aim/*'")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--limit", type=float, default=1800, help="seconds of one job")
    parser.add_argument("--megabytes", type=float, help="memory of one job")
    parser.add_argument("--retry", action="store_true", help="run failed jobs again")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    parser.add_argument("--list", action="store_true", help="jobs and estimated times")
    parser.add_argument("--out", type=Path, default=RESULTS / "papers")
    parser.add_argument("--keep", type=Path, help="a folder of the documentation for the page")
    given = parser.parse_args()
    given.only = given.only or ["*"]
    return given
