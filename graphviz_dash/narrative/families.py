"""Families of graphs and ladders of capture sizes, in sentences."""

from __future__ import annotations

import math
from typing import Final

from graphviz_dash.analysis.families.family_report import FamilyReport, LoopReport, key_text
from graphviz_dash.analysis.families.ladder_advice import LadderAdvice
from graphviz_dash.errors import printable
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.loop import FamilyMember, GraphFamily, KeyMethod
from graphviz_dash.units import (
    counted,
    format_bytes,
    format_count,
    format_ns,
    format_percent,
    significant,
)

KEY_METHODS: Final = {
    KeyMethod.LABEL: "the program's own word (collectors.label)",
    KeyMethod.ENGINE: "the engine's state",
    KeyMethod.SHAPES: "the shapes that operators saw in the capture",
    KeyMethod.GRIDS: "the grids of its kernels, multiples of the size and not the size itself",
}
"""How the key of a graph is known."""

POOL_METHOD: Final = (
    "Memory: what each graph keeps of the pool, 3,072 bytes a node for its executable (driver "
    "580), and the pool that the largest size needs, by the captures that made it larger."
)
"""How the memory of a ladder is reckoned."""


def member_title(family: GraphFamily, member: FamilyMember) -> str:
    """What a member is called among the graphs of its family: "decode, batch 64"."""
    return printable(f"{family.name}, {key_text(family, member)}")


def loop_sentence(report: LoopReport) -> str:
    """What the program replays: families, graphs, steps."""
    graphs = len({graph for family in report.families for graph in family.graphs})
    served = sum(family.replays for family in report.families)
    fell = sum(family.fallbacks for family in report.families)
    families = counted(len(report.families), "family")
    if len(report.families) != 1:
        families = f"{len(report.families)} families"
    text = f"{counted(graphs, 'graph')} in {families}, {counted(served, 'step')} replayed"
    if fell:
        text += f", {counted(fell, 'step')} without a graph that fits"
    if report.engine:
        text += f"; keys and sizes by {printable(report.engine)}"
    return f"{text}."


def loss_sentence(family: FamilyReport) -> str:
    """What padding and fallbacks took of the family's steps."""
    if isinstance(family.losses, Missing):
        return f"Padding is not known: {family.losses.reason}."
    padding = sum(loss.padding_ns for loss in family.losses)
    fallback = sum(loss.fallback_ns for loss in family.losses)
    fell = sum(loss.fallbacks for loss in family.losses)
    requests = sum(loss.requests for loss in family.losses)
    text = (
        f"Padding took {format_ns(padding)} of GPU time over {counted(requests, 'step')}, "
        f"{format_ns(padding / requests)} a step"
    )
    if fell:
        text += (
            f"; {counted(fell, 'step')} without a graph took {format_ns(fallback)} more than "
            "graphs of their size would have"
        )
    return f"{text}."


def advice_sentence(advice: LadderAdvice) -> str:
    """Whether other sizes are better, and by how much."""
    today = advice.today_use
    if not math.isfinite(today.total_ns):
        return (
            f"Today's {counted(len(advice.today), 'size')} leave "
            f"{counted(int(today.fallbacks), 'request')} without a graph, and no such step was "
            f"timed; {_sizes(advice)} serve all."
        )
    if advice.ladder.sizes == advice.today:
        return f"No ladder is better: today's {_sizes(advice)} are the best {_within(advice)}."
    if not advice.is_better:
        low, high = format_ns(advice.gain.low), format_ns(advice.gain.high)
        return (
            f"No ladder is better for sure: {_sizes(advice)} would save "
            f"{format_ns(advice.gain_ns)} of a request, with a 95% interval of {low} to {high}."
        )
    share = advice.gain_ns / (today.total_ns / advice.requests)
    return (
        f"{_sizes(advice).capitalize()} instead of {_listed(advice.today)} save "
        f"{format_ns(advice.gain_ns)} of a request (95%: {format_ns(advice.gain.low)} to "
        f"{format_ns(advice.gain.high)}), {format_percent(share)} of its GPU time."
    )


def _within(advice: LadderAdvice) -> str:
    limits = [counted(advice.budget.graphs or 0, "graph")]
    if advice.budget.memory_bytes is not None:
        limits.append(format_bytes(advice.budget.memory_bytes))
    if advice.budget.startup_ns is not None:
        limits.append(f"{format_ns(advice.budget.startup_ns)} of start-up")
    return f"within {' and '.join(limits)}"


def _sizes(advice: LadderAdvice) -> str:
    return f"the sizes {_listed(advice.ladder.sizes)}" if advice.ladder.sizes else "no graphs"


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(format_count, sizes)) if len(sizes) <= 12 else counted(len(sizes), "size")


def sizes_text(sizes: tuple[int, ...]) -> str:
    """All sizes of a ladder, as they can be given to an engine: "1, 2, 4"."""
    return ", ".join(map(str, sizes)) or "none"


def ceiling_sentence(advice: LadderAdvice) -> str:
    """What a request above the largest size costs; empty where there is no size."""
    ceiling = advice.ceiling
    if ceiling.replay_ns is None:
        return ""
    text = f"A request above {format_count(ceiling.size)} "
    if ceiling.above_ns is None:
        return f"{text}has no graph, and no step without one was timed."
    times = ceiling.above_ns / ceiling.replay_ns
    text += (
        f"takes {format_ns(ceiling.above_ns)} without a graph, {significant(times)} times the "
        f"{format_ns(ceiling.replay_ns)} of the largest graph"
    )
    if not ceiling.requests_above:
        return f"{text}; none of these requests is."
    text += f"; {counted(ceiling.requests_above, 'request')} of {format_count(advice.requests)} are"
    if ceiling.raised_ns is not None and (ceiling.raised_gain_ns or 0) > 0:
        text += (
            f". A graph for {format_count(ceiling.largest_request)} would take about "
            f"{format_ns(ceiling.raised_ns)} if times go on rising as between the two largest, and "
            f"save {format_ns(ceiling.raised_gain_ns)} of a request: capture it and measure"
        )
    return f"{text}."


def interpolation_sentence(advice: LadderAdvice) -> str:
    """Which sizes were not captured; empty where all were."""
    if not advice.interpolated:
        return ""
    return (
        f"Not captured, so interpolated between neighbours: {sizes_text(advice.interpolated)}. "
        "Kernels may be chosen otherwise there: capture them and measure."
    )


def bound_sentence(advice: LadderAdvice) -> str:
    """How far from the best the sizes may be; empty where nothing is better."""
    ladder = advice.ladder
    if ladder.is_best:
        return ""
    gap = (ladder.total_ns - ladder.bound_ns) / ladder.total_ns
    return f"The search ended early: no ladder is more than {format_percent(gap)} better than this."
