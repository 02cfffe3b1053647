"""Show the work of a run outside its graphs, and the reasons."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_details,
    format_element,
    format_table,
    show_markup,
)
from graphviz_dash.units import format_count, format_ns, format_percent


def show_missing_shares(result: Comparison) -> None:
    """Show why the trace of a run says nothing about its graphs."""
    show_markup(
        *(
            format_element(
                "p",
                escape_html(f"{run.name}: no graph share, because {run.coverage.reason}."),
                "muted",
            )
            for run in result.runs
            if isinstance(run.coverage, Missing) and run.coverage.fact is Fact.GRAPH_STEPS
        )
    )


def show_not_captured(run: RunComparison) -> None:
    """Show work of the traced steps that no graph launched, by reason, folded; nothing if graphs
    launched all of it."""
    if isinstance(run.coverage, Missing) or not run.coverage.eager:
        return
    by_reason: dict[str, list[list[str]]] = {}
    for group in run.coverage.eager:
        by_reason.setdefault(group.reason.value, []).append(
            [
                escape_html(
                    shorten_name(escape_control_characters(group.operator))
                    if group.operator
                    else "–"
                ),
                format_element("span", escape_html(format_count(group.count)), "num"),
                format_element("span", escape_html(format_ns(group.total_ns)), "num"),
                format_element("span", escape_html(format_percent(group.share)), "num"),
            ]
        )
    groups = [(escape_html(reason.capitalize()), rows) for reason, rows in by_reason.items()]
    head = ["Operator", "Work per step", "Time per step", "Share of GPU time"]
    note = (
        f"{run['graph_work_share'].text} of the kernels, memcpy and memset and "
        f"{run['graph_time_share'].text} of their time ran from graphs. Reasons come from the "
        "operators and ranges around each launch in the traced pass."
    )
    outside = format_percent(1 - run.coverage.work_share)
    show_markup(
        format_details(
            f"Not captured in {run.name}: {outside} of the work",
            format_element("div", format_table(head, groups, "figures runs"), "scroll"),
            format_element("p", escape_html(note), "muted"),
            id=Evidence.COVERAGE.value,
        )
    )
