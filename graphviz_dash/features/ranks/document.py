"""JSON of ranks, clocks and collectives."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from graphviz_dash.analysis.ranks.ranks import CollectiveRow, ModeRanks, RankRow
from graphviz_dash.analysis.sample_statistics import Summary
from graphviz_dash.exports.documents.figures import FigureDocument, build_figure_document
from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    Document,
    Ns,
    Number,
    Sentence,
    build,
)
from graphviz_dash.features.ranks.narrative import (
    describe_graph_difference,
    describe_ranks,
    list_rank_caveats,
)


class SummaryDocument(Document, frozen=True):
    """A median with its spread."""

    median: Number
    low: Number | None
    high: Number | None
    kind: str
    samples: Count


class RankClockDocument(Document, frozen=True):
    """Clock of a rank relative to the first rank's, in ns."""

    rank: int
    offset: Ns
    spread: Ns
    bound: Ns
    samples: Count


class GraphDifferenceDocument(Document, frozen=True):
    """Difference of a rank's graphs from those of the first rank; null if there is none."""

    rank: int
    difference: Sentence | None


class ArrivalDelayDocument(Document, frozen=True):
    """Number of late arrivals of a rank at collectives, and the delay of the others."""

    count: Count
    significant_count: Count = field(name="beyond_uncertainty")
    total_ns: Ns = field(name="total")
    work_ns: Ns = field(name="due_to_compute")
    idle_ns: Ns = field(name="due_to_idle")


class RankDocument(Document, frozen=True):
    """A rank; times in ns per step."""

    name: str = field(name="run")
    rank: int
    device: int | None
    step_time: FigureDocument
    launch_cpu_time: FigureDocument
    compute: Ns | None
    communication: Ns | None
    exposed: Ns | None
    busy: Ns | None
    wait: Ns | None
    transfer: Ns | None
    arrival_delay: ArrivalDelayDocument | None


class CollectiveRankDocument(Document, frozen=True):
    """One rank at a collective: arrival after the first, wait, and how often it was last."""

    rank: int
    arrival: SummaryDocument | None
    wait: SummaryDocument | None
    times_last: Count


class CollectiveDocument(Document, frozen=True):
    """A collective of the step, over all ranks."""

    ordinal: int
    kind: str
    graph: str | None
    node: int | None
    op: str | None
    module: str | None
    source: str | None
    method: str | None
    bytes: Bytes | None
    bandwidth: Number | None
    skew: SummaryDocument | None
    transfer: SummaryDocument | None
    ranks: list[CollectiveRankDocument]


class ModeRanksDocument(Document, frozen=True):
    """The ranks of one mode."""

    name: str
    mode: str
    sentence: Sentence
    reason: Sentence | None
    missing_ranks: list[int] = field(name="missing")
    notes: list[Sentence]
    steps: Count
    unmatched: Count
    kinds: dict[str, Count]
    skew: SummaryDocument | None
    uncertainty: Ns | None
    clocks: list[RankClockDocument]
    graphs: list[GraphDifferenceDocument]
    ranks: list[RankDocument]
    collectives: list[CollectiveDocument]


def build_ranks_document(modes: Sequence[ModeRanks]) -> list[ModeRanksDocument]:
    """Build the document of the ranks of each mode, described in docs/reference/json.md."""
    return [
        build(
            ModeRanksDocument,
            mode,
            sentence=describe_ranks(mode),
            notes=list_rank_caveats(mode),
            skew=_build_summary(mode.skew),
            graphs=[
                GraphDifferenceDocument(
                    rank=other.rank, difference=describe_graph_difference(other)
                )
                for other in mode.graphs
            ],
            ranks=[_build_rank(mode, row) for row in mode.ranks],
            collectives=[_build_collective(mode, row) for row in mode.collectives],
        )
        for mode in modes
    ]


def _build_rank(mode: ModeRanks, row: RankRow) -> RankDocument:
    return build(
        RankDocument,
        row,
        step_time=build_figure_document(row.step_time),
        launch_cpu_time=build_figure_document(row.launch_cpu_time),
        arrival_delay=next((late for late in mode.arrival_delays if late.rank == row.rank), None),
    )


def _build_collective(mode: ModeRanks, row: CollectiveRow) -> CollectiveDocument:
    ranks = zip(mode.ranks, row.arrival, row.wait, row.last_counts, strict=True)
    return build(
        CollectiveDocument,
        row,
        row.origin,
        skew=_build_summary(row.skew),
        transfer=_build_summary(row.transfer),
        ranks=[
            CollectiveRankDocument(
                rank=rank.rank,
                arrival=_build_summary(arrival),
                wait=_build_summary(wait),
                times_last=last,
            )
            for rank, arrival, wait, last in ranks
        ],
    )


def _build_summary(summary: Summary | None) -> SummaryDocument | None:
    return None if summary is None else build(SummaryDocument, summary, summary.spread)
