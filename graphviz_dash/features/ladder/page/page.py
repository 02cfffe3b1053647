"""Graphs: the graph families of a program, cost per size, and recommended sizes."""

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
from graphviz_dash.ui.page.listing import tell_changes
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.widgets import tiles
from graphviz_dash.ui.state.catalogue import Entry

_RECORD: Final = "graphviz-dash collect -o FOLDER -- python server.py"


def render() -> None:
    """Render the page.

    The loop is drawn immediately. The graphs, which may have a million nodes, are read in the
    background afterwards.
    """
    entry = chosen_entry()
    reports = () if entry is None else _reports(entry)
    if entry is None or not reports:
        chosen = chosen_experiment()
        show(element("h1", text(chosen.entry.name)))
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
            element("h1", text(entry.name)),
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
        st.header("Anatomy of a step", anchor=False)
        strip = st.container()
    st.header("All graphs", anchor=False)
    members_table(entry, report, family)
    if strip is not None:
        with strip:
            segments_panel(entry, report, family)
    if slots is not None:
        # Last, because it reads the graphs.
        mark_other_kernels(entry.key, number, family_index, family, slots)


def _nothing(chosen: Chosen) -> None:
    recorded = [run for run in chosen.experiment.runs if run.recording is not None]
    if not recorded:
        empty(
            "No recorded program in this experiment",
            "Record the program to see which of its graphs it replays, at what size and how often:",
            command=_RECORD,
        )
    elif any(run.loop is None and run.recording.graphs[1:] for run in recorded if run.recording):
        empty(
            "Recording without graph information per step",
            "The recording is older than bundle format 4. Record the program again:",
            command=_RECORD,
        )
    else:
        empty(
            "No program in this experiment replays many graphs",
            "This page shows families of graphs for several sizes, or segments of a step.",
        )


def _reports(entry: Entry) -> tuple[LoopReport, ...]:
    try:
        return loop_reports(entry.key)
    except InputError:
        # The page of the loaded experiment reports the error.
        return ()


def _choose_run(reports: tuple[LoopReport, ...]) -> int:
    names = [report.run for report in reports]
    if len(names) == 1:
        return 0
    return names.index(url_state.choose("run", "Run", names, clears=("family",)))


def _choose_family(report: LoopReport) -> int:
    names = [family.family.name for family in report.families]
    # Number families with the same name.
    labels = [
        name if names.count(name) == 1 else f"{name} ({number})"
        for number, name in enumerate(names, 1)
    ]
    if len(labels) == 1:
        return 0
    usual = next((n for n, family in enumerate(report.families) if family.has_sizes), 0)
    return labels.index(url_state.choose("family", "Family", labels, default=labels[usual]))
