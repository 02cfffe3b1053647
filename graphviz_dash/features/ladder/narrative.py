"""Graph families and recommended capture sizes, in sentences."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    LoopReport,
    MemberReport,
)
from graphviz_dash.analysis.loop.keys import format_key
from graphviz_dash.analysis.loop.padding import PaddingCost, PaddingEffect
from graphviz_dash.analysis.loop.step_modes import StepMode
from graphviz_dash.analysis.memory.captured_pools import FamilyPool
from graphviz_dash.analysis.memory.executables import NodeBytes
from graphviz_dash.analysis.metrics.loop_columns import SizeSource
from graphviz_dash.analysis.sample_statistics import Spread, Summary
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.ladder.analysis.coverage import Coverage
from graphviz_dash.features.ladder.analysis.kernel_changes import KernelChange
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderCost
from graphviz_dash.features.ladder.analysis.segments import PieceKind, SegmentedStep
from graphviz_dash.features.ladder.analysis.size_comparison import SizeComparison
from graphviz_dash.guidance.engines import build_size_option
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.loop import FamilyMember, GraphFamily, KeyMethod, StepKind
from graphviz_dash.narrative.columns import (
    COUNT,
    MEBIBYTES,
    MICROSECONDS,
    MILLISECONDS,
    NUMBER_TEXT,
    SHARE,
    Column,
)
from graphviz_dash.narrative.engine_steps import format_amount, format_size_range
from graphviz_dash.units import (
    format_bytes,
    format_count,
    format_ns,
    format_percent,
    pluralize,
    round_significant,
)

KEY_METHODS: Final = {
    KeyMethod.LABEL: "program label (collectors.label)",
    KeyMethod.ENGINE: "engine state",
    KeyMethod.SHAPES: "operator shapes in the capture",
    KeyMethod.VARIABLES: "variable of the capturing function",
    KeyMethod.GRIDS: "kernel grids (multiples of the size, not the size itself)",
}

SIZE_SOURCES: Final = {
    SizeSource.LABEL: "program label (collectors.label)",
    SizeSource.ENGINE: "engine state",
    SizeSource.SHAPES: "input shapes of fallback steps",
    SizeSource.COPIES: "copies into static inputs before the replay, in the traced window",
}

_MAX_LISTED_SIZES: Final = 12


def format_node_bytes(node_bytes: NodeBytes) -> str:
    """Format the memory of executable graphs per node, with its source."""
    source = (
        f"measured on {format_count(node_bytes.graphs)} graphs at instantiation"
        if node_bytes.graphs
        else "measured on driver 580"
    )
    return (
        f"{format_count(round(node_bytes.bytes))} bytes per node for the executable graph "
        f"({source})"
    )


def describe_memory_method(node_bytes: NodeBytes, pool: FamilyPool | Missing) -> str:
    """Describe the method of the memory estimate."""
    if not isinstance(pool, Missing):
        return (
            "Memory: the pool by a simulation of torch's allocator with the recorded allocations, "
            f"and {format_node_bytes(node_bytes)}."
        )
    return (
        f"Memory: the pool memory that each graph keeps, {format_node_bytes(node_bytes)}, and the "
        "pool growth for the largest size, taken from the captures that enlarged the pool. It is a "
        f"limit for additional sizes: {pool.reason}."
    )


def format_member_title(family: GraphFamily, member: FamilyMember) -> str:
    """Name a member among its family: "decode, batch 64"."""
    return escape_control_characters(f"{family.name}, {format_key(family, member)}")


def summarize_loop(report: LoopReport) -> str:
    """Summarize the families, graphs and steps of a program."""
    graphs = len({graph for family in report.families for graph in family.graphs})
    replays = sum(family.replays for family in report.families)
    fallbacks = sum(family.fallbacks for family in report.families)
    families = pluralize(len(report.families), "family")
    if len(report.families) != 1:
        families = f"{len(report.families)} families"
    text = f"{pluralize(graphs, 'graph')} in {families}, {pluralize(replays, 'step')} replayed"
    if report.only_counted_replays:
        total = pluralize(report.only_counted_replays, "replay")
        text += f" (only the first steps were recorded; {total} in all)"
    if fallbacks:
        text += f", {pluralize(fallbacks, 'step')} without a matching graph"
    others = sum(
        mode.steps
        for mode in report.modes
        if mode.kind is StepKind.FALLBACK and mode.family is None
    )
    if others:
        text += f", {pluralize(others, 'eager step')} with other inputs"
    if report.engine:
        text += f"; keys and sizes from {escape_control_characters(report.engine)}"
    details = (
        _describe_recorded_step(report),
        _describe_overlap(report),
        _describe_engine_memory(report),
    )
    return " ".join((f"{text}.", *(detail for detail in details if detail)))


def _describe_recorded_step(report: LoopReport) -> str:
    """Name the other definition of a step; empty if there is one."""
    length = report.recorded_step
    if length is None:
        return ""
    return (
        "Here each replay is a step. Step times and figures per step elsewhere are from one replay "
        f"of {escape_control_characters(length.graph)} to the next: {length.steps:.3g} steps."
    )


def _describe_overlap(report: LoopReport) -> str:
    """Explain the times of steps that overlap; empty if they do not."""
    if not report.columns.is_asynchronous:
        return ""
    return (
        "A step starts while the GPU executes the previous one, and the GPU is slower than the "
        "CPU: step times are those of the GPU."
    )


def _describe_engine_memory(report: LoopReport) -> str:
    """Compare the engine's measurement of its captures with ours; empty if it has none."""
    if report.engine is None or report.engine_capture_bytes is None:
        return ""
    name = report.engine.partition(" ")[0]
    is_decode_only = name == "SGLang"
    members = [
        member
        for family in report.families
        for member in family.members
        if not is_decode_only or family.family.name == "decode"
    ]
    pool_bytes = sum(member.pool_growth_bytes or 0 for member in members)
    executable_bytes = sum(member.executable_bytes or 0 for member in members)
    subject = "its decode graphs" if is_decode_only else "its captures"
    return (
        f"{escape_control_characters(name)} measured {format_bytes(report.engine_capture_bytes)} "
        f"for {subject}: pools grew by {format_bytes(pool_bytes)}, and executable graphs use "
        f"{format_bytes(executable_bytes)}, estimated from their nodes; the rest is memory of "
        "libraries, such as kernels that were loaded meanwhile."
    )


