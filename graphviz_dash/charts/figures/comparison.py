"""The pictures of a comparison: where a step's time goes, its iterations, when a graph pays."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import plotly.graph_objects as go

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.step.time_by_category import WAITING_FOR_RANKS, TimeByCategory
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.figures.axes import log_ticks
from graphviz_dash.charts.figures.theme import (
    TEXT,
    dress,
    dress_bars,
    keep_margins,
    label_end,
    tick_room,
)
from graphviz_dash.charts.palette import CATEGORY, MODE, drawn_mode
from graphviz_dash.charts.shades import IDLE, Theme, shade
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns, format_percent

SYMBOLS: Final = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "hexagon")
"""Shapes of markers that tell ranks apart, in turn."""
if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

_MAX_POINTS: Final = 2_000
"""Iterations drawn for one run; more are thinned evenly, which the caption says."""


def where_time_goes_chart(comparison: Comparison, theme: Theme) -> go.Figure | None:
    """A bar for each run: a clean step, divided by the traced pass into GPU work by category and
    time in which the GPU was idle. None when no run can be divided."""
    runs = [run for run in comparison.runs if _where(run)]
    if not runs:
        return None
    labels = [escape(run.name) for run in runs]
    figure = go.Figure()
    for category in Category:
        values = [_part(run, category) for run in runs]
        if any(values):
            figure.add_bar(
                name=category.value,
                y=labels,
                x=[value / 1e3 for value in values],
                orientation="h",
                marker={"color": shade(CATEGORY[category], theme), "line": {"width": 0}},
                hovertemplate=[
                    _hover(category.value, value, run) for value, run in _with(values, runs)
                ],
            )
    waiting = [where.waiting_ns for run in runs if (where := _where(run))]
    if any(waiting):
        figure.add_bar(
            name=WAITING_FOR_RANKS,
            y=labels,
            x=[value / 1e3 for value in waiting],
            orientation="h",
            marker={
                "color": "rgba(0,0,0,0)",
                "line": {"width": 1, "color": shade(IDLE, theme)},
                "pattern": {"shape": ".", "fgcolor": shade(IDLE, theme), "size": 6},
            },
            hovertemplate=[
                _hover(WAITING_FOR_RANKS, value, run) for value, run in _with(waiting, runs)
            ],
        )
    idle = [where.idle_ns or 0.0 for run in runs if (where := _where(run))]
    figure.add_bar(
        name="GPU idle",
        y=labels,
        x=[value / 1e3 for value in idle],
        orientation="h",
        marker={
            "color": "rgba(0,0,0,0)",
            "line": {"width": 1, "color": shade(IDLE, theme)},
            "pattern": {"shape": "/", "fgcolor": shade(IDLE, theme), "size": 7, "solidity": 0.14},
        },
        hovertemplate=[_hover("GPU idle", value, run) for value, run in _with(idle, runs)],
    )
    for run, label in zip(runs, labels, strict=True):
        where = _where(run)
        if where is not None:
            end = max(where.step_ns, where.busy_ns) / 1e3
            label_end(figure, end, label, format_ns(where.step_ns))
    longer = [(run, label) for run, label in zip(runs, labels, strict=True) if _excess(run)]
    if longer:
        # Their GPU work took longer under the profiler than the step that the bar is of.
        figure.add_scatter(
            name="end of the step",
            x=[where.step_ns / 1e3 for run, _ in longer if (where := _where(run))],
            y=[label for _, label in longer],
            mode="markers",
            marker={
                "symbol": "line-ns-open",
                "size": 32,
                "line": {"width": 2.5},
                "color": shade(TEXT, theme),
            },
            hovertemplate="end of the step<br>%{x:,.1f} µs<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.34)
    longest = max(max(where.step_ns, where.busy_ns) for run in runs if (where := _where(run)))
    profiled = any(where.profiled for run in runs if (where := _where(run)))
    title = (
        "µs per step under the profiler: no step was timed without it"
        if profiled
        else "µs per step (clean or recorded step time, divided by the traced pass)"
    )
    # Room at the right for the times.
    return dress_bars(figure, theme, 112 + 42 * len(runs), title, longest / 1e3 * 1.09, labels)


def iterations_chart(comparison: Comparison, theme: Theme) -> go.Figure | None:
    """Step time of every clean iteration, and of every step of a recorded program, on a logarithmic
    axis; None without any."""
    figure = go.Figure()
    for run in comparison.runs:
        times = _iterations(run.run)
        if not times:
            continue
        stride = -(-len(times) // _MAX_POINTS)
        places = range(0, len(times), stride)
        figure.add_scatter(
            name=escape(run.name),
            x=list(places),
            y=[times[number] / 1e3 for number in places],
            mode="markers",
            marker={
                "size": 4,
                "color": shade(MODE[drawn_mode(run.run)], theme),
                "opacity": 0.75,
                # Ranks of one mode share its colour.
                "symbol": SYMBOLS[(run.run.manifest.rank or 0) % len(SYMBOLS)],
            },
            hovertemplate="iteration %{x}<br>%{y:,.1f} µs<extra>" + escape(run.name) + "</extra>",
        )
    if not figure.data:
        return None
    figure.update_layout(legend={"itemsizing": "constant"})
    figure.update_xaxes(title_text="iteration", showgrid=False)
    values = [value for trace in figure.data for value in trace.y]
    ticks = log_ticks(values)
    texts = [f"{tick:,g}" for tick in ticks]
    figure.update_yaxes(
        title_text="µs",
        type="log",
        tickvals=ticks,
        ticktext=texts,
    )
    within = [text for tick, text in zip(ticks, texts, strict=True) if tick <= 1.2 * max(values)]
    return keep_margins(dress(figure, theme, 280), tick_room(within))


def _iterations(run: Run) -> list[int]:
    """ns of each clean iteration; of a recorded program from the end of a step to that of the next,
    as the CPU saw them."""
    if run.clean is not None:
        return [step.wall_ns for step in run.clean.steps]
    return list(run.recording.step_ns) if run.recording else []


def break_even_chart(comparison: Comparison, run: RunComparison, theme: Theme) -> go.Figure | None:
    """Total time over the number of steps, one-off costs included, of a run and its baseline; None
    when the run does not pay for itself or has no baseline. The band is the 95% interval of what a
    replay saves: it crosses the baseline's line where the interval of the break-even ends."""
    costs = run.break_even
    if isinstance(costs, Missing) or run.baseline is None:
        return None
    count = max(10, round(3 * min(costs.most or costs.replays, 3 * costs.replays)))
    steps = [round(count * number / 40) for number in range(41)]
    base = comparison[run.baseline]
    before = costs.step_ns + costs.saving_ns
    saved = [costs.saved(number) for number in steps]
    totals = [
        [(before * step - savings[bound]) / 1e6 for step, savings in zip(steps, saved, strict=True)]
        for bound in range(3)
    ]
    figure = go.Figure()
    own = shade(MODE[run.mode], theme)
    for bound, fill in ((2, None), (0, "tonexty")):
        figure.add_scatter(
            name="95% interval",
            x=steps,
            y=totals[bound],
            mode="lines",
            line={"width": 0, "color": own},
            fill=fill,
            fillcolor=_faint(own),
            showlegend=fill is not None,
            hoverinfo="skip",
        )
    for name, mode, values in (
        (base.name, base.mode, [before * number / 1e6 for number in steps]),
        (run.name, run.mode, totals[1]),
    ):
        figure.add_scatter(
            name=escape(name),
            x=steps,
            y=values,
            mode="lines",
            line={"width": 2.5, "color": shade(MODE[mode], theme)},
            hovertemplate="%{x} steps<br>%{y:,.2f} ms<extra>" + escape(name) + "</extra>",
        )
    figure.add_vline(
        x=costs.replays,
        line={"dash": "dot", "width": 1, "color": own},
        annotation_text=f"{costs.replays:,} replays",
        annotation_position="bottom right",
    )
    figure.update_xaxes(title_text="steps", showgrid=False)
    figure.update_yaxes(title_text="ms in total", rangemode="tozero")
    most = before * count / 1e6
    labels = [f"{most:.0f}" if most >= 10 else f"{most / 10:.1g}"]
    # The last number of the steps reaches over the end of their axis.
    return keep_margins(dress(figure, theme, 280), tick_room(labels), right=18)


def _faint(colour: str) -> str:
    """#rrggbb as a colour that lets a line behind it be seen."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def _excess(run: RunComparison) -> bool:
    where = _where(run)
    return where is not None and where.excess_ns is not None


def _where(run: RunComparison) -> TimeByCategory | None:
    return None if isinstance(run.where, Missing) else run.where


def _part(run: RunComparison, category: Category) -> float:
    where = _where(run)
    parts = where.parts if where else ()
    return next((part.ns for part in parts if part.category is category), 0.0)


def _with(values: list[float], runs: list[RunComparison]) -> list[tuple[float, RunComparison]]:
    return list(zip(values, runs, strict=True))


def _hover(what: str, ns: float, run: RunComparison) -> str:
    where = _where(run)
    whole = where.step_ns if where else 0.0
    share = format_percent(ns / whole) if whole else ""
    return (
        f"{escape(what)}<br>{format_ns(ns)}, {share} of the step<extra>{escape(run.name)}</extra>"
    )
