"""Show the distance of a graph from the hardware limit: sentence, roofline, table, changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

from graphviz_dash.charts.shades import Theme
from graphviz_dash.documentation import HARDWARE_LIMITS
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyGroup,
    EfficiencyReport,
    GroupKey,
    group_limits,
)
from graphviz_dash.features.efficiency.chart import draw_roofline
from graphviz_dash.features.efficiency.narrative import (
    LIMIT_METHOD,
    RATE_METHOD,
    REMEDY_INSTRUCTIONS,
    describe_ceilings,
    describe_efficiency,
    describe_missing_shapes,
    describe_programmatic,
    describe_unknown,
    format_advice_title,
    format_range,
    list_group_columns,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw_figure
from graphviz_dash.ui.page.help import format_help_link
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    format_text,
    show_caption,
    show_markup,
)
from graphviz_dash.ui.page.tables import build_selection_callback, show_rows
from graphviz_dash.units import format_ns

_MAX_ROWS: Final = 200
_LABELS: Final = {
    GroupKey.OPERATOR.value: "operator",
    GroupKey.MODULE.value: "module",
    GroupKey.LINE.value: "source line",
}


def show_efficiency_panel(
    identity: str,
    get_report: Callable[[], EfficiencyReport | Missing],
    find: Callable[[str], None] | None,
    theme: Theme,
    run: Run,
    title: str = "Hardware limits",
) -> None:
    """Show a folded panel; ``get_report`` is called if it is open, ``find`` with a selected name.

    ``identity`` distinguishes widgets. A step of ``run`` has no ``find``.
    """
    panel = st.expander(title, icon=":material/speed:", key=f"limits-{identity}", on_change="rerun")
    if not panel.open:
        return
    report = get_report()
    with panel:
        if isinstance(report, Missing):
            show_caption(f"Not available: {report.reason}.")
            return
        help_link = format_help_link(HARDWARE_LIMITS, "Hardware limits")
        sentence = escape_html(describe_efficiency(report)) + help_link
        show_markup(format_element("p", sentence, "sentence"))
        chart = draw_roofline(report, theme)
        if chart is not None:
            draw_figure(chart, "roofline")
            st.caption(
                "Each point is an operator call, sized by its time. Calls without matrix "
                "arithmetic are at the left; the line above them is their bandwidth limit."
            )
        _show_advice(report)
        _show_groups(report, identity, find)
        _show_notes(report, run)


def _show_advice(report: EfficiencyReport) -> None:
    if not report.advice:
        return
    lines = []
    for advice in report.advice:
        saving = f"{format_ns(advice.saving_ns)} ({format_range(advice)})"
        location = f" at {advice.source}" if advice.source else ""
        lines.append(
            format_text("b", saving)
            + escape_html(
                f" by {format_advice_title(advice)}{location}. {REMEDY_INSTRUCTIONS[advice.remedy]}"
            )
        )
    show_markup(
        format_element("ul", "".join(format_element("li", line) for line in lines), "findings")
    )


def _show_groups(
    report: EfficiencyReport, identity: str, find: Callable[[str], None] | None
) -> None:
    key = GroupKey(
        url_state.select_option(
            "limits-by", "Group by", list(_LABELS), width=180, format_func=_LABELS.__getitem__
        )
    )
    groups = group_limits(report, key)[:_MAX_ROWS]
    widget = f"limit-groups-{identity}-{key.value}"
    title = "Time" if isinstance(report.choice, Missing) else "Time above the hardware limit"
    show_rows(
        list_group_columns(report, _LABELS[key.value].capitalize()),
        groups,
        f"{title}, largest first; selecting a row highlights its nodes",
        key=widget,
        on_select="ignore"
        if find is None
        else build_selection_callback(widget, lambda row: _find_group(groups, row, find)),
        selection_mode="single-cell",
    )


def _find_group(
    groups: Sequence[EfficiencyGroup], row: int | None, find: Callable[[str], None]
) -> None:
    if row is not None and row < len(groups):
        find(groups[row].name)


def _show_notes(report: EfficiencyReport, run: Run) -> None:
    notes = [RATE_METHOD if isinstance(report.choice, Missing) else LIMIT_METHOD]
    unknown = describe_unknown(report)
    if unknown is not None:
        notes.insert(0, unknown)
    shapes = describe_missing_shapes(report, run)
    if shapes is not None:
        lead, command = shapes
        code = format_text("pre", command) if command else ""
        entry = format_element("li", escape_html(lead) + code)
        show_markup(format_element("ul", entry, "notes"))
    programmatic = describe_programmatic(report)
    if programmatic is not None:
        notes.append(programmatic)
    if not isinstance(report.choice, Missing):
        notes.append(describe_ceilings(report.choice))
    for note in notes:
        show_caption(note)
