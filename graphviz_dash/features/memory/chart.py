"""Charts of memory: breakdown by run, and pool bytes by graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

import plotly.graph_objects as go

from graphviz_dash.analysis.memory.allocator import AllocatorState
from graphviz_dash.analysis.memory.report import ByteCategory, MemoryPart, MemoryReport, PoolMap
from graphviz_dash.charts.figures.theme import (
    add_end_label,
    apply_bar_theme,
    apply_theme,
    compute_row_tick_width,
    set_row_margins,
)
from graphviz_dash.charts.palette import MEMORY_SHADES
from graphviz_dash.charts.shades import Theme, get_colour
from graphviz_dash.features.memory.comparison import MemoryComparison
from graphviz_dash.units import format_bytes, format_percent, format_signed_bytes

_PATTERNS: Final = {MemoryPart.SHARED: "x", MemoryPart.UNUSED: "/", MemoryPart.CACHE: "\\"}
"""Hatching of reserved but unused memory."""

_USE_PARTS: Final = {
    ByteCategory.EXCLUSIVE: MemoryPart.EXCLUSIVE,
    ByteCategory.SHARED: MemoryPart.SHARED,
    ByteCategory.WORKSPACE: MemoryPart.WORKSPACES,
    ByteCategory.MODEL: MemoryPart.GRADIENTS,
}
"""Model tensors in pools are mostly gradients."""

_MAX_ROWS: Final = 60
"""Graphs on a map; more rows would be thinner than their names."""

_MAX_SEGMENT_LINES: Final = 24
"""Segments with a line at the start of each."""

_MAP_ROW_HEIGHT: Final = 18
"""Height of a graph's row on the map, in pixels."""

_MAX_NAMED_GRAPHS: Final = 12
"""Graphs with a name at each row."""


def draw_memory(result: MemoryComparison, theme: Theme, *, outside: bool) -> go.Figure | None:
    """Draw a bar per run; ``outside`` includes memory outside the allocator. None without a memory
    pass."""
    reports = result.reports
    if not reports:
        return None
    parts = [part for part in MemoryPart if outside or part is not MemoryPart.OUTSIDE]
    bars = [
        (
            part.value,
            [report.parts[part] for report in reports],
            [_format_hover(part, report, result) for report in reports],
            part,
        )
        for part in parts
    ]
    totals = {escape(report.run): sum(report.parts[part] for part in parts) for report in reports}
    return _draw_bars(bars, totals, "at the peak of a step (memory pass)", theme)


def _draw_bars(
    bars: Iterable[tuple[str, list[int], list[str], MemoryPart]],
    totals: Mapping[str, int],
    title: str,
    theme: Theme,
) -> go.Figure:
    """Draw stacked bars by label; each part has its name, values and hover texts."""
    labels, longest = list(totals), max(totals.values())
    size, unit = (1 << 30, "GiB") if longest >= 4 << 30 else (1 << 20, "MiB")
    figure = go.Figure()
    for name, values, hovers, part in bars:
        if any(values):
            figure.add_bar(
                name=name,
                y=labels,
                x=[value / size for value in values],
                orientation="h",
                marker=_build_marker(part, theme),
                hovertemplate=hovers,
            )
    for label, total in totals.items():
        add_end_label(figure, total / size, label, format_bytes(total))
    figure.update_layout(barmode="stack", bargap=0.34)
    height = 43 + 44 * len(labels)
    return apply_bar_theme(figure, theme, height, f"{unit} {title}", longest / size, labels)


def _format_hover(part: MemoryPart, report: MemoryReport, result: MemoryComparison) -> str:
    change = result.get_difference(report.run)
    comparison = (
        f"<br>{format_signed_bytes(change.parts[part])} compared with {escape(change.baseline)}"
        if change
        else ""
    )
    share = format_percent(report.parts[part] / report.total) if report.total else ""
    return (
        f"{part.value}<br>{format_bytes(report.parts[part])}, {share} of its device memory"
        f"{comparison}<extra>{escape(report.run)}</extra>"
    )


