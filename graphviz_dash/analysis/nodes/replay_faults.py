"""Locate the faults of a replay check in captured graphs.

A check of a program names nodes of the program's graphs. A check of a workload names nodes of its
own capture, which hashes each tensor; without the hashes, they match any capture of the same step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.analysis.replay_check import (
    ReplayDiagnosis,
    ReplayFault,
    WrongOperator,
    number_checked_nodes,
)
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.replay_check import ValueCheck

_MIN_EQUAL_SHARE: Final = 0.9
"""Smallest share of equal operators for another run's capture to be the same step."""


class FaultState(StrEnum):
    """Relation of a node to the faults of its graph."""

    FAULT = "fault"
    AFTER = "after the fault"
    INDEPENDENT = "independent of the fault"


class LocatedFault(Struct, frozen=True):
    """A fault and its nodes in a captured graph."""

    fault: ReplayFault
    nodes: tuple[int, ...]
    """Places of the faulty nodes in the expanded graph."""


class GraphFaults(Struct, frozen=True):
    """Result of a replay check for one graph."""

    run: str
    """Name of the run with the check."""
    diagnosis: ReplayDiagnosis
    faults: tuple[LocatedFault, ...]
    """Faults in the graph. Empty if its replays are right."""
    states: Mapping[int, FaultState]
    """State of each node by place. Empty without faults."""

    def list_faults(self, position: int) -> list[ReplayFault]:
        """Return the faults of the node at ``position``."""
        return [item.fault for item in self.faults if position in item.nodes]

    def find_cause(self, position: int) -> LocatedFault | None:
        """Return the first fault before the node at ``position``, or None."""
        return self.faults[0] if self.states.get(position) is FaultState.AFTER else None


def find_graph_faults(
    diagnoses: Iterable[tuple[str, ReplayDiagnosis]], run: str, graph: ExpandedGraph
) -> GraphFaults | None:
    """Find the check of the replays of ``graph`` of ``run``; None if unchecked.

    ``diagnoses`` are those of the experiment with the names of their runs: a workload's check may
    be in another run.
    """
    checks = dict(diagnoses)
    if run in checks:
        return _locate(run, checks[run], graph, same_run=True)
    for name, diagnosis in checks.items():
        if diagnosis.check.subject == "workload":
            locations = _locate(name, diagnosis, graph, same_run=False)
            if locations is not None:
                return locations
    return None


def _locate(
    run: str, diagnosis: ReplayDiagnosis, graph: ExpandedGraph, *, same_run: bool
) -> GraphFaults | None:
    check = diagnosis.check
    locations: list[LocatedFault] = []
    has_result = same_run and check.subject == "program"
    if same_run:
        for stop in diagnosis.stops:
            nodes = [(node.graph, node.index) for node in stop.stop.suspects]
            locations += _list_places(stop, nodes, graph)
        for fault in diagnosis.memory:
            node = fault.memory.node
            locations += _list_places(fault, [(node.graph, node.index)] if node else [], graph)
    values = {id(operator): item for item in check.values for operator in item.operators}
    for item in check.values:
        has_result |= is_same_step(item, graph)
    for wrong in diagnosis.wrong:
        item = values[id(wrong.operator)]
        if is_same_step(item, graph):
            locations += _list_places(wrong, _list_operator_nodes(wrong, graph), graph)
    if not locations and not has_result:
        return None
    return GraphFaults(run, diagnosis, tuple(locations), _compute_states(graph, locations))


def _list_places(
    fault: ReplayFault, nodes: Sequence[tuple[str, int]], graph: ExpandedGraph
) -> list[LocatedFault]:
    places = [graph.find_place(*node) for node in nodes]
    positions = tuple(number for number in places if number is not None)
    return [LocatedFault(fault, positions)] if positions else []


def _list_operator_nodes(wrong: WrongOperator, graph: ExpandedGraph) -> list[tuple[str, int]]:
    if wrong.node is None:
        return []
    name = graph.owners[0][0]
    return [(name, node) for node in range(wrong.node, wrong.node + wrong.operator.nodes)]


def is_same_step(values: ValueCheck, graph: ExpandedGraph) -> bool:
    """Check if ``graph`` is a capture of the checked step: the same nodes and operators."""
    numbers = number_checked_nodes(values)
    if numbers is None or len(graph.root_nodes) != values.nodes:
        return False
    path_count = match_count = 0
    for operator in values.operators:
        if operator.first_node is None:
            continue
        # The profiler also sees the operators that an operator calls, such as clamp_min for relu.
        path = graph.table.rows[numbers[operator.first_node]].origin.op_path
        path_count += bool(path)
        match_count += operator.name in path
    return match_count >= path_count * _MIN_EQUAL_SHARE


def _compute_states(
    graph: ExpandedGraph, locations: Sequence[LocatedFault]
) -> dict[int, FaultState]:
    if not locations:
        return {}
    faulty = {node for item in locations for node in item.nodes}
    after = find_dependents(graph.table.graph, faulty)
    # A conditional or child graph runs its bodies.
    for node in [*after]:
        after.update(inner for body in graph.bodies.get(node, ()) for inner in body.nodes)
    states = dict.fromkeys(range(len(graph.table.rows)), FaultState.INDEPENDENT)
    states |= dict.fromkeys(after, FaultState.AFTER)
    return states | dict.fromkeys(faulty, FaultState.FAULT)


def find_dependents(graph: CapturedGraph, nodes: Iterable[int]) -> set[int]:
    """Return all nodes that run after any of ``nodes`` by the edges of ``graph``."""
    targets: dict[int, list[int]] = {}
    for edge in graph.edges:
        targets.setdefault(edge.source, []).append(edge.target)
    dependents: set[int] = set()
    pending = list(nodes)
    while pending:
        for target in targets.get(pending.pop(), ()):
            if target not in dependents:
                dependents.add(target)
                pending.append(target)
    return dependents
