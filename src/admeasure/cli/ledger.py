"""`ledger create / show / verify / close`: the budget book."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from admeasure.cli.arguments import BookPlace, Dataset, Delta, Epsilon, Json, option
from admeasure.errors import BudgetError
from admeasure.terminal.console import confirm, say, say_json, say_table

if TYPE_CHECKING:
    from admeasure.privacy.book import Book, Comparison

ledger = typer.Typer(help="The budget book: what was ever spent on a data set.")


@ledger.command("create")
def create(
    file: BookPlace,
    dataset: Dataset,
    epsilon: Epsilon,
    delta: Delta = 1e-9,
    delta_share: Annotated[
        float,
        option(
            "D", 'Of delta, for runs that find levels (enum = "private"): a tenth of delta each.'
        ),
    ] = 0.0,
) -> None:
    """Enter a data set with its total budget, which stands for good."""
    from admeasure.privacy.book import Book

    book = Book.create(file, dataset, epsilon=epsilon, delta=delta, delta_share=delta_share)
    total = book.account(dataset).total
    confirm(f"{dataset} is in {book.path} with epsilon {epsilon:g} at delta {delta:g} ({total}).")
    confirm(f"Charge runs to it with: admeasure fit … --ledger {book.path} --dataset {dataset}")


@ledger.command("show")
def show(
    file: BookPlace,
    dataset: Annotated[str | None, option("NAME", "Only this one, with its runs.")] = None,
    *,
    json: Json = False,
) -> None:
    """What was spent and what is left."""
    from admeasure.privacy.book import Book

    book = Book.open(file)
    accounts = book.datasets() if dataset is None else (book.account(dataset),)
    if json:
        say_json({"book": str(book.path), "datasets": [_record(book, a) for a in accounts]})
        return
    lines = [
        [
            a.dataset,
            f"{a.epsilon:g}",
            f"{a.delta:g}",
            f"{float(a.total):.6g}",
            f"{float(a.spent):.6g}",
            f"{float(a.left):.6g}",
            f"{a.epsilon_left:.4g}",
            "closed" if a.closed else "open",
        ]
        for a in accounts
    ]
    head = ["data set", "epsilon", "delta", "rho", "spent", "left", "epsilon left", "state"]
    say_table(head, lines)
    for a in accounts:
        if a.total.delta_share:
            spent, total = (float(cost.delta_share) for cost in (a.spent, a.total))
            say(f"{a.dataset}: {spent:.4g} of the share {total:.4g} of delta is spent.")
    if dataset is not None:
        _print_runs(book, dataset)


@ledger.command("verify")
def verify(
    file: BookPlace,
    against: Annotated[str | None, option("COPY", "Compare with a copy of the book.")] = None,
    *,
    json: Json = False,
) -> None:
    """Whether the book is undamaged, and holds all that a copy of it holds."""
    from admeasure.privacy.book import Book

    book = Book.open(file)
    found = book.changes()
    last = found[-1].link if found else ""
    copy = None if against is None else Book.open(against)
    compared = None if copy is None else book.compare(copy)
    if copy is not None and compared is not None and not compared.lacks_nothing:
        raise BudgetError(_parted(book, copy, compared))
    if json:
        facts = copy and compared and {"copy": str(copy.path), **asdict(compared)}
        say_json({"book": str(book.path), "changes": len(found), "link": last, "against": facts})
        return
    say(f"{book.path} is undamaged: {len(found)} changes, the last with the link {last[:16]}.")
    if copy is not None and compared is not None:
        newer = f" and {compared.only_here} more" if compared.only_here else ""
        say(f"It holds all {compared.shared} changes of {copy.path}{newer}.")


@ledger.command("close")
def close(file: BookPlace, dataset: Dataset) -> None:
    """Refuse every further run on a data set, for good."""
    from admeasure.privacy.book import Book

    book = Book.open(file)
    book.close_dataset(dataset)
    confirm(f"{dataset} is closed: {book.path} refuses every further run on it.")


def _parted(book: Book, other: Book, found: Comparison) -> str:
    file, copy = book.path, other.path
    if not found.shared:
        return f"{file} and {copy} are different books: they have no change in common."
    if not found.only_here:
        return (
            f"{file} lacks the last {found.only_there} changes that {copy} holds: it was set back. "
            f"Use {copy} instead, or what it lacks is spent twice."
        )
    return (
        f"{file} and {copy} part after {found.shared} shared changes: {found.only_here} are only "
        f"in the first and {found.only_there} only in the second. Runs were charged to both; keep "
        "one, and enter there what only the other holds."
    )


def _print_runs(book: Book, dataset: str) -> None:
    runs = [
        [
            str(e.id),
            e.started,
            e.mechanism,
            e.status,
            f"{e.epsilon:g}",
            f"{float(e.cost):.6g}",
            e.release,
        ]
        for e in book.history(dataset)
    ]
    say()
    if not runs:
        say("No run was charged yet.")
        return
    head = ["run", "started (UTC)", "mechanism", "status", "epsilon", "rho charged", "release"]
    say_table(head, runs, left=4)
    if any(run[3] == "running" for run in runs):
        say("A killed run shows as running and stays charged in full; --resume continues it.")


def _record(book: Book, account: Any) -> dict[str, Any]:
    return {
        "dataset": account.dataset,
        "epsilon": account.epsilon,
        "delta": account.delta,
        "rho": float(account.total),
        "rho_spent": float(account.spent),
        "rho_left": float(account.left),
        "delta_share": float(account.total.delta_share),
        "delta_share_spent": float(account.spent.delta_share),
        "epsilon_spent": account.epsilon_spent,
        "epsilon_left": account.epsilon_left,
        "created": account.created,
        "closed": account.closed,
        "runs": [
            {
                "id": e.id,
                "mechanism": e.mechanism,
                "release": e.release,
                "status": e.status,
                "epsilon": e.epsilon,
                "delta": e.delta,
                "rho": float(e.cost),
                "rho_reserved": float(e.reserved),
                "delta_share": float(e.cost.delta_share),
                "started": e.started,
                "ended": e.ended,
            }
            for e in book.history(account.dataset)
        ],
    }
