"""The verbs. Each is a module with its options, which imports what it needs when it runs, so that
`--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from admeasure import __version__
from admeasure.cli.answer import answer
from admeasure.cli.arguments import EXTRA
from admeasure.cli.audit import audit
from admeasure.cli.check import check
from admeasure.cli.compare import compare
from admeasure.cli.demo import demo
from admeasure.cli.draft import draft
from admeasure.cli.evaluate import evaluate
from admeasure.cli.export import export
from admeasure.cli.fit import fit
from admeasure.cli.infer import infer
from admeasure.cli.ledger import ledger
from admeasure.cli.plan import plan
from admeasure.cli.report import report
from admeasure.cli.run_file import run_file
from admeasure.cli.sample import sample
from admeasure.cli.screen import screen
from admeasure.cli.study import study
from admeasure.cli.talking import talking
from admeasure.cli.ui import ui
from admeasure.errors import ExitCode

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Release tables and answers about people under differential privacy.",
    epilog="Start with `admeasure demo`. Progress goes to stderr, results to stdout. Exit codes: "
    + "; ".join(f"{int(code)} {code.meaning}" for code in ExitCode)
    + ".",
)
app.add_typer(ledger, name="ledger")


def command() -> Any:
    """The parser of the whole command line."""
    return typer.main.get_command(app)


def _version(value: bool) -> None:  # noqa: FBT001 (a callback of the parser)
    if value:
        print(f"admeasure {__version__}")
        raise typer.Exit


@app.callback()
def _all(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


VERBS = {
    "demo": demo,
    "draft": draft,
    "check": check,
    "plan": plan,
    "fit": fit,
    "screen": screen,
    "run": run_file,
    "sample": sample,
    "answer": answer,
    "infer": infer,
    "evaluate": evaluate,
    "report": report,
    "ui": ui,
    "audit": audit,
    "study": study,
    "compare": compare,
    "export": export,
}
for name, verb in VERBS.items():
    app.command(name, context_settings=EXTRA if verb in (plan, fit) else None)(talking(verb))
for registered in ledger.registered_commands:
    if registered.callback is not None:
        registered.callback = talking(registered.callback)
