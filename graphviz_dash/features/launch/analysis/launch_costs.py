"""What a recording of launch costs says: medians, and how launch time grows with the graph.

How times grow is fitted by :mod:`graphviz_dash.features.launch.analysis.launch_fit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind, Summary, summarise
from graphviz_dash.features.launch.analysis.launch_fit import (
    FEWEST_SIZES,
    AddedTime,
    GrowthFit,
    difference,
    fit,
    slope_of,
    table,
)
from graphviz_dash.model.launch import LaunchMeasure, LaunchRecording, LaunchSeries, Topology

CONSTANT_SLOPE_NS: Final = 10.0
"""Up to so much more per node, a repeat launch of a linear chain is said to take constant time:
NVIDIA gives about 1 ns a node, and a launch into a stream takes more than a microsecond."""


class Timing(Struct, frozen=True):
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


class TopologyCosts(Struct, frozen=True):
    """The measures of one topology."""

    topology: Topology
    """The graph."""
    timings: Mapping[LaunchMeasure, Timing]
    """What was timed of it."""
    absent: Mapping[LaunchMeasure, str]
    """Why each other measure has no samples."""

    def median(self, measure: LaunchMeasure) -> float | None:
        """The median of a measure in ns; None where it was not taken."""
        timing = self.timings.get(measure)
        return None if timing is None else timing.summary.median


class ChainFamily(NamedTuple):
    """Graphs of parallel chains that differ in the length of the chains alone."""

    width: int
    """Chains side by side."""
    single_root: bool
    """Whether one root stands before all chains; else each begins with one of its own."""


class LaunchCosts(Struct, frozen=True):
    """The analysis of one recording."""

    recording: LaunchRecording
    """What was measured, without the samples: 130,000 of them would be 5 MB that nobody asks for
    again."""
    rows: tuple[TopologyCosts, ...]
    """A row for each graph, in the order of the recording."""
    lines: Mapping[LaunchMeasure, GrowthFit]
    """Fits over linear chains of kernels, by measure."""
    chains: Mapping[ChainFamily, Mapping[LaunchMeasure, GrowthFit]]
    """Fits over parallel chains of one width, by measure."""
    constant: bool | None
    """Whether a repeat launch of a line takes constant time; None without enough sizes."""
    root: AddedTime | None
    """What each further root costs; None without enough widths."""
    others: Mapping[str, AddedTime]
    """What one node of another kind in the middle of a line of kernels costs, by the kind."""
    call: Summary | None
    """A call through cuda-python that does nothing, in ns; None without samples."""
    clock: Summary | None
    """Reading the clock, in ns; None without samples."""


def launch_costs(recording: LaunchRecording) -> LaunchCosts:
    """The analysis of ``recording``; deterministic."""
    lines = _lines(recording)
    process_trials = recording.process_trials
    fits = _fits(lines, process_trials)
    repeat = fits.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    constant = None if repeat is None else repeat.slope_ns <= CONSTANT_SLOPE_NS
    return LaunchCosts(
        recording=replace(recording, series=(), call_ns=(), clock_ns=()),
        rows=tuple(_row(series) for series in recording.series),
        lines=fits,
        chains=_chains(recording),
        constant=constant,
        root=_root(recording),
        others=_others(recording, lines),
        call=summarise(recording.call_ns),
        clock=summarise(recording.clock_ns),
    )


def _row(series: LaunchSeries) -> TopologyCosts:
    timings = {
        measure: timing
        for measure, values in series.samples.items()
        if (timing := Timing.of(values)) is not None
    }
    return TopologyCosts(series.topology, timings, series.absent)


def _lines(recording: LaunchRecording) -> list[LaunchSeries]:
    """The linear chains of kernels, by length."""
    lines = [
        series
        for series in recording.series
        if series.topology.width == 1
        and series.topology.other is None
        and not series.topology.single_root
    ]
    return sorted(lines, key=lambda series: series.topology.nodes)


def _fit(
    series_list: Sequence[LaunchSeries], measure: LaunchMeasure, process_trials: int | None
) -> GrowthFit | None:
    """The fit of one measure over the graphs that have it; None for too few sizes."""
    measured = [series for series in series_list if measure in series.samples]
    if len(measured) < FEWEST_SIZES:
        return None
    nodes = [series.topology.nodes for series in measured]
    return fit(nodes, table(series.samples[measure] for series in measured), process_trials)


def _fits(
    series_list: Sequence[LaunchSeries], process_trials: int | None
) -> dict[LaunchMeasure, GrowthFit]:
    return {
        measure: fitted
        for measure in LaunchMeasure
        if (fitted := _fit(series_list, measure, process_trials)) is not None
    }


def _chains(recording: LaunchRecording) -> dict[ChainFamily, dict[LaunchMeasure, GrowthFit]]:
    """Fits over parallel chains of one width, by how they begin."""
    families: dict[ChainFamily, list[LaunchSeries]] = {}
    for series in recording.series:
        topology = series.topology
        if topology.width > 1 and topology.other is None:
            family = ChainFamily(topology.width, topology.single_root)
            families.setdefault(family, []).append(series)
    process_trials = recording.process_trials
    fits = {
        family: _fits(sorted(members, key=lambda series: series.topology.nodes), process_trials)
        for family, members in families.items()
    }
    return {family: by_measure for family, by_measure in fits.items() if by_measure}


def _root(recording: LaunchRecording) -> AddedTime | None:
    """Slope of the repeat launch's CPU time over the number of chains of one length."""
    measure = LaunchMeasure.REPEAT_LAUNCH_CPU
    by_length: dict[int, list[LaunchSeries]] = {}
    for series in recording.series:
        topology = series.topology
        if topology.other is None and not topology.single_root and measure in series.samples:
            by_length.setdefault(topology.length, []).append(series)
    widest = max(by_length.values(), key=len, default=[])
    if len(widest) < FEWEST_SIZES:
        return None
    widths = [series.topology.width for series in widest]
    samples = table(series.samples[measure] for series in widest)
    return slope_of(widths, samples, recording.process_trials)


def _others(recording: LaunchRecording, lines: Sequence[LaunchSeries]) -> dict[str, AddedTime]:
    measure = LaunchMeasure.REPEAT_LAUNCH_CPU
    plain = {series.topology.nodes: series for series in lines if measure in series.samples}
    others: dict[str, AddedTime] = {}
    for series in recording.series:
        base = plain.get(series.topology.nodes)
        if series.topology.other is None or base is None or measure not in series.samples:
            continue
        samples = table((base.samples[measure], series.samples[measure]))
        others[series.topology.other] = difference(samples, recording.process_trials)
    return others
