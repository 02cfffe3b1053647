"""Charts of launch costs by graph size, for one or several recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.charts.figures.axes import build_error_bars, compute_log_ticks, format_tick
from graphviz_dash.charts.figures.theme import apply_theme, compute_tick_width, set_fixed_margins
from graphviz_dash.charts.palette import MODULE_SHADES
from graphviz_dash.charts.shades import ACCENT, GREY, Theme, get_colour
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, TopologyCosts
from graphviz_dash.features.launch.analysis.own_graphs import ProgramGraph
from graphviz_dash.features.launch.narrative import MEASURE_TITLES, format_topology
from graphviz_dash.model.launch import LaunchMeasure, PublishedLaunch
from graphviz_dash.units import format_ns, pluralize

_CHART_HEIGHT: Final = 420
_PUBLISHED_SHADE: Final = GREY
_EXACT_SOURCE: Final = "table 1"
"""Exact published times; readings of figures are approximate."""
_LINE_POINTS: Final = 40
"""Points of a published line: it bends on logarithmic axes."""

_TOOLKIT_DASHES: Final = {"11.8": "dot", "12.6": "dash"}
_FAMILIES: Final[tuple[tuple[str, str, str, Callable[[TopologyCosts], bool]], ...]] = (
    ("linear chains", "circle", "solid", lambda row: row.topology.width == 1),
    (
        "parallel chains",
        "square-open",
        "dot",
        lambda row: row.topology.width > 1 and not row.topology.single_root,
    ),
    (
        "parallel chains, one root",
        "diamond-open",
        "dash",
        lambda row: row.topology.width > 1 and row.topology.single_root,
    ),
)


def draw_launch_costs(
    recordings: Mapping[str, LaunchCosts],
    measure: LaunchMeasure,
    theme: Theme,
    *,
    log: bool,
    program_graphs: Sequence[ProgramGraph] = (),
    published: PublishedLaunch | None = None,
) -> go.Figure | None:
    """Draw medians with spread by number of nodes; None without samples.

    Shows linear chains, and parallel chains of the most frequent width. ``log`` selects logarithmic
    axes. ``program_graphs`` are separate marks; ``published`` figures of linear chains are dashed.
    """
    figure = go.Figure()
    for colour, (name, costs) in zip(
        _choose_colours(len(recordings), theme), recordings.items(), strict=True
    ):
        for family, symbol, dash, matches in _FAMILIES:
            rows = _select_main_width([row for row in costs.rows if matches(row)], measure)
            if not rows:
                continue
            label = family if len(recordings) == 1 else f"{escape(name)}: {family}"
            figure.add_scatter(
                name=label,
                x=[row.topology.nodes for row in rows],
                y=[_get_median_us(row, measure) for row in rows],
                error_y=_build_spreads(rows, measure),
                mode="lines+markers",
                line={"color": colour, "width": 2, "dash": dash},
                marker={"symbol": symbol, "size": 7},
                text=[_format_hover(row, measure) for row in rows],
                hovertemplate="%{text}<extra></extra>",
            )
    if not figure.data:
        return None
    if published is not None:
        _add_published(figure, published, measure, theme, max(_list_sizes(recordings)))
    _add_own_graphs(figure, program_graphs, measure, theme)
    kind = "log" if log else "linear"
    figure.update_xaxes(
        title="nodes in the graph", type=kind, dtick=1 if log else None, tickformat=","
    )
    figure.update_yaxes(
        title=MEASURE_TITLES[measure] if log else f"{MEASURE_TITLES[measure]}, µs",
        type=kind,
        rangemode=None if log else "tozero",
        tickformat=",",
    )
    values = [value for trace in figure.data for value in trace.y]
    labels = [f"{max(values):,.0f}", "0.05"]
    if log:
        ticks = compute_log_ticks(values)
        labels = [format_tick(1e3 * tick) for tick in ticks]
        figure.update_yaxes(tickvals=ticks, ticktext=labels)
    apply_theme(figure, theme, _CHART_HEIGHT)
    return set_fixed_margins(figure, compute_tick_width(labels))


def _select_main_width(
    rows: Sequence[TopologyCosts], measure: LaunchMeasure
) -> list[TopologyCosts]:
    """Select rows without other node kinds, of the most frequent width."""
    measured = [row for row in rows if row.topology.middle_node is None and measure in row.timings]
    widths: dict[int, list[TopologyCosts]] = {}
    for row in measured:
        widths.setdefault(row.topology.width, []).append(row)
    largest_group = max(widths.values(), key=len, default=[])
    return sorted(largest_group, key=lambda row: row.topology.nodes)


def _get_median_us(row: TopologyCosts, measure: LaunchMeasure) -> float:
    return row.timings[measure].summary.median / 1e3


def _list_sizes(recordings: Mapping[str, LaunchCosts]) -> list[int]:
    return [row.topology.nodes for costs in recordings.values() for row in costs.rows]


def _add_own_graphs(
    figure: go.Figure, program_graphs: Sequence[ProgramGraph], measure: LaunchMeasure, theme: Theme
) -> None:
    measured = [graph for graph in program_graphs if measure in graph.timings]
    if not measured:
        return
    figure.add_scatter(
        name="your graphs",
        x=[graph.nodes for graph in measured],
        y=[graph.timings[measure].summary.median / 1e3 for graph in measured],
        mode="markers",
        marker={
            "symbol": "star",
            "size": 13,
            "color": get_colour(ACCENT, theme),
            "line": {"width": 1, "color": "#ffffff"},
        },
        text=[
            f"<b>{escape(graph.name)}</b> of {escape(graph.run)}, "
            f"{pluralize(graph.nodes, 'node')}<br>"
            f"{format_ns(graph.timings[measure].summary.median)}"
            for graph in measured
        ],
        hovertemplate="%{text}<extra></extra>",
    )


def _add_published(
    figure: go.Figure,
    published: PublishedLaunch,
    measure: LaunchMeasure,
    theme: Theme,
    largest: int,
) -> None:
    """Add lines for a published base and slope, marks for single sizes."""
    colour = get_colour(_PUBLISHED_SHADE, theme)
    source = f"{escape(published.gpu)}, {escape(published.cpu)}; published by NVIDIA, 2024"
    for line in published.lines:
        if line.measure is not measure:
            continue
        ratio = largest / line.from_nodes
        sizes = [
            line.from_nodes * ratio ** (point / _LINE_POINTS) for point in range(_LINE_POINTS + 1)
        ]
        figure.add_scatter(
            name=f"published, toolkit {escape(line.toolkit)}",
            x=sizes,
            y=[(line.base_ns + line.slope_ns * size) / 1e3 for size in sizes],
            mode="lines",
            line={"color": colour, "width": 1.5, "dash": _TOOLKIT_DASHES[line.toolkit]},
            hovertemplate=(
                f"toolkit {escape(line.toolkit)}: {line.base_ns / 1e3:g} µs and "
                f"{line.slope_ns} ns per node<br>{source}<extra></extra>"
            ),
        )
    figures = [
        size
        for size in published.times
        if size.measure is measure and size.chains == 1 and size.source == _EXACT_SOURCE
    ]
    for toolkit, dash in _TOOLKIT_DASHES.items() if figures else ():
        before = toolkit == "11.8"
        figure.add_scatter(
            name=f"published, toolkit {toolkit}",
            x=[size.length for size in figures],
            y=[size.before_us if before else size.after_us for size in figures],
            mode="lines+markers",
            line={"color": colour, "width": 1, "dash": dash},
            marker={"symbol": "cross", "size": 8, "color": colour},
            hovertemplate=f"toolkit {toolkit}: %{{y}} µs<br>{source}<extra></extra>",
        )


def _build_spreads(rows: Sequence[TopologyCosts], measure: LaunchMeasure) -> dict[str, object]:
    timings = [row.timings[measure] for row in rows]
    ends = [(timing.spread.low, timing.spread.high) for timing in timings]
    medians = [timing.summary.median for timing in timings]
    return build_error_bars(medians, ends, 1e3, thickness=1, width=2)


def _format_hover(row: TopologyCosts, measure: LaunchMeasure) -> str:
    timing = row.timings[measure]
    spread = timing.spread
    return (
        f"{escape(format_topology(row.topology))}, {pluralize(row.topology.nodes, 'node')}<br>"
        f"median <b>{format_ns(timing.summary.median)}</b>, "
        f"p5 to p95 {format_ns(spread.low)} to {format_ns(spread.high)}<br>"
        f"shortest {format_ns(timing.minimum)}, {spread.samples} samples"
    )


def _choose_colours(count: int, theme: Theme) -> list[str]:
    return [
        get_colour(MODULE_SHADES[number % len(MODULE_SHADES)], theme) for number in range(count)
    ]
