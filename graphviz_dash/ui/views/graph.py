"""Graph: a captured graph as a DAG, the card of the chosen node, and the nodes as a table."""

from __future__ import annotations

from typing import Final

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from graphviz_dash.analysis.diff.graph_union import FIRST, GraphUnion
from graphviz_dash.analysis.fold.fold import FoldBy
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.charts.dag.node_card import node_card
from graphviz_dash.errors import InputError, printable
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.graphs import launch_answer, launch_sentence
from graphviz_dash.ui.components.dag import dag_view
from graphviz_dash.ui.components.dag.preparing import LARGE, begin, is_ready, nodes_of
from graphviz_dash.ui.components.perfetto import Part, perfetto_button
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    Chosen,
    choose_run,
    chosen_experiment,
    empty,
    theme,
    trouble,
    why_no_graph,
)
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.navigation import carry, link
from graphviz_dash.ui.panels.concurrency import concurrency_panel
from graphviz_dash.ui.panels.graph_comparison import (
    AGAINST,
    choose_earlier,
    differences,
    graph_label,
    outcome,
)
from graphviz_dash.ui.panels.graph_tables import FIND, line_table, node_table
from graphviz_dash.ui.panels.node import longest_nodes, node_panel
from graphviz_dash.ui.state.results import (
    GraphAddress,
    comparison,
    concurrency,
    device_launch,
    eager_nodes,
    graph_pair,
    graph_union,
    measured,
    node_replays,
    nodes,
    whole,
)
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import counted, format_count, format_ns, format_percent

_CHANGE: Final = "change"
_FOLD: Final = "fold"
_HEIGHT: Final = 640


def render() -> None:
    """The page."""
    chosen = chosen_experiment()
    runs = [run for run in chosen.experiment.runs if run.graphs]
    if not runs:
        empty(
            "This experiment holds no captured graph",
            *why_no_graph(chosen.experiment.runs),
            "graphviz-dash collect with --modes eager,graph captures one; an imported run needs "
            "the trace of its capture, or the driver's debug DOT.",
        )
        return
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        run = choose_run(runs, default=_usual(chosen, runs), clears=("graph", "node", AGAINST))
        _lead_to_whole(chosen, run)
        # What lies in another graph is shown there.
        labels = {one.id: graph_label(one) for one in run.graphs if one.parent is None}
        graph_id = next(iter(labels))
        if len(labels) > 1:
            graph_id = url_state.choose(
                "graph",
                "Graph",
                list(labels),
                clears=("node",),
                width=220 if any(one.name for one in run.graphs) else 160,
                format_func=lambda one: printable(labels[one]),
            )
        of = (chosen.key, run.name, graph_id)
        against = choose_earlier(chosen.key, runs, of)
        shades = _shades(chosen, against)
        colour = url_state.choose(
            "colour",
            "Colour by",
            list(shades),
            width=180,
            format_func=lambda one: shades[one],
        )
    count = nodes_of(run, graph_id)
    # A large graph that nobody has seen yet is prepared by the drawing, which says how far it is.
    by = _fold()
    ready = count < LARGE or any(is_ready(of, against, one) for one in FoldBy)
    if not ready:
        begin(of, against, FoldBy(by))
    with st.container(key="graph-said", gap="small"):
        if not ready:
            show(element("p", f"{counted(count, 'node')}, being prepared", "muted"))
            show(
                element(
                    "p", "Where they come from and what they take is told in a moment.", "muted"
                )
            )
            count += nodes_of(*_earlier(chosen, against)) if against else 0
        elif against is not None:
            count = len(graph_union(of, against).whole.owner)
            outcome(graph_pair(of, against))
        else:
            found = whole(*of)
            show(element("p", text(_summary(found)), "muted"))
            _life(chosen.key, run, found)
    left, right = st.columns([0.7, 0.3], gap="small")
    identity = "-".join((*of, *(against or ())))
    with left:
        selected = dag_view(
            *of,
            against=against,
            color_by=colour,
            selected=_asked(count),
            on_select=_select,
            find=url_state.value(FIND) or "",
            on_find=_find,
            fold=by,
            on_fold=_refold,
            ready=ready,
            key=f"dag-{identity}",
            height=_HEIGHT,
        )
    _select(selected)
    if not ready:
        with right, st.container(border=True, height=_HEIGHT, key="node-panel"):
            show(element("p", "The longest nodes are listed here in a moment.", "muted"))
        return
    _prepared(chosen, of, against, right, selected, identity)


