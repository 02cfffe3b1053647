"""Show a step as graph segments with the eager work between them."""

from __future__ import annotations

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.loop.keys import graph_keys
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.charts.segments import segments_chart
from graphviz_dash.features.ladder.narrative import segments_sentence, strip_sentence
from graphviz_dash.features.ladder.page.state import traced_segments
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw, theme
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.navigation import link
from graphviz_dash.ui.state.catalogue import Entry
from graphviz_dash.ui.state.store import STORE


def segments_panel(entry: Entry, report: LoopReport, family: FamilyReport) -> None:
    """Show the replays of a step of ``family``, and a traced step as a strip."""
    show(element("p", text(segments_sentence(family)), "said"))
    try:
        step = traced_segments(entry.key, report.run)
    except InputError as error:
        show(element("p", text(f"The trace cannot be read: {error}"), "trouble-text"))
        return
    if isinstance(step, Missing):
        show(element("p", text(f"Not available: {step.reason}."), "muted"))
        return
    show(element("p", text(strip_sentence(step)), "said"))
    names = graph_keys(STORE.run(entry.key, report.run).loop)
    draw(segments_chart(step, names, theme()), f"segments-{entry.key}-{report.run}")
    query = {url_state.EXPERIMENT: entry.name, "runs": report.run, "step": str(step.step)}
    link("timeline", f"Step {step.step} on the Timeline", query)
