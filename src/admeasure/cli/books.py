"""`ledger create / show / close`: the budget book."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from admeasure.cli.console import say, say_json, table
from admeasure.privacy.book import Book


def create(file: Path, dataset: str, epsilon: float, delta: float) -> None:
    book = Book.create(file, dataset, epsilon=epsilon, delta=delta)
    total = float(book.account(dataset).rho)
    say(f"{dataset} is in {file} with epsilon {epsilon:g} at delta {delta:g} (rho {total:.6g}).")
    say(f"Charge runs to it with: admeasure fit … --ledger {file} --dataset {dataset}")


def close(file: Path, dataset: str) -> None:
    Book.open(file).close_dataset(dataset)
    say(f"{dataset} is closed: {file} refuses every further run on it.")


def show(file: Path, dataset: str | None, *, json: bool) -> None:
    book = Book.open(file)
    accounts = book.datasets() if dataset is None else (book.account(dataset),)
    if json:
        say_json({"book": str(file), "datasets": [_record(book, a) for a in accounts]})
        return
    lines = [
        [
            a.dataset,
            f"{a.epsilon:g}",
            f"{a.delta:g}",
            f"{float(a.rho):.6g}",
            f"{float(a.spent):.6g}",
            f"{float(a.left):.6g}",
            f"{a.epsilon_left:.4g}",
            "closed" if a.closed else "open",
        ]
        for a in accounts
    ]
    head = ["data set", "epsilon", "delta", "rho", "spent", "left", "epsilon left", "state"]
    for line in table(head, lines):
        say(line)
    if dataset is not None:
        _print_runs(book, dataset)


def _print_runs(book: Book, dataset: str) -> None:
    runs = [
        [
            str(e.id),
            e.started,
            e.mechanism,
            e.status,
            f"{e.epsilon:g}",
            f"{float(e.rho):.6g}",
            e.release,
        ]
        for e in book.history(dataset)
    ]
    say()
    if not runs:
        say("No run was charged yet.")
        return
    head = ["run", "started (UTC)", "mechanism", "status", "epsilon", "rho charged", "release"]
    for line in table(head, runs, left=4):
        say(line)
    if any(run[3] == "running" for run in runs):
        say("A killed run shows as running and stays charged in full; --resume continues it.")


def _record(book: Book, account: Any) -> dict[str, Any]:
    return {
        "dataset": account.dataset,
        "epsilon": account.epsilon,
        "delta": account.delta,
        "rho": account.rho,
        "rho_spent": account.spent,
        "rho_left": account.left,
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
                "rho": e.rho,
                "rho_reserved": e.reserved,
                "started": e.started,
                "ended": e.ended,
            }
            for e in book.history(account.dataset)
        ],
    }
