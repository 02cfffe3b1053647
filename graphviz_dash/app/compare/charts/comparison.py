"""Charts of a comparison: step time breakdown, iterations, and break-even."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.program_step import list_recorded_times
from graphviz_dash.analysis.step_comparison.time_by_category import (
    WAITING_FOR_RANKS,
    TimeByCategory,
)
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.figures.axes import choose_time_unit, compute_log_ticks, format_tick
from graphviz_dash.charts.figures.stacks import StackPart, draw_stacks
from graphviz_dash.charts.figures.theme import (
    MARKER_SYMBOLS,
    apply_theme,
    build_translucent,
    compute_tick_width,
    set_fixed_margins,
)
from graphviz_dash.charts.palette import CATEGORY_SHADES, RUN, get_run_shade
from graphviz_dash.charts.shades import IDLE, Shade, Theme, get_colour
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_ns, format_percent, pluralize

_MAX_POINTS: Final = 2_000
"""Maximum number of drawn iterations per run; more are sampled evenly, as the caption states."""

_RUN_MARGIN: Final = 0.06
"""Share of a run's width kept free on either side."""

_LINE_HEIGHT: Final = 15
"""Height in pixels of a line below an axis."""
_LINE_CHARACTERS: Final = 36
"""Characters that fit below a plot in a window of 360 pixels."""
_CHARACTER_WIDTH: Final = 6.6


def draw_time_breakdown(comparison: Comparison, theme: Theme) -> go.Figure | None:
    """Draw a bar per run: GPU work by category and GPU idle time of a step. None if no run can be
    divided."""
    measured = {
        escape(run.name): run.time_by_category
        for run in comparison.runs
        if not isinstance(run.time_by_category, Missing)
    }
    if not measured:
        return None
    steps = measured.values()
    unit = choose_time_unit(max(step.step_ns for step in steps))

    def build_part(
        name: str, values: list[float], shade: Shade, **pattern: str | float
    ) -> StackPart:
        hovers = [
            f"{escape(name)}<br>{format_ns(value)}, {format_percent(value / step.step_ns)} of the "
            f"step<extra>{label}</extra>"
            for value, (label, step) in zip(values, measured.items(), strict=True)
        ]
        return StackPart(name, values, hovers, shade, pattern)

    parts = [
        build_part(
            category.value,
            [_get_part_ns(step, category) for step in steps],
            CATEGORY_SHADES[category],
        )
        for category in Category
    ]
    waiting = [step.waiting_ns for step in steps]
    parts.append(build_part(WAITING_FOR_RANKS, waiting, IDLE, shape=".", size=6))
    idle = [step.idle_ns or 0.0 for step in steps]
    parts.append(build_part("GPU idle", idle, IDLE, shape="/", size=7, solidity=0.14))
    title = (
        f"{unit.name} per step under the profiler (no unprofiled times)"
        if any(step.profiled for step in steps)
        else f"{unit.name} per step (clean or recorded step time, split by the trace)"
    )
    steps_ns = {label: step.step_ns for label, step in measured.items()}
    return draw_stacks(parts, steps_ns, list(steps_ns.values()), unit, title, theme)


def _get_part_ns(step: TimeByCategory, category: Category) -> float:
    return next((part.ns for part in step.scaled_parts if part.category is category), 0.0)


