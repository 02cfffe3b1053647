"""Families of graphs and ladders of capture sizes, in sentences."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    LoopReport,
    MemberReport,
    NodeBytes,
)
from graphviz_dash.analysis.loop.keys import key_text
from graphviz_dash.analysis.loop.loop_columns import SizeSource
from graphviz_dash.analysis.loop.padding import PaddingCost, PaddingEffect
from graphviz_dash.errors import printable
from graphviz_dash.features.ladder.analysis.kernel_changes import KernelChange
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.segments import PieceKind, SegmentedStep
from graphviz_dash.features.ladder.analysis.size_comparison import SizeComparison
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

SIZE_SOURCES: Final = {
    SizeSource.LABEL: "the program's own word (collectors.label)",
    SizeSource.ENGINE: "the engine's state",
    SizeSource.SHAPES: "the shapes of the inputs of steps without a graph",
    SizeSource.COPIES: "the copies into static inputs before the replay, in the traced window",
}
"""How the real size of a step is known."""

_LISTED: Final = 12
"""Sizes that are named in a sentence."""


def node_bytes_words(taken: NodeBytes) -> str:
    """What executables take, and how it is known."""
    how = (
        f"by what {format_count(taken.graphs)} graphs took when they were instantiated"
        if taken.graphs
        else "as measured on driver 580"
    )
    return f"{format_count(round(taken.bytes))} bytes a node for its executable ({how})"


def pool_method(taken: NodeBytes) -> str:
    """How the memory of a ladder is reckoned."""
    return (
        f"Memory: what each graph keeps of the pool, {node_bytes_words(taken)}, and the pool that "
        "the largest size needs, by the captures that made it larger."
    )


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


def sizes_sentence(family: FamilyReport) -> str:
    """Of how many steps the real size is known, and how; empty where of none."""
    if not family.real_sizes:
        return ""
    steps = family.replays + family.fallbacks
    known = sum(count for _, count in family.real_sizes)
    if len(family.real_sizes) == 1:
        ways = SIZE_SOURCES[family.real_sizes[0][0]]
    else:
        ways = ", ".join(
            f"{format_count(n)} by {SIZE_SOURCES[how]}" for how, n in family.real_sizes
        )
    whole = "every step" if known == steps else f"{format_count(known)} of {counted(steps, 'step')}"
    return f"The real size of {whole} is known by {ways}."


def loss_sentence(family: FamilyReport) -> str:
    """What padding and fallbacks took of the family's steps."""
    if isinstance(family.padding, Missing):
        return f"Padding is not known: {family.padding.reason}."
    losses = () if isinstance(family.losses, Missing) else family.losses
    fallback = family.fallback_ns
    fell = sum(loss.fallbacks for loss in losses)
    text = _padding_text(family.padding)
    if fell and fallback is None:
        text += (
            f"; what {counted(fell, 'step')} without a graph lost is not known, for none of a "
            "known size was timed (the profiler slows down those of the traced window)"
        )
    elif fell and fallback is not None:
        text += (
            f"; {counted(fell, 'step')} without a graph took {format_ns(abs(fallback))} "
            f"{'more' if fallback >= 0 else 'less'} than graphs of their size would have"
        )
    return f"{text}. {faster_sentence(family)}".strip()


def faster_sentence(family: FamilyReport) -> str:
    """Which requests take less in the graph of a larger size than one of their own would, as far as
    that is more than its replays vary; empty where none does."""
    if isinstance(family.losses, Missing):
        return ""
    gains = []
    # Members stand by size, those of none last.
    timed = [member for member in family.members if member.gpu and member.size]
    sizes = [member.size or 0 for member in timed]
    for loss in family.losses:
        place = bisect_left(sizes, loss.size)
        padded = timed[place] if place < len(timed) else None
        served = loss.requests - loss.fallbacks
        if padded is None or padded.gpu is None or not served:
            continue
        gain_ns = -loss.padding_ns / served
        varies_ns = (padded.gpu.spread.high or padded.gpu.median) - padded.gpu.spread.low
        if gain_ns > varies_ns:
            gains.append((gain_ns * served, gain_ns, loss.size, padded.size or 0))
    if not gains:
        return ""
    _, gain_ns, size, larger = max(gains)
    return (
        f"Larger sizes replay faster here: a step of {format_count(size)} takes "
        f"{format_ns(gain_ns)} less in the graph of {format_count(larger)} than it would in one of "
        f"{format_count(size)}."
    )


