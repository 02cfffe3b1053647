"""Launch costs of synthetic and own graphs, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from graphviz_dash.analysis.sample_statistics import Spread
from graphviz_dash.features.launch.analysis.launch_comparison import LaunchComparison
from graphviz_dash.features.launch.analysis.launch_costs import (
    CONSTANT_SLOPE_NS,
    ChainFamily,
    LaunchCosts,
)
from graphviz_dash.features.launch.analysis.launch_fit import RESAMPLES, AddedTime
from graphviz_dash.features.launch.analysis.launch_verdict import LaunchVerdict, Verdict
from graphviz_dash.features.launch.analysis.own_graphs import ProgramGraph
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure, Topology
from graphviz_dash.model.run import Environment
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio, pluralize

MEASURE_MEANINGS: Final = {
    LaunchMeasure.CAPTURE: "from the start of the stream capture to its end",
    LaunchMeasure.INSTANTIATION: "cudaGraphInstantiate",
    LaunchMeasure.FIRST_LAUNCH_CPU: "the first cudaGraphLaunch, upload included, to its return",
    LaunchMeasure.FIRST_LAUNCH: "the first launch into an empty stream, to its completion",
    LaunchMeasure.REPEAT_LAUNCH_CPU: "a later cudaGraphLaunch, to its return",
    LaunchMeasure.REPEAT_LAUNCH: "a later launch into an empty stream, to its completion",
    LaunchMeasure.FIRST_LAUNCH_DEVICE: "a first launch on the GPU, queued behind a waiting kernel",
    LaunchMeasure.REPEAT_LAUNCH_DEVICE: "a later launch on the GPU, queued the same way",
    LaunchMeasure.UPLOAD_CPU: "cudaGraphUpload, to its return",
    LaunchMeasure.UPLOAD_DEVICE: "the upload on the GPU, queued behind a waiting kernel",
    LaunchMeasure.STREAM_CPU: (
        "the same work launched into streams, one cuda-python call per kernel, to the "
        "return of the last call"
    ),
    LaunchMeasure.STREAM: "the same into empty streams, to its completion",
    LaunchMeasure.STREAM_DEVICE: "the same on the GPU, queued behind a waiting kernel",
}
"""Interval that each measure times."""

NO_OWN_GRAPHS: Final = (
    "No run of this experiment launched a graph in its clean pass. An unmodified recorded program "
    "has none; see the Graph page for its launch times."
)
"""For an experiment without separately timed launches."""

MEASURE_TITLES: Final = {
    LaunchMeasure.CAPTURE: "Capture",
    LaunchMeasure.INSTANTIATION: "Instantiation",
    LaunchMeasure.FIRST_LAUNCH_CPU: "First launch, CPU",
    LaunchMeasure.FIRST_LAUNCH: "First launch, end to end",
    LaunchMeasure.REPEAT_LAUNCH_CPU: "Repeat launch, CPU",
    LaunchMeasure.REPEAT_LAUNCH: "Repeat launch, end to end",
    LaunchMeasure.FIRST_LAUNCH_DEVICE: "First launch, device",
    LaunchMeasure.REPEAT_LAUNCH_DEVICE: "Repeat launch, device",
    LaunchMeasure.UPLOAD_CPU: "Upload, CPU",
    LaunchMeasure.UPLOAD_DEVICE: "Upload, device",
    LaunchMeasure.STREAM_CPU: "Stream launch, CPU",
    LaunchMeasure.STREAM: "Stream launch, end to end",
    LaunchMeasure.STREAM_DEVICE: "Stream launch, device",
}


_CHAPTER: Final = """
## Launch costs

Synthetic graphs, recorded by `graphviz-dash bench launch`; all values in nanoseconds, lower is
better. The definitions are those of NVIDIA's sample cudaGraphsPerfScaling. Work queued behind a
waiting kernel is timed by events on the GPU, without any CPU time.