def _prepared(
    chosen: Chosen,
    of: GraphAddress,
    against: GraphAddress | None,
    right: DeltaGenerator,
    selected: int | None,
    identity: str,
) -> None:
    """What is told beside and under the drawing."""
    found = whole(*of)
    union = None if against is None else graph_union(of, against)
    with right, st.container(border=True, height=_HEIGHT, key="node-panel"):
        if selected is None:
            longest_nodes(found.table, identity)
        else:
            _node(chosen, _home(of, against, union, found, selected))
    if against is not None:
        differences(graph_pair(of, against), nodes(*against), nodes(*of), identity)
    _perfetto(of)
    concurrency_panel(concurrency(*of), found, theme())
    own = selected if union is None else None
    node_table(found, identity, own)
    line_table(found, identity, own)


def _perfetto(of: GraphAddress) -> None:
    """The traced launches of the graph, opened in Perfetto by one click."""
    key, run_name, graph_id = of
    if STORE.run(key, run_name).replay_trace is None:
        return
    try:
        perfetto_button(
            key,
            Part(((run_name, None),), graph_id),
            label="Open its launches in Perfetto",
            small=True,
            key=f"perfetto-{'-'.join(of)}",
        )
    except InputError as error:
        trouble("Perfetto cannot be opened", str(error))


def _shades(chosen: Chosen, against: GraphAddress | None) -> dict[str, str]:
    """What the colours can tell."""
    shades = {"category": "category of work"}
    shades |= {one: one for one in ("kind", "op", "module", "phase", "time", "slack")}
    shades["op"] = "operator"
    if any(not run.graphs for run in chosen.experiment.runs):
        shades["eager"] = "eager against graph"
    return shades if against is None else {_CHANGE: "change to the earlier", **shades}


def _earlier(chosen: Chosen, against: GraphAddress) -> tuple[Run, str]:
    return STORE.run(chosen.key, against[1]), against[2]


def _find(wanted: str) -> None:
    url_state.change({FIND: wanted or None})


def _fold() -> str:
    """What the fold begins with, by the address."""
    asked = url_state.value(_FOLD)
    return asked if asked in list(FoldBy) else FoldBy.ORDER.value


def _refold(by: str) -> None:
    url_state.change({_FOLD: None if by == FoldBy.ORDER else by})


def _home(
    of: GraphAddress,
    against: GraphAddress | None,
    union: GraphUnion | None,
    found: WholeGraph,
    place: int,
) -> tuple[str, str, int]:
    """Run, graph and index of the node at a place."""
    if union is None or against is None:
        return (of[1], *found.owner[place])
    owner, index = union.whole.owner[place]
    home = against if owner == FIRST else of
    return home[1], home[2], index


