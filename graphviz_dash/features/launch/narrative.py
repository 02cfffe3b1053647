"""What launching graphs costs, in words: of synthetic graphs, and of a program's own."""

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
from graphviz_dash.features.launch.analysis.own_graphs import OwnGraph
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure, Topology
from graphviz_dash.model.run import Environment
from graphviz_dash.units import counted, format_count, format_ns, format_percent, format_ratio

MEASURE_MEANINGS: Final = {
    LaunchMeasure.CAPTURE: "from the begin of the stream capture to its end",
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
        "the same work launched into streams, a call through cuda-python for each kernel, to the "
        "return of the last call"
    ),
    LaunchMeasure.STREAM: "the same into empty streams, to its completion",
    LaunchMeasure.STREAM_DEVICE: "the same on the GPU, queued behind a waiting kernel",
}
"""What each measure times."""

NO_OWN_GRAPHS: Final = (
    "No run of this experiment launched a graph in its clean pass. A program that is recorded as "
    "it is has none: what its launches take is on the page Graphs."
)
"""What stands where an experiment has no launches that were timed by themselves."""

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
"""How each measure is called."""


_CHAPTER: Final = """
## Launch costs

Of synthetic graphs, recorded by `graphviz-dash bench launch`; all in nanoseconds, and lower is
better. The definitions are those of NVIDIA's sample cudaGraphsPerfScaling. What is queued behind a
waiting kernel is timed by events on the GPU, so that the CPU has no part in it.

| measure | id | what is timed |
| --- | --- | --- |
"""


def metrics_chapter() -> str:
    """The chapter of docs/reference/metrics.md on the measures of a recording of launch costs."""
    lines = [_CHAPTER]
    lines += [
        f"| {MEASURE_TITLES[measure]} | `{measure.value}` | {MEASURE_MEANINGS[measure]} |\n"
        for measure in LaunchMeasure
    ]
    lines.append(
        "\nThe fit of a measure over linear chains is `base + slope * max(0, nodes - knee)`; "
        "`knee` is 0 or a\nmeasured size, whichever leaves the smallest squared relative "
        "residuals of the medians. A repeat launch\nis said to take constant time up to a slope "
        f"of {CONSTANT_SLOPE_NS:.0f} ns a node. Intervals come from refitting {RESAMPLES}\n"
        "resamples of the processes and of the trials within them. The spread that is shown is the "
        "middle 90% of\nall samples (5th to 95th percentile), over all processes.\n"
    )
    return "".join(lines)


def topology_name(topology: Topology) -> str:
    """Such as "chain of 100", "4 parallel chains of 10, one root", "chain of 100, one Host"."""
    if topology.width == 1:
        name = f"chain of {format_count(topology.length)}"
    else:
        root = ", one root" if topology.single_root else ""
        name = f"{topology.width} parallel chains of {format_count(topology.length)}{root}"
    return name if topology.other is None else f"{name}, one {topology.other}"


def family_name(family: ChainFamily) -> str:
    """The family in words: "4 parallel chains", "4 parallel chains, one root"."""
    return f"{family.width} parallel chains{', one root' if family.single_root else ''}"


def costs_sentence(costs: LaunchCosts) -> str:
    """How launch time grows with the graph, against launching kernel by kernel."""
    repeat = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    stream = costs.lines.get(LaunchMeasure.STREAM_CPU)
    gpu = costs.recording.environment.gpu_name
    if repeat is None:
        return f"Too few linear chains were measured on {gpu} to say how launch time grows."
    how = "constant" if costs.constant else "growing"
    knee = f" up to {format_count(repeat.knee)} nodes" if repeat.knee else ""
    text = (
        f"{gpu} launches linear chains in {how} time: a repeat launch takes "
        f"{format_ns(repeat.base_ns)} of the CPU{knee} and {repeat.slope_ns:.2f} ns (95%: "
        f"{interval_text(repeat.slope_interval)}) more for each "
        f"{'further ' if repeat.knee else ''}node"
    )
    if stream is None:
        return f"{text}."
    size = 1000
    ratio = stream.at(size) / repeat.at(size)
    return (
        f"{text}; at {format_count(size)} nodes that is {format_ns(repeat.at(size))} against "
        f"{format_ns(stream.at(size))} kernel by kernel, {ratio:,.0f} times less. Each of those "
        "launches is a call through cuda-python, which a C++ program makes faster: there the graph "
        "saves less."
    )


