"""What analysis makes of the captured graphs of an opened experiment, built once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from graphviz_dash.analysis.attribution.attribution import Attribution, attribute
from graphviz_dash.analysis.attribution.graph_identity import graph_identities
from graphviz_dash.analysis.graph.device_launch import DeviceLaunch
from graphviz_dash.analysis.loop.keys import graph_keys
from graphviz_dash.analysis.nodes.concurrency import Concurrency, graph_concurrency
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph, measure_graph
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_node_table
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph, assemble_whole_graph
from graphviz_dash.analysis.step_comparison.eager_change import EagerCounterpart, eager_changes
from graphviz_dash.features.graph.diff.graph_pair import GraphPair, check_device_launch, pair_graphs
from graphviz_dash.features.graph.diff.graph_union import FIRST, GraphUnion, unite
from graphviz_dash.features.graph.diff_narrative import graph_title
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.state.results import comparison, node_replays
from graphviz_dash.ui.state.store import STORE, UnknownKeyError

GraphAddress: TypeAlias = tuple[str, str, str]
"""Where a graph is: key of its experiment, name of its run, its id."""


def nodes(key: str, run_name: str, graph_id: str) -> NodeTable:
    """The node table of one graph (UnknownKeyError: no such run or graph)."""
    graphs, origins = STORE.run(key, run_name).graphs, _origins(key, run_name, graph_id)
    graph = next(graph for graph in graphs if graph.id == graph_id)
    matched = node_replays(key, run_name)
    return STORE.derived(
        key,
        ("nodes", run_name, graph_id),
        lambda _: build_node_table(graph, origins, matched, graphs),
    )


def graph_titles(key: str, run_name: str) -> Mapping[str, str]:
    """What the graphs of a run are called, by their ids, the most replayed first (UnknownKeyError:
    no such run)."""
    run = STORE.run(key, run_name)
    return STORE.derived(
        key,
        ("titles", run_name),
        lambda _: {
            graph.id: graph_title(graph)
            for graph in graph_identities(
                run.graphs, run.recording, run.captures, graph_keys(run.loop)
            )
        },
    )


def in_order(first: GraphAddress, second: GraphAddress) -> tuple[GraphAddress, GraphAddress]:
    """Two graphs, the one that was captured earlier first: of one run by the order of captures, of
    several by when these were collected."""
    if first[:2] == second[:2]:
        ids = [graph.id for graph in STORE.run(*first[:2]).graphs]
        return (first, second) if ids.index(first[2]) <= ids.index(second[2]) else (second, first)
    first_created, second_created = (
        STORE.run(key, run_name).manifest.created for key, run_name, _ in (first, second)
    )
    return (first, second) if first_created <= second_created else (second, first)


def _origins(key: str, run_name: str, graph_id: str) -> Attribution:
    run = STORE.run(key, run_name)
    graph = next((graph for graph in run.graphs if graph.id == graph_id), None)
    if graph is None:
        raise UnknownKeyError(graph_id)
    return STORE.derived(
        key, ("origins", run_name, graph_id), lambda _: attribute(graph, *run.captures)
    )


def whole_without_times(key: str, run_name: str, graph_id: str) -> WholeGraph:
    """A graph with all that it holds, as it is known without looking at its replays
    (UnknownKeyError: no such run or graph)."""
    graphs = STORE.run(key, run_name).graphs
    _origins(key, run_name, graph_id)
    by_id = {graph.id: graph for graph in graphs}
    return STORE.derived(
        key,
        ("whole without times", run_name, graph_id),
        lambda _: assemble_whole_graph(
            graph_id,
            graphs,
            lambda one: build_node_table(by_id[one], _origins(key, run_name, one), None, graphs),
        ),
    )


def measured(key: str, run_name: str, graph_id: str) -> MeasuredGraph | Missing:
    """A graph over the traced replays, or why it cannot be (UnknownKeyError: no such graph)."""
    run = STORE.run(key, run_name)
    graph = nodes(key, run_name, graph_id).graph
    matched = node_replays(key, run_name)
    return STORE.derived(
        key, ("measured", run_name, graph_id), lambda _: measure_graph(graph, run.graphs, matched)
    )


def concurrency(key: str, run_name: str, graph_id: str) -> Concurrency | Missing:
    """What the measured graph's concurrency comes to, or why that is not known."""
    measured_graph = measured(key, run_name, graph_id)
    if isinstance(measured_graph, Missing):
        return measured_graph
    run = STORE.run(key, run_name)
    return STORE.derived(
        key,
        ("concurrency", run_name, graph_id),
        lambda _: graph_concurrency(
            measured_graph, {graph.id: nodes(key, run_name, graph.id) for graph in run.graphs}
        ),
    )


def whole(key: str, run_name: str, graph_id: str) -> WholeGraph:
    """A graph with all that it holds (UnknownKeyError: no such run or graph)."""
    run = STORE.run(key, run_name)
    # Asked first, so that an unknown graph is refused.
    nodes(key, run_name, graph_id)
    return STORE.derived(
        key,
        ("whole", run_name, graph_id),
        lambda _: assemble_whole_graph(graph_id, run.graphs, lambda one: nodes(key, run_name, one)),
    )


def eager_nodes(key: str, run_name: str, graph_id: str) -> Mapping[int, EagerCounterpart]:
    """What the nodes of a graph are to the baseline's eager step, by place; none where the steps
    cannot be paired (UnknownKeyError: no such run or graph)."""
    whole_graph = whole(key, run_name, graph_id)
    equation = comparison(key)[run_name].waterfall
    if isinstance(equation, Missing):
        return {}
    pairs = equation.pairs
    return STORE.derived(
        key, ("eager", run_name, graph_id), lambda _: eager_changes(pairs, whole_graph)
    )


def device_launch(key: str, run_name: str, graph_id: str) -> DeviceLaunch:
    """Whether a graph could be launched from the device (UnknownKeyError: no such run or graph)."""
    run = STORE.run(key, run_name)
    nodes(key, run_name, graph_id)
    return STORE.derived(
        key, ("device-launch", run_name, graph_id), lambda _: check_device_launch(run, graph_id)
    )


def graph_pair(of: GraphAddress, against: GraphAddress) -> GraphPair:
    """The graph ``of`` compared with ``against``, which is the earlier one (UnknownKeyError: one of
    them is not there)."""
    for address in (of, against):
        nodes(*address)
    return STORE.derived(
        of[0],
        ("pair", of, against),
        lambda _: pair_graphs(
            STORE.run(against[0], against[1]), against[2], STORE.run(of[0], of[1]), of[2]
        ),
    )


def graph_union(of: GraphAddress, against: GraphAddress) -> GraphUnion:
    """Both graphs as one (UnknownKeyError: one of them is not there)."""
    pair = graph_pair(of, against)
    first, second = nodes(*against), nodes(*of)
    return STORE.derived(of[0], ("union", of, against), lambda _: unite(pair.diff, first, second))


def row_owner(
    address: GraphAddress, pair: tuple[GraphAddress, GraphAddress] | None, row: int
) -> tuple[str, str, int]:
    """Run, graph and index of the node of a row of a drawing: of the graph at ``address``, or of
    the ``pair`` of graphs that it is compared in, the earlier first."""
    if pair is None:
        return (address[1], *whole(*address).owner[row])
    earlier, later = pair
    side, index = graph_union(later, earlier).whole.owner[row]
    owner = earlier if side == FIRST else later
    return owner[1], owner[2], index