STEP_MODES: Final = {
    StepKind.REPLAY: "one graph",
    StepKind.SEGMENTS: "several graphs",
    StepKind.FALLBACK: "no graph",
    StepKind.CAPTURE: "capture",
}

ENGINE_MODES: Final = {
    "vLLM": {
        StepKind.REPLAY: "FULL",
        StepKind.SEGMENTS: "PIECEWISE",
        StepKind.FALLBACK: "NONE (eager)",
    },
    "SGLang": {
        StepKind.REPLAY: "CUDA graph",
        StepKind.SEGMENTS: "piecewise CUDA graph",
        StepKind.FALLBACK: "eager",
    },
}
"""The same in the terms of an engine."""


def format_mode(report: LoopReport, mode: StepMode) -> str:
    """Format the execution in the terms of the engine."""
    engine = (report.engine or "").partition(" ")[0]
    return ENGINE_MODES.get(engine, STEP_MODES).get(mode.kind, STEP_MODES[mode.kind])


def format_mode_spread(mode: StepMode) -> str:
    """Format the quartiles of the step time; a dash if unknown."""
    spread = None if mode.step_time is None else mode.step_time.spread
    if spread is None or spread.high is None:
        return "–"
    return f"{format_ns(round(spread.low))} to {format_ns(round(spread.high))}"


