"""The verbs. Each is a module with its options, which imports what it needs when it runs, so that
`--help` answers at once; a command line that names a verb imports and builds that verb alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from admeasure import __version__
from admeasure.cli.arguments import EXTRA
from admeasure.cli.talking import talking
from admeasure.errors import ExitCode
from admeasure.late import Late

EPILOG = (
    "Start with `admeasure demo`. Progress goes to stderr, results to stdout. Exit codes: "
    + "; ".join(f"{int(code)} {code.meaning}" for code in ExitCode)
    + "."
)

VERBS: Late[Callable[..., Any] | typer.Typer] = Late(
    "admeasure.cli",
    {
        "demo": "demo.demo",
        "draft": "draft.draft",
        "check": "check.check",
        "plan": "plan.plan",
        "fit": "fit.fit",
        "screen": "screen.screen",
        "run": "run_file.run_file",
        "sample": "sample.sample",
        "answer": "answer.answer",
        "infer": "infer.infer",
        "evaluate": "evaluate.evaluate",
        "report": "report.report",
        "ui": "ui.ui",
        "audit": "audit.audit",
        "study": "study.study",
        "compare": "compare.compare",
        "export": "export.export",
        "ledger": "ledger.ledger",
    },
)


def command(first: str = "") -> Any:
    """The parser of command lines that begin with this word: of all of them, where it is no verb.

    >>> list(command("fit").commands), len(command("fitt").commands)
    (['fit'], 18)
    """
    parser: Any = typer.main.get_command(app([first] if first in VERBS else VERBS))
    both = talking()
    for verb in parser.commands.values():
        for one in getattr(verb, "commands", {"": verb}).values():
            one.params += both
    return parser


def app(verbs: Iterable[str]) -> typer.Typer:
    """The command line with these verbs."""
    made = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Release tables and answers about people under differential privacy.",
        epilog=EPILOG,
    )
    made.callback()(_all)
    for name in verbs:
        verb = VERBS[name]
        if isinstance(verb, typer.Typer):
            made.add_typer(verb, name=name)
        else:
            settings = EXTRA if name in ("plan", "fit") else None
            made.command(name, context_settings=settings)(verb)
    return made


def _version(value: bool) -> None:  # noqa: FBT001 (a callback of the parser)
    if value:
        print(f"admeasure {__version__}")
        raise typer.Exit


def _all(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...
