"""The picture in the README: what the demo printed, drawn.

    admeasure demo --out tour
    python benchmarks/picture.py tour docs/images/release.png

The demo's table is itself a release, so showing its true counts gives nobody away.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import admeasure
from admeasure.sources.open import open_source
from admeasure.workload import load_questions

PAIR = ("age", "marital-status")


def drawn(folder: Path) -> Figure:
    """The folder of a demo: its table, its release and its rows, as they are."""
    release = admeasure.Release.load(folder / "release")
    schema = release.schema
    source = open_source(folder / "adult.csv", schema)
    rows = open_source(folder / "synthetic.csv", schema)
    (true,), (made,) = source.counts([PAIR]), rows.counts([PAIR])

    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(13, 4.6), width_ratios=[1, 1, 1.1], layout="constrained"
    )
    epsilon = release.certificate.epsilon
    shown = ((left, true, "the table"), (middle, made, f"synthetic rows, ε = {epsilon:g}"))
    for axes, counts, title in shown:
        axes.imshow(
            np.sqrt(counts), cmap="viridis", aspect="auto", vmin=0, vmax=np.sqrt(true.max())
        )
        axes.set_title(title, fontsize=11)
        axes.set_yticks(range(len(true)), schema.column("age").labels, fontsize=7)
        marital = schema.column("marital-status").labels
        axes.set_xticks(range(len(marital)), marital, rotation=40, ha="right", fontsize=7)
    left.set_ylabel("age")

    answers = release.answer(load_questions(folder / "questions.toml", schema))
    for i, answer in enumerate(reversed(answers)):
        (counts,) = source.counts([answer.query.columns])
        exact = int(answer.query.answer(counts))
        interval = [answer.low - exact, answer.high - exact]
        right.plot(interval, [i, i], color="#3b6ea5", lw=6, alpha=0.4, solid_capstyle="butt")
        right.plot(answer.value - exact, i, "o", color="#1d3f66")
    names = [
        f"{a.name}\n{a.value:,.0f} rows, {a.low:,.0f} to {a.high:,.0f}" for a in reversed(answers)
    ]
    right.axvline(0, color="#c0392b", lw=1)
    right.set_yticks(range(len(answers)), names, fontsize=7.5)
    right.set_xlabel("rows from the true count (red)", fontsize=9)
    right.set_title("answers with 95% intervals", fontsize=11)
    return figure


if __name__ == "__main__":
    drawn(Path(sys.argv[1])).savefig(sys.argv[2], dpi=110)