def describe_coverage(family: FamilyReport, coverage: Coverage) -> str:
    """Describe the gain and cost of graphs for larger requests."""
    amount = format_amount(family, _join_sizes(coverage.new_sizes))
    kind = "about" if coverage.memory_limit is None else "up to"
    memory = f"{kind} {format_bytes(coverage.memory_bytes)}"
    if coverage.memory_bytes <= 0:
        memory = "no memory"
    cost = f"{memory} and about {format_ns(coverage.startup_ns)} of startup"
    gain_ns = coverage.gain_ns
    if gain_ns is None:
        return (
            f"Graphs for {amount} would cover all requests and cost {cost}; the gain is unknown "
            "because no step without a graph was timed."
        )
    share = coverage.gain_share
    if coverage.is_insignificant:
        return f"{_describe_absent_gain(coverage, amount)} and cost {cost}."
    text = (
        f"Graphs for {amount} would save about {format_ns(gain_ns)} per step above "
        f"{format_count(coverage.largest_graph)}"
    )
    if share is not None and coverage.throughput_gain is None:
        text += f" ({format_percent(share)} of the family's time)"
    return f"{text} and cost {cost}. {_describe_predicted_step(coverage)}"


def _describe_absent_gain(coverage: Coverage, amount: str) -> str:
    """Begin a sentence about sizes without a considerable gain."""
    graphs, throughput = f"graphs for {amount}", coverage.throughput_spread
    if (coverage.gain_ns or 0.0) <= 0:
        return f"No additional size is better: {graphs} would not be faster than eager steps"
    if throughput is not None and throughput.low <= 0:
        high = "unknown" if throughput.high is None else format_percent(throughput.high)
        return (
            f"No additional size is significantly better: {graphs} would change throughput by "
            f"{format_percent(throughput.low)} to {high} (variation within the recording)"
        )
    return (
        f"No additional size is better: {graphs} would save about "
        f"{format_percent(coverage.gain_share)} of the family's time"
    )


def _describe_predicted_step(coverage: Coverage) -> str:
    spreads = (coverage.graph_step_spread, coverage.eager_step_spread)
    graph, eager = (
        f"{format_ns(value)}{'' if spread is None else _format_limits(spread, format_ns)}"
        for value, spread in zip(
            (coverage.graph_step_ns, coverage.eager_step_ns), spreads, strict=True
        )
    )
    text = f"Such a step would take about {graph} instead of {eager}"
    throughput = coverage.throughput_spread
    if coverage.throughput_gain is not None:
        text += f", and throughput would rise by about {format_percent(coverage.throughput_gain)}"
        if throughput is not None:
            text += _format_limits(throughput, format_percent)
    if not any(spreads):
        return f"{text}. This is extrapolated: measure it."
    return f"{text}. Ranges are the variation within the recording: measure the new sizes."


def _format_limits(spread: Spread, format_value: Callable[[float | None], str]) -> str:
    return f" ({format_value(spread.low)} to {format_value(spread.high)})"


def _join_sizes(sizes: Sequence[int]) -> str:
    *first, last = map(format_count, sizes)
    return f"{', '.join(first)} and {last}" if first else last


def list_size_options(report: LoopReport, family: FamilyReport, sizes: Sequence[int]) -> list[str]:
    """List the engine's options that capture ``sizes``, to paste; empty for an unknown engine."""
    others = {
        member.size
        for other in report.families
        if other is not family
        for member in other.members
        if member.size and member.steps
    }
    option = build_size_option(report.engine, family.family.name, sizes, sorted(others))
    return [] if option is None else [option.python, option.command]


def list_coverage_options(
    report: LoopReport, family: FamilyReport, coverage: Coverage
) -> list[str]:
    """List the engine's options for the present and the additional sizes; empty if these are not
    better."""
    present = {member.size for member in family.members if member.size}
    sizes = sorted({*present, *coverage.new_sizes})
    return [] if coverage.is_insignificant else list_size_options(report, family, sizes)