_ALLOCATOR_PARTS: Final[tuple[tuple[str, str, MemoryPart], ...]] = (
    ("allocated, default pool", "default_allocated", MemoryPart.TENSORS),
    ("allocated, private pools", "pools_allocated", MemoryPart.EXCLUSIVE),
    ("free, private pools", "pools_free", MemoryPart.UNUSED),
    ("free, default pool", "default_free", MemoryPart.CACHE),
)
"""Allocator statistics with labels and colours."""


def draw_allocator(uses: Sequence[AllocatorState], theme: Theme) -> go.Figure | None:
    """Draw a bar per run by allocator statistics; None without any."""
    if not any(use.reserved for use in uses):
        return None
    totals = {escape(use.run): use.reserved for use in uses}
    bars = []
    for name, field, part in _ALLOCATOR_PARTS:
        values: list[int] = [getattr(use, field) for use in uses]
        hovers = [
            f"{name}<br>{format_bytes(value)}<extra>{label}</extra>"
            for value, label in zip(values, totals, strict=True)
        ]
        bars.append((name, values, hovers, part))
    is_snapshot = any(use.is_snapshot for use in uses)
    return _draw_bars(bars, totals, "reserved" if is_snapshot else "reserved at exit", theme)


def _build_marker(part: MemoryPart, theme: Theme) -> dict[str, object]:
    """Build the style; unused memory is hatched."""
    colour = get_colour(MEMORY_SHADES[part], theme)
    shape = _PATTERNS.get(part)
    return {
        "color": "rgba(0,0,0,0)" if shape else colour,
        "line": {"width": 1 if shape else 0, "color": colour},
        "pattern": {"shape": shape, "size": 6, "solidity": 0.25, "fgcolor": colour}
        if shape
        else {},
    }


def draw_pool_map(pool: PoolMap, theme: Theme) -> go.Figure | None:
    """Draw the first 60 graphs over the bytes of their pool: exclusive, shared, workspaces and
    model tensors. None without graphs."""
    rows = pool.rows[:_MAX_ROWS]
    if not rows:
        return None
    figure = go.Figure()
    for use, part in _USE_PARTS.items():
        spans = [
            (row.graph, begin, end)
            for row in rows
            for begin, end, span_use in row.spans
            if span_use is use
        ]
        if not spans:
            continue
        figure.add_bar(
            name=use.value,
            y=[escape(graph) for graph, _, _ in spans],
            x=[(end - begin) / (1 << 20) for _, begin, end in spans],
            base=[begin / (1 << 20) for _, begin, _ in spans],
            orientation="h",
            marker={"color": get_colour(MEMORY_SHADES[part], theme), "line": {"width": 0}},
            hovertemplate=[
                f"{use.value}<br>{format_bytes(end - begin)} at {format_bytes(begin)} of the pool"
                f"<extra>{escape(graph)}</extra>"
                for graph, begin, end in spans
            ],
        )
    figure.update_layout(barmode="overlay", bargap=0.18)
    names = [escape(row.graph) for row in rows]
    apply_theme(figure, theme, 73 + max(_MAP_ROW_HEIGHT * len(rows), 60))
    set_row_margins(figure, compute_row_tick_width(names))
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=names,
        autorange="reversed",
        showgrid=False,
        ticksuffix="  ",
        dtick=1 if len(rows) <= 2 * _MAX_NAMED_GRAPHS else None,
    )
    figure.update_xaxes(
        title_text="MiB of the pool, segments concatenated",
        range=[0, pool.size / (1 << 20)],
        tickformat=",",
    )
    segments = pool.starts[1:] if len(pool.starts) <= _MAX_SEGMENT_LINES else ()
    figure.update_layout(shapes=[_build_vertical_line(start / (1 << 20)) for start in segments])
    return figure


def _build_vertical_line(at: float) -> dict[str, Any]:
    """Build the line ten times as fast as ``add_vline``."""
    line = {"width": 0.5, "dash": "dot"}
    return {
        **{"type": "line", "line": line, "opacity": 0.25},
        **{"xref": "x", "x0": at, "x1": at, "yref": "y domain", "y0": 0, "y1": 1},
    }
