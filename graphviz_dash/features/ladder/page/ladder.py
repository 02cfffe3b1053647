"""Recommend capture sizes within budgets that the user sets."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import LoopReport
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget
from graphviz_dash.features.ladder.charts.families import draw_ladder
from graphviz_dash.features.ladder.narrative import (
    describe_advice,
    describe_bound,
    describe_ceiling,
    describe_coverage,
    describe_fastest,
    describe_interpolation,
    describe_memory_method,
    format_sizes,
    list_coverage_options,
    list_set_rows,
    list_sets,
    list_size_options,
)
from graphviz_dash.features.ladder.page.state import get_advice, get_coverage
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.engine_steps import describe_eager_steps
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw_figure, get_figure
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_details,
    format_element,
    format_table,
    format_text,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.state.store import Extent
from graphviz_dash.units import format_count

_MAX_GRAPHS: Final = 512
_NO_LIMITS: Final = Budget()


def show_answers(key: str, run: int, family: int, loop: LoopReport) -> None:
    """Show additional and superfluous sizes, and why steps of an engine ran without a graph."""
    report = loop.families[family]
    coverage = get_coverage(key, run, family)
    if coverage is not None and coverage.is_worthwhile:
        show_paragraph(describe_coverage(report, coverage), "answer")
        for option in list_coverage_options(loop, report, coverage):
            _show_sizes(option)
    advice = get_advice(key, run, family, _NO_LIMITS)
    if not isinstance(advice, Missing):
        show_paragraph(describe_advice(advice), "answer")
    reasons = describe_eager_steps(loop) if loop.engine is not None else ()
    show_markup(*(format_text("p", reason, "said") for reason in reasons))


@st.fragment
def show_ladder_panel(key: str, run: int, family: int, loop: LoopReport) -> None:
    """Show the advice for a family, given by its indices in the reports.

    A fragment: a changed budget redraws only this panel.
    """
    report = loop.families[family]
    coverage = get_coverage(key, run, family)
    title = "Recommended capture sizes"
    if coverage is not None and coverage.is_worthwhile:
        title = f"Recommended capture sizes up to {format_count(coverage.largest_graph)}"
    st.header(title, anchor=False)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="budgets"):
        today = len({member.size for member in report.members if member.size})
        graphs = _read_limit("graphs", "Max sizes", f"{today} (current)")
        memory = _read_limit("memory", "Max memory (MiB)", "any")
        startup = _read_limit("startup", "Max startup (ms)", "any")
    budget = Budget(
        None if graphs is None else min(graphs, _MAX_GRAPHS),
        None if memory is None else memory << 20,
        None if startup is None else startup * 1_000_000,
    )
    result = get_advice(key, run, family, budget)
    if isinstance(result, Missing):
        show_paragraph(f"No ladder: {result.reason}.", "said")
        return
    fastest = " ".join(filter(None, (describe_fastest(result), describe_interpolation(result))))
    if budget != _NO_LIMITS:
        show_paragraph(describe_advice(result), "answer")
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        show_markup(format_element("div", _format_uses(result, brief=True), "scroll"))
        # Not st.code, which downloads syntax colours for all languages.
        _show_sizes(format_sizes(result.smallest.sizes))
        for option in list_size_options(loop, report, result.smallest.sizes):
            _show_sizes(option)
    with right:
        chart_key = ("ladder", run, family, budget)
        chart = get_figure(key, chart_key, lambda theme: draw_ladder(result, theme), Extent.OUTLINE)
        draw_figure(chart, f"ladder-{key}-{run}-{family}-{budget}")
    notes = (
        fastest,
        describe_ceiling(result),
        describe_bound(result),
        describe_memory_method(report.node_bytes, report.pool),
    )
    show_markup(
        format_details(
            "All figures and the method",
            format_element("div", _format_uses(result, brief=False), "scroll"),
            *(format_text("p", note, "said") for note in notes if note),
        )
    )
    if coverage is not None and not coverage.is_worthwhile:
        text = escape_html(describe_coverage(report, coverage))
        show_markup(format_element("p", text, "said"))
        for option in list_coverage_options(loop, report, coverage):
            _show_sizes(option)
    # The end of the page script, which stores the address, does not run after a fragment.
    url_state.remember_address("graphs")


def _show_sizes(text: str) -> None:
    code = format_text("code", text)
    show_markup(format_element("pre", code, "sizes", tabindex="0", title="Copy sizes"))


def _read_limit(name: str, label: str, placeholder: str) -> int | None:
    """Show a field stored as a URL parameter; None if empty."""
    parameter = url_state.get_value(name) or ""
    number = (
        int(parameter)
        if parameter.isascii() and parameter.isdecimal() and len(parameter) < 9
        else None
    )
    limit = None if number is None else max(number, 1)

    def pick(new: Any) -> None:
        url_state.set_parameters({name: None if new is None else str(int(new))})

    st.number_input(
        label,
        min_value=1,
        step=1,
        value=None,
        placeholder=placeholder,
        width=190,
        **url_state.build_widget_arguments(name, limit, pick),
    )
    return limit


def _format_uses(result: LadderAdvice, *, brief: bool) -> str:
    """Format the compared sets; ``brief`` omits minor rows and the fastest set."""
    count = 2 if brief else None
    cells = [
        [
            escape_html(name),
            *(format_text("span", value, "num") for value in values[:count]),
        ]
        for name, values in list_set_rows(result).items()
        if not brief or name in _MAIN_ROWS
    ]
    head = ["", *(name for name, _, _ in list_sets(result)[:count])]
    return format_table(head, [("", cells)], "figures runs")


_MAIN_ROWS: Final = ("Sizes", "GPU time per request", "Fallbacks", "Memory", "Startup")
