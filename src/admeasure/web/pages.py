"""The pages: what each shows, gathered from the workspace. Nothing here reads a private table."""

from __future__ import annotations

from typing import Any

import numpy as np

from admeasure.errors import AdmeasureError, UsageError
from admeasure.mechanisms import REGISTRY
from admeasure.mechanisms.auto import Auto
from admeasure.planning import certified
from admeasure.release import Release
from admeasure.reporting.facts import Ranked, rank
from admeasure.reporting.html import environment
from admeasure.web import asking, code, runs
from admeasure.web.kept import Damaged, read_text
from admeasure.web.runs import RunFolder
from admeasure.web.wording import KINDS, LABELS, on_page
from admeasure.web.workspace import TableFolder, TableState, Workspace

COMPARED_MARGINALS = 60


class Page:
    """A template and what goes into it."""

    def __init__(self, template: str, **values: Any) -> None:
        self.template, self.values = template, values

    def html(self, root: str) -> str:
        """The page, with all its links below `root`."""
        template = environment("admeasure.web").get_template(self.template)
        return template.render(root=root, **self.values)


def _step(table: TableFolder, step: str, state: TableState, **values: Any) -> Page:
    """The page of a step on the way of a table, which has the step's name unless told otherwise."""
    template = values.pop("template", f"{step}.html.j2")
    values = {"title": step.capitalize(), **values}
    return Page(template, step=step, table=table.name, state=state, **values)


def home(space: Workspace) -> Page:
    return Page(
        "home.html.j2",
        title="Tables",
        tables=[_summary(table) for table in space.tables()],
        suggestions=space.suggestions(),
        start=str(space.start),
        code=code.for_start(),
    )


def _summary(table: TableFolder) -> dict[str, Any]:
    try:
        state = table.read()
    except (Damaged, FileNotFoundError) as error:
        return {"name": table.name, "problem": str(error), "runs": []}
    step = "budget" if "workload" in state else "workload"
    if not table.schema_path.exists():
        step = "schema"
    return {
        "name": table.name,
        "problem": "",
        "data": state["data"],
        "columns": len(state["header"]),
        "step": step,
        "runs": [_run(run) for run in runs.all_runs(table)],
    }


def _run(run: RunFolder) -> dict[str, Any]:
    try:
        request = run.settings
    except (Damaged, FileNotFoundError):
        return {"number": run.number, "state": "damaged", "mechanism": "", "epsilon": ""}
    return {
        "number": run.number,
        "state": run.state,
        "mechanism": request.mechanism,
        "epsilon": request.epsilon,
    }


def schema(table: TableFolder) -> Page:
    state = table.read()
    return _step(
        table,
        "schema",
        state,
        text=read_text(table.schema_path) if table.schema_path.exists() else "",
        labels=LABELS,
        words={"labels": LABELS, "kinds": KINDS},
        code=code.for_schema(table, state),
    )


def workload(table: TableFolder) -> Page:
    state = table.read()
    known = table.schema()
    given = state.get("workload", {"kind": "rule", "rule": "all-2way", "entries": []})
    return _step(
        table,
        "workload",
        state,
        columns=[{"name": c.name, "levels": c.levels} for c in known.columns],
        given=given,
        code=code.for_workload(table, given.get("rule") or str(table.workload_path)),
    )


def budget(space: Workspace, table: TableFolder) -> Page:
    state = table.read()
    known = table.schema()
    table.workload(known)
    opened = space.opened_book()
    datasets = opened.datasets() if opened else ()
    given = {
        "epsilon": "",
        "delta": "1e-9",
        "certify": "",
        "mechanism": "auto",
        "rows": str(known.table.rows or ""),
        "options": "",
        "public": "",
        "dataset": known.table.name,
        **state.get("budget", {}),
    }
    recorded = {a.dataset for a in datasets}
    return _step(
        table,
        "budget",
        state,
        unit=known.unit.name,
        given=given,
        mechanisms=[(kind.name, kind.summary) for kind in (Auto, *REGISTRY.values())],
        datasets=datasets,
        book=space.book_shown,
        # A book is the default: not to record is a choice, which is kept once it was made.
        charge=("=" if given["dataset"] in recorded else "+") if given["dataset"] else "",
        replaces=known.unit.rows_are_public,
        usual=float(certified.USUAL),
        code=code.for_budget(table, space, given),
    )


