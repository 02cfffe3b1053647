"""Columns of launch tables for the page and the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from graphviz_dash.features.launch.analysis.launch_comparison import (
    LaunchComparison,
    MeasureDifference,
    PublishedTime,
)
from graphviz_dash.features.launch.analysis.launch_costs import TopologyCosts
from graphviz_dash.features.launch.analysis.launch_fit import GrowthFit
from graphviz_dash.features.launch.analysis.own_graphs import ProgramGraph
from graphviz_dash.features.launch.narrative import (
    MEASURE_MEANINGS,
    MEASURE_TITLES,
    format_interval,
    format_topology,
)
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.narrative.columns import (
    COUNT,
    MICROSECONDS,
    RATIO,
    SHARE,
    TEXT,
    Column,
    Unit,
)
from graphviz_dash.units import format_count, format_ns


class FitRow(NamedTuple):
    """Growth of one measure over one kind of graph."""

    topology: str
    measure: LaunchMeasure
    fit: GrowthFit


_FINE_NS: Final = Unit(format_ns, " (µs)", 1e3, "%.3f")
_SLOPE: Final = Unit("{:.2f} ns".format, " (ns)", pattern="%.2f")
_NODES: Final = Unit(format_count, " (nodes)")
_AGREEMENT: Final = Unit(lambda agrees: "within" if agrees else "outside", is_number=False)

FIT_COLUMNS: Final[tuple[Column[FitRow], ...]] = (
    Column("Topology", lambda row: row.topology, terminal_title=None),
    Column("Measure", lambda row: MEASURE_TITLES[row.measure]),
    Column("Base", lambda row: row.fit.base_ns, MICROSECONDS),
    Column(
        "Base, 95%",
        lambda row: format_interval(row.fit.base_interval),
        TEXT,
        "95%",
        is_dim=True,
    ),
    Column("Per node", lambda row: row.fit.slope_ns, _SLOPE),
    Column(
        "Per node, 95%",
        lambda row: format_interval(row.fit.slope_interval),
        TEXT,
        "95%",
        is_dim=True,
    ),
    Column("Knee", lambda row: row.fit.knee, _NODES, "from node"),
    Column("Knee, 95%", lambda row: _format_knees(row.fit), TEXT, "95%", is_dim=True),
)


def list_fit_rows(topology: str, fits: Mapping[LaunchMeasure, GrowthFit]) -> list[FitRow]:
    """List the rows of one kind of graph."""
    return [FitRow(topology, measure, fit) for measure, fit in fits.items()]


def _format_knees(fit: GrowthFit) -> str:
    return f"{fit.knee_interval.low:,.0f} to {fit.knee_interval.high or 0:,.0f}"


def list_own_columns(graphs: Sequence[ProgramGraph]) -> list[Column[ProgramGraph]]:
    """List the columns of captured graphs, with the measures that any of them has."""
    return [
        Column("Run", lambda own: own.run, is_sticky=True),
        Column("Graph", lambda own: own.name, is_sticky=True),
        Column("Nodes", lambda own: own.nodes, COUNT),
        Column(
            "Linear",
            lambda own: own.shape and own.shape.chained_share,
            SHARE,
            "linear share",
            help="Share of the nodes on linear chains",
        ),
        Column("Roots", lambda own: own.shape and own.shape.roots, COUNT),
        Column(
            "Width",
            lambda own: own.shape and own.shape.width,
            COUNT,
            help="Most nodes at one depth",
        ),
        Column(
            "Depth",
            lambda own: own.shape and own.shape.depth,
            COUNT,
            None,
            help="Nodes on the longest path",
        ),
        *(
            build_measure_column(measure)
            for measure in LaunchMeasure
            if any(measure in graph.timings for graph in graphs)
        ),
        Column(
            "Chain",
            lambda own: own.chain and own.chain.ns,
            MICROSECONDS,
            help="CPU time of a repeat launch of a linear chain with the same number of empty "
            "kernels",
        ),
        Column(
            "Chain and roots",
            lambda own: own.chain and own.chain.with_roots,
            MICROSECONDS,
            None,
            help="The same, plus the cost of as many roots in synthetic graphs",
        ),
        Column(
            "Repeat vs chain",
            lambda own: own.chain and own.chain.ratio,
            RATIO,
            "of chain",
            help="CPU time of a repeat launch relative to a chain of the same size",
        ),
    ]


def build_measure_column(measure: LaunchMeasure) -> Column[Any]:
    """Build the column of the median of a measure, for rows with ``timings``."""
    title = MEASURE_TITLES[measure]

    def read(row: ProgramGraph | TopologyCosts) -> float | None:
        timing = row.timings.get(measure)
        return None if timing is None else timing.summary.median

    return Column(title, read, MICROSECONDS, title, help=MEASURE_MEANINGS[measure])


def list_comparison_columns(comparison: LaunchComparison) -> list[Column[MeasureDifference]]:
    """List the columns of medians and of their ratios to the first recording."""
    columns: list[Column[MeasureDifference]] = [
        Column("Measure", lambda row: MEASURE_TITLES[row.measure]),
        Column("Graph", lambda row: format_topology(row.topology)),
        Column("Nodes", lambda row: row.topology.nodes, COUNT, None),
    ]
    for at, name in enumerate(comparison.names):
        columns.append(Column(name, _get(at, "medians"), MICROSECONDS, name))
        if at:
            columns.append(Column(f"{name} (ratio)", _get(at, "ratios"), RATIO, "ratio"))
    return [
        *columns,
        Column("Difference", lambda row: row.largest_gap, _FINE_NS, is_dim=True),
        Column("Spread", lambda row: row.spread, _FINE_NS, is_dim=True),
        Column("Within", lambda row: row.is_within_spread, _AGREEMENT, "agreement"),
    ]


def _get(at: int, field: str) -> Any:
    return lambda row: getattr(row, field)[at]


def list_published_columns(names: Sequence[str]) -> list[Column[PublishedTime]]:
    """List the columns of published times and of the recordings ``names``."""

    def build(name: str) -> Column[PublishedTime]:
        return Column(name, lambda row: row.medians[name], MICROSECONDS, name)

    return [
        Column("Measure", lambda row: MEASURE_TITLES[row.measure]),
        Column("Chains", lambda row: row.chains, COUNT),
        Column("Nodes per chain", lambda row: row.length, COUNT),
        Column("Toolkit 11.8", lambda row: row.older_ns, MICROSECONDS),
        Column("Toolkit 12.6", lambda row: row.newer_ns, MICROSECONDS),
        *map(build, names),
        Column("Source", lambda row: row.source, TEXT, "from", is_dim=True),
    ]
