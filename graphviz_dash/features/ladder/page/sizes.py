"""Show times, requests and losses by size, and the graph costs of a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st
from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.analysis.kernel_changes import KernelChange
from graphviz_dash.features.ladder.charts.families import draw_cumulative_costs, draw_family
from graphviz_dash.features.ladder.narrative import (
    describe_family_costs,
    describe_kernel_changes,
    describe_losses,
    describe_real_sizes,
    describe_step_times,
    list_mode_columns,
)
from graphviz_dash.features.ladder.page.state import get_changes, has_changes, start_changes_job
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
from graphviz_dash.ui.page.tables import format_row_table
from graphviz_dash.ui.state.jobs import Job
from graphviz_dash.ui.state.store import Extent
from graphviz_dash.units import format_count, pluralize

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator


_MAX_CHANGES: Final = 30
_MAX_REPLACEMENTS: Final = 12
_POLL_SECONDS: Final = 0.4


class Slots(Struct, frozen=True):
    """Placeholders filled once the graphs are loaded."""

    picture: DeltaGenerator
    """Chart over size, which then gets marks."""
    text: DeltaGenerator
    """Text about kernels below the chart."""


def show_size_panel(key: str, number: int, family_index: int, family: FamilyReport) -> Slots | None:
    """Show replay time, requests and losses by size; None if there is nothing left to mark."""
    st.header("Replay time, requests and overhead by size", anchor=False)
    show_paragraph(describe_losses(family), "said")
    slots = Slots(st.empty(), st.container())
    is_ready = has_changes(key, number, family_index)
    marks = get_changes(key, number, family_index) if is_ready else ()
    with slots.picture:
        _draw_chart(key, number, family, marks)
    if is_ready:
        _show_changes(slots, marks)
    notes = (describe_real_sizes(family), describe_step_times(family))
    paragraphs = (format_text("p", note, "muted") for note in notes if note)
    show_markup(format_details("Method", *paragraphs))
    return None if is_ready else slots


def _draw_chart(
    key: str, number: int, family: FamilyReport, marks: tuple[KernelChange, ...]
) -> None:
    chart_key = ("family", number, family.index, len(marks))
    chart = get_figure(
        key, chart_key, lambda theme: draw_family(family, marks, theme), Extent.OUTLINE
    )
    if chart is None:
        show_markup(format_element("p", "No replay of a known size was timed on the GPU", "muted"))
    else:
        draw_figure(chart, f"family-{key}-{family.index}-{len(marks)}")


def mark_kernel_changes(
    key: str, number: int, family_index: int, family: FamilyReport, slots: Slots
) -> None:
    """Mark sizes where the kernel selection changes; large graphs load in the background."""
    with slots.text:
        try:
            job = start_changes_job(key, number, family_index)
            if job is not None and not job.is_ended:
                st.fragment(_wait_for_changes, run_every=_POLL_SECONDS)(job)
                return
            marks = get_changes(key, number, family_index)
        except InputError as error:
            show_paragraph(f"The graphs cannot be read: {error}", "trouble-text")
            return
    _show_changes(slots, marks)
    if marks:
        with slots.picture:
            _draw_chart(key, number, family, marks)


def _wait_for_changes(job: Job) -> None:
    if job.is_ended:
        st.rerun()
    show_markup(format_element("p", "Loading the graphs to compare kernels…", "muted"))


def _show_changes(slots: Slots, marks: tuple[KernelChange, ...]) -> None:
    with slots.text:
        text = describe_kernel_changes(marks)
        if not marks:
            show_paragraph(text, "muted")
            return
        table = format_element("div", _format_changes_table(marks), "scroll")
        title = f"{pluralize(len(marks), 'kernel change')} between sizes"
        show_markup(format_details(title, format_text("p", text, "said"), table))


def _format_changes_table(marks: tuple[KernelChange, ...]) -> str:
    rows = [
        (
            f"{change.smaller.size:,} to {change.larger.size:,}",
            [
                [
                    escape_html(format_count(replacement.count)),
                    _format_kernel(replacement.old),
                    _format_kernel(replacement.new),
                ]
                for replacement in change.replacements[:_MAX_REPLACEMENTS]
            ],
        )
        for change in marks[:_MAX_CHANGES]
    ]
    return format_table(["nodes", "smaller size", "larger size"], rows, "figures kernels")


def _format_kernel(name: str | None) -> str:
    if name is None:
        return format_element("span", "none", "absent", title="no kernel at this position")
    return format_text("abbr", shorten_name(name), title=name, tabindex="0")


def show_costs_panel(key: str, number: int, family: FamilyReport) -> None:
    """Show memory and startup time as step charts."""
    show_paragraph(describe_family_costs(family), "said")
    chart_key = ("stairs", number, family.index)
    chart = get_figure(
        key, chart_key, lambda theme: draw_cumulative_costs(family, theme), Extent.OUTLINE
    )
    draw_figure(chart, f"stairs-{key}-{family.index}")


def show_modes_panel(report: LoopReport) -> None:
    """Show the steps by phase and mode, folded."""
    with st.expander("Steps by mode", icon=":material/table_rows:"):
        show_markup(_format_modes([report]))


def show_modes_of_runs(reports: Sequence[LoopReport]) -> None:
    """Show the steps of runs with several phases or modes."""
    reports_with_modes = [report for report in reports if _count_timed_modes(report) > 1]
    if reports_with_modes:
        st.header("Steps by mode", anchor=False)
        show_markup(_format_modes(reports_with_modes))


def _count_timed_modes(report: LoopReport) -> int:
    return sum(mode.time_share is not None for mode in report.modes)


def _format_modes(reports: Sequence[LoopReport]) -> str:
    """Format the modes, by run if there are several."""
    groups = []
    for report in reports:
        modes = sorted(report.modes, key=lambda mode: -(mode.time_share or -1))
        groups.append((report.run if len(reports) > 1 else "", modes))
    return format_row_table(list_mode_columns(reports[-1]), groups)
