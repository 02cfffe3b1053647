"""Time breakdown of a compiled step: one bar per part, one after the other."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

import plotly.graph_objects as go

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.charts.figures.axes import choose_time_unit
from graphviz_dash.charts.figures.theme import add_end_label, apply_bar_theme
from graphviz_dash.charts.palette import REMAINDER, RUN
from graphviz_dash.charts.shades import BLUE, IDLE, Theme, get_colour
from graphviz_dash.features.torch_compile.narrative import PART_MEANINGS, name_step
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns, format_percent

if TYPE_CHECKING:
    from graphviz_dash.features.torch_compile.analysis.report import CompileReport

_ROW = 36
_LINE: Final = 16
"""Characters per line of a row's name, which leaves space for bars on a phone."""
_TICKS: Final = 4


def draw_step_parts(report: CompileReport, theme: Theme) -> go.Figure | None:
    """Draw GPU busy time, and hatched idle time, of each part; None if the step's time is
    unknown."""
    time = report.time
    if isinstance(time, Missing):
        return None
    total_ns, step = time.select_total_ns(report.step_ns), name_step(report)
    rows = []
    position = 0.0
    for part in StepPart:
        parts = [time_part for time_part in time.parts if time_part.part is part]
        if parts:
            busy = sum(time_part.busy_ns for time_part in parts)
            idle = sum(time.compute_clean_idle_ns(time_part, total_ns) for time_part in parts)
            rows.append((part.value, position, busy, idle, PART_MEANINGS[part]))
            position += busy + idle
    remainder_ns = time.compute_remainder_ns(total_ns)
    rows.append(
        (
            "remainder",
            min(position, total_ns),
            0.0,
            abs(remainder_ns),
            "Difference between the step and the sum of its parts.",
        )
    )
    unit = choose_time_unit(round(total_ns))
    names = [*(row[0] for row in rows), step]
    figure = go.Figure()
    for is_busy in (True, False):
        _add_bars(figure, rows, unit.ns, theme, is_busy=is_busy, total_ns=total_ns)
    figure.add_bar(
        y=[step],
        x=[total_ns / unit.ns],
        base=[0],
        orientation="h",
        marker={"color": get_colour(RUN, theme)},
        hovertemplate=f"{step}<br>{format_ns(total_ns)}<extra></extra>",
    )
    for name, start, busy, idle, _ in rows:
        add_end_label(figure, (start + busy + idle) / unit.ns, name, format_ns(busy + idle))
    add_end_label(figure, total_ns / unit.ns, step, format_ns(total_ns))
    figure.update_layout(barmode="overlay", bargap=0.3, showlegend=False)
    apply_bar_theme(
        figure,
        theme,
        48 + _ROW * len(names),
        f"{unit.name} per step; hatched: GPU idle",
        total_ns / unit.ns,
        [line for name in names for line in wrap(name, _LINE)],
    )
    figure.update_xaxes(nticks=_TICKS)
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=names,
        tickvals=names,
        ticktext=["<br>".join(f"{line}  " for line in wrap(name, _LINE)) for name in names],
    )
    return figure


def _add_bars(
    figure: go.Figure,
    rows: list[tuple[str, float, float, float, str]],
    unit_ns: float,
    theme: Theme,
    *,
    is_busy: bool,
    total_ns: float,
) -> None:
    colour = [
        get_colour(REMAINDER if name == "remainder" else BLUE if is_busy else IDLE, theme)
        for name, *_ in rows
    ]
    length = [busy if is_busy else idle for _, _, busy, idle, _ in rows]
    figure.add_bar(
        y=[row[0] for row in rows],
        x=[value / unit_ns for value in length],
        base=[(start if is_busy else start + busy) / unit_ns for _, start, busy, _, _ in rows],
        orientation="h",
        marker={
            "color": colour if is_busy else "rgba(0,0,0,0)",
            "line": {"width": 0 if is_busy else 1, "color": colour},
            "pattern": {
                "shape": "" if is_busy else "/",
                "fgcolor": colour,
                "size": 6,
                "solidity": 0.2,
            },
        },
        hovertemplate=[
            f"{meaning}<br>{'GPU busy' if is_busy else 'GPU idle'}: "
            f"{format_ns(value)}, {format_percent(value / total_ns if total_ns else 0.0)} of "
            "the step"
            "<extra></extra>"
            for (_, _, _, _, meaning), value in zip(rows, length, strict=True)
        ],
    )
