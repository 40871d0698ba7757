"""`demo`: every verb on the bundled table, as the commands a user would type."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

from admeasure.cli.arguments import option
from admeasure.demo import FILES, unpack
from admeasure.errors import UsageError
from admeasure.terminal.console import BOLD, DIM, say, styled

EPSILON, TOTAL = "1", "3"


def demo(
    out: Annotated[Path | None, option("DIR", "Where to put the files.")] = None,
) -> None:
    """The whole path on a bundled table; under a minute."""
    started = time.perf_counter()
    folder = _folder(out)
    unpack(folder)
    f = {name: str(folder / name) for name in ("adult.csv", *FILES, "budget.db", "release")}
    given = ["--schema", f["schema.toml"], "--workload", f["workload.toml"]]

    _tell(
        f"A table to be treated as private, its schema, a workload and questions are in {folder}.\n"
        "(Nobody is in it: the rows are a release of UCI's Adult, made with admeasure.)"
    )
    _tell("The schema is written from public knowledge. Does the table satisfy it?")
    _command("check", f["adult.csv"], "--schema", f["schema.toml"])
    _tell("A budget for all that will ever be released about these people:")
    _command("ledger", "create", f["budget.db"], "--dataset", "adult", "--epsilon", TOTAL)
    _tell(
        "What would a third of it buy? This reads no data. A twentieth is kept for a certificate\n"
        "of accuracy: how far the release is from the table."
    )
    _command("plan", *given, "--epsilon", EPSILON)
    _tell("Spend it. Only this step reads the table; what it releases is noisy.")
    book = ["--ledger", f["budget.db"], "--dataset", "adult"]
    asked = [*given, "--epsilon", EPSILON]
    _command("fit", f["adult.csv"], *asked, *book, "--out", f["release"])
    _tell("Synthetic rows, to be used in place of the table:")
    _command("sample", f["release"], "-n", "48842", "-o", str(folder / "synthetic.csv"))
    _tell("Questions, with intervals for the true counts. These cost nothing, as often as you ask.")
    _command("answer", f["release"], f["questions.toml"])
    _tell(
        "How to read it: 'rows' is the release's answer, and the true count lies between 'from' and"
        "\n'to', but for one interval in twenty. A narrow interval is an answer to rely on."
        "\nWho never worked has no occupation: the schema rules it out, so the release has none."
    )
    _tell("A summary that may be published with the release:")
    report = ["-o", str(folder / "report.html"), "--ledger", f["budget.db"]]
    _command("report", f["release"], *report)
    _tell("What is left of the budget:")
    _command("ledger", "show", f["budget.db"], "--dataset", "adult")
    _tell("You hold the table, so you may look at the true errors. Nobody else may:")
    _command("evaluate", f["release"], f["adult.csv"], *given)
    _next(f, folder, time.perf_counter() - started)


def _command(*argv: str) -> None:
    """Show the command and run it, as the shell would."""
    from admeasure.cli.app import command

    line = shlex.join(["admeasure", *argv])
    sys.stderr.flush()
    say(styled(f"$ {line}", BOLD, sys.stdout))
    sys.stdout.flush()
    command(argv[0]).main(list(argv), prog_name="admeasure", standalone_mode=False)
    sys.stdout.flush()


def _tell(text: str) -> None:
    say()
    for line in text.splitlines():
        print(styled("# " + line, DIM, sys.stdout))


def _folder(out: Path | None) -> Path:
    """A new folder; the default name gets a number where it is taken."""
    if out is not None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(f"{out} exists already. Name another folder, or remove it first.")
        folder = out
    else:
        names = (Path("admeasure-demo" + (f"-{i}" if i > 1 else "")) for i in range(1, 10_000))
        folder = next(name for name in names if not name.exists())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The folder {folder} cannot be made: {error.strerror}. Name another."
        ) from None
    return folder


def _next(f: dict[str, str], folder: Path, seconds: float) -> None:
    from admeasure.mechanisms import REGISTRY

    others = ", ".join(REGISTRY)
    _tell(f"That was everything, in {seconds:.0f} seconds. What to try next:")
    say(f"- Read {folder / 'report.html'} and {Path(f['release']) / 'certificate.yaml'}.")
    say(f"- Change {f['questions.toml']} and run `admeasure answer` again: it costs nothing.")
    say("- Fit again until the budget book refuses; see `admeasure ledger show`.")
    say(f"- Try another mechanism ({others}) or a wider workload: --workload all-2way.")
    say("- Start on a table of your own: `admeasure draft DATA -o schema.toml`.")
