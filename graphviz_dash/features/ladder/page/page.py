"""Graphs: the families of a program with many graphs, what each size costs, and which sizes pay."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import LoopReport
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.narrative import (
    family_tiles,
    loop_sentence,
)
from graphviz_dash.features.ladder.page.comparison import comparison_panel
from graphviz_dash.features.ladder.page.ladder import ladder_panel
from graphviz_dash.features.ladder.page.members import members_table
from graphviz_dash.features.ladder.page.segments import segments_panel
from graphviz_dash.features.ladder.page.sizes import costs_panel, mark_other_kernels, size_panel
from graphviz_dash.features.ladder.page.state import loop_reports
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, chosen_entry, chosen_experiment, dim_empty, empty
from graphviz_dash.ui.page.help import page_heading
from graphviz_dash.ui.page.listing import tell_changes
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.widgets import tiles
from graphviz_dash.ui.state.catalogue import Entry

_RECORD: Final = "graphviz-dash collect -o FOLDER -- python server.py"


def render() -> None:
    """The page. What the loop tells is drawn at once; the graphs, which may be of a million nodes,
    are read beside the page when that stands."""
    entry = chosen_entry()
    reports = () if entry is None else _reports(entry)
    if entry is None or not reports:
        chosen = chosen_experiment()
        show(page_heading("graphs", text(chosen.entry.name)))
        _nothing(chosen)
        return
    tell_changes([entry])
    dim_empty(entry)
    with st.container(horizontal=True, vertical_alignment="bottom", key="page-head"):
        title = st.container()
        number = _choose_run(reports)
        report = reports[number]
        family_index = _choose_family(report)
    family = report.families[family_index]
    with title:
        show(
            page_heading("graphs", text(entry.name)),
            element("p", text(loop_sentence(report)), "sentence"),
        )
    show(tiles(family_tiles(family)))
    slots = None
    if family.has_sizes:
        slots = size_panel(entry.key, number, family_index, family)
        ladder_panel(entry.key, number, family_index, family)
        costs_panel(entry.key, number, family)
    comparison_panel(entry.key, reports, family.family.name)
    strip = None
    if family.is_segmented:
        st.header("A step in its segments", anchor=False)
        strip = st.container()
    st.header("All graphs", anchor=False)
    members_table(entry, report, family)
    if strip is not None:
        with strip:
            segments_panel(entry, report, family)
    if slots is not None:
        # Last, for the graphs are read for it.
        mark_other_kernels(entry.key, number, family_index, family, slots)


def _nothing(chosen: Chosen) -> None:
    """Why there is no family to be shown."""
    recorded = [run for run in chosen.experiment.runs if run.recording is not None]
    if not recorded:
        empty(
            "This experiment holds no recorded program",
            "Which of many graphs a program replays, at what size and how often, is seen where the "
            "program itself is recorded:",
            command=_RECORD,
        )
    elif any(run.loop is None and run.recording.graphs[1:] for run in recorded if run.recording):
        empty(
            "This recording does not tell which graph a step replayed",
            "It was made before bundle format 4. Record the program again:",
            command=_RECORD,
        )
    else:
        empty(
            "No program of this experiment replays many graphs",
            "A family of graphs for several sizes, or segments of a step, would be shown here.",
        )


def _reports(entry: Entry) -> tuple[LoopReport, ...]:
    try:
        return loop_reports(entry.key)
    except InputError:
        # The page of the whole experiment says what is wrong.
        return ()


def _choose_run(reports: tuple[LoopReport, ...]) -> int:
    names = [report.run for report in reports]
    if len(names) == 1:
        return 0
    return names.index(url_state.choose("run", "Run", names, clears=("family",)))


def _choose_family(report: LoopReport) -> int:
    names = [family.family.name for family in report.families]
    # Two of one name are told by their numbers.
    labels = [
        name if names.count(name) == 1 else f"{name} ({number})"
        for number, name in enumerate(names, 1)
    ]
    if len(labels) == 1:
        return 0
    usual = next((n for n, family in enumerate(report.families) if family.has_sizes), 0)
    return labels.index(url_state.choose("family", "Family", labels, default=labels[usual]))
