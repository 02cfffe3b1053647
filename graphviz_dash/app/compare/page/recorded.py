"""Show the steps and captures of recorded programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.guidance.narrative import remedy_lines
from graphviz_dash.model.recording import RecordedGraph, Recording
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.markup import element, show, table, text
from graphviz_dash.units import counted, format_count, format_ns

SHOWN: Final = 40
"""Maximum number of listed captures per run; a program may have hundreds."""
_FEW: Final = 12
"""Maximum number of captures shown unfolded."""


def remedies_panel(runs: Sequence[Run]) -> None:
    """Show how to collect missing data, with the commands."""
    lines = [
        element("li", text(lead) + (element("pre", text(command)) if command else ""))
        for lead, command in remedy_lines(runs)
    ]
    if lines:
        st.header("Collect missing data", anchor=False)
        show(element("ul", "".join(lines), "notes"))


def recorded_panel(result: Comparison) -> None:
    """Show the steps and captures of each recorded run, folded if there are many."""
    recordings = [(run, run.run.recording) for run in result.runs if run.run.recording is not None]
    if not recordings:
        return
    st.header("Captures and replays", anchor=False)
    captures = sum(len(recording.graphs) for _, recording in recordings)
    if captures <= _FEW:
        groups = [(_heading(run, made), _rows(made)) for run, made in recordings]
        show(_captures(groups))
        return
    show(*(element("p", _heading(run, made), "muted") for run, made in recordings))
    with st.expander(counted(captures, "capture"), icon=":material/table_rows:"):
        show(_captures([(text(run.name), _rows(made)) for run, made in recordings]))


def _captures(groups: list[tuple[str, list[list[str]]]]) -> str:
    head = (
        "graph",
        "captured at",
        "after step",
        "nodes",
        "replays",
        "replays in window",
        "capture time",
    )
    return element("div", table(head, groups, "figures captures"), "scroll")


def _heading(run: RunComparison, recording: Recording) -> str:
    if recording.boundary_kind is None:
        steps = "no steps detected in the program"
    else:
        steps = (
            f"{format_count(recording.steps)} steps, {len(recording.step_ns):,} timed, "
            f"{recording.marked:,} traced; a step ends at: {recording.boundary}"
        )
    omitted = len(recording.graphs) - SHOWN
    more = f"; {omitted:,} more captures not listed" if omitted > 0 else ""
    earlier = (
        (
            f"; {format_count(recording.earlier_replays)} replays of graphs captured before "
            "the recording"
        )
        if recording.earlier_replays
        else ""
    )
    return text(f"{run.name}: {steps}{earlier}{more}")


def _rows(recording: Recording) -> list[list[str]]:
    if not recording.graphs:
        reason = "the program captured no graph while it was recorded"
        return [[element("span", "no capture", "absent", title=reason), *[""] * 6]]
    return [_row(graph) for graph in recording.graphs[:SHOWN]]


def _row(graph: RecordedGraph) -> list[str]:
    caller = graph.captured_at[0] if graph.captured_at else "internal torch thread"
    location = element("code", text(caller), title=" called from ".join(graph.captured_at))
    if graph.problem is not None:
        location += element("span", text(graph.problem), "spread")
    return [
        text(graph.graph),
        location,
        _number(graph.step),
        _number(graph.nodes),
        _number(graph.replays),
        _number(graph.window_replays),
        element("span", text(format_ns(graph.capture_ns) if graph.capture_ns else "–"), "num"),
    ]


def _number(value: int | None) -> str:
    return element("span", text("–" if value is None else format_count(value)), "num")
