"""Analysis of a launch cost recording: medians, and growth with graph size.

See :mod:`graphviz_dash.features.launch.analysis.launch_fit` for the fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind, Summary, summarise
from graphviz_dash.features.launch.analysis.launch_fit import (
    MIN_SIZES,
    AddedTime,
    GrowthFit,
    arrange_samples,
    compute_difference,
    fit_growth,
    fit_slope,
)
from graphviz_dash.model.launch import LaunchMeasure, LaunchRecording, LaunchSeries, Topology

CONSTANT_SLOPE_NS: Final = 10.0
"""Maximum slope per node of a constant-time repeat launch; NVIDIA reports about 1."""


class Timing(Struct, frozen=True):
    """One measure of one topology in ns: median with quartiles, and minimum.

    ``spread`` is the 5th to 95th percentile, the expected tolerance of another recording.
    """

    summary: Summary
    minimum: int
    spread: Spread

    @classmethod
    def from_values(cls, values: Sequence[int]) -> Timing | None:
        """Summarize ``values``; None if empty."""
        summary = summarise(values)
        if summary is None:
            return None
        low, high = (float(end) for end in np.percentile(values, (5, 95)))
        spread = Spread(low, high, SpreadKind.MIDDLE, len(values))
        return cls(summary, min(values), spread)


class TopologyCosts(Struct, frozen=True):
    """Measures of one topology."""

    topology: Topology
    timings: Mapping[LaunchMeasure, Timing]
    """Timings by measure."""
    absent: Mapping[LaunchMeasure, str]
    """Reason for each missing measure."""

    def get_median(self, measure: LaunchMeasure) -> float | None:
        """Return a median in ns; None if not measured."""
        timing = self.timings.get(measure)
        return None if timing is None else timing.summary.median


class ChainFamily(NamedTuple):
    """Graphs of parallel chains that differ only in chain length."""

    width: int
    """Parallel chains."""
    single_root: bool
    """One root precedes all chains; otherwise each has its own."""


class LaunchCosts(Struct, frozen=True):
    """Analysis of one recording."""

    recording: LaunchRecording
    """Without its samples, which would use 5 MB for 130,000 samples."""
    rows: tuple[TopologyCosts, ...]
    """One per graph, in recording order."""
    lines: Mapping[LaunchMeasure, GrowthFit]
    """Fits over linear chains of kernels."""
    chains: Mapping[ChainFamily, Mapping[LaunchMeasure, GrowthFit]]
    """Fits over parallel chains of one width."""
    is_constant: bool | None
    """A repeat launch of a linear chain has constant time; None with too few sizes."""
    root: AddedTime | None
    """Cost of each additional root; None with too few widths."""
    others: Mapping[str, AddedTime]
    """Cost of one other node within a chain of kernels, by kind."""
    call: Summary | None
    """Empty call through cuda-python, in ns; None without samples."""
    clock: Summary | None
    """Clock read, in ns; None without samples."""


def analyze_launch_costs(recording: LaunchRecording) -> LaunchCosts:
    """Analyze ``recording``; deterministic."""
    lines = _select_lines(recording)
    process_trials = recording.process_trials
    fits = _fit_all(lines, process_trials)
    repeat = fits.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    constant = None if repeat is None else repeat.slope_ns <= CONSTANT_SLOPE_NS
    return LaunchCosts(
        recording=replace(recording, series=(), call_ns=(), clock_ns=()),
        rows=tuple(_build_row(series) for series in recording.series),
        lines=fits,
        chains=_fit_chains(recording),
        is_constant=constant,
        root=_fit_root(recording),
        others=_measure_other_kinds(recording, lines),
        call=summarise(recording.call_ns),
        clock=summarise(recording.clock_ns),
    )


def _build_row(series: LaunchSeries) -> TopologyCosts:
    timings = {
        measure: timing
        for measure, values in series.samples.items()
        if (timing := Timing.from_values(values)) is not None
    }
    return TopologyCosts(series.topology, timings, series.absent)


def _select_lines(recording: LaunchRecording) -> list[LaunchSeries]:
    lines = [
        series
        for series in recording.series
        if series.topology.width == 1
        and series.topology.middle_node is None
        and not series.topology.single_root
    ]
    return sorted(lines, key=lambda series: series.topology.nodes)


def _fit_measure(
    series_list: Sequence[LaunchSeries], measure: LaunchMeasure, process_trials: int | None
) -> GrowthFit | None:
    """Fit one measure; None with too few sizes."""
    measured = [series for series in series_list if measure in series.samples]
    if len(measured) < MIN_SIZES:
        return None
    nodes = [series.topology.nodes for series in measured]
    return fit_growth(
        nodes, arrange_samples(series.samples[measure] for series in measured), process_trials
    )


def _fit_all(
    series_list: Sequence[LaunchSeries], process_trials: int | None
) -> dict[LaunchMeasure, GrowthFit]:
    return {
        measure: fitted
        for measure in LaunchMeasure
        if (fitted := _fit_measure(series_list, measure, process_trials)) is not None
    }


def _fit_chains(recording: LaunchRecording) -> dict[ChainFamily, dict[LaunchMeasure, GrowthFit]]:
    families: dict[ChainFamily, list[LaunchSeries]] = {}
    for series in recording.series:
        topology = series.topology
        if topology.width > 1 and topology.middle_node is None:
            family = ChainFamily(topology.width, topology.single_root)
            families.setdefault(family, []).append(series)
    process_trials = recording.process_trials
    fits = {
        family: _fit_all(sorted(members, key=lambda series: series.topology.nodes), process_trials)
        for family, members in families.items()
    }
    return {family: by_measure for family, by_measure in fits.items() if by_measure}


def _fit_root(recording: LaunchRecording) -> AddedTime | None:
    """Fit repeat launches over the number of chains of one length."""
    measure = LaunchMeasure.REPEAT_LAUNCH_CPU
    by_length: dict[int, list[LaunchSeries]] = {}
    for series in recording.series:
        topology = series.topology
        if topology.middle_node is None and not topology.single_root and measure in series.samples:
            by_length.setdefault(topology.length, []).append(series)
    longest_series = max(by_length.values(), key=len, default=[])
    if len(longest_series) < MIN_SIZES:
        return None
    widths = [series.topology.width for series in longest_series]
    samples = arrange_samples(series.samples[measure] for series in longest_series)
    return fit_slope(widths, samples, recording.process_trials)


def _measure_other_kinds(
    recording: LaunchRecording, lines: Sequence[LaunchSeries]
) -> dict[str, AddedTime]:
    measure = LaunchMeasure.REPEAT_LAUNCH_CPU
    kernel_chains = {series.topology.nodes: series for series in lines if measure in series.samples}
    others: dict[str, AddedTime] = {}
    for series in recording.series:
        kernel_series = kernel_chains.get(series.topology.nodes)
        if (
            series.topology.middle_node is None
            or kernel_series is None
            or measure not in series.samples
        ):
            continue
        samples = arrange_samples((kernel_series.samples[measure], series.samples[measure]))
        others[series.topology.middle_node] = compute_difference(samples, recording.process_trials)
    return others