def describe_real_sizes(family: FamilyReport) -> str:
    """Describe the known real sizes and their source; empty if none is known."""
    if not family.real_sizes:
        return ""
    steps = family.replays + family.fallbacks
    recorded_steps = sum(count for _, count in family.real_sizes)
    if len(family.real_sizes) == 1:
        sources = SIZE_SOURCES[family.real_sizes[0][0]]
    else:
        sources = ", ".join(
            f"{format_count(count)} from {SIZE_SOURCES[source]}"
            for source, count in family.real_sizes
        )
    scope = (
        "every step"
        if recorded_steps == steps
        else f"{format_count(recorded_steps)} of {pluralize(steps, 'step')}"
    )
    return f"Real sizes are known for {scope}: {sources}."


def describe_losses(family: FamilyReport) -> str:
    """Describe the cost of padding and fallbacks."""
    if isinstance(family.padding, Missing):
        return f"Padding cost is not available: {family.padding.reason}."
    losses = () if isinstance(family.losses, Missing) else family.losses
    fallback = family.fallback_ns
    fallbacks = sum(loss.fallbacks for loss in losses)
    text = _describe_padding(family.padding)
    if fallbacks and fallback is None:
        text += (
            f"; the cost of {pluralize(fallbacks, 'fallback step')} is unknown because no step "
            "of a "
            "known size was timed (the profiler slows down those of the traced window)"
        )
    elif fallbacks and fallback is not None:
        text += (
            f"; {pluralize(fallbacks, 'fallback step')} took {format_ns(abs(fallback))} "
            f"{'more' if fallback >= 0 else 'less'} than graphs of the same size would"
        )
    return f"{text}. {describe_faster_sizes(family)}".strip()


def describe_faster_sizes(family: FamilyReport) -> str:
    """Describe requests that run faster in a larger graph, beyond the variation between replays;
    empty if there are none."""
    if isinstance(family.losses, Missing):
        return ""
    gains = []
    # Members are sorted by size, those without a size last.
    timed = [member for member in family.members if member.gpu and member.size]
    sizes = [member.size or 0 for member in timed]
    for loss in family.losses:
        index = bisect_left(sizes, loss.size)
        padded = timed[index] if index < len(timed) else None
        replays = loss.requests - loss.fallbacks
        if padded is None or padded.gpu is None or not replays:
            continue
        gain_ns = -loss.padding_ns / replays
        variation_ns = (padded.gpu.spread.high or padded.gpu.median) - padded.gpu.spread.low
        if gain_ns > variation_ns:
            gains.append((gain_ns * replays, gain_ns, loss.size, padded.size or 0))
    if not gains:
        return ""
    _, gain_ns, size, larger = max(gains)
    return (
        f"Larger sizes replay faster here: a step of {format_count(size)} takes "
        f"{format_ns(gain_ns)} less in the graph for {format_count(larger)} than in a graph for "
        f"{format_count(size)}."
    )


def _describe_padding(padding: PaddingCost) -> str:
    steps, per_step = pluralize(padding.steps, "step"), _format_padding_per_step(padding)
    if padding.effect is PaddingEffect.COST:
        return f"Padding cost: {format_ns(padding.total_ns)} of GPU time over {steps}, {per_step}"
    if padding.effect is PaddingEffect.GAIN:
        return (
            f"Padding saved GPU time over {steps} because replays of the padded sizes are faster: "
            f"{per_step}"
        )
    return f"Padding over {steps} made no significant difference: {per_step}"


def _format_padding_per_step(padding: PaddingCost) -> str:
    low, high = padding.spread.low, padding.spread.high or padding.spread.low
    return f"{format_ns(padding.step_ns)} per step (95%: {format_ns(low)} to {format_ns(high)})"