def machine_sentence(recorded: Environment, machines: Iterable[Environment]) -> str:
    """Whose figures a recording has, and of what other GPUs the runs read beside it are."""
    own = f"These figures are of {_machine(recorded)}"
    others = dict.fromkeys(
        _machine(machine)
        for machine in machines
        if (machine.gpu_name, machine.driver) != (recorded.gpu_name, recorded.driver)
    )
    if not others:
        return f"{own}."
    return (
        f"{own}; the runs here are of {_listed(list(others))}, whose launches they do not "
        "measure: graphviz-dash bench launch records them there."
    )


def _machine(machine: Environment) -> str:
    article = "an " if machine.gpu else ""
    return f"{article}{machine.gpu_name} with driver {machine.driver or 'unknown'}"


def extra_sentences(costs: LaunchCosts) -> list[str]:
    """What roots, other kinds of nodes and Python add to the CPU time, a sentence each."""
    lines = []
    if costs.root is not None:
        lines.append(f"An extra root adds {_extra(costs.root)} to the CPU time of a launch.")
    lines += [
        f"A {kind} node in the middle of a chain of kernels adds {_extra(extra)}."
        for kind, extra in costs.others.items()
    ]
    if costs.call is not None and costs.clock is not None:
        lines.append(
            f"Calling through cuda-python takes {format_ns(costs.call.median)} and reading the "
            f"clock {format_ns(costs.clock.median)}; both are in every CPU time, none is "
            "subtracted."
        )
    return lines


def _extra(extra: AddedTime) -> str:
    return f"{format_ns(extra.ns)} (95%: {interval_text(extra.interval)})"


def interval_text(spread: Spread) -> str:
    """Both ends of a spread of times."""
    return f"{format_ns(spread.low)} to {format_ns(spread.high)}"


def comparison_sentence(comparison: LaunchComparison) -> str:
    """How many medians of the recordings lie within their spread."""
    within = sum(difference.within for difference in comparison.differences)
    return (
        f"{format_count(within)} of {format_count(len(comparison.differences))} medians lie no "
        f"further apart than the spread that is shown with them."
    )


def untimed_sentences(graphs: Iterable[OwnGraph]) -> list[str]:
    """What was not timed of these graphs and why, a sentence for each reason of each run."""
    missing: dict[tuple[str, str], tuple[set[LaunchMeasure], dict[str, None]]] = {}
    for own in graphs:
        for measure, reason in own.absent.items():
            measures, names = missing.setdefault((own.run, reason), (set(), {}))
            measures.add(measure)
            names[own.name] = None
    return [
        f"Not timed of {run} ({_listed(names)}): {_titles(measures)}. The reason: {reason}."
        for (run, reason), (measures, names) in missing.items()
    ]


def _titles(measures: Collection[LaunchMeasure]) -> str:
    return "; ".join(MEASURE_TITLES[measure] for measure in LaunchMeasure if measure in measures)


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else counted(len(names), "graph")


