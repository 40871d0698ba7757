"""`run`: do what a run file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from admeasure.cli.arguments import Json, argument
from admeasure.cli.fit import say_promise, stated
from admeasure.terminal.console import confirm, log, say_json
from admeasure.terminal.exits import Interrupted

if TYPE_CHECKING:
    from admeasure.verbs.run_file import RanFile


def run_file(
    file: Annotated[Path, argument("FILE", "The run file (TOML).")],
    *,
    json: Json = False,
) -> None:
    """Do all that a run file says: fit, rows, answers, report. Again: what is missing of it."""
    from admeasure.release.store import partial_folder
    from admeasure.verbs.run_file import run_file as run

    places: list[Path] = []
    try:
        ran = run(file, started=places.append, progress=True)
    except KeyboardInterrupt:
        if any(partial_folder(place).exists() for place in places):
            raise Interrupted(
                f"What was released so far is kept in {partial_folder(places[0])}. Run the same "
                "file again to continue; nothing is charged twice."
            ) from None
        raise
    for written in ran.written:
        log("written", file=str(written))
    if json:
        say_json(_facts(ran))
    else:
        _print(ran)


def _facts(ran: RanFile) -> dict[str, object]:
    return {
        "release": str(ran.out),
        "fitted": ran.fitted,
        "written": list(map(str, ran.written)),
        "kept": list(map(str, ran.kept)),
        **stated(ran.release.certificate),
    }


def _print(ran: RanFile) -> None:
    say_promise(ran.release.certificate)
    there = "" if ran.fitted else " already; nothing was charged now"
    confirm(f"The release is in {ran.out}{there}.")
    for file in ran.written:
        confirm(f"Wrote {file}.")
    for file in ran.kept:
        confirm(f"{file} was there already.")
