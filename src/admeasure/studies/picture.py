"""The results of a study as a picture (`admeasure[bench]`). NOT PRIVATE, and it says so.

One panel for each table and workload. Where there are several epsilons they are the axis, and each
mechanism with its options is a line. With one epsilon, the option with the most values is the axis:
a parameter study.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.extras import need
from admeasure.studies.table import StudyCell, panels

Plotted = tuple[str, float, StudyCell]
"""The line it is on, its place on the axis, and what it shows."""


def check_picture(path: Path) -> None:
    """Refuse before any work is done."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UsageError(f"Cannot draw {path.name!r}: its suffix is not .png, .svg or .pdf.")
    need("matplotlib", "bench", "A picture")


def draw(cells: Sequence[StudyCell], measure: str, path: Path) -> None:
    """Means over seeds with their deviations."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    found = panels(cell for cell in cells if cell.mean is not None)
    if not found:
        raise UsageError("There is nothing to draw: every job failed.")
    figure = Figure(figsize=(5.6 * len(found), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    for axis, ((table, workload), mine) in zip(axes, found.items(), strict=True):
        name, points = _points(mine)
        for line in dict.fromkeys(line for line, _, _ in points):
            _line(axis, line, sorted((x, c) for l, x, c in points if l == line))  # noqa: E741
        axis.set(xscale="log", yscale="log", xlabel=name, title=f"{table}, {workload}")
        axis.set_xticks(ticks := sorted({x for _, x, _ in points}), [f"{x:g}" for x in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small", frameon=False)
    axes[0].set_ylabel(measure.replace("_", " "))
    figure.text(0.995, 0.005, "NOT PRIVATE", ha="right", va="bottom", fontsize=7, color="firebrick")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise UsageError(f"{path} could not be written: {error.strerror}.") from None


def _line(axis: Any, name: str, points: list[tuple[float, StudyCell]]) -> None:
    axis.errorbar(
        [x for x, _ in points],
        [cell.mean for _, cell in points],
        yerr=[cell.deviation or 0.0 for _, cell in points],
        marker="o",
        markersize=4,
        capsize=2,
        label=name,
    )


def _points(cells: Sequence[StudyCell]) -> tuple[str, list[Plotted]]:
    """The axis' name, and what stands where."""
    option = None if len({cell.epsilon for cell in cells}) > 1 else _varied(cells)
    if option is None:
        return "epsilon", [(cell.label, cell.epsilon, cell) for cell in cells]
    points = []
    for cell in cells:
        name, options = _parts(cell.label)
        if option not in options:
            continue  # another mechanism has no place on this axis
        rest = [f"{k}={v}" for k, v in options.items() if k != option]
        points.append((" ".join([name, *rest]), float(options[option]), cell))
    return option, points


def _varied(cells: Iterable[StudyCell]) -> str | None:
    """The option with the most values, all of them numbers above 0; None where none has two."""
    values: dict[str, set[str]] = {}
    for cell in cells:
        for option, value in _parts(cell.label)[1].items():
            values.setdefault(option, set()).add(value)
    numeric = {o: v for o, v in values.items() if len(v) > 1 and all(map(_is_positive, v))}
    return max(numeric, key=lambda option: len(numeric[option]), default=None)


def _is_positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def _parts(label: str) -> tuple[str, dict[str, str]]:
    name, *options = label.split(" ")
    return name, dict(option.split("=", 1) for option in options)