"""


def build_metrics_chapter() -> str:
    """Build the chapter of docs/reference/metrics.md on launch costs."""
    lines = [_CHAPTER]
    lines += [
        f"- {MEASURE_TITLES[measure]} (`{measure.value}`): {MEASURE_MEANINGS[measure]}\n"
        for measure in LaunchMeasure
    ]
    lines.append(
        "\nThe fit of a measure over linear chains is `base + slope * max(0, nodes - knee)`; "
        "`knee` is 0 or a\nmeasured size, whichever leaves the smallest squared relative "
        "residuals of the medians. A repeat launch\ncounts as constant up to a slope "
        f"of {CONSTANT_SLOPE_NS:.0f} ns per node. Intervals come from refitting {RESAMPLES}\n"
        "resamples of the processes and of the trials within them. The displayed spread is the "
        "middle 90% of\nall samples (5th to 95th percentile), over all processes.\n"
    )
    return "".join(lines)


def format_topology(topology: Topology) -> str:
    """Name a topology: "4 parallel chains of 10, one root", "chain of 100, one Host"."""
    if topology.width == 1:
        name = f"chain of {format_count(topology.length)}"
    else:
        root = ", one root" if topology.single_root else ""
        name = f"{topology.width} parallel chains of {format_count(topology.length)}{root}"
    return name if topology.middle_node is None else f"{name}, one {topology.middle_node}"


def format_chain_family(family: ChainFamily) -> str:
    """Name a family: "4 parallel chains, one root"."""
    return f"{family.width} parallel chains{', one root' if family.single_root else ''}"


def summarize_launch_costs(costs: LaunchCosts) -> str:
    """Describe the growth with graph size in one sentence."""
    repeat = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    if repeat is None:
        return describe_launch_costs(costs)
    return (
        f"On {costs.recording.environment.gpu_name}, {_format_growth(costs)}, from "
        f"{format_ns(repeat.base_ns)} of CPU time."
    )


def _format_growth(costs: LaunchCosts) -> str:
    return f"launch cost of linear chains {'is flat' if costs.is_constant else 'grows'}"


def describe_launch_costs(costs: LaunchCosts) -> str:
    """Describe the growth with graph size, compared with separate launches."""
    repeat = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    stream = costs.lines.get(LaunchMeasure.STREAM_CPU)
    gpu = costs.recording.environment.gpu_name
    if repeat is None:
        return f"Too few linear chains were measured on {gpu} to determine how launch time grows."
    knee = f" up to {format_count(repeat.knee)} nodes" if repeat.knee else ""
    text = (
        f"On {gpu}, {_format_growth(costs)}: a repeat launch uses "
        f"{format_ns(repeat.base_ns)} of CPU time{knee} and {repeat.slope_ns:.2f} ns (95%: "
        f"{format_interval(repeat.slope_interval)}) more per "
        f"{'further ' if repeat.knee else ''}node"
    )
    if stream is None:
        return f"{text}."
    size = 1000
    ratio = stream.evaluate(size) / repeat.evaluate(size)
    return (
        f"{text}; at {format_count(size)} nodes that is {format_ns(repeat.evaluate(size))} "
        "instead of "
        f"{format_ns(stream.evaluate(size))} kernel by kernel, {ratio:,.0f} times less. Each of "
        "those "
        "launches is a cuda-python call. A C++ program launches faster, so its graphs save "
        "less."
    )


def describe_machines(recorded: Environment, machines: Iterable[Environment]) -> str:
    """Name the machine of a recording and the other GPUs of the runs."""
    measured = f"Measured on {_format_machine(recorded)}"
    others = dict.fromkeys(
        _format_machine(machine)
        for machine in machines
        if (machine.gpu_name, machine.driver) != (recorded.gpu_name, recorded.driver)
    )
    if not others:
        return f"{measured}."
    return (
        f"{measured}. The runs here are from {_list_names(list(others))}, whose launches may "
        "differ: "
        "measure them there with graphviz-dash bench launch."
    )


def _format_machine(machine: Environment) -> str:
    article = "an " if machine.gpu else ""
    return f"{article}{machine.gpu_name} with driver {machine.driver or 'unknown'}"


def describe_extra_costs(costs: LaunchCosts) -> list[str]:
    """Describe the cost of roots, other kinds and Python, one sentence each."""
    lines = []
    if costs.root is not None:
        lines.append(
            f"An extra root adds {_format_added_time(costs.root)} to the CPU time of a launch."
        )
    lines += [
        f"A {kind} node in the middle of a chain of kernels adds {_format_added_time(extra)}."
        for kind, extra in costs.others.items()
    ]
    if costs.call is not None and costs.clock is not None:
        lines.append(
            f"A call through cuda-python costs {format_ns(costs.call.median)} and a clock read "
            f"{format_ns(costs.clock.median)}; both are part of every CPU time and are not "
            "subtracted."
        )
    return lines


def _format_added_time(extra: AddedTime) -> str:
    return f"{format_ns(extra.ns)} (95%: {format_interval(extra.interval)})"


def format_interval(spread: Spread) -> str:
    """Format both ends."""
    return f"{format_ns(spread.low)} to {format_ns(spread.high)}"


def describe_launch_comparison(comparison: LaunchComparison) -> str:
    """Count the medians within their spread."""
    within = sum(difference.is_within_spread for difference in comparison.differences)
    return (
        f"{format_count(within)} of {format_count(len(comparison.differences))} medians differ by "
        "no more than their spread."
    )


def describe_untimed_measures(graphs: Iterable[ProgramGraph]) -> list[str]:
    """List untimed measures of graphs, one sentence per run and reason."""
    missing: dict[tuple[str, str], tuple[set[LaunchMeasure], dict[str, None]]] = {}
    for graph in graphs:
        for measure, reason in graph.absent.items():
            measures, names = missing.setdefault((graph.run, reason), (set(), {}))
            measures.add(measure)
            names[graph.name] = None
    return [
        (
            f"Not timed for {run} ({_list_names(names)}): {_format_measure_titles(measures)}. "
            f"Reason: {reason}."
        )
        for (run, reason), (measures, names) in missing.items()
    ]


def _format_measure_titles(measures: Collection[LaunchMeasure]) -> str:
    return "; ".join(MEASURE_TITLES[measure] for measure in LaunchMeasure if measure in measures)


def _list_names(names: Collection[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else pluralize(len(names), "graph")


def summarize_verdicts(graphs: Sequence[ProgramGraph]) -> str:
    """Compare launches with expectations, in one sentence."""
    verdicts = [
        (graph, graph.verdict) for graph in graphs if not isinstance(graph.verdict, Missing)
    ]
    missing = [graph.verdict.reason for graph in graphs if isinstance(graph.verdict, Missing)]
    reasons = "; ".join(dict.fromkeys(missing))
    if not verdicts:
        return f"No expected launch cost for comparison: {reasons}."
    if len(graphs) == 1:
        ((graph, verdict_of),) = verdicts
        label = _format_judged_graph(graph, verdict_of)
        return f"The repeat launch is {verdict_of.verdict.value}: {label}."
    parts = []
    for verdict in Verdict:
        pairs = [
            (graph, verdict_of) for graph, verdict_of in verdicts if verdict_of.verdict is verdict
        ]
        if pairs:
            count = pluralize(len(pairs), "graph")
            # The table of graphs has the others.
            if verdict is Verdict.SLOWER:
                count = _list_names([_format_judged_graph(*pair) for pair in pairs])
            parts.append(f"{count} {'is' if len(pairs) == 1 else 'are'} {verdict.value}")
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        parts.append(f"{pluralize(len(missing), 'graph')} {verb} unknown ({reasons})")
    return f"Repeat launches: {'; '.join(parts)}."


def _format_judged_graph(graph: ProgramGraph, verdict: LaunchVerdict) -> str:
    return f"{graph.name} of {graph.run}, {_format_ratio_range(verdict)}"


def format_launch_verdict(program_graph: ProgramGraph, *, with_reason: bool = True) -> str:
    """Compare a repeat launch with the prediction; ``with_reason`` explains a missing verdict."""
    verdict = program_graph.verdict
    if isinstance(verdict, Missing):
        reason = f": {verdict.reason}" if with_reason else ""
        return f"No expected cost for comparison{reason}."
    typical = verdict.reference_ratios
    return (
        f"Expected: {format_ns(verdict.predicted_ns)} (95%: "
        f"{format_interval(verdict.predicted_interval)}), the "
        f"sum of costs that synthetic graphs of {verdict.reference} had for the same numbers of "
        f"nodes, roots and node kinds. It is {verdict.verdict.value}: "
        f"{_format_ratio_range(verdict)} of that; "
        f"the recording's own graphs range from {format_ratio(typical.low)} to "
        f"{format_ratio(typical.high or typical.low)}."
    )


def _format_ratio_range(verdict: LaunchVerdict) -> str:
    high = verdict.ratio_range.high or verdict.ratio_range.low
    ends = f"{format_ratio(verdict.ratio_range.low)} to {format_ratio(high)}"
    return f"{format_ratio(verdict.ratio)} ({ends})"


def describe_own_graphs(graphs: Sequence[ProgramGraph], limit: int) -> list[str]:
    """Describe launches, the ``limit`` largest in detail. Reasons appear once."""
    largest = sorted(graphs, key=lambda graph: graph.nodes, reverse=True)[:limit]
    return [
        summarize_verdicts(graphs),
        *(describe_own_graph(graph, with_reason=False) for graph in largest),
    ]


def describe_own_graph(program_graph: ProgramGraph, *, with_reason: bool = True) -> str:
    """Describe a graph and compare its launch with a chain; ``with_reason`` explains a missing
    verdict."""
    intro = f"{program_graph.name} of {program_graph.run}: {pluralize(program_graph.nodes, 'node')}"
    if program_graph.shape is not None:
        shape = program_graph.shape
        if shape.is_line:
            intro += ", one linear chain"
        else:
            roots = pluralize(shape.roots, "root")
            intro += (
                f", {format_percent(shape.chained_share)} of them on linear chains, {roots}, at "
                "most "
                f"{format_count(shape.width)} side by side"
            )
    launch = program_graph.timings.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    if launch is None:
        untimed = program_graph.absent[LaunchMeasure.REPEAT_LAUNCH_CPU]
        return f"{intro}. Its repeat launch was not timed separately: {untimed}."
    text = f"{intro}. A repeat launch uses {format_ns(launch.summary.median)} of CPU time"
    if isinstance(program_graph.chain_times, Missing):
        is_repeated = (
            isinstance(program_graph.verdict, Missing)
            and program_graph.verdict.reason == program_graph.chain_times.reason
        )
        reason = "" if is_repeated and not with_reason else f": {program_graph.chain_times.reason}"
        return f"{text}; the time of a chain of its size is unknown{reason}."
    chain = program_graph.chain
    if chain is None:
        return f"{text}."
    beyond = "" if chain.is_in_range else ", extrapolated beyond the measured sizes"
    roots_count = 0 if program_graph.shape is None else program_graph.shape.roots
    with_roots = (
        f"; with {format_count(roots_count)} roots it would use {format_ns(chain.with_roots)}"
        if chain.with_roots is not None and roots_count > 1
        else ""
    )
    return (
        f"{text}, {format_ratio(chain.ratio)} the time of a linear chain of equally many empty "
        f"kernels ({format_ns(chain.ns)}{beyond}){with_roots}. "
        f"{format_launch_verdict(program_graph, with_reason=with_reason)}"
    )
