"""What a budget would buy, and the run that spends it: the one that was shown, and once.

An `Offer` is everything that decides a run, read in one moment. The plan that a page shows carries
the offer's digest and a nonce; a start sends both back. Where anything has changed since, nothing
is started and the page shows anew. The same nonce again leads to the run that it has started.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.plain import large_and_rest
from admeasure.planning import certified
from admeasure.planning.division import Task
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Cost, in_decimal
from admeasure.schema import Schema
from admeasure.verbs.given import choice_of, given_public, mechanism_of
from admeasure.verbs.plan import WARNINGS, Planned
from admeasure.verbs.plan import plan as planned
from admeasure.web import code, runs
from admeasure.web.kept import read_text
from admeasure.web.wording import on_page
from admeasure.web.workspace import Stale, TableFolder, Workspace
from admeasure.workload import Workload, parse_workload

Json = dict[str, Any]
ITEMS_SHOWN = 12
COMPARED = 10_000
"""The most queries of a workload that is also planned for other epsilons, to be compared."""
NOT_AS_SHOWN = (
    "Nothing was started and nothing is charged: schema, workload or budget are not what this page "
    "has shown, or a run was started elsewhere. Look at the plan again, then start."
)


@dataclass(frozen=True)
class Offer:
    """What a run would do, as it stands now."""

    version: int
    data: str
    schema_text: str
    rule: str
    workload_text: str
    asked: dict[str, str]
    book: str
    public: str
    public_state: tuple[int, int] | None

    @classmethod
    def read(cls, space: Workspace, table: TableFolder, asked: Mapping[str, Any]) -> Offer:
        """The table's files are read once, here; a run gets these texts and no others."""
        state = table.read()
        if not (table.schema_path.exists() and table.workload_path.exists()):
            raise UsageError("Schema or workload are not complete yet. Go back to these steps.")
        public = space.located(str(asked.get("public", "")))
        return cls(
            version=state["version"],
            data=state["data"],
            schema_text=read_text(table.schema_path),
            rule=state.get("workload", {}).get("text", ""),
            workload_text=read_text(table.workload_path),
            asked={key: str(value).strip() for key, value in asked.items()},
            book=str(space.book),
            public=public,
            public_state=_state_of(public),
        )

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def schema(self) -> Schema:
        return Schema.loads(self.schema_text)

    def workload(self, schema: Schema) -> Workload:
        if self.rule:
            return parse_workload(self.rule, schema.domain)
        workload = Workload.loads(self.workload_text)
        workload.validate(schema.domain)
        return workload


def _state_of(path: str) -> tuple[int, int] | None:
    """A file's size and time; None for what is not a file."""
    try:
        found = Path(path).stat() if path else None
    except (OSError, ValueError):
        return None
    return None if found is None else (found.st_size, found.st_mtime_ns)


def plan(space: Workspace, table: TableFolder, body: Json) -> Json:
    """What a budget would buy. Touches no data."""
    offer = Offer.read(space, table, body["budget"])
    found = _plan(space, offer)
    asked = {**offer.asked, "share": f"{found['certify']:g}"}
    return {
        **found,
        "code": code.for_budget(table, space, asked),
        "shown": offer.digest,
        "nonce": secrets.token_urlsafe(18),
    }


def _plan(space: Workspace, offer: Offer) -> Json:
    asked, schema = offer.asked, offer.schema
    workload = offer.workload(schema)
    rows = _rows(asked["rows"]) if asked["rows"] else None
    wanted = mechanism_of(asked["mechanism"], _options(asked))
    choice = choice_of(wanted, workload, offer.public or None)
    mechanism = given_public(choice.mechanism, offer.public or None, schema)
    epsilon, delta = number(asked["epsilon"], "epsilon"), number(asked["delta"], "delta")
    task, by_auto = Task.of(schema, workload), bool(choice.why)
    certify = certified.share_of(_certify(asked), task, by_auto=by_auto)

    def at(asked: float) -> Planned:
        return planned(
            schema,
            workload=workload,
            epsilon=asked,
            delta=delta,
            mechanism=mechanism,
            rows=rows,
            certify=float(certify),
        )

    found = at(epsilon)
    made, budget = found.plan, found.budget
    parts = [float(item.total.ratio(budget)) for item in made.items]
    shown, rest = large_and_rest(parts, ITEMS_SHOWN)
    others = []
    for factor in (0.5, 1.0, 2.0, 4.0) if len(workload) <= COMPARED else ():
        other = found if factor == 1 else at(factor * epsilon)
        others.append({"epsilon": factor * epsilon, "expected": other.plan.expected_error})
    return {
        **found.to_json(),
        "summary": mechanism.summary,
        "certify": float(certify),
        "expected": made.expected_error,
        "warnings": [on_page(note) for note in made.notes if note in WARNINGS],
        "notes": [on_page(n) for n in (*choice.notes, *made.notes) if n not in WARNINGS],
        "items": [
            {"what": item.what, "times": item.times, "share": part, "sigma": item.sigma}
            for item, part in ((made.items[i], parts[i]) for i in shown)
        ],
        "more": len(rest),
        "share_of_more": sum(parts[i] for i in rest),
        "others": others,
        "book": _left(space, asked, budget),
    }


