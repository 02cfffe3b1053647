"""Ranks of a mode in words: the last arrival, its cost and cause. All text is printable."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.metrics.thresholds import FEW_TRACED_STEPS
from graphviz_dash.analysis.ranks.graphs import GraphAspect, GraphDifference
from graphviz_dash.analysis.ranks.ranks import ArrivalDelay, CollectiveRow, ModeRanks, RankRow
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.graph import GraphNode, KernelParams
from graphviz_dash.narrative.columns import MICROSECONDS, NUMBER_TEXT, SHARE, TEXT, Column
from graphviz_dash.narrative.numbers import format_in_same_unit, format_spread
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize

_EQUAL_TOLERANCE: Final = 0.02
"""Relative difference below which clean step times count as equal."""

_BALANCED_SHARE: Final = 0.01
"""Share of a step up to which a delay counts as noise."""

_SOLE_DELAY_SHARE: Final = 0.95
"""Share of a rank's delay after all others from which the full delay is its cost."""

_MAIN_SHARE: Final = 0.6
"""Share from which a rank or cause is named alone."""


def describe_ranks(mode: ModeRanks) -> str:
    """Describe the outcome in one sentence."""
    if mode.reason is not None or mode.skew is None:
        return escape_control_characters(
            f"{mode.name}: {_describe_step_times(mode)}; skew not available: {mode.reason}"
        )
    return escape_control_characters(
        f"{mode.name}: {_describe_step_times(mode)}; {_describe_skew(mode)}"
    )


def _describe_step_times(mode: ModeRanks) -> str:
    timed = [row for row in mode.ranks if row.step_time.value]
    if not timed:
        return f"{pluralize(len(mode.ranks), 'rank')} without a clean step time"
    fastest = min(timed, key=lambda row: row.step_time.value or 0.0)
    slowest = mode.slowest or fastest
    low, high = fastest.step_time.value or 0.0, slowest.step_time.value or 0.0
    if len(timed) == 1:
        return f"rank {slowest.rank} takes {format_ns(high)} per step"
    if high - low <= _EQUAL_TOLERANCE * high:
        subject = "both" if len(timed) == 2 else f"all {len(timed)}"
        return f"{subject} ranks take {format_ns(high)} per step"
    first, second = format_in_same_unit(low, high)
    return f"rank {slowest.rank} is the slowest: {second} per step instead of {first}"


def has_balanced_ranks(mode: ModeRanks) -> bool:
    """Check that no rank is late by more than clock error or noise."""
    latest_rank = find_latest_rank(mode)
    if latest_rank is None or mode.skew is None:
        return mode.skew is not None
    clock_error_ns = (mode.uncertainty or 0.0) * len(mode.collectives)
    steps = [row.step or row.step_time.value for row in mode.ranks]
    noise_ns = _BALANCED_SHARE * max((step for step in steps if step), default=0.0)
    return latest_rank.total_ns <= max(clock_error_ns, noise_ns)


def _describe_balance(mode: ModeRanks) -> str:
    latest_rank = find_latest_rank(mode)
    if latest_rank is None:
        return "balanced"
    delay = format_ns(round(latest_rank.total_ns))
    uncertainty = format_uncertainty(mode.uncertainty or 0.0)
    return (
        f"balanced: no rank delays the others by more than {delay} per traced step "
        f"(clock error {uncertainty} per collective)"
    )


def _describe_skew(mode: ModeRanks) -> str:
    uncertainty = mode.uncertainty or 0.0
    worst = find_widest_collective(mode)
    latest_rank = find_latest_rank(mode)
    if worst is None or latest_rank is None or worst.skew.median <= uncertainty:
        skew = format_ns(round(worst.skew.median if worst is not None else 0.0))
        return (
            "balanced: all ranks reach every collective at the same time within the clock "
            f"uncertainty ({format_uncertainty(uncertainty)}), at most {skew} apart (median)"
        )
    if has_balanced_ranks(mode):
        return _describe_balance(mode)
    maximum = (
        f"largest at number {worst.ordinal + 1} of {len(mode.collectives)}, by "
        f"{format_ns(round(worst.skew.median))} (median)"
    )
    lost = sum(late.total_ns for late in mode.arrival_delays)
    if latest_rank.total_ns < _MAIN_SHARE * lost:
        return (
            "no rank is consistently late: total delays are "
            f"{format_ns(round(lost))} per traced step; {maximum}"
        )
    arrivals = sum(late.count for late in mode.arrival_delays)
    share = format_percent(latest_rank.count / arrivals)
    return (
        f"rank {latest_rank.rank} arrives last at {share} of the collectives and "
        f"{explain_delay(latest_rank)}; {maximum}"
    )


