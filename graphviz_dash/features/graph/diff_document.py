"""Build the JSON of ``graphviz-dash diff``."""

from __future__ import annotations

from typing import TypedDict

from msgspec import Struct

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.exports.documents.values import (
    Count,
    FilePath,
    Ns,
    Sentence,
    display_path,
    simplify_number,
)
from graphviz_dash.features.graph.diff.graph_diff import GraphDiff, NodeDiff
from graphviz_dash.features.graph.diff.graph_pair import GraphPair
from graphviz_dash.features.graph.diff_narrative import summarize_graph_diff
from graphviz_dash.model.run import Run


class DiffSide(Struct, frozen=True):
    """One graph of a run."""

    run: Run
    graph: str

    @property
    def name(self) -> str:
        """Name that the diff command accepts."""
        return f"{display_path(self.run.path)}:{self.graph}"


def read_medians(
    node: NodeDiff, tables: tuple[NodeTable, NodeTable] | None
) -> tuple[float | None, float | None]:
    """Return the median GPU time of the node in both graphs, in ns; None if unavailable."""
    if tables is None:
        return None, None
    first, second = tables
    return (
        None if node.a is None else first.rows[node.a].times.median_ns,
        None if node.b is None else second.rows[node.b].times.median_ns,
    )


class GraphSideDocument(TypedDict):
    """One of the two graphs."""

    path: FilePath
    graph: str
    name: str | None
    nodes: Count
    edges: Count


class FieldChangeDocument(TypedDict):
    """A changed parameter of a node."""

    field: str
    before: str | None
    after: str | None


class NodeChangeDocument(TypedDict):
    """A changed node; ``a`` and ``b`` are its indices."""

    change: str
    a: int | None
    b: int | None
    label: str
    moved: bool
    fields: list[FieldChangeDocument]
    median_a: Ns | None
    median_b: Ns | None


class EdgeChangeDocument(TypedDict):
    """A changed edge: source and target in each graph."""

    change: str
    a: list[int] | None
    b: list[int] | None


class GraphDiffDocument(TypedDict):
    """Differences of two graphs, or of two bodies in them."""

    a: str
    b: str
    node_counts: dict[str, Count]
    edge_counts: dict[str, Count]
    nodes: list[NodeChangeDocument]
    edges: list[EdgeChangeDocument]


class PredictedUpdateDocument(TypedDict):
    """Result of cudaGraphExecUpdate predicted from its documented rules."""

    accepted: bool | None
    result: str | None
    graph: str | None
    node: int | None
    from_node: int | None
    reason: Sentence | None
    unknown: list[Sentence]


class RecordedUpdateDocument(TypedDict):
    """Result that the driver returned, and the call times in ns."""

    result: str
    graph: str | None
    node: int | None
    from_node: int | None
    update: list[Ns]
    instantiate: list[Ns]


class UpdateDocument(TypedDict):
    """Prediction and recording of an update from graph A to B."""

    predicted: PredictedUpdateDocument
    recorded: RecordedUpdateDocument | None
    prediction_correct: bool | None


class GraphPairDocument(TypedDict):
    """Differences of two graphs, and whether one can be updated to the other."""

    sentence: Sentence
    identical: bool
    a: GraphSideDocument
    b: GraphSideDocument
    graphs: list[GraphDiffDocument]
    update: UpdateDocument


def build_graph_pair_document(
    first: DiffSide, second: DiffSide, pair: GraphPair, tables: tuple[NodeTable, NodeTable]
) -> GraphPairDocument:
    """Build the document of two graphs."""
    return {
        "sentence": summarize_graph_diff(pair.diff),
        "identical": pair.diff.is_same,
        "a": _build_side_document(first),
        "b": _build_side_document(second),
        "graphs": [
            _build_diff_document(diff, tables if diff is pair.diff else None)
            for diff in pair.diff.levels
        ],
        "update": _build_update_document(pair),
    }


def _build_side_document(side: DiffSide) -> GraphSideDocument:
    graph = next(captured for captured in side.run.graphs if captured.id == side.graph)
    return {
        "path": display_path(side.run.path),
        "graph": graph.id,
        "name": graph.name,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
    }


def _build_diff_document(
    diff: GraphDiff, tables: tuple[NodeTable, NodeTable] | None
) -> GraphDiffDocument:
    nodes: list[NodeChangeDocument] = []
    for node in diff.nodes:
        if node.change is Change.SAME:
            continue
        before, after = read_medians(node, tables)
        nodes.append(
            {
                "change": node.change.value,
                "a": node.a,
                "b": node.b,
                "label": node.label,
                "moved": node.is_moved,
                "fields": [
                    {
                        "field": difference.field,
                        "before": difference.old,
                        "after": difference.new,
                    }
                    for difference in node.fields
                ],
                "median_a": simplify_number(before),
                "median_b": simplify_number(after),
            }
        )
    return {
        "a": diff.a.id,
        "b": diff.b.id,
        "node_counts": {change.value: n for change, n in diff.count_nodes().items()},
        "edge_counts": {change.value: n for change, n in diff.count_edges().items()},
        "nodes": nodes,
        "edges": [
            {
                "change": edge.change.value,
                "a": list(edge.a) if edge.a else None,
                "b": list(edge.b) if edge.b else None,
            }
            for edge in diff.edges
            if edge.change is not Change.SAME
        ],
    }


def _build_update_document(pair: GraphPair) -> UpdateDocument:
    violation, recorded = pair.prediction.violation, pair.recorded_update
    return {
        "predicted": {
            "accepted": pair.prediction.is_accepted,
            "result": violation.result.value if violation else None,
            "graph": violation.graph if violation else None,
            "node": violation.node if violation else None,
            "from_node": violation.from_node if violation else None,
            "reason": violation.reason if violation else None,
            "unknown": list(pair.prediction.unknown),
        },
        "recorded": {
            "result": recorded.answer.result,
            "graph": recorded.answer.graph,
            "node": recorded.answer.node,
            "from_node": recorded.answer.from_node,
            "update": list(recorded.update_ns),
            "instantiate": list(recorded.instantiate_ns),
        }
        if recorded is not None
        else None,
        "prediction_correct": pair.is_prediction_correct,
    }
