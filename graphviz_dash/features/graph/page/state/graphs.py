"""Cached analysis of the captured graphs of opened experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from graphviz_dash.analysis.attribution.attribution import Attribution, attribute_graph
from graphviz_dash.analysis.attribution.graph_identity import list_graph_identities
from graphviz_dash.analysis.graph.device_launch import DeviceLaunch
from graphviz_dash.analysis.ledger.graphs import GraphLedger, build_graph_ledgers
from graphviz_dash.analysis.loop.keys import list_graph_names
from graphviz_dash.analysis.nodes.concurrency import Concurrency, analyze_graph
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph, measure_graph
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_node_table
from graphviz_dash.analysis.nodes.replay_faults import FaultState, GraphFaults, find_graph_faults
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, combine_tables
from graphviz_dash.analysis.replay_check import list_replay_diagnoses
from graphviz_dash.analysis.step_comparison.eager_change import EagerCounterpart, find_eager_changes
from graphviz_dash.features.graph.diff.creation_order import OrderEffect, find_order_effects
from graphviz_dash.features.graph.diff.graph_pair import (
    GraphPair,
    check_device_launch,
    compare_graphs,
)
from graphviz_dash.features.graph.diff.graph_union import FIRST_GRAPH, GraphUnion, merge_graphs
from graphviz_dash.features.graph.diff_narrative import format_graph_title
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.state.results import get_comparison, get_node_replays
from graphviz_dash.ui.state.store import STORE, UnknownKeyError, cache_result

GraphAddress: TypeAlias = tuple[str, str, str]
"""Experiment key, run name, graph id."""


@cache_result("nodes")
def get_nodes(key: str, run_name: str, graph_id: str) -> NodeTable:
    """Return the node table.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    graphs, origins = STORE.get_run(key, run_name).graphs, _get_origins(key, run_name, graph_id)
    graph = next(graph for graph in graphs if graph.id == graph_id)
    matched = get_node_replays(key, run_name)
    return build_node_table(graph, origins, matched, graphs)


@cache_result("titles")
def get_graph_titles(key: str, run_name: str) -> Mapping[str, str]:
    """Return titles of a run's graphs by id, most replayed first.

    Raises:
        UnknownKeyError: no such run.
    """
    run = STORE.get_run(key, run_name)
    identities = list_graph_identities(
        run.graphs, run.recording, run.capture_traces, list_graph_names(run.loop)
    )
    return {graph.id: format_graph_title(graph) for graph in identities}


def sort_by_capture(first: GraphAddress, second: GraphAddress) -> tuple[GraphAddress, GraphAddress]:
    """Sort by capture order, or by collection time if from different runs."""
    if first[:2] == second[:2]:
        ids = [graph.id for graph in STORE.get_run(*first[:2]).graphs]
        return (first, second) if ids.index(first[2]) <= ids.index(second[2]) else (second, first)
    first_created, second_created = (
        STORE.get_run(key, run_name).manifest.created for key, run_name, _ in (first, second)
    )
    return (first, second) if first_created <= second_created else (second, first)


@cache_result("origins")
def _get_origins(key: str, run_name: str, graph_id: str) -> Attribution:
    run = STORE.get_run(key, run_name)
    graph = next((graph for graph in run.graphs if graph.id == graph_id), None)
    if graph is None:
        raise UnknownKeyError(graph_id)
    return attribute_graph(graph, *run.capture_traces)


@cache_result("whole without times")
def get_graph_without_times(key: str, run_name: str, graph_id: str) -> ExpandedGraph:
    """Return a graph with its nested graphs, without matching replays.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    graphs = STORE.get_run(key, run_name).graphs
    _get_origins(key, run_name, graph_id)
    by_id = {graph.id: graph for graph in graphs}
    return combine_tables(
        graph_id,
        graphs,
        lambda one: build_node_table(by_id[one], _get_origins(key, run_name, one), None, graphs),
    )


@cache_result("measured")
def get_measured_graph(key: str, run_name: str, graph_id: str) -> MeasuredGraph | Missing:
    """Return a graph measured over the traced replays, or the reason it is unavailable.

    Raises:
        UnknownKeyError: no such graph.
    """
    run = STORE.get_run(key, run_name)
    graph = get_nodes(key, run_name, graph_id).graph
    return measure_graph(graph, run.graphs, get_node_replays(key, run_name))


@cache_result("concurrency")
def get_concurrency(key: str, run_name: str, graph_id: str) -> Concurrency | Missing:
    """Return the concurrency, or the reason it is unavailable."""
    measured_graph = get_measured_graph(key, run_name, graph_id)
    if isinstance(measured_graph, Missing):
        return measured_graph
    run = STORE.get_run(key, run_name)
    tables = {graph.id: get_nodes(key, run_name, graph.id) for graph in run.graphs}
    return analyze_graph(run, measured_graph, tables, get_node_replays(key, run_name))


@cache_result("whole")
def get_whole_graph(key: str, run_name: str, graph_id: str) -> ExpandedGraph:
    """Return a graph with its nested graphs.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    run = STORE.get_run(key, run_name)
    # Raises for an unknown graph.
    get_nodes(key, run_name, graph_id)
    return combine_tables(graph_id, run.graphs, lambda one: get_nodes(key, run_name, one))


