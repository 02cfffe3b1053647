"""Show the charts of the Compare page: time breakdown, iterations, break-even."""

from __future__ import annotations

from functools import partial

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.app.compare.charts.comparison import (
    draw_break_even,
    draw_iterations,
    draw_time_breakdown,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.narrative.break_even import format_break_even
from graphviz_dash.narrative.summary import format_break_even_title
from graphviz_dash.ui.page.frame import draw_figure, get_figure, show_fold
from graphviz_dash.ui.page.markup import (
    escape_markdown,
    format_details,
    format_element,
    format_text,
    show_caption,
    show_markup,
)
from graphviz_dash.units import format_ns


def show_comparison_charts(key: str, result: Comparison, run: RunComparison | None) -> None:
    """Show the charts of the experiment ``key``, with the folded break-even of ``run``."""
    left, right = st.columns(2, gap="large")
    chart = get_figure(key, "where", partial(draw_time_breakdown, result))
    if chart is not None:
        with left:
            st.header("Step time breakdown", anchor=Evidence.TIME_BREAKDOWN.value)
            draw_figure(chart, "where")
            show_markup(
                *(format_text("p", _explain_missing_idle(other), "muted") for other in result.runs)
            )
    iterations = get_figure(key, "iterations", partial(draw_iterations, result))
    if iterations is not None:
        with right if chart is not None else left:
            st.header(_format_iterations_title(result), anchor=Evidence.ITERATIONS.value)
            draw_figure(iterations, "iterations")
            if any(other.run.recording for other in result.runs):
                show_markup(_format_recorded_note())
    if run is not None:
        _show_break_even(key, result, run)


def _format_recorded_note() -> str:
    text = (
        "A recorded step lasts from one CPU boundary to the next. Their median is the step time "
        "in the program's loop, without pauses. The CPU may run ahead of the GPU until its queue "
        "is full. Single steps then show launches only, so the step time is the mean: the sum of "
        "the steps and the final wait, divided by their number."
    )
    return format_details("Recorded steps", format_element("p", text, "muted"))


def _show_break_even(key: str, result: Comparison, run: RunComparison) -> None:
    costs = run.break_even
    if isinstance(costs, Missing) or run.baseline is None:
        return

    def show() -> None:
        draw = partial(draw_break_even, result, run)
        draw_figure(get_figure(key, ("break-even", run.name), draw), "break-even")
        show_caption(format_break_even(costs))

    show_markup(format_element("span", "", id=Evidence.BREAK_EVEN.value))
    title = escape_markdown(format_break_even_title(run))
    show_fold(title, "break-even", show, icon=":material/payments:")


def _explain_missing_idle(run: RunComparison) -> str:
    """Explain a bar without idle time; empty if it has one."""
    breakdown = run.time_by_category
    if isinstance(breakdown, Missing) or breakdown.excess_ns is None:
        return ""
    ranks = "" if run.run.manifest.job_rank is None else ", including waits for other ranks"
    return (
        f"{run.name}: profiled GPU work lasts {format_ns(breakdown.busy_ns)}{ranks}, longer than "
        f"the step of {format_ns(breakdown.step_ns)} shown by the bar. The GPU idle time is "
        "unknown."
    )


def _format_iterations_title(result: Comparison) -> str:
    clean = any(run.run.clean for run in result.runs)
    recorded = any(run.run.recording for run in result.runs)
    return " and ".join(["Step times, unprofiled"] * clean + ["Recorded steps"] * recorded)
