"""`run`: do what a run file says."""

from __future__ import annotations

from pathlib import Path

from admeasure.release.store import partial_folder
from admeasure.terminal.console import banner, confirm, log, say_json
from admeasure.terminal.exits import Interrupted
from admeasure.verbs.run_file import RanFile, run_file


def show(path: Path, *, json: bool) -> None:
    places: list[Path] = []
    try:
        ran = run_file(path, started=places.append, progress=True)
    except KeyboardInterrupt:
        if any(partial_folder(place).exists() for place in places):
            raise Interrupted(
                f"What was released so far is kept in {partial_folder(places[0])}. Run the same "
                "file again to continue; nothing is charged twice."
            ) from None
        raise
    for file in ran.written:
        log("written", file=str(file))
    if json:
        say_json(_facts(ran))
    else:
        _print(ran)


def _facts(ran: RanFile) -> dict[str, object]:
    c = ran.release.certificate
    return {
        "release": str(ran.out),
        "fitted": ran.fitted,
        "written": list(map(str, ran.written)),
        "kept": list(map(str, ran.kept)),
        "mechanism": c.mechanism,
        "epsilon": c.epsilon,
        "delta": c.delta,
        "rho": c.rho,
        "rho_spent": c.rho_spent,
        "private": c.private,
        "stamp": c.stamp,
        "accuracy": c.accuracy,
    }


def _print(ran: RanFile) -> None:
    c = ran.release.certificate
    if c.stamp:
        banner(c.stamp)
    confirm(f"{c.mechanism}: {c.promise}")
    if c.accuracy:
        confirm(c.accuracy)
    there = "" if ran.fitted else " already; nothing was charged now"
    confirm(f"The release is in {ran.out}{there}.")
    for file in ran.written:
        confirm(f"Wrote {file}.")
    for file in ran.kept:
        confirm(f"{file} was there already.")