def run(table: TableFolder, found: RunFolder) -> Page:
    release = asking.load(found.release) if found.state == runs.DONE else None
    made = code.for_run(found.settings, found.path)
    return _step(
        table,
        "runs",
        table.read(),
        template="run.html.j2",
        title=f"Run {found.number}",
        run=_run(found),
        others=[_run(other) for other in runs.all_runs(table)],
        release=release,
        columns=[] if release is None else [_asked_column(c) for c in release.schema.columns],
        samples=release is not None and _samples(release),
        report_ready=(found.path / "report.html").exists(),
        code=made if release is None else code.for_results(str(found.release)),
        made=made,
    )


def _asked_column(column: Any) -> dict[str, Any]:
    most = 40
    labels = column.labels
    return {
        "name": column.name,
        "type": str(column.type),
        "kind": KINDS[column.type],
        "labels": list(labels[:most]),
        "more": max(0, len(labels) - most),
        "levels": column.levels,
    }


def _samples(release: Release) -> bool:
    """Whether there are rows to be had."""
    try:
        release.model.sample(0, np.random.default_rng(0))
    except AdmeasureError:
        return False
    return True


def compare(table: TableFolder, numbers: list[str]) -> Page:
    """Runs side by side, by what their releases say of themselves."""
    chosen = [runs.find_run(table, number) for number in numbers] or runs.all_runs(table)
    done = [run for run in chosen if run.state == runs.DONE][:6]
    if not done:
        raise UsageError("There is no finished run to compare yet.")
    sides = [_side(run) for run in sorted(done, key=lambda r: r.number)]
    marginals = sorted(
        {columns for side in sides for columns in side["bounds"]},
        key=lambda c: -max(s["bounds"][c].error for s in sides if c in s["bounds"]),
    )
    return _step(
        table,
        "runs",
        table.read(),
        template="compare.html.j2",
        title="Compare",
        sides=sides,
        marginals=marginals[:COMPARED_MARGINALS],
        left_out=max(0, len(marginals) - COMPARED_MARGINALS),
        others=[_run(run) for run in runs.all_runs(table) if run.state == runs.DONE],
        shown={run.number for run in done},
        code=code.for_results(str(done[0].release)),
    )


def _side(run: RunFolder) -> dict[str, Any]:
    release = asking.load(run.release)
    ranked: tuple[Ranked, ...] = rank(release, release.evidence, 0.95)
    bounds = {r.columns: r for r in ranked}
    grades = {g: sum(r.grade == g for r in ranked) for g in ("good", "fair", "poor")}
    return {
        **_run(run),
        "mechanism": release.certificate.mechanism,
        "certificate": release.certificate,
        "rounds": release.facts.get("rounds"),
        "measurements": len(release.measurements),
        "rows": release.rows,
        "mean": sum(r.error for r in ranked) / max(1, len(ranked)),
        "grades": grades,
        "bounds": bounds,
    }


def book(space: Workspace) -> Page:
    accounts, problem = [], ""
    try:
        if opened := space.opened_book():
            accounts = [(a, opened.history(a.dataset)) for a in opened.datasets()]
    except AdmeasureError as error:  # another place may be chosen on this page
        problem = on_page(str(error))
    chosen = space.book
    return Page(
        "book.html.j2",
        title="Budget book",
        accounts=accounts,
        problem=problem,
        place=space.book_shown,
        address=chosen if isinstance(chosen, str) else "",
        code=code.for_book(str(chosen)),
    )


def problem(text: str) -> Page:
    return Page("problem.html.j2", title="That did not work", text=text)
