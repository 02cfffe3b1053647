"""The ranks of a mode in words: who arrives last, what that costs, and why. All of it printable."""

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
"""Clean step times of ranks that differ by less than this part of them are called alike."""

_ALONE: Final = 0.95
"""A rank that is late by this part of it after all others costs them what it is late."""

_MOSTLY: Final = 0.6
"""What makes up at least this part is named alone: a rank of all lateness, a cause of a rank's."""


def rank_sentence(mode: ModeRanks) -> str:
    """The outcome for the ranks of one mode in one sentence."""
    if mode.reason is not None or mode.skew is None:
        return printable(f"{mode.name}: {_steps(mode)}; no skew: {mode.reason}")
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
        who = "both" if len(timed) == 2 else f"all {len(timed)}"
        return f"{who} ranks take {format_ns(high)} per step"
    first, second = same_unit(low, high)
    return f"rank {slowest.rank} is the slowest: {second} per step against {first}"


def _skew(mode: ModeRanks) -> str:
    uncertainty = mode.uncertainty or 0.0
    worst = widest(mode)
    last = latest(mode)
    if worst is None or last is None or worst.skew.median <= uncertainty:
        apart = format_ns(round(worst.skew.median if worst is not None else 0.0))
        return (
            "they reach every collective together, within the uncertainty of their clocks "
            f"({within(uncertainty)}): at most {apart} apart (median)"
        )
    most = (
        f"most at number {worst.ordinal + 1} of {len(mode.collectives)}, by "
        f"{format_ns(round(worst.skew.median))} (median)"
    )
    lost = sum(late.total for late in mode.lateness)
    if last.total < _MOSTLY * lost:
        return (
            "no rank is late as a rule: in all they come "
            f"{format_ns(round(lost))} per traced step after each other; {most}"
        )
    whole = sum(late.count for late in mode.lateness)
    share = format_percent(last.count / whole)
    return f"rank {last.rank} comes last to {share} of the collectives and {cause(last)}; {most}"


def widest(mode: ModeRanks) -> CollectiveRow | None:
    """The collective of the step with the largest median skew; None without any."""
    return max(mode.collectives, key=lambda row: row.skew.median, default=None)


def latest(mode: ModeRanks) -> Lateness | None:
    """The rank that comes latest, over all collectives; None without one."""
    costly = [late for late in mode.lateness if late.total > 0]
    return max(costly, key=lambda late: late.total, default=None)


def cause(late: Lateness) -> str:
    """Why a rank is late, as far as its trace tells."""
    cost = f"costs {format_ns(round(late.total))} per traced step"
    if late.alone < _ALONE * late.total:
        cost = (
            f"is there {format_ns(round(late.total))} after the first one and "
            f"{format_ns(round(late.alone))} after the last but one, per traced step"
        )
    work, idle = late.work / late.total, late.idle / late.total
    if work >= _MOSTLY:
        return f"{cost}: its GPU work before them takes longer (+{format_ns(round(late.work))})"
    if idle >= _MOSTLY:
        return f"{cost}: its GPU is idle for longer before them (+{format_ns(round(late.idle))})"
    if work + idle >= _MOSTLY:
        parts = f"+{format_ns(round(late.work))} of work, +{format_ns(round(late.idle))} of idle"
        return f"{cost}: it works and idles longer before them ({parts})"
    return f"{cost}: neither its work nor its idle time before them explains it"


def within(ns: float) -> str:
    """An uncertainty."""
    return f"\N{PLUS-MINUS SIGN}{format_ns(round(ns))}"


def rank_notes(mode: ModeRanks) -> tuple[str, ...]:
    """What makes the figures of the ranks weak, or must be known to read them."""
    notes = []
    if mode.missing:
        listed = ", ".join(map(str, mode.missing[:8])) + (" ..." if mode.missing[8:] else "")
        word = "rank" if len(mode.missing) == 1 else "ranks"
        notes.append(f"No run of {word} {listed} is here: who waits for it is unknown.")
    notes += [
        f"The graphs of rank {other.rank} differ from those of rank {mode.ranks[0].rank}: {text}"
        for other in mode.graphs
        if (text := difference_text(other)) is not None
    ]
    if mode.unmatched:
        notes.append(
            f"{counted(mode.unmatched, 'collective')} of the traced steps have no partner on "
            "another rank and are left out."
        )
    if 0 < mode.steps < FEW_TRACED_STEPS:
        advice = f": collect with --traced-iterations {2 * FEW_TRACED_STEPS} or more"
        imported = any(row.run.manifest.sources for row in mode.ranks)
        notes.append(f"Only {counted(mode.steps, 'traced step')}{'' if imported else advice}.")
    notes += [text for row in mode.ranks if (text := _uneven(row)) is not None]
    return tuple(printable(note) for note in notes)


def difference_text(against_first: GraphDifference) -> str | None:
    """The first difference of a rank's graphs; None where they agree."""
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
    """How the clocks were aligned and how far that can be trusted; empty without collectives."""
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
        f"Clocks are aligned where {ends} collectives end together, which moves "
        f"{', '.join(parts)}: 90% of the ends then agree that closely. An error that all ends "
        "share cannot be seen in this; by cause and effect it is at most "
        f"{format_ns(round(bound))}."
    )