@cache_result("eager")
def get_eager_nodes(key: str, run_name: str, graph_id: str) -> Mapping[int, EagerCounterpart]:
    """Return eager counterparts by row; empty if steps cannot be paired.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    full_graph = get_whole_graph(key, run_name, graph_id)
    equation = get_comparison(key)[run_name].waterfall
    return {} if isinstance(equation, Missing) else find_eager_changes(equation.pairs, full_graph)


@cache_result("device-launch")
def get_device_launch(key: str, run_name: str, graph_id: str) -> DeviceLaunch:
    """Check whether a graph allows device-side launch.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    run = STORE.get_run(key, run_name)
    get_nodes(key, run_name, graph_id)
    return check_device_launch(run, graph_id)


def get_graph_ledger(key: str, run_name: str, graph_id: str) -> GraphLedger | None:
    """Return memory and start-up time of a graph. None without a ledger.

    Raises:
        UnknownKeyError: no such run.
    """
    run = STORE.get_run(key, run_name)
    ledgers = STORE.derive(
        key,
        ("graph-ledgers", run_name),
        lambda _: {ledger.graph: ledger for ledger in build_graph_ledgers(run)},
    )
    return ledgers.get(graph_id)


def get_graph_pair(graph: GraphAddress, earlier: GraphAddress) -> GraphPair:
    """Compare a graph with an earlier one.

    Raises:
        UnknownKeyError: one of them does not exist.
    """
    for address in (graph, earlier):
        get_nodes(*address)
    return STORE.derive(
        graph[0],
        ("pair", graph, earlier),
        lambda _: compare_graphs(
            STORE.get_run(earlier[0], earlier[1]),
            earlier[2],
            STORE.get_run(graph[0], graph[1]),
            graph[2],
        ),
    )


def get_graph_union(graph: GraphAddress, earlier: GraphAddress) -> GraphUnion:
    """Merge both graphs into one.

    Raises:
        UnknownKeyError: one of them does not exist.
    """
    pair = get_graph_pair(graph, earlier)
    first, second = get_nodes(*earlier), get_nodes(*graph)
    return STORE.derive(
        graph[0], ("union", graph, earlier), lambda _: merge_graphs(pair.diff, first, second)
    )


def find_row_owner(
    address: GraphAddress, pair: tuple[GraphAddress, GraphAddress] | None, row: int
) -> tuple[str, str, int]:
    """Return run, graph and index of the node in a row of a drawing.

    The drawing shows the graph at ``address``, or the compared ``pair``, earlier first.
    """
    if pair is None:
        return (address[1], *get_whole_graph(*address).owners[row])
    earlier, later = pair
    side, index = get_graph_union(later, earlier).graph.owners[row]
    owner = earlier if side == FIRST_GRAPH else later
    return owner[1], owner[2], index


@cache_result("replay faults")
def get_graph_faults(key: str, run_name: str, graph_id: str) -> GraphFaults | None:
    """Return the result of a check of replays; None if unchecked.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    diagnoses = list_replay_diagnoses(STORE.load_experiment_of_key(key).runs)
    return find_graph_faults(diagnoses, run_name, get_whole_graph(key, run_name, graph_id))


def get_fault_states(key: str, run_name: str, graph_id: str) -> Mapping[int, FaultState]:
    """Return the state of each node by place; empty without faults.

    Raises:
        UnknownKeyError: no such run or graph.
    """
    faults = get_graph_faults(key, run_name, graph_id)
    return {} if faults is None else faults.states


def get_creation_orders(key: str) -> tuple[OrderEffect, ...]:
    """Return runs whose graphs differ in creation order only."""
    return STORE.derive(key, "creation-orders", find_order_effects)
