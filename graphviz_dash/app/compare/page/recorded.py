"""Show the steps and captures of recorded programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.guidance.narrative import list_remedy_commands
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.experiment import CAPTURE_COLUMNS, describe_steps, list_recording_notes
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    format_text,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.tables import format_row_table
from graphviz_dash.units import format_count, pluralize

MAX_LISTED: Final = 40
"""Maximum listed captures per run; a program may have hundreds."""
_MAX_UNFOLDED: Final = 12
"""Maximum number of captures shown unfolded."""


def show_remedies(runs: Sequence[Run]) -> None:
    """Show how to collect missing data, with the commands."""
    lines = [
        format_element(
            "li",
            escape_html(lead) + (format_text("pre", command) if command else ""),
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
        show_markup(
            _format_captures([(_format_heading(run, made), made) for run, made in recordings])
        )
        _show_notes(recordings)
        return
    for run, made in recordings:
        show_paragraph(_format_heading(run, made), "muted")
    with st.expander(pluralize(captures, "capture"), icon=":material/table_rows:"):
        show_markup(_format_captures([(run.name, made) for run, made in recordings]))
    _show_notes(recordings)


def _show_notes(recordings: Sequence[tuple[RunComparison, Recording]]) -> None:
    """Show the recorder's effect on each program, and the end of its recording."""
    for run, _ in recordings:
        notes = list_recording_notes(run.run, run.traced_steps)
        if notes:
            text = escape_html(f"{run.name}: {' '.join(notes)}")
            show_markup(format_element("p", text, "muted"))


def _format_captures(groups: list[tuple[str, Recording]]) -> str:
    rows = [(title, recording.graphs[:MAX_LISTED]) for title, recording in groups]
    return format_row_table(CAPTURE_COLUMNS, rows, "figures captures")


def _format_heading(run: RunComparison, recording: Recording) -> str:
    if recording.boundary_kind is None:
        steps = "no steps detected in the program"
    else:
        counts = describe_steps(run.run, recording, run.traced_steps)
        steps = f"{counts}; a step ends at: {recording.boundary}"
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
    empty = "" if recording.graphs else "; it captured no graph while it was recorded"
    return f"{run.name}: {steps}{earlier}{more}{empty}"
