"""Show where replays crashed or hang."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.analysis.replay_check import ReplayDiagnosis, list_replay_diagnoses
from graphviz_dash.charts.shades import get_colour
from graphviz_dash.charts.static.replay_stops import STOP_SHADES, StopRow, list_stop_rows
from graphviz_dash.narrative.replay_check import format_replay_verdict
from graphviz_dash.ui.page.frame import SelectedExperiment, get_theme
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup
from graphviz_dash.ui.page.navigation import show_link


def show_replay_stops(selection: SelectedExperiment) -> None:
    """Show the progress of each stopped replay; nothing without one."""
    for name, diagnosis in list_replay_diagnoses(selection.experiment.runs):
        if diagnosis.stops:
            _show_run(selection, name, diagnosis)


def _show_run(selection: SelectedExperiment, name: str, diagnosis: ReplayDiagnosis) -> None:
    text = f"{name}: {format_replay_verdict(diagnosis)}"
    show_markup(
        format_element("div", escape_html(text), "failed", role="note"),
        _format_rows(list_stop_rows(diagnosis.stops)),
    )
    experiment = {"experiment": selection.entry.name}
    suspects = diagnosis.stops[0].stop.suspects
    run = next(run for run in selection.experiment.runs if run.name == name)
    if suspects and suspects[0].graph in {graph.id for graph in run.graphs}:
        node = suspects[0]
        query = {"run": name, "graph": node.graph, "node": str(node.index)}
        show_link("graph", f"Show node {node.index} in the graph", experiment | query)
    show_link("doctor", "Evidence and fix", {**experiment, "run": name})


def _format_rows(rows: Sequence[StopRow]) -> str:
    """Format a bar per row with a legend."""
    theme = get_theme()
    end_colour, stop_colour, rest_colour = (
        get_colour(shade, theme) for shade in STOP_SHADES.values()
    )
    bars = []
    for row in rows:
        marks = "".join(
            format_element("u", "", style=f"left:{mark:.2%};background:{stop_colour}")
            for mark in row.marks
        )
        end_bar = format_element("i", "", style=f"width:{row.share:.2%};background:{end_colour}")
        bars.append(
            format_element("span", escape_html(row.label))
            + format_element(
                "div", end_bar + marks, "bar", style=f"background:{rest_colour}", title=row.tip
            )
        )
    key = "".join(
        f'<i style="background:{get_colour(shade, theme)}"></i>{escape_html(label)}'
        for label, shade in STOP_SHADES.items()
    )
    return format_element(
        "div", format_element("div", key, "stop-key") + "".join(bars), "replay-stops"
    )
