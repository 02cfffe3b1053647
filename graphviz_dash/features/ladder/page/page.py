"""Graphs: the graph families of a program, cost per size, and recommended sizes."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import LoopReport, has_only_recorded_graphs
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.narrative import (
    build_family_tiles,
    summarize_loop,
)
from graphviz_dash.features.ladder.page.comparison import show_comparison_panel
from graphviz_dash.features.ladder.page.ladder import show_ladder_panel
from graphviz_dash.features.ladder.page.members import show_members_table
from graphviz_dash.features.ladder.page.modes import show_modes_panel
from graphviz_dash.features.ladder.page.recorded_graphs import show_recorded_graphs
from graphviz_dash.features.ladder.page.segments import show_segments_panel
from graphviz_dash.features.ladder.page.sizes import (
    mark_kernel_changes,
    show_costs_panel,
    show_size_panel,
)
from graphviz_dash.features.ladder.page.state import get_first_family, get_loop_reports
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    dim_empty_pages,
    find_selected_entry,
    load_selected_experiment,
    show_empty_state,
)
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.listing import toast_changes
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup
from graphviz_dash.ui.page.navigation import show_tabs
from graphviz_dash.ui.page.widgets import format_tiles
from graphviz_dash.ui.state.catalogue import Entry

_RECORD_COMMAND: Final = "graphviz-dash collect -o FOLDER -- python server.py"


def render() -> None:
    """Render the page.

    The loop is drawn immediately. The graphs, which may have a million nodes, are read in the
    background afterwards.
    """
    entry = find_selected_entry()
    reports = () if entry is None else _get_reports(entry)
    if entry is None or not reports:
        chosen = load_selected_experiment()
        show_markup(format_page_heading("graphs", escape_html(chosen.entry.name)))
        _show_no_family(chosen)
        return
    toast_changes([entry])
    dim_empty_pages(entry)
    show_tabs("graphs")
    with st.container(horizontal=True, vertical_alignment="bottom", key="page-head"):
        title = st.container()
        number = _select_run(reports)
        report = reports[number]
        family_index = _select_family(report, get_first_family(entry.key, number))
    family = report.families[family_index]
    with title:
        show_markup(
            format_page_heading("graphs", escape_html(entry.name)),
            format_element("p", escape_html(summarize_loop(report)), "sentence"),
        )
    show_markup(format_tiles(build_family_tiles(family)))
    if report.engine is not None:
        show_modes_panel(report)
    slots = None
    if family.has_sizes:
        show_ladder_panel(entry.key, number, family_index, report)
        slots = show_size_panel(entry.key, number, family_index, family)
    if report.engine is None and len(report.modes) > 1:
        show_modes_panel(report)
    if family.has_sizes:
        with st.expander("Memory and startup by size", icon=":material/stacked_line_chart:"):
            show_costs_panel(entry.key, number, family)
    show_comparison_panel(entry.key, reports, family.family.name)
    strip = None
    if family.is_segmented:
        strip = st.expander("Anatomy of a step", icon=":material/view_week:")
    st.header("All graphs", anchor=False)
    show_members_table(entry, report, family)
    if strip is not None:
        with strip:
            show_segments_panel(entry, report, family)
    if slots is not None:
        # Last, because it reads the graphs.
        mark_kernel_changes(entry.key, number, family_index, family, slots)


def _show_no_family(chosen: SelectedExperiment) -> None:
    recorded = [run for run in chosen.experiment.runs if run.recording is not None]
    if not recorded:
        show_empty_state(
            "No recorded program in this experiment",
            "Record the program to see which of its graphs it replays, at what size and how often:",
            command=_RECORD_COMMAND,
        )
    elif older := [run for run in recorded if has_only_recorded_graphs(run)]:
        for run in older:
            show_recorded_graphs(run)
    else:
        show_empty_state(
            "No program in this experiment replays many graphs",
            "This page shows families of graphs for several sizes, or segments of a step.",
        )


def _get_reports(entry: Entry) -> tuple[LoopReport, ...]:
    try:
        return get_loop_reports(entry.key)
    except InputError:
        # The page of the loaded experiment reports the error.
        return ()


def _select_run(reports: tuple[LoopReport, ...]) -> int:
    names = [report.run for report in reports]
    if len(names) == 1:
        return 0
    return names.index(url_state.select_option("run", "Run", names, clears=("family",)))


def _select_family(report: LoopReport, default: int) -> int:
    names = [family.family.name for family in report.families]
    # Number families with the same name.
    labels = [
        name if names.count(name) == 1 else f"{name} ({number})"
        for number, name in enumerate(names, 1)
    ]
    if len(labels) == 1:
        return 0
    option = url_state.select_option("family", "Family", labels, default=labels[default])
    return labels.index(option)