def describe_advice(advice: LadderAdvice) -> str:
    """Describe the smallest set of sizes within noise of the fastest, next to the current sizes."""
    today, smallest = advice.current_use, advice.smallest
    if not math.isfinite(today.total_ns):
        return (
            f"The {pluralize(len(advice.current_sizes), 'current size')} leave "
            f"{pluralize(int(today.fallbacks), 'request')} without a graph, and no fallback "
            f"step was timed; {_format_ladder(smallest.sizes)} cover all requests."
        )
    if smallest.sizes == advice.current_sizes:
        return (
            f"No set of sizes is better: the current {_format_ladder(smallest.sizes)} are the best "
            f"{_format_budget(advice)}."
        )
    change = (
        f"{pluralize(len(advice.current_sizes), 'size')} {_ARROW} "
        f"{pluralize(len(smallest.sizes), 'size')}"
    )
    costs = _format_savings(today, smallest.use)
    gain = format_ns(abs(advice.smallest_gain_ns))
    if advice.is_smallest_worse:
        costs = f": {costs}" if costs else ""
        return f"{change} {_format_budget(advice)} add {gain} per request{costs}."
    if not advice.is_smallest_better:
        return f"{change} without measurable loss{f': {costs}' if costs else ''}."
    share = format_percent(advice.smallest_gain_ns / (today.total_ns / advice.requests))
    times = f"{gain} ({share}) less GPU time per request"
    return f"{change}: {', '.join(filter(None, (times, costs)))}."


_ARROW: Final = "\N{RIGHTWARDS ARROW}"


def _format_savings(before: LadderCost, after: LadderCost) -> str:
    """Format changes: ``146 MiB and 54.0 ms of startup less``."""
    changes = (
        (round(before.memory_bytes - after.memory_bytes), format_bytes, ""),
        (round(before.startup_ns - after.startup_ns), format_ns, " of startup"),
    )
    texts = {
        word: [show(abs(size)) + unit for size, show, unit in changes if size * sign > 0]
        for word, sign in (("less", 1), ("more", -1))
    }
    return ", ".join(f"{' and '.join(parts)} {word}" for word, parts in texts.items() if parts)


def describe_fastest(advice: LadderAdvice) -> str:
    """Describe the fastest set if it is not the smallest one; empty otherwise."""
    today, sizes = advice.current_use, advice.ladder.sizes
    if sizes == advice.smallest.sizes or not math.isfinite(today.total_ns):
        return ""
    if sizes == advice.current_sizes:
        return "No set of sizes is significantly faster than the current one."
    subject = f"The fastest set {_format_budget(advice)} has {pluralize(len(sizes), 'size')}"
    if advice.gain_ns < 0:
        return f"{subject} and adds {format_ns(-advice.gain_ns)} per request."
    low, high = format_ns(advice.gain_interval.low), format_ns(advice.gain_interval.high)
    gain = f"saves {format_ns(advice.gain_ns)} per request (95%: {low} to {high})"
    noise = "" if advice.is_better else ", within noise"
    return f"{subject} and {gain}{noise}."


def _format_budget(advice: LadderAdvice) -> str:
    limits = [pluralize(advice.budget.graphs or 0, "size")]
    if advice.budget.memory_bytes is not None:
        limits.append(format_bytes(advice.budget.memory_bytes))
    if advice.budget.startup_ns is not None:
        limits.append(f"{format_ns(advice.budget.startup_ns)} of startup")
    return f"within {' and '.join(limits)}"


def _format_ladder(sizes: tuple[int, ...]) -> str:
    if not sizes:
        return "no graphs"
    if len(sizes) > _MAX_LISTED_SIZES:
        return pluralize(len(sizes), "size")
    return f"sizes {', '.join(map(format_count, sizes))}"


def format_sizes(sizes: tuple[int, ...]) -> str:
    """Format sizes in the form that an engine accepts: "1, 2, 4"."""
    return ", ".join(map(str, sizes)) or "none"


def list_sets(advice: LadderAdvice) -> list[tuple[str, tuple[int, ...], LadderCost]]:
    """List the compared sets: name, sizes and cost; the fastest only if it differs."""
    sets = [
        ("current", advice.current_sizes, advice.current_use),
        ("recommended", advice.smallest.sizes, advice.smallest.use),
    ]
    if advice.ladder.sizes != advice.smallest.sizes:
        sets.append(("fastest", advice.ladder.sizes, advice.use))
    return sets