def verdicts_sentence(graphs: Sequence[OwnGraph]) -> str:
    """Whether some graphs (one or more) launch as fast as expected, in one sentence."""
    known = [(own, own.verdict) for own in graphs if not isinstance(own.verdict, Missing)]
    missing = [own.verdict.reason for own in graphs if isinstance(own.verdict, Missing)]
    reasons = "; ".join(dict.fromkeys(missing))
    if not known:
        subject = "they launch" if len(graphs) > 1 else "it launches"
        return f"Whether {subject} as fast as expected is not known: {reasons}."
    said = []
    for verdict in Verdict:
        alike = [(own, found) for own, found in known if found.verdict is verdict]
        if alike:
            names = _listed([f"{own.name} of {own.run}, {_ratios(found)}" for own, found in alike])
            said.append(f"{verdict.value}: {names}")
    if missing:
        said.append(f"not known: {counted(len(missing), 'graph')} ({reasons})")
    lead = "Repeat launches: " if len(graphs) > 1 else "Its repeat launch is "
    return f"{lead}{'; '.join(said)}."


def verdict_text(own: OwnGraph, *, why: bool = True) -> str:
    """What a graph's repeat launch should take, by what, and how far off that is elsewhere; where
    that is not known, without the reason unless ``why``."""
    found = own.verdict
    if isinstance(found, Missing):
        reason = f": {found.reason}" if why else ""
        return f"Whether that is as fast as expected is not known{reason}."
    usual = found.usual
    return (
        f"Expected are {format_ns(found.foretold_ns)} (95%: {interval_text(found.foretold)}), the "
        f"sum of what synthetic graphs of {found.reference} took for as many nodes, roots and "
        f"nodes of each kind. It is {found.verdict.value}: {_ratios(found)} of that, where the "
        f"recording's own graphs lie at {format_ratio(usual.low)} to "
        f"{format_ratio(usual.high or usual.low)}."
    )


def _ratios(found: LaunchVerdict) -> str:
    high = found.range.high or found.range.low
    ends = f"{format_ratio(found.range.low)} to {format_ratio(high)}"
    return f"{format_ratio(found.ratio)} ({ends})"


def own_graph_sentences(graphs: Sequence[OwnGraph], most: int) -> list[str]:
    """Whether ``graphs`` (one or more) launch as fast as expected, and what each of the ``most``
    largest is like; why a verdict is not known is said once."""
    largest = sorted(graphs, key=lambda own: own.nodes, reverse=True)[:most]
    return [
        verdicts_sentence(graphs),
        *(own_graph_sentence(own, why=False) for own in largest),
    ]


def own_graph_sentence(own: OwnGraph, *, why: bool = True) -> str:
    """What the graph is like and how its launch compares with a chain of its size; why its verdict
    is not known, unless that is said elsewhere: without ``why``."""
    begin = f"{own.name} of {own.run}: {counted(own.nodes, 'node')}"
    if own.shape is not None:
        shape = own.shape
        if shape.line:
            begin += ", one linear chain"
        else:
            roots = counted(shape.roots, "root")
            begin += (
                f", {format_percent(shape.share)} of them on linear chains, {roots}, at most "
                f"{format_count(shape.width)} side by side"
            )
    launch = own.timings.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    if launch is None:
        untimed = own.absent[LaunchMeasure.REPEAT_LAUNCH_CPU]
        return f"{begin}. Its repeat launch was not timed by itself: {untimed}."
    text = f"{begin}. A repeat launch takes {format_ns(launch.summary.median)} of the CPU"
    if isinstance(own.expected, Missing):
        said = isinstance(own.verdict, Missing) and own.verdict.reason == own.expected.reason
        reason = "" if said and not why else f": {own.expected.reason}"
        return f"{text}; a chain of its size is not known{reason}."
    chain = own.chain
    if chain is None:
        return f"{text}."
    beyond = "" if chain.within else ", continued beyond the sizes that were measured"
    roots_count = 0 if own.shape is None else own.shape.roots
    with_roots = (
        f"; with {format_count(roots_count)} roots it would take {format_ns(chain.with_roots)}"
        if chain.with_roots is not None and roots_count > 1
        else ""
    )
    return (
        f"{text}, {format_ratio(chain.measured)} what a linear chain of as many empty kernels "
        f"takes ({format_ns(chain.ns)}{beyond}){with_roots}. {verdict_text(own, why=why)}"
    )
