"""Small fits in several processes against one book: `python charges.py BOOK PROCESSES FITS FOLDER`.

Each process writes one line for each of its fits, the exact rho that the release says was spent,
and one `refused` for a fit that the book refused.
"""

from __future__ import annotations

import os
import sys
import warnings
from fractions import Fraction
from pathlib import Path

from admeasure.errors import BudgetError
from admeasure.mechanisms import build
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit

SCHEMA = Schema.coded("toy", {"a": 2})
DATA = {"a": [0, 1, 1, 0, 1]}


def small_fits(book: str, fits: int, out: Path) -> None:
    warnings.simplefilter("ignore")
    with out.open("w") as told:
        for i in range(fits):
            # Every third run measures nothing and gives all of its reservation back.
            mechanism = build("all-zero" if i % 3 == 0 else "gaussian")
            try:
                release = fit(
                    DATA,
                    SCHEMA,
                    workload="all-1way",
                    mechanism=mechanism,
                    epsilon=0.05,
                    delta=1e-6,
                    charge_to=ChargeTo(book, "toy"),
                )
            except BudgetError:
                told.write("refused\n")
                continue
            results = (e for e in release.log if e["event"] != "intent")
            told.write(f"{sum((Fraction(e['rho']) for e in results), Fraction(0))}\n")


def main() -> None:
    book, processes, fits, folder = sys.argv[1:]
    children = []
    for number in range(int(processes)):
        child = os.fork()
        if not child:
            code = 1
            try:
                small_fits(book, int(fits), Path(folder) / str(number))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
