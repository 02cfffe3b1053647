"""Show the charts of the Compare page: time breakdown, iterations, break-even."""

from __future__ import annotations

from functools import partial

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.app.compare.charts.comparison import (
    break_even_chart,
    iterations_chart,
    where_time_goes_chart,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.narrative.break_even import break_even_text
from graphviz_dash.narrative.summary import break_even_title
from graphviz_dash.ui.page.frame import draw, figure
from graphviz_dash.ui.page.markup import element, plain, show, text
from graphviz_dash.units import format_ns


def comparison_charts(key: str, result: Comparison, run: RunComparison | None) -> None:
    """Show the charts of the experiment ``key``, with the break-even of ``run``."""
    where = figure(key, "where", partial(where_time_goes_chart, result))
    if where is not None:
        st.header("Step time breakdown", anchor=Evidence.WHERE.value)
        draw(where, "where")
        show(*(element("p", text(_longer(run)), "muted") for run in result.runs))
    left, right = st.columns(2, gap="large")
    iterations = figure(key, "iterations", partial(iterations_chart, result))
    if iterations is not None:
        with left:
            st.header(_iterations_title(result), anchor=Evidence.ITERATIONS.value)
            draw(iterations, "iterations")
            if any(run.run.recording for run in result.runs):
                st.caption(
                    "A recorded step lasts from one CPU boundary to the next. The CPU runs "
                    "ahead of the GPU until its queue is full. The step time in the program's "
                    "loop is the sum of these steps and the final wait, divided by their "
                    "number. If the program ended before that wait, it is the mean interval "
                    "between steps of its graph families."
                )
    chart = None
    if run is not None:
        chart = figure(key, ("break-even", run.name), partial(break_even_chart, result, run))
    if chart is not None and run is not None:
        with right:
            st.header(plain(break_even_title(run)), anchor=Evidence.BREAK_EVEN.value)
            draw(chart, "break-even")
            if not isinstance(run.break_even, Missing):
                st.caption(plain(break_even_text(run.break_even)))


def _longer(run: RunComparison) -> str:
    """Explain a bar without idle time; empty if it has one."""
    where = run.where
    if isinstance(where, Missing) or where.excess_ns is None:
        return ""
    ranks = "" if run.run.manifest.rank_of_several is None else ", including waits for other ranks"
    return (
        f"{run.name}: profiled GPU work lasts {format_ns(where.busy_ns)}{ranks}, longer than "
        f"the step of {format_ns(where.step_ns)} shown by the bar. The GPU idle time is "
        "unknown."
    )


def _iterations_title(result: Comparison) -> str:
    clean = any(run.run.clean for run in result.runs)
    recorded = any(run.run.recording for run in result.runs)
    kinds = " and ".join(["Step times, unprofiled"] * clean + ["Recorded steps"] * recorded)
    return f"{kinds}"