def find_widest_collective(mode: ModeRanks) -> CollectiveRow | None:
    """Find the collective with the largest median skew; None if there are none."""
    return max(mode.collectives, key=lambda row: row.skew.median, default=None)


def find_latest_rank(mode: ModeRanks) -> ArrivalDelay | None:
    """Find the rank with the largest total delay; None if there is none."""
    costly = [late for late in mode.arrival_delays if late.total_ns > 0]
    return max(costly, key=lambda late: late.total_ns, default=None)


def explain_delay(late: ArrivalDelay) -> str:
    """Explain the delay of a rank from its trace."""
    cost = f"costs {format_ns(round(late.total_ns))} per traced step"
    if late.caused_ns < _SOLE_DELAY_SHARE * late.total_ns:
        cost = (
            f"is {format_ns(round(late.total_ns))} later than the first rank and "
            f"{format_ns(round(late.caused_ns))} later than the second-to-last, per traced step"
        )
    work, idle = late.work_ns / late.total_ns, late.idle_ns / late.total_ns
    if work >= _MAIN_SHARE:
        return f"{cost}: its preceding GPU work takes longer (+{format_ns(round(late.work_ns))})"
    if idle >= _MAIN_SHARE:
        return f"{cost}: its GPU is idle for longer beforehand (+{format_ns(round(late.idle_ns))})"
    if work + idle >= _MAIN_SHARE:
        parts = (
            f"+{format_ns(round(late.work_ns))} of work, +{format_ns(round(late.idle_ns))} of idle"
        )
        return f"{cost}: both its preceding work and idle time are longer ({parts})"
    return f"{cost}: neither its preceding work nor its idle time explains it"


def format_uncertainty(ns: float) -> str:
    """Format an uncertainty."""
    return f"\N{PLUS-MINUS SIGN}{format_ns(round(ns))}"


def list_rank_caveats(mode: ModeRanks) -> tuple[str, ...]:
    """List caveats of the rank figures."""
    notes = []
    if mode.missing_ranks:
        listed = ", ".join(map(str, mode.missing_ranks[:8])) + (
            " ..." if mode.missing_ranks[8:] else ""
        )
        noun = "rank" if len(mode.missing_ranks) == 1 else "ranks"
        notes.append(f"No run of {noun} {listed} is available, so the cost of waiting is unknown.")
    notes += [
        f"The graphs of rank {other.rank} differ from those of rank {mode.ranks[0].rank}: {text}"
        for other in mode.graphs
        if (text := describe_graph_difference(other)) is not None
    ]
    if mode.unmatched:
        notes.append(
            f"{pluralize(mode.unmatched, 'collective')} of the traced steps have no partner on "
            "another rank and are excluded."
        )
    if 0 < mode.steps < FEW_TRACED_STEPS:
        advice = f": collect with --traced-iterations {2 * FEW_TRACED_STEPS} or more"
        imported = any(row.run.manifest.sources for row in mode.ranks)
        notes.append(f"Only {pluralize(mode.steps, 'traced step')}{'' if imported else advice}.")
    notes += [text for row in mode.ranks if (text := _describe_wait_share(row)) is not None]
    return tuple(escape_control_characters(note) for note in notes)


