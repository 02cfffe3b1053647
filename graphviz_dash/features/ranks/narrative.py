"""Ranks of a mode in words: the last arrival, its cost and cause. All text is printable."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.metrics.thresholds import FEW_TRACED_STEPS
from graphviz_dash.analysis.ranks.graphs import GraphAspect, GraphDifference
from graphviz_dash.analysis.ranks.ranks import CollectiveRow, Lateness, ModeRanks, RankRow
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import GraphNode, KernelParams
from graphviz_dash.narrative.numbers import same_unit
from graphviz_dash.units import counted, format_count, format_ns, format_percent

_ALIKE: Final = 0.02
"""Relative difference below which clean step times of ranks count as equal."""

_ALONE: Final = 0.95
"""Share of a rank's delay after all others from which the full delay counts as cost."""

_MOSTLY: Final = 0.6
"""Share from which a rank or cause is named alone."""


def rank_sentence(mode: ModeRanks) -> str:
    """Describe the outcome for the ranks of one mode in one sentence."""
    if mode.reason is not None or mode.skew is None:
        return printable(f"{mode.name}: {_steps(mode)}; skew not available: {mode.reason}")
    return printable(f"{mode.name}: {_steps(mode)}; {_skew(mode)}")


def _steps(mode: ModeRanks) -> str:
    timed = [row for row in mode.ranks if row.step_time.value]
    if not timed:
        return f"{counted(len(mode.ranks), 'rank')} without a clean step time"
    fastest = min(timed, key=lambda row: row.step_time.value or 0.0)
    slowest = mode.slowest or fastest
    low, high = fastest.step_time.value or 0.0, slowest.step_time.value or 0.0
    if len(timed) == 1:
        return f"rank {slowest.rank} takes {format_ns(high)} per step"
    if high - low <= _ALIKE * high:
        subject = "both" if len(timed) == 2 else f"all {len(timed)}"
        return f"{subject} ranks take {format_ns(high)} per step"
    first, second = same_unit(low, high)
    return f"rank {slowest.rank} is the slowest: {second} per step instead of {first}"


def _skew(mode: ModeRanks) -> str:
    uncertainty = mode.uncertainty or 0.0
    worst = widest(mode)
    latest_rank = latest(mode)
    if worst is None or latest_rank is None or worst.skew.median <= uncertainty:
        skew = format_ns(round(worst.skew.median if worst is not None else 0.0))
        return (
            "all ranks reach every collective at the same time within the clock uncertainty "
            f"({within(uncertainty)}): at most {skew} apart (median)"
        )
    maximum = (
        f"largest at number {worst.ordinal + 1} of {len(mode.collectives)}, by "
        f"{format_ns(round(worst.skew.median))} (median)"
    )
    lost = sum(late.total for late in mode.lateness)
    if latest_rank.total < _MOSTLY * lost:
        return (
            "no rank is consistently late: total delays are "
            f"{format_ns(round(lost))} per traced step; {maximum}"
        )
    arrivals = sum(late.count for late in mode.lateness)
    share = format_percent(latest_rank.count / arrivals)
    return (
        f"rank {latest_rank.rank} arrives last at {share} of the collectives and "
        f"{cause(latest_rank)}; {maximum}"
    )


def widest(mode: ModeRanks) -> CollectiveRow | None:
    """Find the collective of the step with the largest median skew; None if there are none."""
    return max(mode.collectives, key=lambda row: row.skew.median, default=None)


def latest(mode: ModeRanks) -> Lateness | None:
    """Find the rank with the largest total delay; None if there is none."""
    costly = [late for late in mode.lateness if late.total > 0]
    return max(costly, key=lambda late: late.total, default=None)


def cause(late: Lateness) -> str:
    """Explain the delay of a rank from its trace."""
    cost = f"costs {format_ns(round(late.total))} per traced step"
    if late.alone < _ALONE * late.total:
        cost = (
            f"is {format_ns(round(late.total))} later than the first rank and "
            f"{format_ns(round(late.alone))} later than the second-to-last, per traced step"
        )
    work, idle = late.work / late.total, late.idle / late.total
    if work >= _MOSTLY:
        return f"{cost}: its preceding GPU work takes longer (+{format_ns(round(late.work))})"
    if idle >= _MOSTLY:
        return f"{cost}: its GPU is idle for longer beforehand (+{format_ns(round(late.idle))})"
    if work + idle >= _MOSTLY:
        parts = f"+{format_ns(round(late.work))} of work, +{format_ns(round(late.idle))} of idle"
        return f"{cost}: both its preceding work and idle time are longer ({parts})"
    return f"{cost}: neither its preceding work nor its idle time explains it"


def within(ns: float) -> str:
    """Format an uncertainty."""
    return f"\N{PLUS-MINUS SIGN}{format_ns(round(ns))}"


def rank_notes(mode: ModeRanks) -> tuple[str, ...]:
    """List caveats of the rank figures."""
    notes = []
    if mode.missing:
        listed = ", ".join(map(str, mode.missing[:8])) + (" ..." if mode.missing[8:] else "")
        noun = "rank" if len(mode.missing) == 1 else "ranks"
        notes.append(f"No run of {noun} {listed} is available, so the cost of waiting is unknown.")
    notes += [
        f"The graphs of rank {other.rank} differ from those of rank {mode.ranks[0].rank}: {text}"
        for other in mode.graphs
        if (text := difference_text(other)) is not None
    ]
    if mode.unmatched:
        notes.append(
            f"{counted(mode.unmatched, 'collective')} of the traced steps have no partner on "
            "another rank and are excluded."
        )
    if 0 < mode.steps < FEW_TRACED_STEPS:
        advice = f": collect with --traced-iterations {2 * FEW_TRACED_STEPS} or more"
        imported = any(row.run.manifest.sources for row in mode.ranks)
        notes.append(f"Only {counted(mode.steps, 'traced step')}{'' if imported else advice}.")
    notes += [text for row in mode.ranks if (text := _uneven(row)) is not None]
    return tuple(printable(note) for note in notes)


def difference_text(against_first: GraphDifference) -> str | None:
    """Describe the first difference of a rank's graphs; None if they agree."""
    difference = against_first.first
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
            return f"node {other.index} of {graph}: {_node(other)} instead of {_node(first)}"


def _node(node: GraphNode) -> str:
    if isinstance(node.params, KernelParams):
        grid, block = node.params.grid, node.params.block
        return f"{node.label[:60]} with grid {grid} and block {block}"
    return node.label


def _uneven(row: RankRow) -> str | None:
    if row.wait is None or not row.communication or row.wait <= row.communication / 2:
        return None
    share = format_percent(row.wait / row.communication)
    return f"Rank {row.rank} spends {share} of its communication waiting for others to arrive."


def clock_sentence(mode: ModeRanks) -> str:
    """Describe the clock alignment and its accuracy; empty without collectives."""
    others = mode.clocks[1:]
    if not others:
        return ""
    parts = [
        f"rank {clock.rank} by {format_ns(clock.offset)} ({within(clock.spread)})"
        for clock in others
    ]
    bound = max(clock.bound for clock in others)
    ends = format_count(others[0].samples)
    return (
        f"Clocks are aligned at the ends of {ends} collectives, which shifts "
        f"{', '.join(parts)}: 90% of the ends agree this closely. Errors common to all ends "
        "are not visible here; by cause and effect they are at most "
        f"{format_ns(round(bound))}."
    )
