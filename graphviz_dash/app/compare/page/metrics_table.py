"""Show all metrics of an experiment's runs side by side."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.registry import SECTIONS, Better, Metric
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.app.compare.page.equation import format_metric_anchor
from graphviz_dash.documentation import METRICS, build_place
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.narrative.numbers import format_spread
from graphviz_dash.narrative.summary import format_metric_title
from graphviz_dash.ui.page.help import format_docs_link
from graphviz_dash.ui.page.markup import escape_html, format_element, format_table, show_markup


def show_metrics_section(result: Comparison) -> None:
    """Show a row per available metric and a column per run; nothing without metrics."""
    groups = [
        (
            escape_html(section),
            [_format_row(result, metric) for metric in metrics if _is_available(result, metric)],
        )
        for section, metrics in SECTIONS.items()
    ]
    if not any(rows for _, rows in groups):
        return
    head = ["", *(escape_html(run.name) for run in result.runs), "pass"]
    st.header("Metrics", anchor=Evidence.FIGURES.value)
    show_markup(
        format_element(
            "div", format_table(head, [group for group in groups if group[1]], "figures"), "scroll"
        )
    )
    st.caption(
        "Spreads are the 25th to 75th percentile unless marked 95%. Hover over a name for its "
        "definition. Clean values come from processes without a profiler."
    )


def _is_available(result: Comparison, metric: Metric) -> bool:
    return any(run[metric.id].value is not None for run in result.runs)


def _format_row(result: Comparison, metric: Metric) -> list[str]:
    best = _find_best_value(result, metric)
    cells = [
        _format_cell(run[metric.id], best is not None and run[metric.id].text == best)
        for run in result.runs
    ]
    title = format_metric_title(metric)
    term = format_element(
        "abbr", escape_html(title), id=format_metric_anchor(metric.id), title=metric.formula
    )
    name = format_docs_link(build_place(METRICS, metric.title), term)
    return [name, *cells, format_element("span", escape_html(metric.source.value), "pass")]


def _format_cell(figure: MetricValue, is_best: bool) -> str:
    if figure.value is None:
        return format_element(
            "span",
            escape_html(figure.text),
            "absent",
            title=figure.missing.reason if figure.missing else "",
        )
    value = format_element("span", escape_html(figure.text), "num better" if is_best else "num")
    spread = format_spread(figure)
    return value + (format_element("span", escape_html(spread), "spread") if spread else "")


def _find_best_value(result: Comparison, metric: Metric) -> str | None:
    """Return the best displayed value among the runs with correct replays.

    None if the metric has no direction or all displayed values are equal.
    """
    values = [
        (run[metric.id].value, run[metric.id].text) for run in result.runs if run.replays_match
    ]
    comparable = [(value, shown) for value, shown in values if value is not None]
    if metric.better is Better.NONE or len({shown for _, shown in comparable}) < 2:
        return None
    return min(comparable)[1] if metric.better is Better.LOWER else max(comparable)[1]
