"""All metrics of the runs of an experiment side by side."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.registry import SECTIONS, Better, Metric
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.app.compare.page.equation import figure_anchor
from graphviz_dash.documentation import METRICS, place
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.narrative.numbers import spread_text
from graphviz_dash.narrative.summary import metric_title
from graphviz_dash.ui.page.help import docs_link
from graphviz_dash.ui.page.markup import element, show, table, text


def metrics_section(result: Comparison) -> None:
    """A row for each metric that any run has, a column for each run; nothing where none has any."""
    groups = [
        (text(section), [_row(result, metric) for metric in metrics if _anywhere(result, metric)])
        for section, metrics in SECTIONS.items()
    ]
    if not any(rows for _, rows in groups):
        return
    head = ["", *(text(run.name) for run in result.runs), "pass"]
    st.header("Metrics", anchor=Evidence.FIGURES.value)
    show(element("div", table(head, [group for group in groups if group[1]], "figures"), "scroll"))
    st.caption(
        "Spreads are the 25th to the 75th percentile unless they say 95%. Hover a name for its "
        "definition. Clean figures come from processes to which no profiler was ever attached."
    )


def _anywhere(result: Comparison, metric: Metric) -> bool:
    return any(run[metric.id].value is not None for run in result.runs)


def _row(result: Comparison, metric: Metric) -> list[str]:
    best = _best_value(result, metric)
    cells = [
        _cell(run[metric.id], best is not None and run[metric.id].text == best)
        for run in result.runs
    ]
    title = metric_title(metric)
    term = element("abbr", text(title), id=figure_anchor(metric.id), title=metric.formula)
    name = docs_link(place(METRICS, metric.title), term)
    return [name, *cells, element("span", text(metric.source.value), "pass")]


def _cell(figure: Figure, is_best: bool) -> str:
    if figure.value is None:
        return element(
            "span",
            text(figure.text),
            "absent",
            title=figure.missing.reason if figure.missing else "",
        )
    value = element("span", text(figure.text), "num better" if is_best else "num")
    spread = spread_text(figure)
    return value + (element("span", text(spread), "spread") if spread else "")


def _best_value(result: Comparison, metric: Metric) -> str | None:
    """The best value, as it is shown, of the runs whose replays do the work of the step; None where
    there is nothing to be better at, and where all that is shown is alike."""
    values = [
        (run[metric.id].value, run[metric.id].text) for run in result.runs if run.replays_match
    ]
    comparable = [(value, shown) for value, shown in values if value is not None]
    if metric.better is Better.NONE or len({shown for _, shown in comparable}) < 2:
        return None
    return min(comparable)[1] if metric.better is Better.LOWER else max(comparable)[1]
