"""One page for all experiments: what each figure says, ours beside the printed numbers.

As Markdown and HTML, with the pictures beside it, all points as CSV, the date and the commit.
"""

from __future__ import annotations

import csv
import html
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from common import ROOT
from papers.experiment import Experiment, Found, Panel, Runs, Scale
from papers.picture import draw
from papers.pieces import Pieces

TITLES = {
    "aim": "AIM (McKenna, Mullins, Sheldon, Miklau 2022)",
    "pmw-pub": "PMW-Pub (Liu, Vietri, Steinke, Ullman, Wu 2021), appendix",
    "gem": "GEM and PEP (Liu, Vietri, Wu 2021)",
    "rap": "RAP at large scale (Avent, Korolova 2023)",
}
STAMP = "NOT PRIVATE: seeded noise, errors against the true tables."


@dataclass(frozen=True)
class Shown:
    """An experiment with what was found of it."""

    experiment: Experiment
    runs: Runs
    jobs: int
    failures: tuple[str, ...]
    panels: tuple[Panel, ...]
    found: tuple[Found | None, ...]

    @property
    def verdict(self) -> str:
        """Reproduced, differs, stands in, not run, or not possible here."""
        e = self.experiment
        if e.impossible:
            return f"not possible here: {e.impossible}"
        known = [f for f in self.found if f is not None]
        if not self.runs and not known:
            return "not run"
        said = Counter("not run" if f is None else f.verdict for f in self.found)
        verdicts = ("holds", "holds partly", "does not hold here", "not run")
        parts = [f"{said[v]} {v}" for v in verdicts if said[v]]
        word = "reproduced" if all(f.verdict == "holds" for f in known) else "differs"
        word += " as far as it was run" if len(self.runs.records) < self.jobs else ""
        word = word if known else "drawn, no claim judged"
        tail = f" (claims: {', '.join(parts)})" if parts else ""
        return (f"stands in: {e.stands_in}; {word}" if e.stands_in else word) + tail


def show(experiment: Experiment, pieces: Pieces, scale: Scale) -> Shown:
    cases = list(dict.fromkeys(experiment.cases(scale)))
    runs = pieces.runs(cases)
    failures = Counter(
        f"{r['mechanism']} on {r['table']}: {r['failure']}: {r['error']}"[:160]
        for r in pieces.failures(cases)
    )
    return Shown(
        experiment,
        runs,
        len(cases),
        tuple(f"{said} ({times} jobs)" for said, times in failures.items()),
        tuple(experiment.panels(runs)),
        tuple(claim.judge(runs) for claim in experiment.claims),
    )


def write(shown: Sequence[Shown], folder: Path, scale: Scale, *, page: bool = True) -> Path:
    """Pictures, points.csv, index.md and, as a `page` of its own, index.html."""
    folder.mkdir(parents=True, exist_ok=True)
    for s in shown:
        if s.panels:
            draw(s.panels, f"{s.experiment.name}: {s.experiment.title}", folder / _file(s))
    with (folder / "points.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["experiment", "panel", "line", "x", "mean", "low", "high", "runs", "setting"])
        for s in shown:
            for panel in s.panels:
                for name, points in panel.lines.items():
                    for p in points:
                        row = [p.x, f"{p.y:.6g}", f"{p.low:.6g}", f"{p.high:.6g}", p.runs, p.note]
                        out.writerow([s.experiment.name, panel.title, name, *row])
    text = "\n".join(_lines(shown, scale)) + "\n"
    (folder / "index.md").write_text(text)
    if page:
        (folder / "index.html").write_text(_html(text))
    return folder / "index.md"


def _file(s: Shown) -> str:
    return s.experiment.name.replace("/", "-") + ".png"


def _lines(shown: Sequence[Shown], scale: Scale) -> Iterator[str]:
    today = datetime.now(UTC).date().isoformat()
    runs = sum(len(s.runs.records) for s in shown)
    yield "# The papers, rerun"
    yield ""
    yield f"{STAMP} Made {today} from commit {commit()}, `{scale}` settings, {runs} runs."
    yield "Bars are ranges where the paper has ranges (AIM), else one standard error."
    for paper, title in TITLES.items():
        mine = [s for s in shown if s.experiment.paper == paper]
        if not mine:
            continue
        yield from ("", f"## {title}")
        for s in mine:
            yield from _experiment(s)


def _experiment(s: Shown) -> Iterator[str]:
    e = s.experiment
    yield from ("", f"### {e.name}: {e.title}", "", f"**{s.verdict}**")
    if e.impossible:
        return
    if s.jobs:
        yield from ("", f"{len(s.runs.records)} of {s.jobs} runs.")
    for said in s.failures:
        yield f"Failed: {said}."
    if e.claims:
        yield from ("", "| the paper | printed | ours | |", "| --- | --- | --- | --- |")
        for claim, found in zip(e.claims, s.found, strict=True):
            ours, verdict = (found.ours, found.verdict) if found else ("", "not run")
            yield f"| {claim.says} ({claim.where}) | {claim.printed} | {ours} | {verdict} |"
    if e.reading:
        yield from ("", f"Our reading: {e.reading}")
    if s.panels:
        yield from ("", f"![{e.name}]({_file(s)})")


def commit() -> str:
    """The commit of the code, marked where the tree differs from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _html(text: str) -> str:
    """The page's own Markdown as HTML: headings, tables, pictures and paragraphs."""
    out = [
        "<!doctype html><meta charset='utf-8'><title>The papers, rerun</title>",
        "<style>body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse}td{border:1px solid #ccc;padding:.3em .6em;"
        "vertical-align:top}img{max-width:100%}</style>",
    ]
    table = False
    for line in text.splitlines():
        row = line.startswith("|")
        if row != table:
            out.append("<table>" if row else "</table>")
            table = row
        out.append(_html_line(line))
    return "\n".join(out) + "\n"


def _html_line(line: str) -> str:
    if line.startswith("| ---"):
        return ""
    if line.startswith("|"):
        cells = line.strip("|").split(" | ")
        return "<tr>" + "".join(f"<td>{html.escape(c.strip())}</td>" for c in cells) + "</tr>"
    if line.startswith("#"):
        level = len(line) - len(line.lstrip("#"))
        return f"<h{level}>{html.escape(line.lstrip('# '))}</h{level}>"
    if line.startswith("!["):
        name, _, file = line[2:-1].partition("](")
        return f"<img alt='{html.escape(name)}' src='{html.escape(file)}'>"
    if line.startswith("**"):
        return f"<p><b>{html.escape(line.strip('*'))}</b></p>"
    return f"<p>{html.escape(line)}</p>" if line else ""