def describe_ceiling(advice: LadderAdvice) -> str:
    """Describe the cost above the largest size; empty if there is no size."""
    ceiling = advice.ceiling
    if ceiling.replay_ns is None:
        return ""
    if ceiling.fallback_ns is None:
        largest = format_count(ceiling.size)
        return f"A request above {largest} has no graph, and no fallback step was timed."
    times = ceiling.fallback_ns / ceiling.replay_ns
    # Only the time of the next size; larger sizes may take much more, or less.
    text = (
        f"A request of {format_count(ceiling.size + 1)}, one above the largest graph, takes "
        f"{format_ns(ceiling.fallback_ns)} without a graph, {round_significant(times)} times the "
        f"{format_ns(ceiling.replay_ns)} of that graph"
    )
    if not ceiling.requests_above:
        return f"{text}; no request is larger than the graph."
    text += (
        f"; {pluralize(ceiling.requests_above, 'request')} of {format_count(advice.requests)} "
        f"{'is' if ceiling.requests_above == 1 else 'are'} above it"
    )
    return f"{text}."


def describe_interpolation(advice: LadderAdvice) -> str:
    """State how many of the sizes were never timed."""
    smallest, fastest = advice.smallest, advice.ladder.sizes
    counts = [_count_untimed(smallest.untimed_count, len(smallest.sizes), "recommended")]
    if fastest != smallest.sizes:
        counts.append(_count_untimed(len(advice.interpolated), len(fastest), "fastest"))
    text = "; ".join(filter(None, counts))
    if not smallest.untimed_count and not advice.interpolated:
        return f"{text}." if text else ""
    return (
        f"{text}. Untimed sizes are interpolated, and kernel selection may differ there: capture "
        "them and measure."
    )


def _count_untimed(untimed_count: int, count: int, name: str) -> str:
    if not count:
        return ""
    if not untimed_count:
        return f"The {pluralize(count, f'{name} size')} {'were' if count > 1 else 'was'} timed"
    verb = "was" if untimed_count == 1 else "were"
    return f"{untimed_count} of {count} {name} sizes {verb} never timed"


def describe_bound(advice: LadderAdvice) -> str:
    """Bound the distance of the sizes from the optimum; empty if they are optimal."""
    ladder = advice.ladder
    if ladder.is_best:
        return ""
    gap = (ladder.total_ns - ladder.bound_ns) / ladder.total_ns
    return f"The search ended early: no set of sizes is more than {format_percent(gap)} better."


def describe_step_times(family: FamilyReport) -> str:
    """Describe the source of times and the time outside the replay."""
    text = (
        "GPU times are medians of sampled replays with their quartiles, interpolated linearly "
        "between sampled sizes."
    )
    if family.step_ns is not None:
        text += f" Outside its replay, a step takes {format_ns(family.step_ns)} (median)."
    return text


def describe_kernel_changes(changes: Sequence[KernelChange]) -> str:
    """List the sizes at which kernel selection changes."""
    if not changes:
        return "All sizes run the same kernels (by name)."
    ranges = ", ".join(f"{c.smaller.size:,} to {c.larger.size:,}" for c in changes[:6])
    more = f" and {len(changes) - 6} more" if len(changes) > 6 else ""
    return f"Kernel selection changes at {ranges}{more}."


def describe_family_costs(family: FamilyReport) -> str:
    """Describe the one-time and memory cost of a family's graphs."""
    members = family.kept_members
    private = sum(member.own_bytes or 0 for member in members)
    added = sum(member.pool_growth_bytes or 0 for member in members)
    capture = sum(member.capture_ns for member in members)
    first_launch = sum(member.first_launch_ns or 0 for member in members)
    return (
        f"Captures took {format_ns(capture)} and first launches {format_ns(first_launch)}. The "
        f"pool grew by {format_bytes(added)}. {format_bytes(private)} belong to single graphs, "
        "executables included; the rest is shared."
    )


