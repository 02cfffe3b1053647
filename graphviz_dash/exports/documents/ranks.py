"""Ranks, clocks and collectives as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.analysis.ranks.clocks import RankClock
from graphviz_dash.analysis.ranks.ranks import CollectiveRow, ModeRanks, RankRow
from graphviz_dash.analysis.sample_statistics import Summary
from graphviz_dash.exports.documents.figures import figure_document
from graphviz_dash.exports.documents.values import number
from graphviz_dash.narrative.ranks import difference_text, rank_notes, rank_sentence


def ranks_document(modes: Sequence[ModeRanks]) -> list[dict[str, object]]:
    """The ranks of each mode; docs/cli.md describes it."""
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


def _rank(mode: ModeRanks, row: RankRow) -> dict[str, object]:
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


def _collective(mode: ModeRanks, row: CollectiveRow) -> dict[str, object]:
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


def _clock(clock: RankClock) -> dict[str, object]:
    return {
        "rank": clock.rank,
        "offset": clock.offset,
        "spread": number(clock.spread),
        "bound": number(clock.bound),
        "samples": clock.samples,
    }


def _summary(summary: Summary | None) -> dict[str, object] | None:
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