def number(text: str, name: str) -> float:
    if not text:
        raise UsageError(f"Choose {name} first.")
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name} must be a number; it is {text!r}.") from None


def _certify(asked: Mapping[str, Any]) -> float | None:
    """The share for the accuracy certificate, which people type in percent; None for the usual."""
    text = asked.get("certify", "").removesuffix("%").strip()
    if not text:
        return None
    percent = number(text, "the part for the accuracy certificate")
    if not 0 <= percent < 100:
        raise UsageError(
            f"The part for the accuracy certificate is from 0 to below 100 percent; it is "
            f"{percent:g}. 5 is a good one, 0 is none."
        )
    return percent / 100


def _rows(text: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise UsageError("The number of rows must be a whole number.")
    return int(text)


def _options(asked: Mapping[str, Any]) -> dict[str, str]:
    """`rounds=20, alpha=0.8` as options."""
    found = {}
    for part in asked.get("options", "").replace(",", " ").split():
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"An option is written name=value; {part!r} is not.")
        found[name.removeprefix("--")] = value
    return found


def _left(space: Workspace, asked: Mapping[str, Any], budget: Cost) -> Json | None:
    """What the book says of the data set that the run would be charged to."""
    dataset = asked.get("dataset", "")
    opened = space.opened_book() if dataset else None
    found = [a for a in opened.datasets() if a.dataset == dataset] if opened else []
    if not found:
        return None
    account = found[0]
    return {
        "dataset": dataset,
        "epsilon": account.epsilon,
        "epsilon_left": account.epsilon_left,
        "closed": account.closed,
        "enough": account.closed is None and budget <= account.left,
    }


def _share(found: Json, *, epsilon: float, total: float) -> Fraction:
    """Of delta, for a data set whose runs find levels: what as many such runs need as the total
    has room for, and five at most."""
    return in_decimal(found["delta_share"]) * min(max(int(total / epsilon), 1), 5)


def start(space: Workspace, table: TableFolder, body: Json) -> Json:
    """Start the run that was shown, once."""
    nonce, shown = str(body["nonce"]), str(body["shown"])
    if not 16 <= len(nonce) <= 64:
        raise ValueError(nonce)
    with table.held():
        run = runs.with_nonce(table, nonce) or _start(space, table, body["budget"], nonce, shown)
    return {"next": f"/tables/{table.name}/runs/{run.number}"}


def _start(
    space: Workspace, table: TableFolder, asked: Mapping[str, Any], nonce: str, shown: str
) -> runs.RunFolder:
    """Enter the data set where it is new, then start the run; the book decides whether it may."""
    offer = Offer.read(space, table, asked)
    if offer.digest != shown:
        raise Stale(NOT_AS_SHOWN)
    found = _plan(space, offer)  # refuses what cannot be run, before anything is entered
    asked = offer.asked
    dataset = asked.get("dataset", "")
    if dataset.startswith("-"):
        raise UsageError(f"{dataset!r} would be taken for an option. Name the data set otherwise.")
    request = runs.RunSettings(
        data=offer.data,
        rule=offer.rule,
        epsilon=asked["epsilon"],
        delta=asked["delta"],
        mechanism=asked["mechanism"],
        options=_options(asked),
        public=offer.public,
        dataset=dataset,
        ledger=offer.book if dataset else "",
        certify=f"{found['certify']:g}",
        rho=found["rho"],
        nonce=nonce,
    )
    run = runs.prepare(table, request, offer.schema_text, offer.workload_text)
    try:
        if dataset and asked.get("total", ""):
            total = number(asked["total"], "the total epsilon")
            delta = number(asked["delta"], "delta")
            share = _share(found, epsilon=number(asked["epsilon"], "epsilon"), total=total)
            Book.create(offer.book, dataset, epsilon=total, delta=delta, delta_share=share)
    except BaseException:
        shutil.rmtree(run.path)
        raise
    kept = {key: value for key, value in asked.items() if key != "total"}
    table.change_held(offer.version, {"budget": kept, "started": run.number})
    runs.spawn(run)
    return run