def draw_iterations(comparison: Comparison, theme: Theme) -> go.Figure | None:
    """Draw step times of clean iterations and recorded steps, runs side by side; None without
    any."""
    measured = [(run, times) for run in comparison.runs if (times := _list_iterations(run.run))]
    if not measured:
        return None
    figure = go.Figure()
    for index, (run, times) in enumerate(measured):
        stride = -(-len(times) // _MAX_POINTS)
        numbers = range(0, len(times), stride)
        figure.add_scatter(
            name=escape(run.name),
            x=[
                index + _RUN_MARGIN + (1 - 2 * _RUN_MARGIN) * number / len(times)
                for number in numbers
            ],
            y=[times[number] for number in numbers],
            mode="markers",
            marker={
                "size": 4,
                "color": get_colour(get_run_shade(run.run), theme),
                "opacity": 0.75,
                "symbol": MARKER_SYMBOLS[index % len(MARKER_SYMBOLS)],
            },
            text=[f"iteration {number}<br>{format_ns(times[number])}" for number in numbers],
            hovertemplate="%{text}<extra>" + escape(run.name) + "</extra>",
        )
    names = [_truncate_name(run.name) for run, _ in measured]
    lines = _count_label_lines(names)
    figure.update_layout(showlegend=False)
    figure.update_xaxes(
        title_text="iterations of each run, first to last",
        range=[0, len(measured)],
        tickvals=[index + 0.5 for index in range(len(measured))],
        ticktext=["<br>" * (index % lines) + escape(name) for index, name in enumerate(names)],
        showgrid=False,
    )
    values = [value for trace in figure.data for value in trace.y]
    ticks = compute_log_ticks(values)
    texts = [format_tick(tick) for tick in ticks]
    figure.update_yaxes(title_text="step time", type="log", tickvals=ticks, ticktext=texts)
    visible_labels = [
        text for tick, text in zip(ticks, texts, strict=True) if tick <= 1.2 * max(values)
    ]
    extra_height = _LINE_HEIGHT * (lines - 1)
    set_fixed_margins(
        apply_theme(figure, theme, 280 + extra_height),
        compute_tick_width(visible_labels),
        right=_compute_right_margin(names),
    )
    figure.update_layout(margin={"b": figure.layout.margin.b + extra_height})
    return figure


def _truncate_name(name: str) -> str:
    return name if len(name) <= _LINE_CHARACTERS else f"{name[: _LINE_CHARACTERS - 1]}…"


def _count_label_lines(names: Sequence[str]) -> int:
    """Return the number of lines of ``names`` below an axis without overlap in a narrow window."""
    slot_width = _LINE_CHARACTERS / len(names)
    for lines in range(1, len(names)):
        neighbours = zip(names, names[lines:], strict=False)
        if all(
            (len(name) + len(other)) / 2 + 1 <= lines * slot_width for name, other in neighbours
        ):
            return lines
    return len(names)


def _compute_right_margin(names: Sequence[str]) -> int:
    """Return the pixels needed right of the plot in a narrow window, with a margin."""
    slot_width = _LINE_CHARACTERS / len(names)
    ends = (
        len(name) / 2 - (index + 0.5) * slot_width for index, name in enumerate(reversed(names))
    )
    return 8 + round(_CHARACTER_WIDTH * max(0.0, *ends))


def _list_iterations(run: Run) -> Sequence[float]:
    """Return the ns of each clean iteration, or of each recorded step on the CPU."""
    if run.clean is not None:
        return [step.wall_ns for step in run.clean.steps]
    return list_recorded_times(run)


def draw_break_even(comparison: Comparison, run: RunComparison, theme: Theme) -> go.Figure | None:
    """Draw total time by number of steps for a run and its baseline. None if the run never pays off
    or has no baseline. The band is the 95% interval of the saving; it crosses the baseline where
    the break-even interval ends."""
    costs = run.break_even
    if isinstance(costs, Missing) or run.baseline is None:
        return None
    count = max(10, round(3 * min(costs.max_replays or costs.replays, 3 * costs.replays)))
    steps = [round(count * number / 40) for number in range(41)]
    base = comparison[run.baseline]
    before = costs.step_ns + costs.saving_ns
    saved = [costs.compute_net_saving(number) for number in steps]
    unit = choose_time_unit(before * count)
    totals = [
        [
            (before * step - savings[bound]) / unit.ns
            for step, savings in zip(steps, saved, strict=True)
        ]
        for bound in range(3)
    ]
    figure = go.Figure()
    run_colour = get_colour(RUN, theme)
    for bound, fill in ((2, None), (0, "tonexty")):
        figure.add_scatter(
            name="95% interval",
            x=steps,
            y=totals[bound],
            mode="lines",
            line={"width": 0, "color": run_colour},
            fill=fill,
            fillcolor=build_translucent(run_colour),
            showlegend=fill is not None,
            hoverinfo="skip",
        )
    for name, dash, values in (
        (base.name, "dash", [before * number / unit.ns for number in steps]),
        (run.name, "solid", totals[1]),
    ):
        figure.add_scatter(
            name=escape(name),
            x=steps,
            y=values,
            mode="lines",
            line={"width": 2.5, "color": run_colour, "dash": dash},
            text=[format_ns(value * unit.ns) for value in values],
            hovertemplate="%{x:,} steps<br>%{text}<extra>" + escape(name) + "</extra>",
        )
    figure.add_vline(
        x=costs.replays,
        line={"dash": "dot", "width": 1, "color": run_colour},
        annotation_text=pluralize(costs.replays, "replay"),
        annotation_position="bottom right",
    )
    figure.update_xaxes(title_text="steps", showgrid=False, tickformat=",")
    figure.update_yaxes(title_text=f"{unit.name} in total", rangemode="tozero")
    axis_end = before * count / unit.ns
    labels = [f"{axis_end:.0f}" if axis_end >= 10 else f"{axis_end / 10:.1g}"]
    # The last step number extends beyond the end of the axis.
    return set_fixed_margins(apply_theme(figure, theme, 280), compute_tick_width(labels), right=18)
