"""Graphs: the graph families of a program, cost per size, and recommended sizes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    LoopReport,
    has_only_recorded_graphs,
)
from graphviz_dash.analysis.loop.keys import list_graph_names
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.analysis.size_comparison import SizeComparison, compare_sizes
from graphviz_dash.features.ladder.charts.segments import draw_segments
from graphviz_dash.features.ladder.charts.size_comparison import draw_size_comparison
from graphviz_dash.features.ladder.narrative import (
    build_family_tiles,
    describe_segmented_step,
    describe_segments,
    describe_size_comparison,
    summarize_loop,
)
from graphviz_dash.features.ladder.page.ladder import show_answers, show_ladder_panel
from graphviz_dash.features.ladder.page.members import show_members_table
from graphviz_dash.features.ladder.page.sizes import (
    mark_kernel_changes,
    show_costs_panel,
    show_modes_panel,
    show_size_panel,
)
from graphviz_dash.features.ladder.page.state import (
    get_first_family,
    get_loop_reports,
    get_traced_segments,
)
from graphviz_dash.guidance.rerun import build_any_recording_command
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.recording import RecordedGraph
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    dim_empty_pages,
    draw_figure,
    find_selected_entry,
    get_theme,
    load_selected_experiment,
    show_empty_state,
    show_fold,
)
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.listing import toast_changes
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_element,
    format_table,
    format_text,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.navigation import show_link, show_tabs
from graphviz_dash.ui.page.widgets import format_tiles
from graphviz_dash.ui.state.catalogue import Entry
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_count, format_ns, format_signed_percent, pluralize

_RECORD_COMMAND: Final = "graphviz-dash collect -o FOLDER -- python server.py"


def render() -> None:
    """Render the page.

    The loop is drawn immediately; graphs, which may have a million nodes, load in the background.
    """
    entry = find_selected_entry()
    reports = () if entry is None else _get_reports(entry)
    if entry is None or not reports:
        selection = load_selected_experiment()
        show_markup(format_page_heading("graphs", selection.entry.name))
        _show_no_family(selection)
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
            format_page_heading("graphs", entry.name),
            format_text("p", summarize_loop(report), "sentence"),
        )
    if family.has_sizes:
        show_answers(entry.key, number, family_index, report)
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
        show_fold(
            "Memory and startup by size",
            "size-costs",
            lambda: show_costs_panel(entry.key, number, family),
            icon=":material/stacked_line_chart:",
        )
    show_comparison_panel(entry.key, reports, family.family.name)
    if family.is_segmented:
        show_fold(
            "Anatomy of a step",
            "segments",
            lambda: show_segments_panel(entry, report, family),
            icon=":material/view_week:",
        )
    st.header("All graphs", anchor=False)
    show_members_table(entry, report, family)
    if slots is not None:
        # Last, because it reads the graphs.
        mark_kernel_changes(entry.key, number, family_index, family, slots)


def _show_no_family(selection: SelectedExperiment) -> None:
    recorded = [run for run in selection.experiment.runs if run.recording is not None]
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


def show_segments_panel(entry: Entry, report: LoopReport, family: FamilyReport) -> None:
    """Show the replays of a step, and a traced step as a strip."""
    show_paragraph(describe_segments(family), "said")
    try:
        step = get_traced_segments(entry.key, report.run)
    except InputError as error:
        show_paragraph(f"The trace cannot be read: {error}", "trouble-text")
        return
    if isinstance(step, Missing):
        show_paragraph(f"Not available: {step.reason}.", "muted")
        return
    show_paragraph(describe_segmented_step(step), "said")
    names = list_graph_names(STORE.get_run(entry.key, report.run).loop)
    draw_figure(draw_segments(step, names, get_theme()), f"segments-{entry.key}-{report.run}")
    query = {url_state.EXPERIMENT: entry.name, "runs": report.run, "step": str(step.step)}
    show_link("timeline", f"Step {step.step} on the Timeline", query)


_HEAD = ("graph", "captured at", "nodes", "replays", "capture time")


def show_recorded_graphs(run: Run) -> None:
    """Show the graphs by number of replays, and how to record sizes and step times."""
    recording = run.recording
    if recording is None:
        return
    replays = sum(graph.replays for graph in recording.graphs)
    summary = f"{pluralize(len(recording.graphs), 'graph')}, {pluralize(replays, 'replay')}."
    graphs = sorted(recording.graphs, key=lambda graph: -graph.replays)
    table = format_table(_HEAD, [("", [_format_row(graph) for graph in graphs])], "figures runs")
    command = shlex.join(build_any_recording_command(run, {}))
    show_markup(
        format_text("p", f"{run.name}: {summary}", "answer"),
        format_element("div", table, "scroll"),
        format_element(
            "p",
            "The recording is older than bundle format 4, so sizes and times per step are not "
            "recorded. Record the program again:",
            "muted",
        ),
        format_text("pre", command, "command"),
    )


def _format_row(graph: RecordedGraph) -> list[str]:
    location = graph.captured_at[0] if graph.captured_at else "internal torch thread"
    capture = format_ns(graph.capture_ns) if graph.capture_ns else "–"
    values = (format_count(graph.nodes), format_count(graph.replays), capture)
    return [
        escape_html(graph.graph),
        format_text("code", location),
        *(format_text("span", value, "num") for value in values),
    ]


_ROWS: Final = 60


def show_comparison_panel(key: str, reports: Sequence[LoopReport], family: str) -> None:
    """Show the family in all runs that have it; nothing if only one does."""
    compared = next((sizes for sizes in compare_sizes(reports) if sizes.family == family), None)
    if compared is None:
        return
    st.header(f"{escape_markdown(family)} in {len(compared.families)} runs", anchor=False)
    for sentence in describe_size_comparison(compared):
        show_paragraph(sentence, "said")
    chart = draw_size_comparison(compared, get_theme())
    draw_figure(chart, f"compared-{key}-{family}")
    show_markup(format_element("div", _format_table(compared), "scroll"))
    if len(compared.rows) > _ROWS:
        st.caption(f"The first {_ROWS} of {format_count(len(compared.rows))} keys.")


def _format_table(compared: SizeComparison) -> str:
    runs = list(compared.families)
    rows = []
    for row in compared.rows[:_ROWS]:
        cells = [escape_html(", ".join(f"{number:,}" for number in (row.size, *row.other_axes)))]
        for run in runs:
            member = row.members.get(run)
            if member is None or member.gpu is None:
                reason = "not captured in this run, or no replay was timed"
                cells.append(format_element("span", "–", "absent", title=reason))
                continue
            change = row.compute_change(runs[0], run) if run != runs[0] else None
            change_label = "" if change is None else format_signed_percent(change)
            cells.append(
                format_text("span", format_ns(member.gpu.median), "num")
                + (format_text("span", change_label, "spread") if change_label else "")
            )
        rows.append(cells)
    head = [escape_html(compared.axis), *(escape_html(run) for run in runs)]
    return format_table(head, [("GPU time per replay", rows)], "figures runs")
