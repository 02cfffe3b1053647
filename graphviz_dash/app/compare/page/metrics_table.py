"""Show all metrics of an experiment's runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.registry import SECTIONS, Better, Metric
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.app.compare.page.equation import format_metric_anchor
from graphviz_dash.documentation import METRICS, build_place
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.narrative.numbers import format_spread
from graphviz_dash.narrative.summary import MAIN_METRICS, format_metric_title
from graphviz_dash.ui.page.help import format_docs_link
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_details,
    format_element,
    format_table,
    format_text,
    show_markup,
)


def show_metrics_section(result: Comparison, run: RunComparison | None) -> None:
    """Show the metrics under their heading; nothing without metrics."""
    if markup := format_metrics(result, run):
        st.header("Metrics", anchor=Evidence.FIGURES.value)
        show_markup(markup)


def format_metrics(result: Comparison, run: RunComparison | None) -> str:
    """Format a row per available metric, folded below the main ones, and a column per run, the
    baseline and ``run`` first. Empty without metrics."""
    runs = _arrange_runs(result, run)
    available = {
        section: [metric for metric in metrics if _is_available(result, metric)]
        for section, metrics in SECTIONS.items()
    }
    if not any(available.values()):
        return ""
    has_process_memory = any(other["device_memory_change"].value is not None for other in runs)
    main = [
        _format_row(result, runs, metric, brief=True)
        for metrics in available.values()
        for metric in metrics
        if metric.id in MAIN_METRICS
        and not (metric.id == "iterate_reserved_change" and has_process_memory)
    ]
    groups: list[tuple[str, list[list[str]]]] = []
    equal: list[list[str]] = []
    for section, metrics in available.items():
        rows: list[list[str]] = []
        for metric in metrics:
            row = _format_row(result, runs, metric)
            is_equal = len(runs) > 1 and len({other[metric.id].text for other in runs}) == 1
            (equal if is_equal else rows).append(row)
        groups.append((escape_html(section), rows))
    groups.append(("Equal in all runs", equal))
    head = ["", *(escape_html(other.name) for other in runs)]
    count = sum(len(metrics) for metrics in available.values())
    note = (
        "Spreads are the 25th to 75th percentile unless marked 95%. Hover over a name for its "
        "definition. Clean values come from processes without a profiler."
    )
    details = format_details(
        f"All {count} metrics",
        _format_figures([*head, "pass"], [group for group in groups if group[1]]),
        format_element("p", note, "muted"),
    )
    return (_format_figures(head, [("", main)]) if main else "") + details


def _format_figures(head: list[str], groups: list[tuple[str, list[list[str]]]]) -> str:
    kind = "figures" if head[-1] == "pass" else "figures runs"
    return format_element("div", format_table(head, groups, kind), "scroll")


def _arrange_runs(result: Comparison, run: RunComparison | None) -> list[RunComparison]:
    """Return the runs, the baseline of ``run`` first and ``run`` second."""
    if run is None:
        return list(result.runs)
    return sorted(
        result.runs, key=lambda other: (other.name != run.baseline, other.name != run.name)
    )


def _is_available(result: Comparison, metric: Metric) -> bool:
    return any(run[metric.id].value is not None for run in result.runs)


def _format_row(
    result: Comparison, runs: Sequence[RunComparison], metric: Metric, *, brief: bool = False
) -> list[str]:
    """Format the row of ``metric``; ``brief`` moves spreads into tooltips and omits the pass."""
    best = _find_best_value(result, metric)
    cells = [
        _format_cell(run[metric.id], best is not None and run[metric.id].text == best, brief=brief)
        for run in runs
    ]
    anchor = {} if brief else {"id": format_metric_anchor(metric.id)}
    term = format_text("abbr", format_metric_title(metric), title=metric.formula, **anchor)
    name = format_docs_link(build_place(METRICS, metric.title), term)
    source = [] if brief else [format_text("span", metric.source.value, "pass")]
    return [name, *cells, *source]


def _format_cell(figure: MetricValue, is_best: bool, *, brief: bool) -> str:
    if figure.value is None:
        return format_text(
            "span", figure.text, "absent", title=figure.missing.reason if figure.missing else ""
        )
    spread = format_spread(figure)
    kind = "num better" if is_best else "num"
    if brief:
        hint = {"title": spread} if spread else {}
        return format_text("span", figure.text, kind, **hint)
    value = format_text("span", figure.text, kind)
    return value + (format_text("span", spread, "spread") if spread else "")


def _find_best_value(result: Comparison, metric: Metric) -> str | None:
    """Return the best displayed value among the runs with correct replays.

    None if the metric has no direction or all displayed values are equal.
    """
    values = [
        (run[metric.id].value, run[metric.id].text) for run in result.runs if run.replays_match
    ]
    comparable = [(value, label) for value, label in values if value is not None]
    if metric.better is Better.NONE or len({label for _, label in comparable}) < 2:
        return None
    return min(comparable)[1] if metric.better is Better.LOWER else max(comparable)[1]
