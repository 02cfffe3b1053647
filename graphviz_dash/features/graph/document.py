"""Build the JSON of a captured graph."""

from __future__ import annotations

from collections import Counter
from typing import TypedDict

from graphviz_dash.analysis.graph.device_launch import LaunchFinding
from graphviz_dash.analysis.nodes.concurrency import Concurrency, get_p99_and_slack
from graphviz_dash.analysis.nodes.node_table import NodeTable, sort_nodes_by_duration
from graphviz_dash.analysis.replays.alignment_accuracy import measure_agreement
from graphviz_dash.exports.documents.values import (
    Count,
    Fraction,
    Ns,
    Ratio,
    Sentence,
    get_reason,
    simplify_number,
)
from graphviz_dash.features.graph.concurrency import describe_concurrency
from graphviz_dash.features.graph.device_launch import format_finding
from graphviz_dash.features.graph.diff.graph_pair import check_device_launch
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.stream_document import (
    ParallelDocument,
    build_parallel_document,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run


class ConfidenceDocument(TypedDict):
    """Rows aligned with one confidence, and the number that the node ids confirm."""

    confidence: Fraction
    rows: Count
    agreeing: Count


class AgreementDocument(TypedDict):
    """Agreement of the alignment with the recorded node ids."""

    source: str
    steps: Count
    records: Count
    dropped: Count
    outside: Count
    compared: Count
    agreeing: Count
    unnamed: Count
    by_confidence: list[ConfidenceDocument]
    misses: dict[str, Count]


class GraphNodeDocument(TypedDict):
    """A node, or the parent node of a nested graph."""

    graph: str
    node: int


class ScheduleDocument(TypedDict):
    """Length of a replay on a number of streams."""

    streams: Count
    length: Ns


class RedundantEdgesDocument(TypedDict):
    """Redundant edges; ``unknown`` is the number of nodes with unknown memory."""

    edges: Count
    by_operators: Count
    critical_path: Ns
    unknown: Count | None


class ConcurrencyDocument(TypedDict):
    """Critical path and concurrency over the replays, in ns."""

    replays: Count
    critical_path: Ns
    path: list[GraphNodeDocument]
    work: Ns
    span: Ns
    busy: Ns
    lost_time: Ns
    available: Ratio
    achieved: Ratio
    streams: Count
    schedules: list[ScheduleDocument]
    redundant_edges: RedundantEdgesDocument
    sentences: list[Sentence]


class DeviceFindingDocument(TypedDict):
    """A requirement of device-side launch that is violated or could not be checked."""

    rule: str
    reason: Sentence
    graph: str
    node: int | None


class DriverResultDocument(TypedDict):
    """Result returned by the driver."""

    result: str
    graph: str | None
    node: int | None


class DeviceLaunchDocument(TypedDict):
    """Device-side launch of a graph: requirements and the driver's result."""

    verdict: str
    violations: list[DeviceFindingDocument]
    unknown: list[DeviceFindingDocument]
    driver: DriverResultDocument | None


class AttributionDocument(TypedDict):
    """Number of nodes attributed to an operator, from the launches of the capture."""

    attributed: Count
    launches: Count
    methods: dict[str, Count]


MatchingDocument = TypedDict(
    "MatchingDocument",
    {
        "replays": Count,
        "gpu_rows": Count,
        "matched": Count,
        "methods": dict[str, Count],
        "pass": str | None,
    },
)
# Number of GPU rows matched to nodes. Functional syntax because "pass" is a keyword.


class TimedNodeDocument(TypedDict):
    """A node with its times over the replays and the operator that launched it."""

    index: int
    kind: str
    name: str
    category: str
    median: Ns | None
    p99: Ns | None
    slack: Ns | None
    samples: Count
    op: str | None
    module: str | None
    source: str | None


class GraphDocument(TypedDict):
    """A captured graph, or a body in one."""

    id: str
    parent: GraphNodeDocument | None
    read_by: str
    nodes: Count
    edges: Count
    kinds: dict[str, Count]
    disabled: list[int]
    device_launch: DeviceLaunchDocument | None
    attribution: AttributionDocument
    matching: MatchingDocument
    concurrency: ConcurrencyDocument | None
    concurrency_reason: Sentence | None
    parallel: ParallelDocument | None
    parallel_reason: Sentence | None
    longest_nodes: list[TimedNodeDocument]


def build_agreement_document(run: Run) -> AgreementDocument | None:
    """Build the agreement with a run's node ids; None for a run without a node-id pass."""
    node_ids = run.node_ids
    if node_ids is None:
        return None
    accuracy = measure_agreement(run)
    return {
        "source": node_ids.source,
        "steps": node_ids.steps,
        "records": len(node_ids.rows),
        "dropped": node_ids.dropped,
        "outside": node_ids.outside,
        "compared": 0 if accuracy is None else accuracy.rows,
        "agreeing": 0 if accuracy is None else accuracy.agreeing,
        "unnamed": 0 if accuracy is None else accuracy.unnamed,
        "by_confidence": [
            {"confidence": confidence, "rows": rows, "agreeing": agreeing}
            for confidence, (rows, agreeing) in sorted(
                ({} if accuracy is None else accuracy.by_confidence).items(), reverse=True
            )
        ],
        "misses": {}
        if accuracy is None
        else {k.name.lower(): n for k, n in accuracy.misses.items()},
    }


def _build_concurrency_document(concurrency: Concurrency) -> ConcurrencyDocument:
    measured, needless = concurrency.measured, concurrency.redundant
    return {
        "replays": measured.replays,
        "critical_path": measured.path.length,
        "path": [
            {"graph": measured.nodes[index][0], "node": measured.nodes[index][1]}
            for index in measured.path.nodes
        ],
        "work": measured.work_ns,
        "span": measured.span_ns,
        "busy": measured.busy_ns,
        "lost_time": measured.lost_ns,
        "available": measured.available_concurrency,
        "achieved": measured.achieved_concurrency,
        "streams": measured.streams,
        "schedules": [
            {"streams": schedule.streams, "length": schedule.length}
            for schedule in measured.schedules
        ],
        "redundant_edges": {
            "edges": len(needless.edges),
            "by_operators": needless.operator_only_count,
            "critical_path": needless.path_ns,
            "unknown": needless.unknown_nodes,
        },
        "sentences": list(describe_concurrency(concurrency)),
    }


def _build_device_launch_document(run: Run, graph: CapturedGraph) -> DeviceLaunchDocument:
    check = check_device_launch(run, graph.id)
    driver_result = graph.device_launch
    return {
        "verdict": check.verdict.value,
        "violations": [_build_finding_document(finding) for finding in check.violations],
        "unknown": [_build_finding_document(finding) for finding in check.unknown],
        "driver": {
            "result": driver_result.result,
            "graph": driver_result.graph,
            "node": driver_result.node,
        }
        if driver_result is not None
        else None,
    }


def _build_finding_document(finding: LaunchFinding) -> DeviceFindingDocument:
    return {
        "rule": finding.rule,
        "reason": format_finding(finding),
        "graph": finding.graph,
        "node": finding.node,
    }


def build_graph_document(
    run: Run,
    table: NodeTable,
    concurrency: Concurrency | Missing | None,
    parallel: ParallelPrediction | Missing | None,
    count: int,
) -> GraphDocument:
    """Build the document of a graph with its ``count`` slowest nodes.

    ``concurrency`` and ``parallel`` are None for a nested graph.
    """
    graph = table.graph
    return {
        "id": graph.id,
        "parent": {"graph": graph.parent[0], "node": graph.parent[1]} if graph.parent else None,
        "read_by": graph.read_by,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "kinds": dict(Counter(node.kind.value for node in graph.nodes).most_common()),
        "disabled": [node.index for node in graph.nodes if node.enabled is False],
        "device_launch": _build_device_launch_document(run, graph)
        if graph.parent is None
        else None,
        "attribution": {
            "attributed": table.attributed_nodes,
            "launches": table.capture_launches,
            "methods": dict(Counter(row.origin.method for row in table.rows).most_common()),
        },
        "matching": {
            "replays": table.replays,
            "gpu_rows": table.replay_kernels,
            "matched": table.matched_kernels,
            "methods": dict(Counter(row.times.method for row in table.rows).most_common()),
            "pass": table.timed_in,
        },
        "concurrency": None
        if concurrency is None or isinstance(concurrency, Missing)
        else _build_concurrency_document(concurrency),
        "concurrency_reason": concurrency.reason if isinstance(concurrency, Missing) else None,
        "parallel": None
        if parallel is None or isinstance(parallel, Missing)
        else build_parallel_document(parallel),
        "parallel_reason": get_reason(parallel),
        "longest_nodes": [
            {
                "index": row.node.index,
                "kind": row.node.kind.value,
                "name": row.node.label,
                "category": row.category.value,
                "median": simplify_number(row.times.median_ns),
                "p99": spread[0],
                "slack": spread[1],
                "samples": row.times.samples,
                "op": row.origin.op,
                "module": row.origin.module,
                "source": row.origin.source,
            }
            for row, spread in (
                (row, get_p99_and_slack(concurrency, table, row))
                for row in sort_nodes_by_duration(table)[:count]
            )
        ],
    }