def build_family_tiles(family: FamilyReport) -> list[tuple[str, str, str]]:
    """Build the tiles of a family: label, value, note."""
    members = family.members
    # Without known keys, members are groups of similar graphs.
    keys = (
        [pluralize(family.key_count, "key")]
        if any(member.member.method for member in members)
        else []
    )
    cells = [
        (
            "Graphs",
            format_count(len(family.graphs)),
            ", ".join((*keys, escape_control_characters(family.family.name))),
        ),
        ("Steps", format_count(family.replays), "replayed"),
    ]
    if not isinstance(family.padding, Missing):
        fallback = family.fallback_ns
        cells.append(_build_padding_tile(family.padding, members))
        cells.append(
            (
                "Fallbacks",
                format_count(family.fallbacks),
                f"steps, {format_ns(fallback)} lost"
                if fallback is not None and fallback > 0
                else "steps",
            )
        )
    startup = sum(member.startup_ns for member in members)
    cells.append(("Startup", format_ns(startup), "captures and first launches"))
    added = sum(member.pool_growth_bytes or 0 for member in family.kept_members)
    executables = sum(member.executable_bytes or 0 for member in family.kept_members)
    cells.append(
        ("Memory", format_bytes(added + executables), f"{format_bytes(executables)} executables")
    )
    return cells


def _build_padding_tile(
    padding: PaddingCost, members: Sequence[MemberReport]
) -> tuple[str, str, str]:
    title, note = "Padding cost", _format_padding_per_step(padding)
    if padding.effect is PaddingEffect.GAIN:
        return title, "none", f"larger sizes are faster: {note}"
    if padding.effect is PaddingEffect.NO_DIFFERENCE:
        return title, "not significant", note
    replayed = sum(member.gpu.median * member.steps for member in members if member.gpu)
    share = format_percent(padding.total_ns / replayed) if replayed else "–"
    return title, share, f"of {format_ns(replayed)} GPU time, {note}"


def describe_segments(family: FamilyReport) -> str:
    """Describe the most frequent segmented step and its time outside replays."""
    member = max(
        family.members, key=lambda candidate: (candidate.steps, len(candidate.member.graphs))
    )
    graphs = member.member.graphs
    step = "A step"
    if len(family.members) > 1:
        step = (
            "The most frequent step, "
            f"{escape_control_characters(format_key(family.family, member.member))},"
        )
    text = f"{step} replays {pluralize(len(graphs), 'graph')}"
    if len(set(graphs)) < len(graphs):
        text += f", {format_count(len(set(graphs)))} distinct"
    if member.gpu:
        # Events include the launch of a graph and the gaps between its kernels.
        text += f"; the replays take {format_ns(member.gpu.median)} between their CUDA events"
        if member.period:
            share = member.gpu.median / member.period.median if member.period.median else 0.0
            text += (
                f", {format_percent(min(share, 1.0))} of the {format_ns(member.period.median)} "
                "until the next step"
            )
    if member.launch:
        text += f", and their launches {format_ns(member.launch.median)} of CPU time"
    return f"{text}."


def describe_segmented_step(step: SegmentedStep) -> str:
    """Describe the composition of the drawn step."""
    parts = [
        f"{format_percent(step.compute_share(kind))} {words}"
        for kind, words in (
            (PieceKind.REPLAY, "replays"),
            (PieceKind.EAGER, "eager work between them"),
            (PieceKind.IDLE, "idle"),
        )
        if step.compute_share(kind)
    ]
    return (
        f"Traced step {step.step}, of median length: {format_ns(step.duration_ns)} under the "
        f"profiler with {pluralize(step.replays, 'replay')}: {', '.join(parts)}."
    )


