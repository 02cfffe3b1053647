"""Cached analysis of the captured graphs of opened experiments."""

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
"""Address of a graph: experiment key, run name, graph id."""


def nodes(key: str, run_name: str, graph_id: str) -> NodeTable:
    """Return the node table of one graph.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    graphs, origins = STORE.run(key, run_name).graphs, _origins(key, run_name, graph_id)
    graph = next(graph for graph in graphs if graph.id == graph_id)
    matched = node_replays(key, run_name)
    return STORE.derived(
        key,
        ("nodes", run_name, graph_id),
        lambda _: build_node_table(graph, origins, matched, graphs),
    )


def graph_titles(key: str, run_name: str) -> Mapping[str, str]:
    """Return the titles of a run's graphs by id, most replayed first.

    Raises:
        UnknownKeyError: no such run.
    """
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
    """Sort two graphs by capture order, or by collection time if from different runs."""
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
    """Return a graph with its nested graphs, without matching replays.

    Raises:
        UnknownKeyError: no such run or graph.
    """
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
    """Return a graph measured over the traced replays, or the reason it is unavailable.

    Raises:
        UnknownKeyError: no such graph.
    """
    run = STORE.run(key, run_name)
    graph = nodes(key, run_name, graph_id).graph
    matched = node_replays(key, run_name)
    return STORE.derived(
        key, ("measured", run_name, graph_id), lambda _: measure_graph(graph, run.graphs, matched)
    )


def concurrency(key: str, run_name: str, graph_id: str) -> Concurrency | Missing:
    """Return the concurrency of a measured graph, or the reason it is unavailable."""
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
    """Return a graph with its nested graphs.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    run = STORE.run(key, run_name)
    # Raises for an unknown graph.
    nodes(key, run_name, graph_id)
    return STORE.derived(
        key,
        ("whole", run_name, graph_id),
        lambda _: assemble_whole_graph(graph_id, run.graphs, lambda one: nodes(key, run_name, one)),
    )


def eager_nodes(key: str, run_name: str, graph_id: str) -> Mapping[int, EagerCounterpart]:
    """Return the eager counterparts of a graph's nodes by row; empty if steps cannot be paired.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    whole_graph = whole(key, run_name, graph_id)
    equation = comparison(key)[run_name].waterfall
    if isinstance(equation, Missing):
        return {}
    pairs = equation.pairs
    return STORE.derived(
        key, ("eager", run_name, graph_id), lambda _: eager_changes(pairs, whole_graph)
    )


def device_launch(key: str, run_name: str, graph_id: str) -> DeviceLaunch:
    """Return whether a graph allows device-side launch.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    run = STORE.run(key, run_name)
    nodes(key, run_name, graph_id)
    return STORE.derived(
        key, ("device-launch", run_name, graph_id), lambda _: check_device_launch(run, graph_id)
    )


def graph_pair(of: GraphAddress, against: GraphAddress) -> GraphPair:
    """Compare the graph ``of`` with the earlier graph ``against``.

    Raises:
        UnknownKeyError: one of them does not exist.
    """
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
    """Merge both graphs into one.

    Raises:
        UnknownKeyError: one of them does not exist.
    """
    pair = graph_pair(of, against)
    first, second = nodes(*against), nodes(*of)
    return STORE.derived(of[0], ("union", of, against), lambda _: unite(pair.diff, first, second))


def row_owner(
    address: GraphAddress, pair: tuple[GraphAddress, GraphAddress] | None, row: int
) -> tuple[str, str, int]:
    """Return run, graph and index of the node in a row of a drawing.

    The drawing shows the graph at ``address``, or the compared ``pair``, earlier first.
    """
    if pair is None:
        return (address[1], *whole(*address).owner[row])
    earlier, later = pair
    side, index = graph_union(later, earlier).whole.owner[row]
    owner = earlier if side == FIRST else later
    return owner[1], owner[2], index
