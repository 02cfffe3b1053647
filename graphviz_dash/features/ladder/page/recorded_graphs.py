"""Show the graphs of a recording without a loop, as older bundle formats have it."""

from __future__ import annotations

import shlex

from graphviz_dash.guidance.rerun import build_any_recording_command
from graphviz_dash.model.recording import RecordedGraph
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.markup import escape_html, format_element, format_table, show_markup
from graphviz_dash.units import format_count, format_ns, pluralize

_HEAD = ("graph", "captured at", "nodes", "replays", "capture time")


def show_recorded_graphs(run: Run) -> None:
    """Show the graphs of ``run`` by number of replays, and how to record sizes and step times."""
    recording = run.recording
    if recording is None:
        return
    replays = sum(graph.replays for graph in recording.graphs)
    summary = f"{pluralize(len(recording.graphs), 'graph')}, {pluralize(replays, 'replay')}."
    graphs = sorted(recording.graphs, key=lambda graph: -graph.replays)
    table = format_table(_HEAD, [("", [_format_row(graph) for graph in graphs])], "figures runs")
    command = shlex.join(build_any_recording_command(run, {}))
    show_markup(
        format_element("p", escape_html(f"{run.name}: {summary}"), "answer"),
        format_element("div", table, "scroll"),
        format_element(
            "p",
            "The recording is older than bundle format 4, so sizes and times per step are not "
            "recorded. Record the program again:",
            "muted",
        ),
        format_element("pre", escape_html(command), "command"),
    )


def _format_row(graph: RecordedGraph) -> list[str]:
    location = graph.captured_at[0] if graph.captured_at else "internal torch thread"
    capture = format_ns(graph.capture_ns) if graph.capture_ns else "–"
    values = (format_count(graph.nodes), format_count(graph.replays), capture)
    return [
        escape_html(graph.graph),
        format_element("code", escape_html(location)),
        *(format_element("span", escape_html(value), "num") for value in values),
    ]