def _padding_text(padding: PaddingCost) -> str:
    """What padding took of all steps of a family."""
    steps, a_step = counted(padding.steps, "step"), _padding_of_a_step(padding)
    if padding.effect is PaddingEffect.LOSES:
        return f"Padding took {format_ns(padding.total_ns)} of GPU time over {steps}, {a_step}"
    if padding.effect is PaddingEffect.SAVES:
        return (
            f"Padding saved GPU time over {steps}, for replays of the padded sizes are faster: "
            f"{a_step}"
        )
    return f"Over {steps} padding made no significant difference: {a_step}"


def _padding_of_a_step(padding: PaddingCost) -> str:
    low, high = padding.spread.low, padding.spread.high or padding.spread.low
    return f"{format_ns(padding.step_ns)} a step (95%: {format_ns(low)} to {format_ns(high)})"


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
    if abs(advice.gain_ns) < 1:
        return f"No ladder is better in time; {_sizes(advice)} do as well."
    if advice.gain_ns < 0:
        return (
            f"No ladder {_within(advice)} is as good as today's: the best, {_sizes(advice)}, take "
            f"{format_ns(-advice.gain_ns)} more of a request."
        )
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
    limits = [counted(advice.budget.graphs or 0, "size")]
    if advice.budget.memory_bytes is not None:
        limits.append(format_bytes(advice.budget.memory_bytes))
    if advice.budget.startup_ns is not None:
        limits.append(f"{format_ns(advice.budget.startup_ns)} of start-up")
    return f"within {' and '.join(limits)}"


def _sizes(advice: LadderAdvice) -> str:
    sizes = advice.ladder.sizes
    if not sizes:
        return "no graphs"
    return f"the sizes {_listed(sizes)}" if len(sizes) <= _LISTED else _listed(sizes)


def _listed(sizes: tuple[int, ...]) -> str:
    many = len(sizes) > _LISTED
    return counted(len(sizes), "size") if many else ", ".join(map(format_count, sizes))


def sizes_text(sizes: tuple[int, ...]) -> str:
    """All sizes of a ladder, as they can be given to an engine: "1, 2, 4"."""
    return ", ".join(map(str, sizes)) or "none"


def ceiling_sentence(advice: LadderAdvice) -> str:
    """What a request above the largest size costs; empty where there is no size."""
    ceiling = advice.ceiling
    if ceiling.replay_ns is None:
        return ""
    if ceiling.above_ns is None:
        above = format_count(ceiling.size)
        return f"A request above {above} has no graph, and no step without one was timed."
    times = ceiling.above_ns / ceiling.replay_ns
    # The time of the next size alone: the larger ones may take far more, or less.
    text = (
        f"A request of {format_count(ceiling.size + 1)}, one above the largest graph, takes "
        f"{format_ns(ceiling.above_ns)} without a graph, {significant(times)} times the "
        f"{format_ns(ceiling.replay_ns)} of that graph"
    )
    if not ceiling.requests_above:
        return f"{text}; no request is larger than the graph."
    text += (
        f"; {counted(ceiling.requests_above, 'request')} of {format_count(advice.requests)} "
        f"{'is' if ceiling.requests_above == 1 else 'are'} above it"
    )
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
        "Not captured or not timed, so interpolated between neighbours: "
        f"{sizes_text(advice.interpolated)}. Kernels may be chosen otherwise there: capture them "
        "and measure."
    )


def bound_sentence(advice: LadderAdvice) -> str:
    """How far from the best the sizes may be; empty where nothing is better."""
    ladder = advice.ladder
    if ladder.is_best:
        return ""
    gap = (ladder.total_ns - ladder.bound_ns) / ladder.total_ns
    return f"The search ended early: no ladder is more than {format_percent(gap)} better than this."


def step_sentence(family: FamilyReport) -> str:
    """How times are known, and what a step takes besides its replay."""
    text = (
        "GPU times are medians of sampled replays with their quartiles; between sizes that were "
        "sampled they are taken to lie on a straight line."
    )
    if family.step_ns is not None:
        text += f" Besides its replay a step takes {format_ns(family.step_ns)} (median)."
    return text


def changes_sentence(changes: Sequence[KernelChange]) -> str:
    """Where along the sizes other kernels are chosen."""
    if not changes:
        return "All sizes run the same kernels, by their names."
    places = ", ".join(f"{c.before.size:,} to {c.after.size:,}" for c in changes[:6])
    more = f" and {len(changes) - 6} more" if len(changes) > 6 else ""
    return f"Other kernels are chosen from {places}{more}."


def costs_sentence(family: FamilyReport) -> str:
    """What all graphs of a family cost once and in memory."""
    members = family.members
    own = sum((member.own_bytes or 0) + (member.executable_bytes or 0) for member in members)
    added = sum(member.pool_added_bytes or 0 for member in members)
    capture = sum(member.capture_ns for member in members)
    first = sum(member.first_launch_ns or 0 for member in members)
    return (
        f"Captures took {format_ns(capture)} and first launches {format_ns(first)}. The pool grew "
        f"by {format_bytes(added)}; {format_bytes(own)} are each graph's own, its executable "
        "included, and the others use the rest in turn."
    )


