"""What the recorder saw of programs that are not ours: their steps and their captures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.model.recording import RecordedGraph, Recording
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.experiment import recording_notes
from graphviz_dash.narrative.remedies import remedy_lines
from graphviz_dash.ui.page.markup import element, show, table, text
from graphviz_dash.units import counted, format_count, format_ns

SHOWN: Final = 40
"""Captures listed of one run; a program may make hundreds."""
_FEW: Final = 12
"""Captures that are read before the kernels; more stand folded."""


def remedies_panel(runs: Sequence[Run]) -> None:
    """How to get what ``runs`` lack, each with the command to run."""
    lines = [
        element("li", text(lead) + (element("pre", text(command)) if command else ""))
        for lead, command in remedy_lines(runs)
    ]
    if lines:
        st.header("How to get what is missing", anchor=False)
        show(element("ul", "".join(lines), "notes"))


def recorded_panel(result: Comparison) -> None:
    """What the steps of each recorded run were, and a table of its captures: folded where there are
    many, which the page of graphs tells more of; nothing without any recorded run."""
    recordings = [(run, run.run.recording) for run in result.runs if run.run.recording is not None]
    if not recordings:
        return
    st.header("What the recorder saw", anchor=False)
    captures = sum(len(recording.graphs) for _, recording in recordings)
    if captures <= _FEW:
        groups = [(_heading(run, made), _rows(made)) for run, made in recordings]
        show(_captures(groups))
        _show_notes(recordings)
        return
    show(*(element("p", _heading(run, made), "muted") for run, made in recordings))
    with st.expander(counted(captures, "capture"), icon=":material/table_rows:"):
        show(_captures([(text(run.name), _rows(made)) for run, made in recordings]))
    _show_notes(recordings)


def _show_notes(recordings: Sequence[tuple[RunComparison, Recording]]) -> None:
    """Show the recorder's effect on each program, and the end of its recording."""
    for run, recording in recordings:
        notes = recording_notes(recording)
        if notes:
            show(element("p", text(f"{run.name}: {' '.join(notes)}"), "muted"))


def _captures(groups: list[tuple[str, list[list[str]]]]) -> str:
    head = ("graph", "captured at", "after step", "nodes", "replays", "in the window", "capture")
    return element("div", table(head, groups, "figures captures"), "scroll")


def _heading(run: RunComparison, recording: Recording) -> str:
    if recording.boundary_kind is None:
        steps = "nothing in the program looked like a step"
    else:
        steps = (
            f"{format_count(recording.steps)} steps seen, of which {len(recording.step_ns):,} "
            f"timed and {recording.marked:,} traced; a step ends at: {recording.boundary}"
        )
    left_out = len(recording.graphs) - SHOWN
    more = f"; {left_out:,} more captures are not listed" if left_out > 0 else ""
    earlier = (
        f"; {format_count(recording.earlier_replays)} replays of graphs captured before it began"
        if recording.earlier_replays
        else ""
    )
    return text(f"{run.name}: {steps}{earlier}{more}")


def _rows(recording: Recording) -> list[list[str]]:
    if not recording.graphs:
        why = "the program was not seen to capture a graph while it was recorded"
        return [[element("span", "no capture", "absent", title=why), *[""] * 6]]
    return [_row(graph) for graph in recording.graphs[:SHOWN]]


def _row(graph: RecordedGraph) -> list[str]:
    caller = graph.captured_at[0] if graph.captured_at else "a thread of torch's own"
    where = element("code", text(caller), title=" called from ".join(graph.captured_at))
    if graph.problem is not None:
        where += element("span", text(graph.problem), "spread")
    return [
        text(graph.graph),
        where,
        _number(graph.step),
        _number(graph.nodes),
        _number(graph.replays),
        _number(graph.window_replays),
        element("span", text(format_ns(graph.capture_ns) if graph.capture_ns else "–"), "num"),
    ]


def _number(value: int | None) -> str:
    return element("span", text("–" if value is None else format_count(value)), "num")
