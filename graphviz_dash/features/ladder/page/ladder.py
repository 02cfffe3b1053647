"""Which sizes to capture: the best ladder within budgets that the visitor sets."""

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
    """The advice for a family, by its places in the reports of the experiment ``key``. A fragment:
    another budget draws it anew, and nothing else of the page."""
    st.header("Which sizes to capture", anchor=False)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="budgets"):
        today = len({member.size for member in report.members if member.size})
        graphs = _limit("graphs", "Sizes at most", f"{today}, as today", 1)
        memory = _limit("memory", "Memory at most, MiB", "any", 1)
        startup = _limit("startup", "Start-up at most, ms", "any", 1)
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
        # Not Streamlit's, which fetches the colours of all languages for it.
        sizes = element("code", text(sizes_text(result.ladder.sizes)))
        show(element("pre", sizes, "sizes", tabindex="0", title="The best sizes, to be copied"))
    with right:
        what = ("ladder", run, family, budget)
        chart = loop_figure(key, what, lambda seen: ladder_chart(result, seen))
        if chart is not None:
            draw(chart, f"ladder-{key}-{run}-{family}-{budget}")
    notes = (ceiling_sentence(result), interpolation_sentence(result), bound_sentence(result))
    show(*(element("p", text(note), "said") for note in notes if note))
    show(element("p", text(pool_method(report.node_bytes)), "muted"))
    # The page's own end, where the address is kept, does not come after a fragment.
    url_state.remember("graphs")


def _limit(name: str, label: str, otherwise: str, least: int) -> int | None:
    """A field for a limit, which is a parameter of the address; None where it is empty."""
    asked = url_state.value(name) or ""
    number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else None
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
        ("GPU time of a request", [_request(result, use) for use in uses]),
        ("of it padding", [format_ns(use.padding_ns / result.requests) for use in uses]),
        ("Without a graph", [format_count(round(use.fallbacks)) for use in uses]),
        ("Sizes a second", [_rate(result, use) for use in uses]),
        ("Memory", [format_bytes(use.memory_bytes) for use in uses]),
        ("Start-up", [format_ns(use.startup_ns) for use in uses]),
    ]
    cells = [
        [text(name), *(element("span", text(value), "num") for value in values)]
        for name, values in rows
    ]
    return table(["", "today", "best"], [("For the requests of this run", cells)], "figures runs")


def _request(result: LadderAdvice, use: LadderUse) -> str:
    return format_ns(use.total_ns / result.requests) if math.isfinite(use.total_ns) else "–"


def _rate(result: LadderAdvice, use: LadderUse) -> str:
    rate = result.rate(use)
    return "–" if rate is None else f"{significant(rate)}/s"
