"""The results of a study as a table: means and deviations over seeds, and export. NOT PRIVATE."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from admeasure.errors import UsageError
from admeasure.studies.jobs import COSTS, MEASURES
from admeasure.studies.lines import JsonObject

COLUMNS = {
    "stamp": "VARCHAR",
    "key": "VARCHAR",
    "table": "VARCHAR",
    "workload": "VARCHAR",
    "label": "VARCHAR",
    "mechanism": "VARCHAR",
    "options": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "seed": "BIGINT",
    "judge": "VARCHAR",
    "judged": "VARCHAR",
    "conversion": "VARCHAR",
    **dict.fromkeys((*MEASURES, *COSTS), "DOUBLE"),
    "rounds": "BIGINT",
    "model_megabytes": "DOUBLE",
    "version": "VARCHAR",
    "code": "VARCHAR",
    "failure": "VARCHAR",
    "error": "VARCHAR",
}
"""Of an exported table. `options` is JSON; a failed run has its reason and no measures."""


@dataclass(frozen=True)
class StudyCell:
    """The runs of one setting, over its seeds."""

    table: str
    workload: str
    label: str
    epsilon: float
    values: tuple[float, ...]
    """of the measure, one for each run that did not fail"""
    costs: dict[str, float]
    """means; empty where all failed"""
    failures: tuple[str, ...]

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation between seeds (n - 1); None for a single run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def to_json(self) -> JsonObject:
        return {
            "table": self.table,
            "workload": self.workload,
            "label": self.label,
            "epsilon": self.epsilon,
            "runs": len(self.values),
            "failed": len(self.failures),
            "mean": self.mean,
            "deviation": self.deviation,
            **self.costs,
        }


def check_measure(measure: str) -> None:
    """Refuse what a study does not measure."""
    if measure not in (*MEASURES, *COSTS):
        raise UsageError(
            f"There is no measure {measure!r}. There are: {', '.join((*MEASURES, *COSTS))}."
        )


def summary(rows: Iterable[JsonObject], measure: str = "workload_error") -> list[StudyCell]:
    """One cell for each setting, in the order of the rows."""
    check_measure(measure)
    groups: dict[tuple[str, str, str, float], list[JsonObject]] = {}
    for row in rows:
        setting = (row["table"], row["workload"], row["label"], row["epsilon"])
        groups.setdefault(setting, []).append(row)
    return [_cell(setting, found, measure) for setting, found in groups.items()]


def _cell(setting: tuple[str, str, str, float], rows: list[JsonObject], measure: str) -> StudyCell:
    good = [row for row in rows if "failure" not in row]
    costs = {cost: statistics.fmean(row[cost] for row in good) for cost in COSTS} if good else {}
    return StudyCell(
        *setting,
        values=tuple(row[measure] for row in good),
        costs=costs,
        failures=tuple(f"{row['failure']}: {row['error']}" for row in rows if "failure" in row),
    )


def best_of_options(cells: Iterable[StudyCell]) -> list[StudyCell]:
    """Of each mechanism, on each table and workload and at each epsilon, the options with the
    smallest mean, as papers report it; those with fewer good runs than others are left out, since
    the least of noisy means favours them. On a private table that choice would not be free."""
    groups: dict[tuple[str, str, str, float], list[StudyCell]] = {}
    for cell in cells:
        mechanism = cell.label.split(" ", 1)[0]
        if cell.values:
            key = (cell.table, cell.workload, mechanism, cell.epsilon)
            groups.setdefault(key, []).append(cell)
    found = []
    for group in groups.values():
        most = max(len(cell.values) for cell in group)
        whole = [cell for cell in group if len(cell.values) == most]
        found.append(min(whole, key=lambda cell: statistics.fmean(cell.values)))
    return found


def panels(cells: Iterable[StudyCell]) -> dict[tuple[str, str], list[StudyCell]]:
    """The cells of each table and workload."""
    found: dict[tuple[str, str], list[StudyCell]] = {}
    for cell in cells:
        found.setdefault((cell.table, cell.workload), []).append(cell)
    return found


def grid(cells: Sequence[StudyCell]) -> tuple[list[str], list[list[str]]]:
    """Headers and lines of one panel: a line for each mechanism, a column for each epsilon."""
    epsilons = sorted({cell.epsilon for cell in cells})
    lines = []
    for label in dict.fromkeys(cell.label for cell in cells):
        mine = {cell.epsilon: cell for cell in cells if cell.label == label}
        shown = [_shown(mine[e]) if e in mine else "" for e in epsilons]
        good = [cell for cell in mine.values() if cell.costs]
        seconds = [cell.costs["cpu_seconds"] for cell in good]
        memory = [cell.costs["peak_megabytes"] for cell in good]
        costs = [f"{statistics.fmean(seconds):.1f}", f"{max(memory):.0f}"] if good else ["-", "-"]
        lines.append([label, *shown, *costs])
    headers = ["mechanism", *(f"epsilon {e:g}" for e in epsilons), "cpu s", "MB"]
    return headers, lines


def _shown(cell: StudyCell) -> str:
    if cell.mean is None:
        return "failed"
    text = f"{cell.mean:.4g}"
    if cell.deviation is not None:
        text += f" ± {cell.deviation:.2g}"
    return text + (f" ({len(cell.failures)} failed)" if cell.failures else "")


def export_rows(rows: Iterable[JsonObject], path: Path) -> None:
    """All rows as CSV or Parquet, by the suffix; whole or not at all."""
    import duckdb

    form = "FORMAT csv, HEADER" if path.suffix.lower() == ".csv" else "FORMAT parquet"
    with TemporaryDirectory() as folder:
        lines = Path(folder) / "rows.jsonl"
        with lines.open("w", encoding="utf-8") as file:
            for row in rows:
                flat = {name: row.get(name) for name in COLUMNS}
                flat["options"] = json.dumps(row["options"], sort_keys=True)
                if isinstance(flat["delta"], str):  # the rule, of a run that failed
                    flat["delta"] = None
                file.write(json.dumps(flat) + "\n")
        beside = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            with duckdb.connect() as connection:
                # The types are stated: a column that is empty in the first rows has one too.
                connection.read_json(
                    str(lines), columns=COLUMNS, format="newline_delimited"
                ).create_view("rows")
                place = str(beside).replace("'", "''")
                connection.execute(f"COPY rows TO '{place}' ({form})")
            os.replace(beside, path)
        except (duckdb.Error, OSError) as error:
            beside.unlink(missing_ok=True)
            reason = " ".join(str(error).split())
            raise UsageError(f"{path} could not be written: {reason}") from None
