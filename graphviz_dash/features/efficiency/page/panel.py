"""Show the distance of a graph from the hardware limit: sentence, roofline, table, changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

from graphviz_dash.charts.shades import Theme
from graphviz_dash.documentation import HARDWARE_LIMITS
from graphviz_dash.errors import escape_control_characters
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
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw_figure
from graphviz_dash.ui.page.help import format_help_link
from graphviz_dash.ui.page.markup import escape_html, escape_markdown, format_element, show_markup
from graphviz_dash.ui.page.picked_row import build_selection_callback
from graphviz_dash.units import format_ns

_MAX_ROWS: Final = 200
_HEIGHT: Final = 420
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
    title: str = "Hardware limits",
) -> None:
    """Show a folded panel; ``get_report`` is called if it is open, ``find`` with a selected name.

    ``identity`` distinguishes widgets. A step has no ``find``.
    """
    panel = st.expander(title, icon=":material/speed:", key=f"limits-{identity}", on_change="rerun")
    if not panel.open:
        return
    report = get_report()
    with panel:
        if isinstance(report, Missing):
            st.caption(escape_markdown(f"Not available: {report.reason}."))
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
        _show_notes(report)


def _show_advice(report: EfficiencyReport) -> None:
    if not report.advice:
        return
    lines = []
    for advice in report.advice:
        saving = f"{format_ns(advice.saving_ns)} ({format_range(advice)})"
        location = f" at {advice.source}" if advice.source else ""
        lines.append(
            format_element("b", escape_html(saving))
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
    st.dataframe(
        {
            _LABELS[key.value].capitalize(): [
                escape_control_characters(group.name) for group in groups
            ],
            "Kernels": [group.kernels for group in groups],
            "Time (µs)": [group.time_ns / 1e3 for group in groups],
            **_build_limit_columns(report, groups),
            "Achieved GB/s": [_scale(group.bandwidth) for group in groups],
            "Achieved GFLOP/s": [_scale(group.flop_rate) for group in groups],
        },
        column_config={
            name: st.column_config.NumberColumn(format="%.2f")
            for name in ("Time (µs)", "Above the limit (µs)", "Unknown limit (µs)")
        }
        | {
            name: st.column_config.NumberColumn(format="%.0f")
            for name in ("Achieved GB/s", "Achieved GFLOP/s")
        },
        hide_index=True,
        height="content" if len(groups) <= 12 else _HEIGHT,
        key=widget,
        on_select="ignore"
        if find is None
        else build_selection_callback(widget, lambda row: _find_group(groups, row, find)),
        selection_mode="single-cell",
        placeholder="–",
        alt="Time above the hardware limit, largest first; selecting a row highlights its nodes",
    )


def _build_limit_columns(
    report: EfficiencyReport, groups: Sequence[EfficiencyGroup]
) -> dict[str, list[float | None]]:
    """Build the columns that need limits of the GPU."""
    if isinstance(report.choice, Missing):
        return {}
    return {
        "Above the limit (µs)": [_get_excess_us(group) for group in groups],
        "Unknown limit (µs)": [group.unknown_ns / 1e3 for group in groups],
    }


def _scale(rate: float | None) -> float | None:
    return None if rate is None else rate / 1e9


def _get_excess_us(group: EfficiencyGroup) -> float | None:
    return group.above_ns / 1e3 if group.unknown_ns < group.time_ns else None


def _find_group(
    groups: Sequence[EfficiencyGroup], row: int | None, find: Callable[[str], None]
) -> None:
    if row is not None and row < len(groups):
        find(groups[row].name)


def _show_notes(report: EfficiencyReport) -> None:
    notes = [RATE_METHOD if isinstance(report.choice, Missing) else LIMIT_METHOD]
    unknown = describe_unknown(report)
    if unknown is not None:
        notes.insert(0, unknown)
    shapes = describe_missing_shapes(report)
    if shapes is not None:
        notes.insert(0, shapes)
    programmatic = describe_programmatic(report)
    if programmatic is not None:
        notes.append(programmatic)
    if not isinstance(report.choice, Missing):
        notes.append(describe_ceilings(report.choice))
    for note in notes:
        st.caption(escape_markdown(note))
