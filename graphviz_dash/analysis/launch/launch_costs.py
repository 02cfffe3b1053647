"""What a recording of launch costs says: medians, how launch time grows with the graph, a verdict.

How times grow is fitted by :mod:`graphviz_dash.analysis.launch.launch_fit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from graphviz_dash.analysis.launch.launch_fit import (
    FEWEST_SIZES,
    RESAMPLES,
    Extra,
    Fit,
    difference,
    fit,
    slope_of,
    table,
)
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind, Summary, summarise
from graphviz_dash.model.launch import LaunchMeasure, LaunchRecording, LaunchSeries, Topology
from graphviz_dash.units import format_count, format_ns

CONSTANT_SLOPE_NS: Final = 10.0
"""Up to so much more per node, a repeat launch of a straight line is said to take constant time:
NVIDIA gives about 1 ns a node, and a launch into a stream takes more than a microsecond."""

MEANINGS: Final = {
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

TITLES: Final = {
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

Of toy graphs, recorded by `graphviz-dash bench launch`; all in nanoseconds, and lower is better.
The definitions are those of NVIDIA's sample cudaGraphsPerfScaling. What is queued behind a waiting
kernel is timed by events on the GPU, so that the CPU has no part in it.

| measure | id | what is timed |
| --- | --- | --- |
"""


def launch_measures() -> str:
    """The chapter of docs/metrics.md on the measures of a recording of launch costs."""
    lines = [_CHAPTER]
    lines += [
        f"| {TITLES[measure]} | `{measure.value}` | {MEANINGS[measure]} |\n"
        for measure in LaunchMeasure
    ]
    lines.append(
        "\nThe fit of a measure over straight lines is `base + slope * max(0, nodes - knee)`; "
        "`knee` is 0 or a\nmeasured size, whichever leaves the smallest squared relative "
        "residuals of the medians. A repeat launch\nis said to take constant time up to a slope "
        f"of {CONSTANT_SLOPE_NS:.0f} ns a node. Intervals come from refitting {RESAMPLES}\n"
        "resamples of the processes and of the trials within them. The spread that is shown is the "
        "middle 90% of\nall samples (5th to 95th percentile), over all processes.\n"
    )
    return "".join(lines)


@dataclass(frozen=True)
class Timing:
    """One measure of one topology in ns: the median with its quartiles, and the shortest.

    ``spread``: the 5th to the 95th percentile of all samples of all processes. A further recording
    of the same machine is expected to have its median no further away than that is wide.
    """

    summary: Summary
    shortest: int
    spread: Spread

    @classmethod
    def of(cls, values: Sequence[int]) -> Timing | None:
        """The timing of ``values``; None without any."""
        summary = summarise(values)
        if summary is None:
            return None
        low, high = (float(end) for end in np.percentile(values, (5, 95)))
        spread = Spread(low, high, SpreadKind.MIDDLE, len(values))
        return cls(summary, min(values), spread)


@dataclass(frozen=True)
class Row:
    """One topology; a measure without samples is in ``absent`` with its reason."""

    topology: Topology
    timings: Mapping[LaunchMeasure, Timing]
    absent: Mapping[LaunchMeasure, str]

    def median(self, measure: LaunchMeasure) -> float | None:
        """The median of a measure in ns; None where it was not taken."""
        timing = self.timings.get(measure)
        return None if timing is None else timing.summary.median


@dataclass(frozen=True)
class LaunchCosts:
    """The analysis of one recording.

    ``lines`` are fits over straight lines by measure, ``chains`` those over parallel chains of one
    width, by what they are called. ``constant``: whether a repeat launch of a
    line takes constant time, None without enough sizes. ``root``: what each further root costs.
    ``others``: what one node of that kind in the middle of a line of kernels costs.
    ``call``: a call through cuda-python that does nothing; ``clock``: reading the clock.
    """

    recording: LaunchRecording
    rows: tuple[Row, ...]
    lines: Mapping[LaunchMeasure, Fit]
    chains: Mapping[str, Mapping[LaunchMeasure, Fit]]
    constant: bool | None
    root: Extra | None
    others: Mapping[str, Extra]
    call: Summary | None
    clock: Summary | None
    sentence: str


def launch_costs(recording: LaunchRecording) -> LaunchCosts:
    """The analysis of ``recording``; deterministic."""
    lines = _lines(recording)
    each = recording.process_trials
    fits = _fits(lines, each)
    repeat = fits.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    constant = None if repeat is None else repeat.slope_ns <= CONSTANT_SLOPE_NS
    return LaunchCosts(
        recording=recording,
        rows=tuple(_row(series) for series in recording.series),
        lines=fits,
        chains=_chains(recording),
        constant=constant,
        root=_root(recording),
        others=_others(recording, lines),
        call=summarise(recording.call_ns),
        clock=summarise(recording.clock_ns),
        sentence=_sentence(recording, fits, constant),
    )


def name_of(topology: Topology) -> str:
    """The topology in words: "line of 100", "4 chains of 10, one root", "line of 100, a Host"."""
    if topology.width == 1:
        name = f"line of {format_count(topology.length)}"
    else:
        roots = "one root" if topology.single_root else "a root each"
        name = f"{topology.width} chains of {format_count(topology.length)}, {roots}"
    return name if topology.other is None else f"{name}, one {topology.other}"