def family_tiles(family: FamilyReport) -> list[tuple[str, str, str]]:
    """The figures of a family: label, value, note."""
    members = family.members
    # Where no key is known, the members are what is alike.
    known = (
        [counted(family.key_count, "key")] if any(each.member.method for each in members) else []
    )
    cells = [
        (
            "Graphs",
            format_count(len(family.graphs)),
            ", ".join((*known, printable(family.family.name))),
        ),
        ("Steps", format_count(family.replays), "replayed"),
    ]
    if not isinstance(family.padding, Missing):
        fallback = family.fallback_ns
        cells.append(_padding_tile(family.padding, members))
        cells.append(
            (
                "Without a graph",
                format_count(family.fallbacks),
                f"steps, {format_ns(fallback)} lost"
                if fallback is not None and fallback > 0
                else "steps",
            )
        )
    startup = sum(member.startup_ns for member in members)
    cells.append(("Start-up", format_ns(startup), "captures and first launches"))
    added = sum(member.pool_added_bytes or 0 for member in members)
    executables = sum(member.executable_bytes or 0 for member in members)
    cells.append(
        ("Memory", format_bytes(added + executables), f"{format_bytes(executables)} executables")
    )
    return cells


def _padding_tile(padding: PaddingCost, members: Sequence[MemberReport]) -> tuple[str, str, str]:
    title, note = "Lost to padding", _padding_of_a_step(padding)
    if padding.effect is PaddingEffect.SAVES:
        return title, "nothing", f"larger sizes are faster: {note}"
    if padding.effect is PaddingEffect.NEITHER:
        return title, "not significant", note
    replayed = sum(member.gpu.median * member.steps for member in members if member.gpu)
    share = format_percent(padding.total_ns / replayed) if replayed else "–"
    return title, share, f"of {format_ns(replayed)} GPU time, {note}"


def segments_sentence(family: FamilyReport) -> str:
    """What the most frequent step of segments replays, and what comes besides."""
    member = max(family.members, key=lambda each: (each.steps, len(each.member.graphs)))
    graphs = member.member.graphs
    step = "A step"
    if len(family.members) > 1:
        step = f"The most frequent step, {printable(key_text(family.family, member.member))},"
    text = f"{step} replays {counted(len(graphs), 'graph')}"
    if len(set(graphs)) < len(graphs):
        text += f", {format_count(len(set(graphs)))} of them different"
    if member.gpu:
        # Events see the launch of a graph and the gaps between its kernels too.
        text += f"; the replays take {format_ns(member.gpu.median)} between the CUDA events of each"
        if member.period:
            share = member.gpu.median / member.period.median if member.period.median else 0.0
            text += (
                f", {format_percent(min(share, 1.0))} of the {format_ns(member.period.median)} to "
                "the next step"
            )
    if member.launch:
        text += f", and their launches {format_ns(member.launch.median)} of CPU time"
    return f"{text}."


def strip_sentence(step: SegmentedStep) -> str:
    """What the drawn step consists of."""
    parts = [
        f"{format_percent(step.share(kind))} {words}"
        for kind, words in (
            (PieceKind.REPLAY, "replays"),
            (PieceKind.EAGER, "eager work between them"),
            (PieceKind.IDLE, "idle"),
        )
        if step.share(kind)
    ]
    return (
        f"Traced step {step.step}, of median length: {format_ns(step.duration_ns)} under the "
        f"profiler with {counted(step.replays, 'replay')}: {', '.join(parts)}."
    )


def comparison_sentence(compared: SizeComparison) -> list[str]:
    """What each run's family takes and loses, a sentence for each."""
    sentences = []
    for run, family in compared.families.items():
        graphs = counted(len(family.graphs), "graph")
        text = f"{printable(run)}: {graphs} for {counted(family.key_count, 'key')}"
        padding = family.padding
        if not isinstance(padding, Missing):
            text += {
                PaddingEffect.LOSES: f"; padding takes {format_ns(padding.step_ns)} of a step",
                PaddingEffect.SAVES: f"; padding saves {format_ns(-padding.step_ns)} of a step",
                PaddingEffect.NEITHER: "; padding makes no significant difference",
            }[padding.effect]
            if family.fallbacks:
                share = family.fallbacks / padding.steps
                text += f", {format_percent(share)} of the steps have no graph"
        startup = sum(member.startup_ns for member in family.members)
        sentences.append(f"{text}; start-up {format_ns(startup)}.")
    return sentences
