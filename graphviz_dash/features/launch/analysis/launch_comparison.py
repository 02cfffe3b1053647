"""Comparison of launch cost recordings, with the significance of differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, Timing, TopologyCosts
from graphviz_dash.model.launch import LaunchMeasure, PublishedLaunch, Topology

_EVENT_MEASURES: Final = (
    LaunchMeasure.FIRST_LAUNCH_DEVICE,
    LaunchMeasure.REPEAT_LAUNCH_DEVICE,
    LaunchMeasure.UPLOAD_DEVICE,
    LaunchMeasure.STREAM_DEVICE,
)

_EVENT_RESOLUTION_NS: Final = 500.0
"""Resolution of cudaEventElapsedTime according to CUDA's documentation."""


class MeasureDifference(Struct, frozen=True):
    """One measure of one graph in all recordings, in recording order."""

    topology: Topology
    measure: LaunchMeasure
    medians: tuple[float, ...]
    """Median of each recording, in ns."""
    ratios: tuple[float, ...]
    """Ratio of each median to that of the first recording."""
    largest_gap: float
    """Largest difference between two medians, in ns."""
    spread: float
    """Width of the widest spread in ns; for event timings at least their resolution."""
    is_within_spread: bool
    """True if the medians differ by at most ``spread``."""


class LaunchComparison(Struct, frozen=True):
    """Comparison of recordings, by name, for every measure and graph that all of them have."""

    names: tuple[str, ...]
    differences: tuple[MeasureDifference, ...]

    def select(self, measure: LaunchMeasure) -> tuple[MeasureDifference, ...]:
        """Select one measure."""
        return tuple(difference for difference in self.differences if difference.measure is measure)


def compare_launches(recordings: Mapping[str, LaunchCosts]) -> LaunchComparison | None:
    """Compare recordings; None for fewer than two."""
    if len(recordings) < 2:
        return None
    tables = [{row.topology: row for row in costs.rows} for costs in recordings.values()]
    differences = tuple(
        _compare_timings(topology, measure, timings)
        for measure in LaunchMeasure
        for topology in tables[0]
        if (timings := _collect_timings(tables, topology, measure))
    )
    return LaunchComparison(tuple(recordings), differences)


def _collect_timings(
    tables: list[dict[Topology, TopologyCosts]], topology: Topology, measure: LaunchMeasure
) -> list[Timing]:
    """Collect the timings; empty if a recording lacks the measure."""
    timings = [
        table[topology].timings[measure]
        for table in tables
        if topology in table and measure in table[topology].timings
    ]
    return timings if len(timings) == len(tables) else []


def _compare_timings(
    topology: Topology, measure: LaunchMeasure, timings: list[Timing]
) -> MeasureDifference:
    medians = tuple(timing.summary.median for timing in timings)
    spread = max(
        (timing.spread.high or timing.spread.low) - timing.spread.low for timing in timings
    )
    if measure in _EVENT_MEASURES:
        spread = max(spread, _EVENT_RESOLUTION_NS)
    largest_gap = max(medians) - min(medians)
    ratios = tuple(median / medians[0] for median in medians)
    return MeasureDifference(
        topology, measure, medians, ratios, largest_gap, spread, largest_gap <= spread
    )


class PublishedTime(Struct, frozen=True):
    """Published time of a synthetic graph, with the medians of recordings."""

    measure: LaunchMeasure
    chains: int
    """Parallel chains, each with a separate root."""
    length: int
    """Nodes per chain."""
    older_ns: float | None
    """With the older toolkit; None if not published."""
    newer_ns: float | None
    """With the newer toolkit; None if not published."""
    source: str
    """Location in the publication."""
    medians: Mapping[str, float | None]
    """By name of recording, in ns; None if not measured."""


def compare_published(
    published: PublishedLaunch, recordings: Mapping[str, LaunchCosts]
) -> tuple[PublishedTime, ...]:
    """Compare published times with recordings.

    Lines (base and slope) are evaluated at 10, 100 and 1,000 nodes.
    """
    rows = [
        PublishedTime(
            figure.measure,
            figure.chains,
            figure.length,
            _convert_to_ns(figure.before_us),
            _convert_to_ns(figure.after_us),
            figure.source,
            _find_medians(recordings, figure.chains, figure.length, figure.measure),
        )
        for figure in published.times
    ]
    for measure in dict.fromkeys(figure.measure for figure in published.lines):
        older, newer = (figure for figure in published.lines if figure.measure is measure)
        rows += [
            PublishedTime(
                measure,
                1,
                nodes,
                older.base_ns + older.slope_ns * nodes,
                newer.base_ns + newer.slope_ns * nodes,
                "text",
                _find_medians(recordings, 1, nodes, measure),
            )
            for nodes in (10, 100, 1000)
        ]
    order = list(LaunchMeasure)
    return tuple(sorted(rows, key=lambda row: (order.index(row.measure), row.chains, row.length)))


def _convert_to_ns(published_us: int | None) -> float | None:
    return None if published_us is None else published_us * 1e3


def _find_medians(
    recordings: Mapping[str, LaunchCosts], chains: int, length: int, measure: LaunchMeasure
) -> dict[str, float | None]:
    """Find the median of each recording; None if not measured."""
    return {
        name: _find_median(costs, chains, length, measure) for name, costs in recordings.items()
    }


def _find_median(
    costs: LaunchCosts, chains: int, length: int, measure: LaunchMeasure
) -> float | None:
    for row in costs.rows:
        topology = row.topology
        shape = (topology.width, topology.length, topology.single_root, topology.middle_node)
        if shape == (chains, length, False, None):
            return row.get_median(measure)
    return None