def describe_graph_difference(against_first: GraphDifference) -> str | None:
    """Describe the first difference; None if the graphs agree."""
    difference = against_first.first_difference
    if difference is None:
        return None
    before, after = difference.counts or (0, 0)
    graph = difference.graph.id if difference.graph is not None else ""
    match difference.aspect:
        case GraphAspect.GRAPHS:
            return f"{after} graphs instead of {before}"
        case GraphAspect.NODES:
            return f"{graph} has {after:,} nodes instead of {before:,}"
        case GraphAspect.EDGES:
            return f"the edges of {graph}"
        case GraphAspect.NODE:
            assert difference.nodes is not None
            first, other = difference.nodes
            return (
                f"node {other.index} of {graph}: {_format_node(other)} instead of "
                f"{_format_node(first)}"
            )


def _format_node(node: GraphNode) -> str:
    if isinstance(node.params, KernelParams):
        grid, block = node.params.grid, node.params.block
        return f"{node.label[:60]} with grid {grid} and block {block}"
    return node.label


def _describe_wait_share(row: RankRow) -> str | None:
    if row.wait is None or not row.communication or row.wait <= row.communication / 2:
        return None
    share = format_percent(row.wait / row.communication)
    return f"Rank {row.rank} spends {share} of its communication waiting for others to arrive."


def describe_clock_alignment(mode: ModeRanks) -> str:
    """Describe the clock alignment and its accuracy; empty without collectives."""
    others = mode.clocks[1:]
    if not others:
        return ""
    parts = [
        f"rank {clock.rank} by {format_ns(clock.offset)} ({format_uncertainty(clock.spread)})"
        for clock in others
    ]
    bound = max(clock.bound for clock in others)
    ends = format_count(others[0].samples)
    return (
        f"Clocks are aligned at the ends of {ends} collectives, which shifts "
        f"{', '.join(parts)}: 90% of the ends agree this closely. Errors common to all ends "
        "are not visible here; causality limits them to "
        f"{format_ns(round(bound))}."
    )


class RankEntry(Struct, frozen=True):
    """A row of the table of ranks."""

    rank: RankRow
    delay: ArrivalDelay | None
    """None if it never arrived last."""
    arrivals: int
    """Late arrivals of all ranks."""


def list_rank_entries(mode: ModeRanks) -> list[RankEntry]:
    """List the rows of the table, under RANK_COLUMNS."""
    delays = {delay.rank: delay for delay in mode.arrival_delays}
    arrivals = sum(delay.count for delay in mode.arrival_delays)
    return [RankEntry(row, delays.get(row.rank), arrivals) for row in mode.ranks]


def _compute_last_share(entry: RankEntry) -> float | None:
    return entry.delay.count / entry.arrivals if entry.delay and entry.arrivals else None


RANK_COLUMNS: Final[tuple[Column[RankEntry], ...]] = (
    Column(None, lambda entry: entry.rank.name, TEXT, "run"),
    Column(None, lambda entry: entry.rank.rank, NUMBER_TEXT, "rank"),
    Column("", lambda entry: f"rank {entry.rank.rank}", TEXT, None, explain=lambda e: e.rank.name),
    Column("GPU", lambda entry: entry.rank.device, NUMBER_TEXT, None),
    Column(
        "Step time",
        lambda entry: entry.rank.step_time.text,
        NUMBER_TEXT,
        note=lambda entry: format_spread(entry.rank.step_time),
    ),
    Column("Launch CPU", lambda entry: entry.rank.launch_cpu_time.text, NUMBER_TEXT),
    Column("Compute", lambda entry: entry.rank.compute, MICROSECONDS),
    Column("Communication", lambda entry: entry.rank.communication, MICROSECONDS),
    Column("Exposed", lambda entry: entry.rank.exposed, MICROSECONDS),
    Column("Waits", lambda entry: entry.rank.wait, MICROSECONDS),
    Column("Transfers", lambda entry: entry.rank.transfer, MICROSECONDS),
    Column("Last in", _compute_last_share, SHARE, "last"),
    Column("Late", lambda entry: _round_late(entry, "total_ns"), MICROSECONDS, None),
    Column("Due to compute", lambda entry: _round_late(entry, "work_ns"), MICROSECONDS, None),
    Column("Due to idle", lambda entry: _round_late(entry, "idle_ns"), MICROSECONDS, None),
)


def _round_late(entry: RankEntry, part: str) -> int | None:
    time = None if entry.delay is None else getattr(entry.delay, part)
    return None if time is None else round(time)
