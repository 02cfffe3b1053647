"""Ranks, clocks and collectives as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from graphviz_dash.analysis.ranks.clocks import RankClock
from graphviz_dash.analysis.ranks.ranks import CollectiveRow, ModeRanks, RankRow
from graphviz_dash.analysis.sample_statistics import Summary
from graphviz_dash.exports.documents.figures import FigureDocument, figure_document
from graphviz_dash.exports.documents.values import Bytes, Count, Ns, Sentence, number
from graphviz_dash.features.ranks.narrative import difference_text, rank_notes, rank_sentence


class SummaryDocument(TypedDict):
    """A median with its spread."""

    median: float
    low: float | None
    high: float | None
    kind: str
    samples: Count


class RankClockDocument(TypedDict):
    """The clock of a rank against the first one's, in ns."""

    rank: int
    offset: Ns
    spread: Ns
    bound: Ns
    samples: Count


class GraphDifferenceDocument(TypedDict):
    """How the graphs of a rank differ from those of the first; null where they do not."""

    rank: int
    difference: Sentence | None


class LatenessDocument(TypedDict):
    """How often a rank was the last at a collective, and what that cost the others."""

    count: Count
    beyond_uncertainty: Count
    total: Ns
    work: Ns
    idle: Ns


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
    late: LatenessDocument | None


class CollectiveRankDocument(TypedDict):
    """One rank at a collective: its arrival after the first, its wait, how often it was last."""

    rank: int
    arrival: SummaryDocument | None
    wait: SummaryDocument | None
    last: Count


class CollectiveDocument(TypedDict):
    """A collective of the step, over all ranks."""

    place: int
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


def ranks_document(modes: Sequence[ModeRanks]) -> list[ModeRanksDocument]:
    """The ranks of each mode; docs/reference/json.md describes it."""
    return [
        {
            "name": mode.name,
            "mode": mode.mode.value,
            "sentence": rank_sentence(mode),
            "reason": mode.reason,
            "missing": list(mode.missing),
            "notes": list(rank_notes(mode)),
            "steps": mode.steps,
            "unmatched": mode.unmatched,
            "kinds": {kind.value: count for kind, count in mode.kinds.items()},
            "skew": _summary(mode.skew),
            "uncertainty": number(mode.uncertainty),
            "clocks": [_clock(clock) for clock in mode.clocks],
            "graphs": [
                {"rank": other.rank, "difference": difference_text(other)} for other in mode.graphs
            ],
            "ranks": [_rank(mode, row) for row in mode.ranks],
            "collectives": [_collective(mode, row) for row in mode.collectives],
        }
        for mode in modes
    ]


def _rank(mode: ModeRanks, row: RankRow) -> RankDocument:
    late = next((lateness for lateness in mode.lateness if lateness.rank == row.rank), None)
    return {
        "run": row.name,
        "rank": row.rank,
        "device": row.device,
        "step_time": figure_document(row.step_time),
        "launch_cpu_time": figure_document(row.launch_cpu_time),
        "compute": number(row.compute),
        "communication": number(row.communication),
        "exposed": number(row.exposed),
        "busy": number(row.busy),
        "wait": number(row.wait),
        "transfer": number(row.transfer),
        "late": {
            "count": late.count,
            "beyond_uncertainty": late.clear,
            "total": number(late.total),
            "work": number(late.work),
            "idle": number(late.idle),
        }
        if late is not None
        else None,
    }


def _collective(mode: ModeRanks, row: CollectiveRow) -> CollectiveDocument:
    return {
        "place": row.ordinal,
        "kind": row.kind.value,
        "graph": row.origin.graph,
        "node": row.origin.node,
        "op": row.origin.op,
        "module": row.origin.module,
        "source": row.origin.source,
        "method": row.origin.method,
        "bytes": row.origin.bytes,
        "bandwidth": number(row.bandwidth),
        "skew": _summary(row.skew),
        "transfer": _summary(row.transfer),
        "ranks": [
            {
                "rank": rank.rank,
                "arrival": _summary(arrival),
                "wait": _summary(wait),
                "last": last,
            }
            for rank, arrival, wait, last in zip(
                mode.ranks, row.arrival, row.wait, row.last, strict=True
            )
        ],
    }


def _clock(clock: RankClock) -> RankClockDocument:
    return {
        "rank": clock.rank,
        "offset": clock.offset,
        "spread": number(clock.spread),
        "bound": number(clock.bound),
        "samples": clock.samples,
    }


def _summary(summary: Summary | None) -> SummaryDocument | None:
    if summary is None:
        return None
    spread = summary.spread
    return {
        "median": number(summary.median),
        "low": number(spread.low),
        "high": number(spread.high),
        "kind": spread.kind.value,
        "samples": spread.samples,
    }
