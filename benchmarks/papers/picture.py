"""Panels as a picture. NOT PRIVATE, and it says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from papers.experiment import Panel

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

COLOURS = (*(f"C{i}" for i in range(10)), "black", "gold", "navy", "lime", "salmon")

FOOT = "NOT PRIVATE: seeded noise, errors against the true tables"
ACROSS = 4


def draw(panels: Sequence[Panel], title: str, target: Path) -> None:
    wide = min(ACROSS, len(panels))
    high = -(-len(panels) // wide)
    figure, axes = plt.subplots(
        high, wide, figsize=(4.3 * wide, 3.5 * high), squeeze=False, constrained_layout=True
    )
    names = sorted({name for panel in panels for name in panel.lines})
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        _panel(axis, panel, colours)
    figure.suptitle(f"{title}\n{FOOT}", fontsize=8)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=80)
    plt.close(figure)


def _heat(axis: Any, panel: Panel) -> None:
    """A field for each point of each line, its mean written in it; the least one is framed."""
    xs = sorted({p.x for points in panel.lines.values() for p in points})
    values = np.full((len(panel.lines), len(xs)), np.nan)
    for row, points in enumerate(panel.lines.values()):
        for p in points:
            values[row, xs.index(p.x)] = p.y
            axis.text(xs.index(p.x), row, f"{p.y:.3f}", ha="center", va="center", fontsize=6)
    axis.imshow(np.log(values), cmap="viridis_r", origin="lower", aspect="auto", alpha=0.6)
    row, column = np.unravel_index(np.nanargmin(values), values.shape)
    frame = Rectangle((float(column) - 0.5, float(row) - 0.5), 1, 1, fill=False, ec="red", lw=1.5)
    axis.add_patch(frame)
    axis.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])
    axis.set_yticks(range(len(panel.lines)), list(panel.lines))
    _labelled(axis, panel)


def _labelled(axis: Any, panel: Panel) -> None:
    axis.set_title(panel.title, fontsize=9)
    axis.set_xlabel(panel.x, fontsize=8)
    axis.set_ylabel(panel.y, fontsize=8)
    axis.tick_params(labelsize=7)


def _panel(axis: Any, panel: Panel, colours: dict[str, str]) -> None:
    if panel.heat:
        _heat(axis, panel)
        return
    for name, points in panel.lines.items():
        xs, ys = [p.x for p in points], [p.y for p in points]
        if panel.scatter:
            axis.scatter(xs, ys, s=6, color=colours[name], label=name)
            continue
        bars = [[max(0.0, p.y - p.low) for p in points], [max(0.0, p.high - p.y) for p in points]]
        style = "o:" if name in panel.dotted else "o-"
        axis.errorbar(
            xs, ys, bars, fmt=style, ms=3, lw=1, capsize=2, color=colours[name], label=name
        )
        for note, x, y in zip(panel.notes.get(name, ()), xs, ys, strict=False):
            axis.annotate(note, (x, y), (2, 3), textcoords="offset points", fontsize=6)
    if panel.level is not None:
        axis.axhline(panel.level, ls="--", color="grey", lw=1)
    if panel.scatter:
        ends = [min(*axis.get_xlim(), *axis.get_ylim()), max(*axis.get_xlim(), *axis.get_ylim())]
        axis.plot([max(ends[0], 1e-5), ends[1]], [max(ends[0], 1e-5), ends[1]], "k-", lw=0.6)
    for letter, scale in (("x", axis.set_xscale), ("y", axis.set_yscale)):
        if letter in panel.logs:
            scale("log")
    _labelled(axis, panel)
    if panel.lines:
        axis.legend(fontsize=6)
