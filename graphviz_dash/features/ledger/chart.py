"""Charts of the ledger: memory over time, and activities of the start-up."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import plotly.graph_objects as go

from graphviz_dash.analysis.ledger.memory import LedgerPart, MemoryLedger, MemoryMoment
from graphviz_dash.analysis.ledger.startup import StartupLedger
from graphviz_dash.charts.figures.theme import (
    apply_theme,
    compute_row_tick_width,
    move_title_to_page,
    set_row_margins,
)
from graphviz_dash.charts.palette import LEDGER_SHADES, STARTUP_SHADES
from graphviz_dash.charts.shades import Theme, get_colour
from graphviz_dash.units import format_bytes, format_ns

_MAX_POINTS: Final = 400
"""Moments on the chart of memory."""

_LOG_TICKS: Final = range(10, 50, 3)
"""Powers of two at the ticks of the logarithmic axis, in bytes."""

_TIME_AXIS: Final = "Seconds since the start of the process"

_MAX_BOXES: Final = 1_200
"""Boxes on the chart of activities."""

_PATTERNS: Final = {
    LedgerPart.FRAGMENTATION: "-",
    LedgerPart.FREE: "\\",
    LedgerPart.FAILED_POOLS: "x",
    LedgerPart.REMAINDER: "/",
    LedgerPart.ALLOCATIONS: ".",
    LedgerPart.WORKSPACES: "x",
    LedgerPart.NCCL: "/",
    LedgerPart.CACHES: "/",
}
"""Hatching of parts that share their colour with another part."""

_DASHES: Final = {"-": "dash", "\\": "dot", ".": "dot", "/": "dashdot", "x": "longdash"}
"""Dashes of lines, by the hatching of the same part as an area."""


def draw_memory_ledger(ledger: MemoryLedger, theme: Theme, *, log: bool = False) -> go.Figure:
    """Draw the parts over time, as stacked areas.

    With ``log``, draw a line for each part on a logarithmic axis, which shows small parts next to
    large ones.
    """
    moments = select_moments(ledger.moments)
    peak = max(moment.used for moment in moments)
    size, unit = (1 << 30, "GiB") if peak >= 4 << 30 else (1 << 20, "MiB")
    times = [moment.time_ns / 1e9 for moment in moments]
    figure = go.Figure()
    for part in LedgerPart:
        values = [moment.parts.get(part, 0) for moment in moments]
        if not any(values):
            continue
        colour = get_colour(LEDGER_SHADES[part], theme)
        figure.add_scatter(
            name=part.value,
            x=times,
            y=[max(value, 0) / size or (None if log else 0.0) for value in values],
            mode="lines",
            line={
                "width": 2 if log else 0.5,
                "color": colour,
                "shape": "hv",
                "dash": _DASHES[_PATTERNS[part]] if log and part in _PATTERNS else None,
            },
            **({} if log else _build_area(part, colour)),
            hovertemplate=[
                f"{part.value}<br>{format_bytes(value)}<extra></extra>" for value in values
            ],
        )
    apply_theme(figure, theme, 300)
    move_title_to_page(figure, _TIME_AXIS)
    figure.update_yaxes(title_text=f"{unit} of device memory")
    if log:
        ticks = [1 << power for power in _LOG_TICKS]
        figure.update_yaxes(
            type="log",
            title_text="device memory of each part",
            tickvals=[tick / size for tick in ticks],
            ticktext=[format_bytes(tick) for tick in ticks],
        )
    return figure


def _build_area(part: LedgerPart, colour: str) -> dict[str, Any]:
    """Build the settings of a stacked area."""
    return {
        "stackgroup": "memory",
        "fillcolor": colour,
        "fillpattern": {"shape": _PATTERNS.get(part, ""), "fgcolor": colour, "solidity": 0.25},
    }


def select_moments(moments: tuple[MemoryMoment, ...]) -> list[MemoryMoment]:
    """Select moments evenly, with first, last and peak."""
    if len(moments) <= _MAX_POINTS:
        return list(moments)
    last = len(moments) - 1
    numbers = {last * number // (_MAX_POINTS - 1) for number in range(_MAX_POINTS)}
    numbers.add(max(range(len(moments)), key=lambda number: moments[number].used))
    return [moments[number] for number in sorted(numbers)]


def draw_startup(ledger: StartupLedger, theme: Theme) -> go.Figure | None:
    """Draw activities by thread, inner ones lower; None without any."""
    boxes = sorted(ledger.boxes, key=lambda box: box.begin_ns - box.end_ns)[:_MAX_BOXES]
    if not boxes:
        return None
    rows = sorted({(box.thread, box.depth) for box in boxes})
    labels = {row: _name_row(row, number) for number, row in enumerate(rows)}
    figure = go.Figure()
    for part in dict.fromkeys(box.part for box in boxes):
        group = [box for box in boxes if box.part is part]
        figure.add_bar(
            name=part.value,
            y=[labels[box.thread, box.depth] for box in group],
            x=[(box.end_ns - box.begin_ns) / 1e9 for box in group],
            base=[box.begin_ns / 1e9 for box in group],
            orientation="h",
            marker={"color": get_colour(STARTUP_SHADES[part], theme), "line": {"width": 0.4}},
            hovertemplate=[
                f"{escape(box.name) or part.value}<br>{part.value}, "
                f"{format_ns(box.end_ns - box.begin_ns)}<extra></extra>"
                for box in group
            ],
        )
    figure.update_layout(barmode="overlay", bargap=0.08)
    apply_theme(figure, theme, 16 + 28 * len(rows))
    set_row_margins(figure, compute_row_tick_width(list(labels.values())))
    move_title_to_page(figure, _TIME_AXIS)
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=[labels[row] for row in rows],
        autorange="reversed",
        showgrid=False,
        ticksuffix="  ",
    )
    figure.update_xaxes(range=[0, ledger.total_ns / 1e9])
    return figure


def _name_row(row: tuple[int, int], number: int) -> str:
    """Name the first row; others get blank labels of different lengths."""
    thread, depth = row
    if depth:
        return "\u200b" * (number + 1)
    return "main thread" if thread == 0 else f"thread {thread}"
