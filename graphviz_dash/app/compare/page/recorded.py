"""Show the steps and captures of recorded programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.guidance.narrative import list_remedy_commands
from graphviz_dash.model.recording import RecordedGraph, Recording
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.experiment import list_recording_notes
from graphviz_dash.ui.page.markup import escape_html, format_element, format_table, show_markup
from graphviz_dash.units import format_count, format_ns, pluralize

MAX_LISTED: Final = 40
"""Maximum listed captures per run; a program may have hundreds."""
_MAX_UNFOLDED: Final = 12
"""Maximum number of captures shown unfolded."""


def show_remedies(runs: Sequence[Run]) -> None:
    """Show how to collect missing data, with the commands."""
    lines = [
        format_element(
            "li",
            escape_html(lead) + (format_element("pre", escape_html(command)) if command else ""),
        )
        for lead, command in list_remedy_commands(runs)
    ]
    if lines:
        st.header("Collect missing data", anchor=False)
        show_markup(format_element("ul", "".join(lines), "notes"))


def show_recorded_panel(result: Comparison) -> None:
    """Show the steps and captures of each recorded run, folded if there are many."""
    recordings = [(run, run.run.recording) for run in result.runs if run.run.recording is not None]
    if not recordings:
        return
    st.header("Captures and replays", anchor=False)
    captures = sum(len(recording.graphs) for _, recording in recordings)
    if captures <= _MAX_UNFOLDED:
        groups = [(_format_heading(run, made), _format_rows(made)) for run, made in recordings]
        show_markup(_format_captures(groups))
        _show_notes(recordings)
        return
    show_markup(
        *(format_element("p", _format_heading(run, made), "muted") for run, made in recordings)
    )
    with st.expander(pluralize(captures, "capture"), icon=":material/table_rows:"):
        show_markup(
            _format_captures(
                [(escape_html(run.name), _format_rows(made)) for run, made in recordings]
            )
        )
    _show_notes(recordings)


def _show_notes(recordings: Sequence[tuple[RunComparison, Recording]]) -> None:
    """Show the recorder's effect on each program, and the end of its recording."""
    for run, recording in recordings:
        notes = list_recording_notes(recording, run.run.loop)
        if notes:
            text = escape_html(f"{run.name}: {' '.join(notes)}")
            show_markup(format_element("p", text, "muted"))


def _format_captures(groups: list[tuple[str, list[list[str]]]]) -> str:
    head = (
        "graph",
        "captured at",
        "after step",
        "nodes",
        "replays",
        "replays in window",
        "capture time",
    )
    return format_element("div", format_table(head, groups, "figures captures"), "scroll")


def _format_heading(run: RunComparison, recording: Recording) -> str:
    if recording.boundary_kind is None:
        steps = "no steps detected in the program"
    else:
        steps = (
            f"{format_count(recording.steps)} steps, {len(recording.step_ns):,} timed, "
            f"{recording.window_steps:,} traced; a step ends at: {recording.boundary}"
        )
    omitted = len(recording.graphs) - MAX_LISTED
    more = f"; {omitted:,} more captures not listed" if omitted > 0 else ""
    earlier = (
        (
            f"; {format_count(recording.earlier_replays)} replays of graphs captured before "
            "the recording"
        )
        if recording.earlier_replays
        else ""
    )
    return escape_html(f"{run.name}: {steps}{earlier}{more}")


def _format_rows(recording: Recording) -> list[list[str]]:
    if not recording.graphs:
        reason = "the program captured no graph while it was recorded"
        return [[format_element("span", "no capture", "absent", title=reason), *[""] * 6]]
    return [_format_row(graph) for graph in recording.graphs[:MAX_LISTED]]


def _format_row(graph: RecordedGraph) -> list[str]:
    caller = graph.captured_at[0] if graph.captured_at else "internal torch thread"
    location = format_element(
        "code", escape_html(caller), title=" called from ".join(graph.captured_at)
    )
    if graph.problem is not None:
        location += format_element("span", escape_html(graph.problem), "spread")
    return [
        escape_html(graph.graph),
        location,
        _format_number(graph.step),
        _format_number(graph.nodes),
        _format_number(graph.replays),
        _format_number(graph.window_replays),
        format_element(
            "span", escape_html(format_ns(graph.capture_ns) if graph.capture_ns else "–"), "num"
        ),
    ]


def _format_number(value: int | None) -> str:
    return format_element("span", escape_html("–" if value is None else format_count(value)), "num")
