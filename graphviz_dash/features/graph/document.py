"""JSON of a captured graph."""

from __future__ import annotations

from collections import Counter

from msgspec import field

from graphviz_dash.analysis.graph.device_launch import LaunchFinding
from graphviz_dash.analysis.nodes.concurrency import Concurrency, get_p99_and_slack
from graphviz_dash.analysis.nodes.conditional_runs import ConditionalRuns
from graphviz_dash.analysis.nodes.node_table import (
    NodeTable,
    list_source_lines,
    sort_nodes_by_duration,
)
from graphviz_dash.analysis.replays.alignment_accuracy import measure_agreement
from graphviz_dash.exports.documents.values import (
    Count,
    Document,
    Fraction,
    Ns,
    Ratio,
    Sentence,
    build,
    drop_missing,
    get_reason,
)
from graphviz_dash.features.graph.concurrency import describe_concurrency
from graphviz_dash.features.graph.device_launch import format_finding
from graphviz_dash.features.graph.diff.graph_pair import check_device_launch
from graphviz_dash.features.graph.narrative import explain_missing_code
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.stream_document import (
    ParallelDocument,
    build_parallel_document,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run


class ConfidenceDocument(Document, frozen=True):
    """Rows aligned with one confidence, and the number that the node ids confirm."""

    confidence: Fraction
    rows: Count
    agreeing: Count


class AgreementDocument(Document, frozen=True):
    """Agreement of the alignment with the recorded node ids."""

    source: str
    steps: Count
    records: Count
    dropped_records: Count = field(name="dropped")
    outside_records: Count = field(name="outside")
    compared: Count
    agreeing: Count
    unnamed: Count
    by_confidence: list[ConfidenceDocument]
    misses: dict[str, Count]


class GraphNodeDocument(Document, frozen=True):
    """A node, or the parent node of a nested graph."""

    graph: str
    node: int


class ScheduleDocument(Document, frozen=True):
    """Length of a replay on a number of streams."""

    streams: Count
    length: Ns


class RedundantEdgesDocument(Document, frozen=True):
    """Redundant edges; ``unknown`` is the number of nodes with unknown memory."""

    edges: Count
    operator_only_count: Count = field(name="by_operators")
    path_ns: Ns = field(name="critical_path")
    unknown_nodes: Count | None = field(name="unknown")


class LoopTimeDocument(Document, frozen=True):
    """Time of a While of which the trace shows the last iteration: medians, and the maximum
    iterations of each replay."""

    loop_ns: Ns = field(name="loop")
    iteration_ns: Ns = field(name="iteration")
    limits: list[Count]


class ConditionalRunsDocument(Document, frozen=True):
    """Runs of a conditional node: replays with each body, and iterations of a While."""

    graph: str
    node: int
    type: str | None
    replays: Count
    body_replays: list[Count | None]
    method: str | None
    iterations: list[Count] | None
    iterations_reason: Sentence | None
    time: LoopTimeDocument | None


class ConcurrencyDocument(Document, frozen=True):
    """Critical path and concurrency over the replays, in ns."""

    replays: Count
    critical_path: Ns
    path: list[GraphNodeDocument]
    work_ns: Ns = field(name="work")
    span_ns: Ns = field(name="span")
    busy_ns: Ns = field(name="busy")
    lost_ns: Ns = field(name="lost_time")
    available_concurrency: Ratio = field(name="available")
    achieved_concurrency: Ratio = field(name="achieved")
    streams: Count
    schedules: list[ScheduleDocument]
    redundant_edges: RedundantEdgesDocument
    conditionals: list[ConditionalRunsDocument]
    sentences: list[Sentence]


class DeviceFindingDocument(Document, frozen=True):
    """A requirement of device-side launch that is violated or could not be checked."""

    rule: str
    reason: Sentence
    graph: str
    node: int | None


class DriverResultDocument(Document, frozen=True):
    """Result returned by the driver."""

    result: str
    graph: str | None
    node: int | None


class DeviceLaunchDocument(Document, frozen=True):
    """Device-side launch of a graph: requirements and the driver's result."""

    verdict: str
    violations: list[DeviceFindingDocument]
    unknown: list[DeviceFindingDocument]
    driver: DriverResultDocument | None


class AttributionDocument(Document, frozen=True):
    """Number of nodes attributed to an operator, from the launches of the capture."""

    attributed_nodes: Count = field(name="attributed")
    capture_launches: Count = field(name="launches")
    methods: dict[str, Count]


class MatchingDocument(Document, frozen=True):
    """Number of GPU rows matched to nodes."""

    replays: Count
    replay_kernels: Count = field(name="gpu_rows")
    matched_kernels: Count = field(name="matched")
    methods: dict[str, Count]
    timed_in: str | None = field(name="pass")


class TimedNodeDocument(Document, frozen=True):
    """A node with its times over the replays and the operator that launched it."""

    index: int
    kind: str
    label: str = field(name="name")
    category: str
    median_ns: Ns | None = field(name="median")
    p99: Ns | None
    slack: Ns | None
    samples: Count
    op: str | None
    module: str | None
    source: str | None


class SourceLineDocument(Document, frozen=True):
    """A source line with its code, and the nodes that it launched."""

    source: str
    code: str | None
    nodes: Count
    work_ns: Ns | None = field(name="work")
    share: Fraction | None
    operators: list[str]


class GraphDocument(Document, frozen=True):
    """A captured graph, or a body in one."""

    id: str
    parent: GraphNodeDocument | None
    source_api: str = field(name="read_by")
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
    source_lines: list[SourceLineDocument]
    code_reason: Sentence | None


def build_agreement_document(run: Run) -> AgreementDocument | None:
    """Build the agreement with a run's node ids; None for a run without a node-id pass."""
    node_ids, accuracy = run.node_ids, measure_agreement(run)
    if node_ids is None:
        return None
    rows = sorted((accuracy.by_confidence if accuracy else {}).items(), reverse=True)
    return build(
        AgreementDocument,
        node_ids,
        records=len(node_ids.rows),
        compared=accuracy.rows if accuracy else 0,
        agreeing=accuracy.agreeing if accuracy else 0,
        unnamed=accuracy.unnamed if accuracy else 0,
        by_confidence=[
            ConfidenceDocument(confidence=confidence, rows=count, agreeing=agreeing)
            for confidence, (count, agreeing) in rows
        ],
        misses={k.name.lower(): n for k, n in accuracy.misses.items()} if accuracy else {},
    )


def _build_node_document(graph: str, node: int) -> GraphNodeDocument:
    return GraphNodeDocument(graph=graph, node=node)


def _build_concurrency_document(concurrency: Concurrency) -> ConcurrencyDocument:
    measured, redundant = concurrency.measured, concurrency.redundant
    return build(
        ConcurrencyDocument,
        measured,
        critical_path=measured.path.length,
        path=[_build_node_document(*measured.nodes[index]) for index in measured.path.nodes],
        redundant_edges=build(RedundantEdgesDocument, redundant, edges=len(redundant.edges)),
        conditionals=[_build_conditional_runs(runs) for runs in concurrency.conditionals],
        sentences=describe_concurrency(concurrency),
    )


def _build_conditional_runs(runs: ConditionalRuns) -> ConditionalRunsDocument:
    return build(
        ConditionalRunsDocument,
        runs,
        time=runs.time and build(LoopTimeDocument, runs.time),
    )


def _build_device_launch_document(run: Run, graph: CapturedGraph) -> DeviceLaunchDocument:
    check = check_device_launch(run, graph.id)
    return build(
        DeviceLaunchDocument,
        check,
        violations=[_build_finding_document(finding) for finding in check.violations],
        unknown=[_build_finding_document(finding) for finding in check.unknown],
        driver=graph.device_launch,
    )


def _build_finding_document(finding: LaunchFinding) -> DeviceFindingDocument:
    return build(DeviceFindingDocument, finding, reason=format_finding(finding))


def build_graph_document(
    run: Run,
    table: NodeTable,
    concurrency: Concurrency | Missing | None,
    parallel: ParallelPrediction | Missing | None,
    count: int,
) -> GraphDocument:
    """Build the document of a graph with its ``count`` slowest nodes and source lines.

    ``concurrency`` and ``parallel`` are None for a nested graph.
    """
    graph = table.graph
    measured, predicted = drop_missing(concurrency), drop_missing(parallel)
    lines = list_source_lines(table, run.source_code)
    return build(
        GraphDocument,
        graph,
        parent=_build_node_document(*graph.parent) if graph.parent else None,
        nodes=len(graph.nodes),
        edges=len(graph.edges),
        kinds=dict(Counter(node.kind for node in graph.nodes).most_common()),
        disabled=[node.index for node in graph.nodes if node.enabled is False],
        device_launch=None if graph.parent else _build_device_launch_document(run, graph),
        attribution=build(
            AttributionDocument,
            table,
            methods=dict(Counter(row.origin.method for row in table.rows).most_common()),
        ),
        matching=build(
            MatchingDocument,
            table,
            methods=dict(Counter(row.times.method for row in table.rows).most_common()),
        ),
        concurrency=measured and _build_concurrency_document(measured),
        concurrency_reason=get_reason(concurrency),
        parallel=predicted and build_parallel_document(predicted),
        parallel_reason=get_reason(parallel),
        longest_nodes=[
            build(TimedNodeDocument, row.node, row, row.times, row.origin, p99=p99, slack=slack)
            for row in sort_nodes_by_duration(table)[:count]
            for p99, slack in [get_p99_and_slack(concurrency, table, row)]
        ],
        source_lines=[build(SourceLineDocument, line) for line in lines[:count]],
        code_reason=explain_missing_code(run, lines),
    )
