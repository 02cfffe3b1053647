"""The charts of the Compare page: where the time goes, every iteration, break-even."""

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
    """The charts of the experiment ``key`` in the store; break-even is that of ``run``."""
    where = figure(key, "where", partial(where_time_goes_chart, result))
    if where is not None:
        st.header("Where the time of a step goes", anchor=Evidence.WHERE.value)
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
                    "Recorded steps are from one boundary to the next on the CPU, which runs ahead "
                    "of the GPU until its queue is full; the step in the program's loop is their "
                    "sum and the wait at the end, over their number; where the program ended "
                    "before it, the mean time from one step of its families of graphs to the next."
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
    """Why a bar shows no idle time; nothing where it may."""
    where = run.where
    if isinstance(where, Missing) or where.excess_ns is None:
        return ""
    ranks = "" if run.run.manifest.rank_of_several is None else ", waiting for other ranks included"
    return (
        f"{run.name}: under the profiler its GPU work takes {format_ns(where.busy_ns)}{ranks}, "
        f"longer than its step of {format_ns(where.step_ns)}, which the bar divides: how long the "
        "GPU is idle is not known."
    )


def _iterations_title(result: Comparison) -> str:
    clean = any(run.run.clean for run in result.runs)
    recorded = any(run.run.recording for run in result.runs)
    kinds = " and ".join(["clean iteration"] * clean + ["recorded step"] * recorded)
    return f"Every {kinds}"
