"""Recordings of launch costs over each other: how far they differ, and whether that means much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from graphviz_dash.analysis.launch.launch_costs import TITLES, LaunchCosts, Row, Timing
from graphviz_dash.model.launch import LaunchMeasure, PublishedLaunch, Topology
from graphviz_dash.units import format_count

_BY_EVENTS: Final = (
    LaunchMeasure.FIRST_LAUNCH_DEVICE,
    LaunchMeasure.REPEAT_LAUNCH_DEVICE,
    LaunchMeasure.UPLOAD_DEVICE,
    LaunchMeasure.STREAM_DEVICE,
)

_EVENT_NS: Final = 500.0
"""What CUDA's documentation of cudaEventElapsedTime gives as its resolution."""


@dataclass(frozen=True)
class Difference:
    """One measure of one graph in all recordings, in their order. ``medians`` and ``ratios`` to the
    first; ``apart`` is the largest difference of any two medians, ``shown`` the widest of their
    spreads, from end to end (of what events time at least their resolution); ``within``: whether
    the medians lie no further apart than that."""

    topology: Topology
    measure: LaunchMeasure
    medians: tuple[float, ...]
    ratios: tuple[float, ...]
    apart: float
    shown: float
    within: bool


@dataclass(frozen=True)
class LaunchComparison:
    """The recordings by name, every measure of every graph that all of them have, and how many of
    these lie within their spread, in words."""

    names: tuple[str, ...]
    differences: tuple[Difference, ...]
    sentence: str

    def of(self, measure: LaunchMeasure) -> tuple[Difference, ...]:
        """Those of one measure."""
        return tuple(one for one in self.differences if one.measure is measure)


def compare_launches(recordings: Mapping[str, LaunchCosts]) -> LaunchComparison | None:
    """``recordings`` (by name) over each other; None for fewer than two."""
    if len(recordings) < 2:
        return None
    tables = [{row.topology: row for row in costs.rows} for costs in recordings.values()]
    differences = tuple(
        _difference(topology, measure, timings)
        for measure in TITLES
        for topology in tables[0]
        if (timings := _timings(tables, topology, measure))
    )
    within = sum(one.within for one in differences)
    sentence = (
        f"{format_count(within)} of {format_count(len(differences))} medians lie no further apart "
        f"than the spread that is shown with them."
    )
    return LaunchComparison(tuple(recordings), differences, sentence)


def _timings(
    tables: list[dict[Topology, Row]], topology: Topology, measure: LaunchMeasure
) -> list[Timing]:
    """The measure in each recording; empty where one lacks it."""
    found = [
        table[topology].timings[measure]
        for table in tables
        if topology in table and measure in table[topology].timings
    ]
    return found if len(found) == len(tables) else []


def _difference(topology: Topology, measure: LaunchMeasure, timings: list[Timing]) -> Difference:
    medians = tuple(one.summary.median for one in timings)
    shown = max((one.spread.high or one.spread.low) - one.spread.low for one in timings)
    if measure in _BY_EVENTS:
        shown = max(shown, _EVENT_NS)
    apart = max(medians) - min(medians)
    ratios = tuple(median / medians[0] for median in medians)
    return Difference(topology, measure, medians, ratios, apart, shown, apart <= shown)


@dataclass(frozen=True)
class PublishedRow:
    """A published time of a straight line beside the medians of recordings, by name (None: not
    measured there); all in ns."""

    measure: LaunchMeasure
    nodes: int
    before: float
    after: float
    quoted_by: int
    medians: Mapping[str, float | None]


def beside_published(
    published: PublishedLaunch, recordings: Mapping[str, LaunchCosts]
) -> tuple[PublishedRow, ...]:
    """What was published beside the same of ``recordings``. A line (base and slope) is given at 10
    and 1,000 nodes, where a recording's own fit is taken."""
    rows = [
        PublishedRow(
            one.measure,
            one.nodes,
            one.before_us * 1e3,
            one.after_us * 1e3,
            one.quoted_by,
            {name: _line(costs, one.nodes, one.measure) for name, costs in recordings.items()},
        )
        for one in published.figures
    ]
    for measure in dict.fromkeys(one.measure for one in published.lines):
        before, after = (one for one in published.lines if one.measure is measure)
        rows += [
            PublishedRow(
                measure,
                nodes,
                before.base_ns + before.slope_ns * nodes,
                after.base_ns + after.slope_ns * nodes,
                after.quoted_by,
                {name: _line(costs, nodes, measure) for name, costs in recordings.items()},
            )
            for nodes in (10, 100, 1000)
        ]
    order = list(TITLES)
    return tuple(sorted(rows, key=lambda row: (order.index(row.measure), row.nodes)))


def _line(costs: LaunchCosts, nodes: int, measure: LaunchMeasure) -> float | None:
    """The median of a straight line of so many nodes."""
    for row in costs.rows:
        one = row.topology
        if (one.width, one.length, one.single_root, one.other) == (1, nodes, False, None):
            return row.median(measure)
    return None
