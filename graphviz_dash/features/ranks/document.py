"""Build the JSON of ranks, clocks and collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from graphviz_dash.analysis.ranks.clocks import RankClock
from graphviz_dash.analysis.ranks.ranks import CollectiveRow, ModeRanks, RankRow
from graphviz_dash.analysis.sample_statistics import Summary
from graphviz_dash.exports.documents.figures import FigureDocument, build_figure_document
from graphviz_dash.exports.documents.values import Bytes, Count, Ns, Sentence, simplify_number
from graphviz_dash.features.ranks.narrative import (
    describe_graph_difference,
    describe_ranks,
    list_rank_caveats,
)


class SummaryDocument(TypedDict):
    """A median with its spread."""

    median: float
    low: float | None
    high: float | None
    kind: str
    samples: Count


class RankClockDocument(TypedDict):
    """Clock of a rank relative to the first rank's, in ns."""

    rank: int
    offset: Ns
    spread: Ns
    bound: Ns
    samples: Count


class GraphDifferenceDocument(TypedDict):
    """Difference of a rank's graphs from those of the first rank; null if there is none."""

    rank: int
    difference: Sentence | None


class ArrivalDelayDocument(TypedDict):
    """Number of late arrivals of a rank at collectives, and the delay of the others."""

    count: Count
    beyond_uncertainty: Count
    total: Ns
    due_to_compute: Ns
    due_to_idle: Ns


class RankDocument(TypedDict):
    """A rank; times in ns per step."""

    run: str
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


class CollectiveRankDocument(TypedDict):
    """One rank at a collective: arrival after the first, wait, and how often it was last."""

    rank: int
    arrival: SummaryDocument | None
    wait: SummaryDocument | None
    times_last: Count


class CollectiveDocument(TypedDict):
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
    bandwidth: float | None
    skew: SummaryDocument | None
    transfer: SummaryDocument | None
    ranks: list[CollectiveRankDocument]


class ModeRanksDocument(TypedDict):
    """The ranks of one mode."""

    name: str
    mode: str
    sentence: Sentence
    reason: Sentence | None
    missing: list[int]
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
        {
            "name": mode.name,
            "mode": mode.mode.value,
            "sentence": describe_ranks(mode),
            "reason": mode.reason,
            "missing": list(mode.missing_ranks),
            "notes": list(list_rank_caveats(mode)),
            "steps": mode.steps,
            "unmatched": mode.unmatched,
            "kinds": {kind.value: count for kind, count in mode.kinds.items()},
            "skew": _build_summary(mode.skew),
            "uncertainty": simplify_number(mode.uncertainty),
            "clocks": [_build_clock(clock) for clock in mode.clocks],
            "graphs": [
                {"rank": other.rank, "difference": describe_graph_difference(other)}
                for other in mode.graphs
            ],
            "ranks": [_build_rank(mode, row) for row in mode.ranks],
            "collectives": [_build_collective(mode, row) for row in mode.collectives],
        }
        for mode in modes
    ]


def _build_rank(mode: ModeRanks, row: RankRow) -> RankDocument:
    late = next((lateness for lateness in mode.arrival_delays if lateness.rank == row.rank), None)
    return {
        "run": row.name,
        "rank": row.rank,
        "device": row.device,
        "step_time": build_figure_document(row.step_time),
        "launch_cpu_time": build_figure_document(row.launch_cpu_time),
        "compute": simplify_number(row.compute),
        "communication": simplify_number(row.communication),
        "exposed": simplify_number(row.exposed),
        "busy": simplify_number(row.busy),
        "wait": simplify_number(row.wait),
        "transfer": simplify_number(row.transfer),
        "arrival_delay": {
            "count": late.count,
            "beyond_uncertainty": late.significant_count,
            "total": simplify_number(late.total_ns),
            "due_to_compute": simplify_number(late.work_ns),
            "due_to_idle": simplify_number(late.idle_ns),
        }
        if late is not None
        else None,
    }


def _build_collective(mode: ModeRanks, row: CollectiveRow) -> CollectiveDocument:
    return {
        "ordinal": row.ordinal,
        "kind": row.kind.value,
        "graph": row.origin.graph,
        "node": row.origin.node,
        "op": row.origin.op,
        "module": row.origin.module,
        "source": row.origin.source,
        "method": row.origin.method,
        "bytes": row.origin.bytes,
        "bandwidth": simplify_number(row.bandwidth),
        "skew": _build_summary(row.skew),
        "transfer": _build_summary(row.transfer),
        "ranks": [
            {
                "rank": rank.rank,
                "arrival": _build_summary(arrival),
                "wait": _build_summary(wait),
                "times_last": last,
            }
            for rank, arrival, wait, last in zip(
                mode.ranks, row.arrival, row.wait, row.last_counts, strict=True
            )
        ],
    }


def _build_clock(clock: RankClock) -> RankClockDocument:
    return {
        "rank": clock.rank,
        "offset": clock.offset,
        "spread": simplify_number(clock.spread),
        "bound": simplify_number(clock.bound),
        "samples": clock.samples,
    }


def _build_summary(summary: Summary | None) -> SummaryDocument | None:
    if summary is None:
        return None
    spread = summary.spread
    return {
        "median": simplify_number(summary.median),
        "low": simplify_number(spread.low),
        "high": simplify_number(spread.high),
        "kind": spread.kind.value,
        "samples": spread.samples,
    }
