"""The ranks of an experiment on the terminal and as JSON, as a part of ``compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from graphviz_dash.analysis.ranks.ranks import CollectiveRow, ModeRanks, RankRow
from graphviz_dash.cli.text.output import ABSENT, cell, plain_table, print_heading, print_table
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.comparison import figure_document, number
from graphviz_dash.narrative.ranks import clock_sentence, rank_notes, rank_sentence
from graphviz_dash.units import format_count, format_ns, format_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphviz_dash.analysis.ranks.clocks import Clock
    from graphviz_dash.analysis.sample_statistics import Summary


def print_ranks(modes: Sequence[ModeRanks]) -> None:
    """A sentence and a table for each mode; nothing for an experiment without ranks."""
    if not modes:
        return
    print_heading("Ranks")
    for found in modes:
        click.echo(f"  {rank_sentence(found)}.")
    click.echo()
    headings = (
        *("run", "rank", "step time", "launch CPU", "compute", "communication", "exposed"),
        *("waits", "transfers", "last"),
    )
    table = plain_table(*headings, right=range(1, len(headings)))
    for found in modes:
        last = {one.rank: one for one in found.lateness}
        whole = sum(one.count for one in found.lateness)
        for row in found.ranks:
            late = last.get(row.rank)
            times = (row.compute, row.communication, row.exposed, row.wait, row.transfer)
            table.add_row(
                cell(row.name),
                cell(row.rank),
                cell(row.step_time.text),
                cell(row.launch_cpu_time.text),
                *(cell(format_ns(time)) for time in times),
                cell(format_percent(late.count / whole) if late and whole else ABSENT),
            )
        table.add_section()
    print_table(table)
    click.echo()
    click.echo(
        "Step time and launch CPU time are clean; the others are medians per traced step. Last: "
        "share of the collectives that the rank was the last to reach."
    )
    for found in modes:
        kinds = ", ".join(f"{format_count(n)} {kind.value}" for kind, n in found.kinds.items())
        if kinds:
            click.echo(f"  {found.name}: per step {kinds}. {clock_sentence(found)}".rstrip())
        for note in rank_notes(found):
            click.echo(printable(f"  {found.name}: {note}"))


def ranks_document(modes: Sequence[ModeRanks]) -> list[dict[str, object]]:
    """The ranks of each mode; docs/cli.md describes it."""
    return [
        {
            "name": found.name,
            "mode": found.mode.value,
            "sentence": rank_sentence(found),
            "reason": found.reason,
            "missing": list(found.missing),
            "notes": list(rank_notes(found)),
            "steps": found.steps,
            "unmatched": found.unmatched,
            "kinds": {kind.value: count for kind, count in found.kinds.items()},
            "skew": _summary(found.skew),
            "uncertainty": number(found.uncertainty),
            "clocks": [_clock(clock) for clock in found.clocks],
            "graphs": [{"rank": one.rank, "difference": one.text} for one in found.graphs],
            "ranks": [_rank(found, row) for row in found.ranks],
            "collectives": [_collective(found, row) for row in found.collectives],
        }
        for found in modes
    ]


def _rank(found: ModeRanks, row: RankRow) -> dict[str, object]:
    late = next((one for one in found.lateness if one.rank == row.rank), None)
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


def _collective(found: ModeRanks, row: CollectiveRow) -> dict[str, object]:
    return {
        "place": row.place,
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
                found.ranks, row.arrival, row.wait, row.last, strict=True
            )
        ],
    }


def _clock(clock: Clock) -> dict[str, object]:
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
