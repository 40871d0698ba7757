"""Synthetic tables beside each other, as one HTML file with NOT PRIVATE on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import jinja2

from admeasure.evaluation import NOT_PRIVATE, Errors
from admeasure.evaluation.prediction import Prediction
from admeasure.reporting.charts import plain_bar

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Synthetic tables compared: {{ stamp }}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
.stamp { background: #8b0000; color: #fff; font-weight: 700; padding: .5rem 1rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
svg { height: 1em; width: 8rem; } .bar { fill: #1f77b4; }
</style></head><body>
<p class="stamp">{{ stamp }}</p>
<h1>Synthetic tables compared with {{ real }}</h1>
<table><thead><tr><th>table</th><th>workload error</th><th></th><th>max error</th>
<th>mean error</th><th>rmse</th>{% if column %}<th>{{ column }} predicted</th>{% endif %}
</tr></thead>
<tbody>{% for name, t in tables %}<tr><td>{{ name }}</td>
<td>{{ "%.5f"|format(t.errors.workload_error) }}</td>
<td>{{ bar(t.errors.workload_error, most) }}</td>
<td>{{ "%.5f"|format(t.errors.max_error) }}</td><td>{{ "%.3g"|format(t.errors.mean_error) }}</td>
<td>{{ "%.3g"|format(t.errors.rmse) }}</td>
{% if column %}<td>{{ "%.4f"|format(t.prediction.learned[0].balanced_accuracy) }}</td>{% endif %}
</tr>{% endfor %}</tbody></table>
<p>Errors are of shares of the rows, over {{ tables[0][1].errors.looked_at }}.</p>
{% for name, t in tables %}<h2>{{ name }}</h2><p>{{ t.errors.in_words|capitalize }}.</p>
<table><thead><tr><th>answered worst</th><th>L1 error</th></tr></thead><tbody>
{% for w in t.errors.worst %}<tr><td>{{ w.query }}</td><td>{{ "%.5f"|format(w.error) }}</td></tr>
{% endfor %}</tbody></table>{% endfor %}
<p class="stamp">{{ stamp }}</p></body></html>
"""


class Judged(Protocol):
    """What is shown of a table."""

    @property
    def errors(self) -> Errors: ...

    @property
    def prediction(self) -> Prediction | None: ...


def compared_html(tables: Mapping[str, Judged], real: str) -> str:
    """The page. It asks for nothing from anywhere, runs no script, and escapes every name."""
    ranked = sorted(tables.items(), key=lambda item: item[1].errors.workload_error)
    predicted = ranked[0][1].prediction
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(_PAGE)
    return page.render(
        tables=ranked,
        real=real,
        stamp=NOT_PRIVATE,
        column=None if predicted is None else predicted.column,
        most=max(t.errors.workload_error for _, t in ranked) or 1.0,
        bar=plain_bar,
    )
