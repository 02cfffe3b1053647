"""Show a step as graph segments with the eager work between them."""

from __future__ import annotations

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.loop.keys import list_graph_names
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.charts.segments import draw_segments
from graphviz_dash.features.ladder.narrative import describe_segmented_step, describe_segments
from graphviz_dash.features.ladder.page.state import get_traced_segments
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw_figure, get_theme
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup
from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.state.catalogue import Entry
from graphviz_dash.ui.state.store import STORE


def show_segments_panel(entry: Entry, report: LoopReport, family: FamilyReport) -> None:
    """Show the replays of a step of ``family``, and a traced step as a strip."""
    show_markup(format_element("p", escape_html(describe_segments(family)), "said"))
    try:
        step = get_traced_segments(entry.key, report.run)
    except InputError as error:
        show_markup(
            format_element("p", escape_html(f"The trace cannot be read: {error}"), "trouble-text")
        )
        return
    if isinstance(step, Missing):
        show_markup(format_element("p", escape_html(f"Not available: {step.reason}."), "muted"))
        return
    show_markup(format_element("p", escape_html(describe_segmented_step(step)), "said"))
    names = list_graph_names(STORE.get_run(entry.key, report.run).loop)
    draw_figure(draw_segments(step, names, get_theme()), f"segments-{entry.key}-{report.run}")
    query = {url_state.EXPERIMENT: entry.name, "runs": report.run, "step": str(step.step)}
    show_link("timeline", f"Step {step.step} on the Timeline", query)