def describe_size_comparison(compared: SizeComparison) -> list[str]:
    """Describe padding and startup cost, one sentence per run."""
    sentences = []
    for run, family in compared.families.items():
        graphs = pluralize(len(family.graphs), "graph")
        text = (
            f"{escape_control_characters(run)}: {graphs} for {pluralize(family.key_count, 'key')}"
        )
        padding = family.padding
        if not isinstance(padding, Missing):
            text += {
                PaddingEffect.COST: f"; padding costs {format_ns(padding.step_ns)} per step",
                PaddingEffect.GAIN: f"; padding saves {format_ns(-padding.step_ns)} per step",
                PaddingEffect.NO_DIFFERENCE: "; padding makes no significant difference",
            }[padding.effect]
            if family.fallbacks:
                share = family.fallbacks / padding.steps
                text += f", {format_percent(share)} of the steps are fallbacks"
        startup = sum(member.startup_ns for member in family.members)
        sentences.append(f"{text}; startup {format_ns(startup)}.")
    return sentences


def list_member_columns(family: GraphFamily) -> tuple[Column[MemberReport], ...]:
    """List the columns of the graphs."""
    return (
        Column("Key", lambda member: format_key(family, member.member)),
        Column("Steps", lambda member: member.steps, COUNT),
        Column("GPU time", lambda member: _get_median(member.gpu), MICROSECONDS),
        Column("Samples", lambda member: len(member.gpu_ns), COUNT),
        Column("Launch", lambda member: _get_median(member.launch), MICROSECONDS),
        Column("Step interval", lambda member: _get_median(member.period), MICROSECONDS, None),
        Column("Capture", lambda member: member.capture_ns, MILLISECONDS),
        Column("First launch", lambda member: member.first_launch_ns, MICROSECONDS),
        Column("Own memory", lambda member: member.own_bytes, MEBIBYTES, "exclusive memory"),
        Column("Pool growth", lambda member: member.pool_growth_bytes, MEBIBYTES, None),
        Column("Nodes", lambda member: member.nodes, COUNT),
        Column("Graphs", lambda member: len(set(member.member.graphs)), COUNT, None),
    )


def _get_median(summary: Summary | None) -> float | None:
    return None if summary is None else summary.median


def list_mode_columns(report: LoopReport) -> tuple[Column[StepMode], ...]:
    """List the columns of the steps by phase and mode."""
    return (
        Column("Phase", lambda mode: mode.phase or None),
        Column("Mode", lambda mode: format_mode(report, mode)),
        Column("Steps", lambda mode: mode.steps, COUNT),
        Column("Size", lambda mode: format_size_range(mode.sizes), NUMBER_TEXT, "sizes"),
        Column("Requests", lambda mode: format_size_range(mode.requests), NUMBER_TEXT, None),
        Column("Median interval", lambda mode: _get_median(mode.step_time), MICROSECONDS, "median"),
        Column("p25 to p75", format_mode_spread, NUMBER_TEXT),
        Column("Time", lambda mode: mode.time_share, SHARE),
    )


def list_set_rows(advice: LadderAdvice) -> dict[str, list[str]]:
    """List the figures of the sets of :func:`list_sets`, by title."""
    sets = list_sets(advice)
    uses = [use for _, _, use in sets]
    rates = [advice.compute_throughput(use) for use in uses]
    return {
        "Sizes": [format_count(len(sizes)) for _, sizes, _ in sets],
        "GPU time per request": [
            format_ns(use.total_ns / advice.requests if math.isfinite(use.total_ns) else None)
            for use in uses
        ],
        "of which padding": [format_ns(use.padding_ns / advice.requests) for use in uses],
        "Fallbacks": [format_count(round(use.fallbacks)) for use in uses],
        "Throughput": ["–" if rate is None else f"{round_significant(rate)}/s" for rate in rates],
        "Memory": [format_bytes(use.memory_bytes) for use in uses],
        "Startup": [format_ns(use.startup_ns) for use in uses],
    }
