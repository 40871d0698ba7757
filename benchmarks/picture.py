"""The picture in the README: the demo's table, its synthetic rows, and answers with intervals.

    python benchmarks/picture.py docs/images/release.png

The demo's table is itself a release, so showing its true counts gives nobody away.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import admeasure
from admeasure.sources.open import open_source
from admeasure.workload import load_questions

PAIR = ("age", "marital-status")


def main(target: Path) -> None:
    bundle = files("admeasure.demo")
    schema = admeasure.Schema.loads((bundle / "schema.toml").read_text())
    table = str(bundle / "adult.csv.gz")
    release = admeasure.fit(
        table,
        schema,
        workload=Path(str(bundle / "workload.toml")),
        mechanism=admeasure.aim(),
        epsilon=1,
        delta=1e-9,
    )
    source = open_source(table, schema)
    (true,) = source.counts([PAIR])
    rows = open_source(release.sample_columns(), schema)
    (made,) = rows.counts([PAIR])

    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(13, 4.6), width_ratios=[1, 1, 1.1], layout="constrained"
    )
    for axes, counts, title in ((left, true, "the table"), (middle, made, "synthetic rows, ε = 1")):
        axes.imshow(
            np.sqrt(counts), cmap="viridis", aspect="auto", vmin=0, vmax=np.sqrt(true.max())
        )
        axes.set_title(title, fontsize=11)
        axes.set_yticks(range(len(true)), schema.column("age").labels, fontsize=7)
        marital = schema.column("marital-status").labels
        axes.set_xticks(range(len(marital)), marital, rotation=40, ha="right", fontsize=7)
    left.set_ylabel("age")

    questions = load_questions(str(bundle / "questions.toml"), schema)
    answers = release.answer(questions)
    for i, answer in enumerate(reversed(answers)):
        (counts,) = source.counts([answer.query.columns])
        exact = int(answer.query.answer(counts))
        interval = [answer.low - exact, answer.high - exact]
        right.plot(interval, [i, i], color="#3b6ea5", lw=6, alpha=0.4, solid_capstyle="butt")
        right.plot(answer.value - exact, i, "o", color="#1d3f66")
    names = [f"{a.name}\n{a.value:,.0f} rows" for a in reversed(answers)]
    right.axvline(0, color="#c0392b", lw=1)
    right.set_yticks(range(len(answers)), names, fontsize=7.5)
    right.set_xlabel("rows from the true count (red)", fontsize=9)
    right.set_title("answers with 95% intervals", fontsize=11)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
