"""Where the time of a compiled step goes: a bar for each part, one behind the other."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

import plotly.graph_objects as go

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.charts.figures.axes import time_unit
from graphviz_dash.charts.figures.theme import dress_bars, label_end
from graphviz_dash.charts.palette import REMAINDER, RUN
from graphviz_dash.charts.shades import BLUE, IDLE, Theme, shade
from graphviz_dash.features.torch_compile.narrative import PART_MEANINGS
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns, format_percent

if TYPE_CHECKING:
    from graphviz_dash.features.torch_compile.analysis.report import CompileReport

_ROW = 36
_LINE: Final = 16
"""Characters of a line of a row's name: names in one line leave a phone no room for bars."""
_TICKS: Final = 4


def step_parts_chart(report: CompileReport, theme: Theme) -> go.Figure | None:
    """The figure: of each part the time in which the GPU works, and hatched the time in which it is
    idle; None where the step's time is not known."""
    time = report.time
    if isinstance(time, Missing):
        return None
    whole = time.traced_ns if isinstance(report.step_ns, Missing) else report.step_ns
    rows = []
    at = 0.0
    for part in StepPart:
        own = [each for each in time.parts if each.part is part]
        if own:
            busy = sum(each.busy_ns for each in own)
            idle = sum(time.clean_idle(each, whole) for each in own)
            rows.append((part.value, at, busy, idle, PART_MEANINGS[part]))
            at += busy + idle
    left = time.remainder(whole)
    rows.append(
        ("remainder", min(at, whole), 0.0, abs(left), "What the parts and the step differ by.")
    )
    unit = time_unit(round(whole))
    names = [*(row[0] for row in rows), "step"]
    figure = go.Figure()
    for is_busy in (True, False):
        _bars(figure, rows, unit.ns, theme, is_busy=is_busy, whole=whole)
    figure.add_bar(
        y=["step"],
        x=[whole / unit.ns],
        base=[0],
        orientation="h",
        marker={"color": shade(RUN, theme)},
        hovertemplate=f"step<br>{format_ns(whole)}<extra></extra>",
    )
    for name, start, busy, idle, _ in rows:
        label_end(figure, (start + busy + idle) / unit.ns, name, format_ns(busy + idle))
    label_end(figure, whole / unit.ns, "step", format_ns(whole))
    figure.update_layout(barmode="overlay", bargap=0.3, showlegend=False)
    dress_bars(
        figure,
        theme,
        72 + _ROW * len(names),
        f"{unit.name} of a step; hatched: the GPU is idle",
        whole / unit.ns,
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


def _bars(
    figure: go.Figure,
    rows: list[tuple[str, float, float, float, str]],
    unit_ns: float,
    theme: Theme,
    *,
    is_busy: bool,
    whole: float,
) -> None:
    """The bars of the GPU's work, or of its idle time behind that."""
    colour = [
        shade(REMAINDER if name == "remainder" else BLUE if is_busy else IDLE, theme)
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
            f"{meaning}<br>{'the GPU works' if is_busy else 'the GPU is idle'}: "
            f"{format_ns(value)}, {format_percent(value / whole if whole else 0.0)} of the step"
            "<extra></extra>"
            for (_, _, _, _, meaning), value in zip(rows, length, strict=True)
        ],
    )
