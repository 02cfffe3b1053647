"""JSON of ``graphviz-dash diff``."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.exports.documents.values import (
    Count,
    Document,
    FilePath,
    Ns,
    Sentence,
    build,
    display_path,
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


class GraphSideDocument(Document, frozen=True):
    """One of the two graphs."""

    path: FilePath
    graph: str
    name: str | None
    nodes: Count
    edges: Count


class FieldChangeDocument(Document, frozen=True):
    """A changed parameter of a node."""

    field: str
    old: str | None = msgspec.field(name="before")
    new: str | None = msgspec.field(name="after")


class NodeChangeDocument(Document, frozen=True):
    """A changed node; ``a`` and ``b`` are its indices."""

    change: str
    a: int | None
    b: int | None
    label: str
    is_moved: bool = field(name="moved")
    fields: list[FieldChangeDocument]
    median_a: Ns | None
    median_b: Ns | None


class EdgeChangeDocument(Document, frozen=True):
    """A changed edge: source and target in each graph."""

    change: str
    a: list[int] | None
    b: list[int] | None


class GraphDiffDocument(Document, frozen=True):
    """Differences of two graphs, or of two bodies in them."""

    a: str
    b: str
    node_counts: dict[str, Count]
    edge_counts: dict[str, Count]
    nodes: list[NodeChangeDocument]
    edges: list[EdgeChangeDocument]


class PredictedUpdateDocument(Document, frozen=True):
    """Result of cudaGraphExecUpdate predicted from its documented rules."""

    is_accepted: bool | None = field(name="accepted")
    result: str | None
    graph: str | None
    node: int | None
    from_node: int | None
    reason: Sentence | None
    unknown: list[Sentence]


class RecordedUpdateDocument(Document, frozen=True):
    """Result that the driver returned, and the call times in ns."""

    result: str
    graph: str | None
    node: int | None
    from_node: int | None
    update_ns: list[Ns] = field(name="update")
    instantiate_ns: list[Ns] = field(name="instantiate")


class UpdateDocument(Document, frozen=True):
    """Prediction and recording of an update from graph A to B."""

    predicted: PredictedUpdateDocument
    recorded: RecordedUpdateDocument | None
    is_prediction_correct: bool | None = field(name="prediction_correct")


class GraphPairDocument(Document, frozen=True):
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
    return build(
        GraphPairDocument,
        sentence=summarize_graph_diff(pair.diff),
        identical=pair.diff.is_same,
        a=_build_side_document(first),
        b=_build_side_document(second),
        graphs=[
            _build_diff_document(diff, tables if diff is pair.diff else None)
            for diff in pair.diff.levels
        ],
        update=_build_update_document(pair),
    )


def _build_side_document(side: DiffSide) -> GraphSideDocument:
    graph = next(captured for captured in side.run.graphs if captured.id == side.graph)
    return build(
        GraphSideDocument,
        graph,
        path=display_path(side.run.path),
        graph=graph.id,
        nodes=len(graph.nodes),
        edges=len(graph.edges),
    )


def _build_diff_document(
    diff: GraphDiff, tables: tuple[NodeTable, NodeTable] | None
) -> GraphDiffDocument:
    return build(
        GraphDiffDocument,
        a=diff.a.id,
        b=diff.b.id,
        node_counts=diff.count_nodes(),
        edge_counts=diff.count_edges(),
        nodes=[
            build(NodeChangeDocument, node, median_a=before, median_b=after)
            for node in diff.nodes
            if node.change is not Change.SAME
            for before, after in [read_medians(node, tables)]
        ],
        edges=[edge for edge in diff.edges if edge.change is not Change.SAME],
    )


def _build_update_document(pair: GraphPair) -> UpdateDocument:
    recorded = pair.recorded_update
    return build(
        UpdateDocument,
        pair,
        predicted=build(PredictedUpdateDocument, pair.prediction, pair.prediction.violation),
        recorded=recorded and build(RecordedUpdateDocument, recorded.result, recorded),
    )
