"""Graph: source lines, the captured graph as a DAG, the selected node, and a table of nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from graphviz_dash.analysis.nodes.node_table import LineShare, NodeTable, list_source_lines
from graphviz_dash.analysis.nodes.replay_faults import LocatedFault
from graphviz_dash.documentation import REPLAY_CHECKS
from graphviz_dash.features.graph.diff_narrative import explain_missing_graphs
from graphviz_dash.features.graph.folding.fold import FoldCriterion
from graphviz_dash.features.graph.narrative import explain_missing_code
from graphviz_dash.features.graph.page.component import render_dag
from graphviz_dash.features.graph.page.component.preparing import (
    LARGE_GRAPH_NODES,
    DrawnGraph,
    count_nodes,
    get_view_event,
    is_ready,
    start_preparation,
)
from graphviz_dash.features.graph.page.graph_choice import (
    GraphChoice,
    get_requested_node,
    select_graph,
)
from graphviz_dash.features.graph.page.graph_comparison import show_outcome
from graphviz_dash.features.graph.page.graph_details import (
    PANEL_PX,
    find_in_graph,
    show_graph_details,
)
from graphviz_dash.features.graph.page.graph_summary import show_graph_summary
from graphviz_dash.features.graph.page.graph_tables import FIND
from graphviz_dash.features.graph.page.state.graphs import (
    GraphAddress,
    get_graph_faults,
    get_graph_pair,
    get_graph_union,
    get_whole_graph,
)
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.replay_check import format_fault, format_replay_verdict
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    load_selected_experiment,
    show_fold,
    show_missing_content,
)
from graphviz_dash.ui.page.help import format_help_link
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    format_table,
    format_text,
    show_markup,
)
from graphviz_dash.ui.page.navigation import link_markup, show_tabs
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator


_FOLD: Final = "fold"
_REQUEST_TIMEOUT_S: Final = 0.4
"""Seconds for a new drawing to request its view before other panels are sent."""
_DRAWING_S: Final = 0.1
"""Seconds that the browser then has to draw it."""


def render() -> None:
    """Render the page."""
    selection = load_selected_experiment()
    runs = [run for run in selection.experiment.runs if run.graphs]
    if not runs:
        all_runs = selection.experiment.runs
        reasons = explain_missing_graphs(all_runs)
        if any(run.manifest.sources for run in all_runs):
            reasons.append(
                "For imported runs, graphs come from a trace of their capture, imported "
                "together with a trace of their replays, or from the driver's debug DOT."
            )
        show_missing_content("graph", all_runs, "No captured graph in this experiment", *reasons)
        return
    show_tabs("graph")
    _show_graph(selection, select_graph(selection, runs))


def _show_graph(selection: SelectedExperiment, choice: GraphChoice) -> None:
    count = count_nodes(choice.run, choice.address[2])
    # The drawing prepares a large graph on first use and shows the progress.
    fold = _get_fold()
    ready = count < LARGE_GRAPH_NODES or any(
        is_ready(DrawnGraph(choice.drawn_graph, choice.earlier_graph, order))
        for order in FoldCriterion
    )
    if not ready:
        start_preparation(DrawnGraph(choice.drawn_graph, choice.earlier_graph, FoldCriterion(fold)))
    with st.container(key="graph-said", gap="small"):
        drawn_count = _show_introduction(choice, count, ready=ready)
    left, right = st.columns([0.7, 0.3], gap="small")
    first_view = (
        None if _get_key(choice) in st.session_state else get_view_event(choice.drawn_graph)
    )
    with left:
        selected = _draw_graph(choice, drawn_count, fold, ready=ready)
    _select_node(selected)
    if not ready:
        _show_placeholder(right)
        return
    if first_view is not None and first_view.wait(_REQUEST_TIMEOUT_S):
        time.sleep(_DRAWING_S)
    if count >= LARGE_GRAPH_NODES and choice.pair is None:
        # Lines that arrive after the drawing must not move it.
        show_source_lines(
            get_whole_graph(*choice.address).table, choice.run, selected, above_drawing=False
        )
    show_graph_details(selection, choice, right, selected)


def _show_introduction(choice: GraphChoice, count: int, *, ready: bool) -> int:
    """Show the summary and return the number of drawn nodes."""
    if not ready:
        show_markup(format_element("p", f"{pluralize(count, 'node')}, preparing…", "muted"))
        show_markup(format_element("p", "Origins and times will appear shortly.", "muted"))
        return (
            sum(
                count_nodes(STORE.get_run(*address[:2]), address[2])
                for address in choice.pair or ()
            )
            or count
        )
    if choice.pair is not None:
        earlier, later = choice.pair
        show_outcome(*_format_names(earlier, later), get_graph_pair(later, earlier))
        return len(get_graph_union(later, earlier).graph.owners)
    graph = get_whole_graph(*choice.address)
    show_graph_summary(graph)
    show_replay_check(choice.address)
    if count < LARGE_GRAPH_NODES:
        node = get_requested_node(count)
        show_source_lines(graph.table, choice.run, node, above_drawing=True)
    return count


def _format_names(earlier: GraphAddress, later: GraphAddress) -> tuple[str, str]:
    return (
        (earlier[2], later[2])
        if earlier[1] == later[1]
        else (f"{earlier[2]} of {earlier[1]}", f"{later[2]} of {later[1]}")
    )


def _draw_graph(choice: GraphChoice, count: int, fold: str, *, ready: bool) -> int | None:
    return render_dag(
        *choice.drawn_graph,
        other_graph=choice.earlier_graph,
        color_by=choice.colour,
        selected=get_requested_node(count),
        on_select=url_state.only_on_this_page(_select_node),
        find=url_state.get_value(FIND) or "",
        on_find=url_state.only_on_this_page(find_in_graph),
        fold=fold,
        on_fold=url_state.only_on_this_page(_set_fold),
        ready=ready,
        key=_get_key(choice),
    )


def _get_key(choice: GraphChoice) -> str:
    """Return the key, which is in the session while the drawing is on the page."""
    return f"dag-{choice.identity}"


def _show_placeholder(side: DeltaGenerator) -> None:
    with side, st.container(border=True, height=PANEL_PX, key="node-panel"):
        show_markup(format_element("p", "The longest nodes will appear shortly.", "muted"))


def _get_fold() -> str:
    requested = url_state.get_value(_FOLD)
    return requested if requested in list(FoldCriterion) else FoldCriterion.ORDER.value


def _set_fold(fold: str) -> None:
    url_state.set_parameters({_FOLD: None if fold == FoldCriterion.ORDER else fold})


def _select_node(node: int | None) -> None:
    url_state.set_parameters({"node": None if node is None else str(node)})


_MAX_FAULTS: Final = 3


def show_replay_check(address: GraphAddress) -> None:
    """Show each fault with a button that selects its node, or the verdict."""
    faults = get_graph_faults(*address)
    if faults is None:
        return
    if not faults.faults:
        if not faults.diagnosis.fault_count:
            text = f"Replay check: {format_replay_verdict(faults.diagnosis)}"
            help_link = format_help_link(REPLAY_CHECKS, "Replay check")
            show_markup(format_element("p", escape_html(text) + help_link, "muted"))
        return
    for number, location in enumerate(faults.faults[:_MAX_FAULTS]):
        _show_fault(location, number)


def _show_fault(location: LocatedFault, number: int) -> None:
    node = location.nodes[0]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        text = escape_html(format_fault(location.fault))
        help_link = format_help_link(REPLAY_CHECKS, "Faults of replays")
        st.html(format_element("div", text + help_link, "failed", role="note"))
        st.button(
            f"Show node {node}",
            icon=":material/my_location:",
            key=f"fault-{number}",
            type="tertiary",
            on_click=url_state.only_on_this_page(_select_node),
            args=(node,),
        )


_FIRST_LINES: Final = 4
"""Lines that are not folded."""
_MAX_LISTED: Final = 200
_LOWER_DRAWING: Final = format_element(
    "style", ":root{--drawing-height:max(500px,calc(100vh - 24rem))}"
)
"""Style with which lines and the drawing below them fit on the first screen."""
_HEAD: Final = ("Source line", "Share", "GPU time", "Nodes", "Location")


def show_source_lines(table: NodeTable, run: Run, node: int | None, *, above_drawing: bool) -> None:
    """Show the lines with the most GPU time; a link highlights the nodes of a line.

    The line of the node ``node`` is first. A drawing below the lines gets lower. Nothing without
    source lines.
    """
    lines = list_source_lines(table, run.source_code)
    if not lines:
        return
    current = None if node is None else table.rows[node].origin.source
    lines = tuple(sorted(lines, key=lambda line: line.source != current))
    first_lines, other_lines = lines[:_FIRST_LINES], lines[_FIRST_LINES:_MAX_LISTED]
    reason = explain_missing_code(run, lines)
    note = format_text("p", reason, "muted") if reason else ""
    section = _format_lines(first_lines, current) + note
    show_markup(section, _LOWER_DRAWING if above_drawing else "")
    if other_lines:
        title = f"{pluralize(len(lines) - _FIRST_LINES, 'more source line')}"
        show_fold(title, "lines", lambda: show_markup(_format_lines(other_lines, current)))


def _format_lines(lines: Sequence[LineShare], current: str | None) -> str:
    rows = [_format_line(line, is_current=line.source == current) for line in lines]
    table = format_table(map(escape_html, _HEAD), [("", rows)], "source-lines")
    return format_element("section", table, "code-lines")


def _format_line(line: LineShare, *, is_current: bool) -> list[str]:
    is_search = url_state.get_value(FIND) == line.source
    parameters = {
        name: values for name, values in url_state.get_parameters().items() if name != FIND
    }
    link = link_markup(
        "graph",
        line.code or line.source,
        parameters if is_search else parameters | {FIND: [line.source]},
        icon=False,
        kind="line-code" if line.code else "",
        is_current=is_search or is_current,
    )
    share = "" if line.share is None else format_percent(line.share)
    bar = format_element("i", "", style=f"--share:{line.share or 0:.4f}") + escape_html(share)
    return [
        link,
        format_element("span", bar, "share-bar"),
        "" if line.work_ns is None else escape_html(format_ns(line.work_ns)),
        format_count(line.nodes),
        format_text("span", "/".join(line.source.split("/")[-2:]), title=line.source),
    ]