def extras(costs: LaunchCosts) -> list[str]:
    """What roots, other kinds of nodes and Python add to the CPU time, a sentence each."""
    lines = []
    if costs.root is not None:
        lines.append(f"A further root adds {_extra(costs.root)} to the CPU time of a launch.")
    lines += [
        f"A {kind} node in the middle of a line of kernels adds {_extra(extra)}."
        for kind, extra in costs.others.items()
    ]
    if costs.call is not None and costs.clock is not None:
        lines.append(
            f"Calling through cuda-python takes {format_ns(costs.call.median)} and reading the "
            f"clock {format_ns(costs.clock.median)}; both are in every CPU time, none is "
            "subtracted."
        )
    return lines


def _extra(extra: Extra) -> str:
    return f"{format_ns(extra.ns)} (95%: {ends(extra.interval)})"


def ends(spread: Spread) -> str:
    """Both ends of a spread of times."""
    return f"{format_ns(spread.low)} to {format_ns(spread.high)}"


def _row(series: LaunchSeries) -> Row:
    timings = {
        measure: timing
        for measure, values in series.samples.items()
        if (timing := Timing.of(values)) is not None
    }
    return Row(series.topology, timings, series.absent)


def _lines(recording: LaunchRecording) -> list[LaunchSeries]:
    """The straight lines of kernels, by length."""
    found = [
        series
        for series in recording.series
        if series.topology.width == 1
        and series.topology.other is None
        and not series.topology.single_root
    ]
    return sorted(found, key=lambda series: series.topology.nodes)


def _fit(listed: Sequence[LaunchSeries], measure: LaunchMeasure, each: int | None) -> Fit | None:
    """The fit of one measure over the graphs that have it; None for too few sizes."""
    known = [series for series in listed if measure in series.samples]
    if len(known) < FEWEST_SIZES:
        return None
    nodes = [series.topology.nodes for series in known]
    return fit(nodes, table(series.samples[measure] for series in known), each)


def _fits(listed: Sequence[LaunchSeries], each: int | None) -> dict[LaunchMeasure, Fit]:
    return {
        measure: one
        for measure in LaunchMeasure
        if (one := _fit(listed, measure, each)) is not None
    }


def _chains(recording: LaunchRecording) -> dict[str, dict[LaunchMeasure, Fit]]:
    """Fits over parallel chains of one width, by how they begin."""
    families: dict[str, list[LaunchSeries]] = {}
    for series in recording.series:
        one = series.topology
        if one.width > 1 and one.other is None:
            begin = "one root" if one.single_root else "a root each"
            families.setdefault(f"{one.width} chains, {begin}", []).append(series)
    each = recording.process_trials
    found = {
        name: _fits(sorted(listed, key=lambda one: one.topology.nodes), each)
        for name, listed in families.items()
    }
    return {name: fits for name, fits in found.items() if fits}


def _root(recording: LaunchRecording) -> Extra | None:
    """Slope of the repeat launch's CPU time over the number of chains of one length."""
    measure = LaunchMeasure.REPEAT_LAUNCH_CPU
    by_length: dict[int, list[LaunchSeries]] = {}
    for series in recording.series:
        one = series.topology
        if one.other is None and not one.single_root and measure in series.samples:
            by_length.setdefault(one.length, []).append(series)
    widest = max(by_length.values(), key=len, default=[])
    if len(widest) < FEWEST_SIZES:
        return None
    widths = [series.topology.width for series in widest]
    samples = table(series.samples[measure] for series in widest)
    return slope_of(widths, samples, recording.process_trials)


def _others(recording: LaunchRecording, lines: Sequence[LaunchSeries]) -> dict[str, Extra]:
    measure = LaunchMeasure.REPEAT_LAUNCH_CPU
    plain = {series.topology.nodes: series for series in lines if measure in series.samples}
    found: dict[str, Extra] = {}
    for series in recording.series:
        base = plain.get(series.topology.nodes)
        if series.topology.other is None or base is None or measure not in series.samples:
            continue
        samples = table((base.samples[measure], series.samples[measure]))
        found[series.topology.other] = difference(samples, recording.process_trials)
    return found


def _sentence(
    recording: LaunchRecording, fits: Mapping[LaunchMeasure, Fit], constant: bool | None
) -> str:
    repeat, stream = (
        fits.get(LaunchMeasure.REPEAT_LAUNCH_CPU),
        fits.get(LaunchMeasure.STREAM_CPU),
    )
    gpu = recording.environment.gpu_name
    if repeat is None:
        return f"Too few straight lines were measured on {gpu} to say how launch time grows."
    how = "constant" if constant else "growing"
    until = f" up to {format_count(repeat.knee)} nodes" if repeat.knee else ""
    text = (
        f"{gpu} launches straight lines in {how} time: a repeat launch takes "
        f"{format_ns(repeat.base_ns)} of the CPU{until} and {repeat.slope_ns:.2f} ns (95%: "
        f"{ends(repeat.slope_interval)}) more for each {'further ' if repeat.knee else ''}node"
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
