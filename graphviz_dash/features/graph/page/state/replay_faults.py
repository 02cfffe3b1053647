"""Cached result of a check of replays for a graph."""

from __future__ import annotations

from collections.abc import Mapping

from graphviz_dash.analysis.nodes.replay_faults import FaultState, GraphFaults, find_graph_faults
from graphviz_dash.analysis.replay_check import list_replay_diagnoses
from graphviz_dash.features.graph.page.state.graphs import get_whole_graph
from graphviz_dash.ui.state.store import STORE, cache_result


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
