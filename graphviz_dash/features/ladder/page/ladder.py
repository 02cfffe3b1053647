"""Recommend capture sizes within budgets that the user sets."""

from __future__ import annotations

import math
from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import FamilyReport
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget, LadderUse
from graphviz_dash.features.ladder.charts.families import ladder_chart
from graphviz_dash.features.ladder.narrative import (
    advice_sentence,
    bound_sentence,
    ceiling_sentence,
    interpolation_sentence,
    pool_method,
    sizes_text,
)
from graphviz_dash.features.ladder.page.state import advice
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw, loop_figure
from graphviz_dash.ui.page.markup import element, show, table, text
from graphviz_dash.units import format_bytes, format_count, format_ns, significant

_MOST_GRAPHS: Final = 512


@st.fragment
def ladder_panel(key: str, run: int, family: int, report: FamilyReport) -> None:
    """Show the advice for a family, given by its indices in the reports of the experiment ``key``.

    A fragment: a changed budget redraws only this panel.
    """
    st.header("Recommended capture sizes", anchor=False)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="budgets"):
        today = len({member.size for member in report.members if member.size})
        graphs = _limit("graphs", "Max sizes", f"{today} (current)", 1)
        memory = _limit("memory", "Max memory (MiB)", "any", 1)
        startup = _limit("startup", "Max startup (ms)", "any", 1)
    budget = Budget(
        None if graphs is None else min(graphs, _MOST_GRAPHS),
        None if memory is None else memory << 20,
        None if startup is None else startup * 1_000_000,
    )
    result = advice(key, run, family, budget)
    if isinstance(result, Missing):
        show(element("p", text(f"No ladder: {result.reason}."), "said"))
        return
    show(element("p", text(advice_sentence(result)), "sentence"))
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        show(element("div", _uses(result), "scroll"))
        # Not st.code, which downloads syntax colours for all languages.
        sizes = element("code", text(sizes_text(result.ladder.sizes)))
        show(element("pre", sizes, "sizes", tabindex="0", title="Copy sizes"))
    with right:
        chart_key = ("ladder", run, family, budget)
        chart = loop_figure(key, chart_key, lambda seen: ladder_chart(result, seen))
        if chart is not None:
            draw(chart, f"ladder-{key}-{run}-{family}-{budget}")
    notes = (ceiling_sentence(result), interpolation_sentence(result), bound_sentence(result))
    show(*(element("p", text(note), "said") for note in notes if note))
    show(element("p", text(pool_method(report.node_bytes)), "muted"))
    # The end of the page script, which stores the address, does not run after a fragment.
    url_state.remember("graphs")


def _limit(name: str, label: str, otherwise: str, least: int) -> int | None:
    """Show a field for a limit stored as a URL parameter; None if empty."""
    parameter = url_state.value(name) or ""
    number = (
        int(parameter)
        if parameter.isascii() and parameter.isdecimal() and len(parameter) < 9
        else None
    )
    limit = number if number is None or number >= least else least

    def pick(new: Any) -> None:
        url_state.change({name: None if new is None else str(int(new))})

    st.number_input(
        label,
        min_value=least,
        step=1,
        value=None,
        placeholder=otherwise,
        width=190,
        **url_state.widget_of(name, limit, pick),
    )
    return limit


def _uses(result: LadderAdvice) -> str:
    uses = (result.today_use, result.use)
    rows = [
        ("Sizes", [format_count(len(s)) for s in (result.today, result.ladder.sizes)]),
        ("GPU time per request", [_request(result, use) for use in uses]),
        ("of which padding", [format_ns(use.padding_ns / result.requests) for use in uses]),
        ("Fallbacks", [format_count(round(use.fallbacks)) for use in uses]),
        ("Throughput", [_rate(result, use) for use in uses]),
        ("Memory", [format_bytes(use.memory_bytes) for use in uses]),
        ("Startup", [format_ns(use.startup_ns) for use in uses]),
    ]
    cells = [
        [text(name), *(element("span", text(value), "num") for value in values)]
        for name, values in rows
    ]
    return table(["", "current", "best"], [("Requests of this run", cells)], "figures runs")


def _request(result: LadderAdvice, use: LadderUse) -> str:
    return format_ns(use.total_ns / result.requests) if math.isfinite(use.total_ns) else "–"


def _rate(result: LadderAdvice, use: LadderUse) -> str:
    rate = result.rate(use)
    return "–" if rate is None else f"{significant(rate)}/s"
