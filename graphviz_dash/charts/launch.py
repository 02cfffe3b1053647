"""Pictures of launch costs: a measure over the size of the graph, for one recording or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.analysis.launch_costs import TITLES, LaunchCosts, Row, name_of
from graphviz_dash.charts.palette import MODULES
from graphviz_dash.charts.themed import Theme, dress, shade
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.units import format_count, format_ns

_HEIGHT: Final = 380
_FAMILIES: Final[tuple[tuple[str, str, str, Callable[[Row], bool]], ...]] = (
    ("lines", "circle", "solid", lambda row: row.topology.width == 1),
    (
        "chains, a root each",
        "square-open",
        "dot",
        lambda row: row.topology.width > 1 and not row.topology.single_root,
    ),
    (
        "chains, one root",
        "diamond-open",
        "dash",
        lambda row: row.topology.width > 1 and row.topology.single_root,
    ),
)


def launch_chart(
    recordings: Mapping[str, LaunchCosts], measure: LaunchMeasure, theme: Theme, *, log: bool
) -> go.Figure | None:
    """Medians with their quartiles over the nodes of the graph: straight lines, and parallel chains
    of the width that has most lengths. Both axes logarithmic or linear. None without samples."""
    figure = go.Figure()
    for colour, (name, costs) in zip(
        _colours(len(recordings), theme), recordings.items(), strict=True
    ):
        for family, symbol, dash, wanted in _FAMILIES:
            rows = _of_one_width([row for row in costs.rows if wanted(row)], measure)
            if not rows:
                continue
            label = family if len(recordings) == 1 else f"{escape(name)}: {family}"
            figure.add_scatter(
                name=label,
                x=[row.topology.nodes for row in rows],
                y=[_us(row, measure) for row in rows],
                error_y=_quartiles(rows, measure),
                mode="lines+markers",
                line={"color": colour, "width": 2, "dash": dash},
                marker={"symbol": symbol, "size": 7},
                text=[_hover(row, measure) for row in rows],
                hovertemplate="%{text}<extra></extra>",
            )
    if not figure.data:
        return None
    kind = "log" if log else "linear"
    figure.update_xaxes(title="nodes of the graph", type=kind, dtick=1 if log else None)
    figure.update_yaxes(
        title=f"{TITLES[measure]}, us", type=kind, rangemode=None if log else "tozero"
    )
    return dress(figure, theme, _HEIGHT)


def _of_one_width(rows: Sequence[Row], measure: LaunchMeasure) -> list[Row]:
    """Rows with the measure and no other kind of node, of the width that has most of them."""
    known = [row for row in rows if row.topology.other is None and measure in row.timings]
    widths: dict[int, list[Row]] = {}
    for row in known:
        widths.setdefault(row.topology.width, []).append(row)
    chosen = max(widths.values(), key=len, default=[])
    return sorted(chosen, key=lambda row: row.topology.nodes)


def _us(row: Row, measure: LaunchMeasure) -> float:
    return row.timings[measure].summary.median / 1e3


def _quartiles(rows: Sequence[Row], measure: LaunchMeasure) -> dict[str, object]:
    spreads = [row.timings[measure].summary.spread for row in rows]
    return {
        "type": "data",
        "symmetric": False,
        "array": [
            (spread.high or 0) / 1e3 - _us(row, measure)
            for row, spread in zip(rows, spreads, strict=True)
        ],
        "arrayminus": [
            _us(row, measure) - spread.low / 1e3 for row, spread in zip(rows, spreads, strict=True)
        ],
        "thickness": 1,
        "width": 2,
    }


def _hover(row: Row, measure: LaunchMeasure) -> str:
    timing = row.timings[measure]
    spread = timing.summary.spread
    return (
        f"{escape(name_of(row.topology))}, {format_count(row.topology.nodes)} nodes<br>"
        f"median <b>{format_ns(timing.summary.median)}</b>, "
        f"p25 to p75 {format_ns(spread.low)} to {format_ns(spread.high)}<br>"
        f"shortest {format_ns(timing.shortest)}, {spread.samples} samples"
    )


def _colours(count: int, theme: Theme) -> list[str]:
    return [shade(MODULES[place % len(MODULES)], theme) for place in range(count)]