def _node(chosen: Chosen, home: tuple[str, str, int]) -> None:
    """The card of a node, and the way to it in the timeline."""
    run, graph, index = home
    matched = node_replays(chosen.key, run)
    durations = matched.samples(graph, index) if matched else np.zeros(0)
    top = _top(chosen, run, graph)
    times = measured(chosen.key, run, top)
    table = nodes(chosen.key, run, graph)
    card = node_card(
        table,
        index,
        np.asarray(durations, dtype=np.int64),
        None if isinstance(times, str) else times,
        eager_nodes(chosen.key, run, top).get(whole(chosen.key, run, top).place(graph, index) or 0),
    )
    show(node_panel(card, theme()))
    query = {"select": f"{run}/{graph}#{index}"}
    # The timeline shows the same slice, however it is gone to.
    carry("timeline", query)
    link("timeline", "Show in the timeline", {"experiment": chosen.entry.name} | query)
    source = table.rows[index].origin.source
    if source is not None:
        st.button(
            "Find all of its source line",
            icon=":material/code:",
            key="same-line",
            type="tertiary",
            on_click=_find,
            args=(source,),
            help="Marks the nodes in the graph that the same line launched.",
        )


def _top(chosen: Chosen, run_name: str, graph_id: str) -> str:
    """The graph that is launched when this one runs: itself, or the one that holds it."""
    parents = {
        graph.id: graph.parent
        for run in chosen.experiment.runs
        if run.name == run_name
        for graph in run.graphs
    }
    while (parent := parents.get(graph_id)) is not None:
        graph_id = parent[0]
    return graph_id


def _life(key: str, run: Run, found: WholeGraph) -> None:
    """What can be done with the graph: a launch from the device; what is switched off in it."""
    graph = found.table.graph
    said = next((one.device_launch for one in run.graphs if one.id == graph.id), None)
    driver = "" if said is None else f" (the driver: {launch_answer(said)})"
    answer = launch_sentence(device_launch(key, run.name, graph.id))
    line = f"Could be launched from the device: {answer}{driver}."
    off = sum(row.node.enabled is False for row in found.table.rows)
    if off:
        nodes_are = "1 node is" if off == 1 else f"{format_count(off)} nodes are"
        line += f" {nodes_are} switched off in its executable."
    if graph.captured_as is not None:
        line += (
            f" Told by the {graph.read_by}: dependencies between nodes are not known, the edges "
            "say that replays ran them one after another on one stream."
        )
    show(element("p", text(line), "muted"))


def _lead_to_whole(chosen: Chosen, run: Run) -> None:
    """An address that names a graph inside another leads to the node's place in the whole."""
    by_id = {graph.id: graph for graph in run.graphs}
    named = by_id.get(url_state.value("graph") or "")
    if named is None or named.parent is None:
        return
    root = named
    while root.parent is not None:
        root = by_id[root.parent[0]]
    index = _asked(len(named.nodes))
    place = whole(chosen.key, run.name, root.id).place(named.id, index or 0)
    node = None if index is None or place is None else str(place)
    url_state.change({"graph": root.id, "node": node})


def _usual(chosen: Chosen, runs: list[Run]) -> str | None:
    """The fastest run, if it has a graph."""
    best = comparison(chosen.key).best
    return best.name if best and best.name in {run.name for run in runs} else None


def _select(node: int | None) -> None:
    url_state.change({"node": None if node is None else str(node)})


def _asked(count: int) -> int | None:
    """The node that the address names, if it is one of the graph's."""
    value = url_state.value("node") or ""
    return int(value) if value.isdecimal() and len(value) < 10 and int(value) < count else None


def _summary(whole: WholeGraph) -> str:
    found = whole.table
    rows = found.rows
    inside = len(rows) - len(whole.top)
    parts = [
        counted(len(rows), "node")
        + (f" ({format_count(inside)} of them inside others)" if inside else "")
        + f", {counted(len(found.graph.edges), 'edge')}",
        f"{format_count(found.attributed)} lead to an operator "
        f"({format_percent(found.attributed / len(rows)) if rows else '–'})",
    ]
    if found.replays:
        parts.append(
            f"{format_count(found.matched_kernels)} of {format_count(found.replay_kernels)} GPU "
            f"rows of {format_count(found.replays)} replays of the {found.timed_in} matched"
        )
        parts.append(f"{format_ns(whole.work_ns)} of GPU work, sum of the nodes' medians")
    return " · ".join(parts)
