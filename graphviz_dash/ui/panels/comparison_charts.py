"""The charts of the Compare page: where the time goes, every iteration, break-even."""

from __future__ import annotations

from functools import partial

import streamlit as st

from graphviz_dash.analysis.comparison.break_even import pays_text
from graphviz_dash.analysis.comparison.result import Comparison, Evidence, RunComparison
from graphviz_dash.charts.figures.comparison import (
    break_even_chart,
    iterations_chart,
    where_time_goes_chart,
)
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
                    "sum and the wait at the end, over their number."
                )
    pays = None
    if run is not None:
        pays = figure(key, ("pays", run.name), partial(break_even_chart, result, run))
    if pays is not None and run is not None:
        with right:
            st.header(plain(break_even_title(run)), anchor=Evidence.BREAK_EVEN.value)
            draw(pays, "pays")
            st.caption(plain(pays_text(run.pays)) if run.pays else "")


def _longer(run: RunComparison) -> str:
    """Why a bar is longer than the step that it divides; nothing where it is not."""
    where = run.where
    if where is None or where.excess_ns is None:
        return ""
    ranks = "" if run.run.manifest.rank is None else ", waiting for other ranks included"
    return (
        f"{run.name}: under the profiler its GPU work takes {format_ns(where.busy_ns)}{ranks}, "
        f"longer than its step of {format_ns(where.step_ns)}, where the bar is marked: how long "
        "the GPU is idle is not known."
    )


def _iterations_title(result: Comparison) -> str:
    clean = any(run.run.clean for run in result.runs)
    recorded = any(run.run.recording for run in result.runs)
    kinds = " and ".join(["clean iteration"] * clean + ["recorded step"] * recorded)
    return f"Every {kinds}"
