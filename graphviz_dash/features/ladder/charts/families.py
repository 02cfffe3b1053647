"""Charts of a graph family: replay time by size, requests, losses, costs, and recommended sizes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import accumulate
from typing import Any, Final, Literal

import plotly.graph_objects as go

from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    MemberReport,
    SizeLoss,
    sum_fallback_ns,
)
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.charts.figures.axes import build_error_bars, choose_time_unit, compute_log_ticks
from graphviz_dash.charts.figures.theme import apply_theme, compute_tick_width, set_fixed_margins
from graphviz_dash.charts.shades import (
    ACCENT,
    BLUE,
    GREY,
    IDLE,
    MAGENTA,
    VIOLET,
    WARNING,
    Theme,
    get_colour,
)
from graphviz_dash.features.ladder.analysis.kernel_changes import KernelChange
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.narrative import list_sets
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_bytes, format_count, format_ns, pluralize

_LOG_AXIS_RATIO: Final = 16
"""Ratio of largest to smallest size from which the axis is logarithmic."""
_MAX_TICKS: Final = 24
_MIN_TICK_RATIO: Final = 1.25
"""Ratio of neighbouring ticks above which their labels do not overlap."""
_END_RATIO: Final = 1.08
"""Ratio of the end of the axis to the largest size, with space for its label."""
_MAX_POINTS: Final = 240
"""Graphs drawn as points with bars; more become a line with a band."""
_MAX_CHANGE_LINES: Final = 12
"""Kernel changes with a line each."""
_EQUAL_TOLERANCE: Final = 1e-6
"""Relative difference below which two times are drawn as one."""
_MAX_BARS: Final = 240
"""Request sizes drawn individually; more are grouped by padded size."""


def draw_family(
    family: FamilyReport, changes: Sequence[KernelChange], theme: Theme
) -> go.Figure | None:
    """Draw replay time with quartiles by size, then requests, padding and fallback cost. None if no
    size is known."""
    members = [member for member in family.members if member.size]
    timed = [member for member in members if member.gpu]
    if not timed:
        return None
    losses = [] if isinstance(family.losses, Missing) else _aggregate_losses(family)
    has_fallbacks = any(loss.fallbacks and loss.fallback_ns is not None for loss in losses)
    domains, height = _LAYOUTS[0 if not losses else 2 if has_fallbacks else 1]
    figure = go.Figure()
    unit = choose_time_unit(max(member.gpu.median for member in timed if member.gpu))
    _add_lines(figure, timed, unit.ns, theme)
    titles = [f"replay, {unit.name}"]
    if losses:
        _add_requests(figure, losses, theme)
        titles += ["requests", _add_costs(figure, losses, "padding", "y3", theme)]
    if has_fallbacks:
        titles.append(_add_costs(figure, losses, "fallback", "y4", theme))
    _add_changes(figure, changes, theme)
    for number, (domain, title) in enumerate(zip(domains, titles, strict=True), 1):
        axis = {"domain": domain, "title": {"text": title}, "anchor": "x"}
        figure.update_layout({f"yaxis{number if number > 1 else ''}": axis})
    has_legend = bool(changes) or len({member.other_axes for member in timed}) > 1
    figure.update_layout(showlegend=has_legend)
    apply_theme(figure, theme, height)
    bottom = f"y{len(titles)}" if len(titles) > 1 else "y"
    _configure_size_axis(figure, family, [member.size or 0 for member in members], losses, bottom)
    figure.update_yaxes(rangemode="tozero", tickformat=",", nticks=4)
    return set_fixed_margins(figure, _compute_label_width(figure))


_LAYOUTS: Final = (
    (((0.0, 1.0),), 300),
    (((0.56, 1.0), (0.29, 0.48), (0.0, 0.21)), 500),
    (((0.62, 1.0), (0.41, 0.56), (0.205, 0.35), (0.0, 0.145)), 600),
)
"""Vertical domains of the subplots and the height in pixels: replays only, with requests and
padding, and with fallbacks."""


def _configure_size_axis(
    figure: go.Figure,
    family: FamilyReport,
    sizes: Sequence[int],
    losses: Sequence[SizeLoss],
    bottom: str,
) -> None:
    all_sizes = [*sizes, *(loss.size for loss in losses)]
    is_log = max(all_sizes) > _LOG_AXIS_RATIO * min(all_sizes)
    axis = family.family.size_axis
    name = "size" if axis is None else family.family.axes[axis]
    settings: dict[str, Any] = {"title_text": escape(name), "type": "log" if is_log else "linear"}
    settings |= build_size_ticks(sizes, all_sizes, is_log=is_log)
    # By default the axis ends within the strokes of the largest size.
    settings["autorangeoptions"] = {"include": _END_RATIO * max(all_sizes)}
    figure.update_xaxes(**settings, anchor=bottom)


def build_size_ticks(
    sizes: Sequence[int], all_sizes: Sequence[int], *, is_log: bool
) -> dict[str, Any]:
    """Build ticks at ``sizes`` of graphs, and above them, if they are few, otherwise over
    ``all_sizes``."""
    ticks = sorted(set(sizes))
    if len(ticks) <= _MAX_TICKS:
        spaced_ticks = _select_spaced_ticks(ticks, wide=is_log)
        spaced_ticks += _list_larger_ticks(ticks[-1], max(all_sizes))
        return {"tickvals": spaced_ticks, "ticktext": [f"{tick:,}" for tick in spaced_ticks]}
    # Plotly's ticks on a logarithmic axis are only powers of ten.
    return _build_log_ticks(all_sizes) if is_log else {"tickformat": ","}


def _build_log_ticks(sizes: Sequence[int]) -> dict[str, Any]:
    ticks = compute_log_ticks(sizes)
    return {"tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}


def _select_spaced_ticks(ticks: Sequence[int], *, wide: bool) -> list[int]:
    selected = [ticks[-1]]
    for tick in reversed(ticks[:-1]):
        is_spaced = (
            selected[-1] / tick > _MIN_TICK_RATIO if wide else selected[-1] - tick > ticks[-1] / 22
        )
        if is_spaced:
            selected.append(tick)
    return selected[::-1]


def _list_larger_ticks(largest_graph: int, largest: int) -> list[int]:
    """List doublings of the largest graph and the largest size, without close ones."""
    ticks = [largest] if largest > _MIN_TICK_RATIO * largest_graph else []
    tick = 2 * largest_graph
    while largest > _MIN_TICK_RATIO * tick:
        ticks.insert(-1, tick)
        tick *= 2
    return ticks


def _add_lines(
    figure: go.Figure, timed: Sequence[MemberReport], unit_ns: float, theme: Theme
) -> None:
    """Draw a line per combination of the other key numbers; many graphs become a band."""
    other_keys = sorted({member.other_axes for member in timed})
    colours = [get_colour(hue, theme) for hue in (BLUE, MAGENTA, VIOLET, WARNING, GREY)]
    for number, other_key in enumerate(other_keys):
        line = [member for member in timed if member.other_axes == other_key]
        colour = colours[min(number, len(colours) - 1)]
        sizes = [member.size for member in line]
        medians = [member.gpu.median / unit_ns for member in line if member.gpu]
        is_sparse = len(line) <= _MAX_POINTS
        if not is_sparse:
            _add_band(figure, line, unit_ns, colour)
        figure.add_scatter(
            name="replay"
            if len(other_keys) == 1
            else "with " + ", ".join(f"{n:,}" for n in other_key),
            x=sizes,
            y=medians,
            error_y=_build_error_bars(line, unit_ns, colour) if is_sparse else None,
            mode="lines+markers" if is_sparse else "lines",
            line={"color": colour, "width": 1.5},
            marker={"size": 7 if len(line) <= _MAX_TICKS else 4, "color": colour},
            text=[_format_hover(member) for member in line],
            hovertemplate="%{text}<extra></extra>",
            showlegend=len(other_keys) > 1,
        )


def _build_error_bars(line: Sequence[MemberReport], unit_ns: float, colour: str) -> dict[str, Any]:
    times = [member.gpu for member in line if member.gpu]
    ends = [(time.spread.low, time.spread.high) for time in times]
    medians = [time.median for time in times]
    return build_error_bars(medians, ends, unit_ns, thickness=1, width=2, color=colour)


def _add_band(figure: go.Figure, line: Sequence[MemberReport], unit_ns: float, colour: str) -> None:
    sizes = [member.size for member in line]
    times = [member.gpu for member in line if member.gpu]
    ends = [
        [time.spread.low / unit_ns for time in times],
        [(time.spread.high or time.median) / unit_ns for time in times],
    ]
    for values, fill in zip(ends, (None, "tonexty"), strict=True):
        figure.add_scatter(
            x=sizes,
            y=values,
            mode="lines",
            line={"width": 0, "color": colour},
            fill=fill,
            hoverinfo="skip",
            showlegend=False,
        )


def _format_hover(member: MemberReport) -> str:
    assert member.gpu is not None
    key = ", ".join(f"{number:,}" for number in member.member.key or ())
    return (
        f"<b>{key}</b><br>{format_ns(member.gpu.median)} "
        f"({pluralize(member.gpu.spread.samples, 'sample')})<br>"
        f"{pluralize(member.steps, 'step')}"
    )


def _add_changes(figure: go.Figure, changes: Sequence[KernelChange], theme: Theme) -> None:
    """Mark changes of kernels, with dotted lines unless there are too many."""
    colour = get_colour(WARNING, theme)
    for change in changes if len(changes) <= _MAX_CHANGE_LINES else ():
        figure.add_shape(
            type="line",
            xref="x",
            yref="paper",
            x0=_compute_midpoint(change),
            x1=_compute_midpoint(change),
            y0=0.0,
            y1=1.0,
            line={"color": colour, "width": 1, "dash": "dot"},
            layer="below",
        )
    if not changes:
        return
    figure.add_scatter(
        name="kernel change",
        x=[_compute_midpoint(change) for change in changes],
        y=[0.0] * len(changes),
        mode="markers",
        marker={"symbol": "diamond", "size": 9, "color": colour},
        text=[format_kernel_change(change) for change in changes],
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )


def _compute_midpoint(change: KernelChange) -> float:
    """Return the geometric mean of both sizes, near the middle on either axis type."""
    return float(((change.smaller.size or 1) * (change.larger.size or 1)) ** 0.5)


def format_kernel_change(change: KernelChange) -> str:
    """Format a change as hover markup."""
    lines = [
        (
            f"{replacement.count} × {_format_kernel_name(replacement.old)} → "
            f"{_format_kernel_name(replacement.new)}"
        )
        for replacement in change.replacements[:4]
    ]
    more = len(change.replacements) - len(lines)
    title = f"<b>{change.smaller.size:,} → {change.larger.size:,}</b>, {change.node_count} nodes"
    return "<br>".join([title, *lines, *([f"and {more} more"] if more > 0 else [])])


def _format_kernel_name(kernel: str | None) -> str:
    return "nothing" if kernel is None else escape(shorten_name(kernel))


def _aggregate_losses(family: FamilyReport) -> list[SizeLoss]:
    """Aggregate losses by real size, or by captured size if there are many."""
    assert not isinstance(family.losses, Missing)
    losses = list(family.losses)
    if len(losses) <= _MAX_BARS:
        return losses
    ladder = sorted({member.size for member in family.members if member.size})
    if len(ladder) > _MAX_BARS:
        ladder = ladder[:: -(-len(ladder) // _MAX_BARS)]
    bins: dict[int, list[SizeLoss]] = {}
    for loss in losses:
        size = next((candidate for candidate in ladder if candidate >= loss.size), losses[-1].size)
        bins.setdefault(size, []).append(loss)
    return [
        SizeLoss(
            size,
            sum(candidate.requests for candidate in size_losses),
            sum(candidate.fallbacks for candidate in size_losses),
            sum(candidate.padding_ns for candidate in size_losses),
            sum_fallback_ns(size_losses),
        )
        for size, size_losses in bins.items()
    ]


def _add_requests(figure: go.Figure, losses: Sequence[SizeLoss], theme: Theme) -> None:
    graphed = [loss.requests - loss.fallbacks for loss in losses]
    text = [
        f"<b>{loss.size:,}</b><br>{pluralize(loss.requests, 'request')}"
        + (f", {format_count(loss.fallbacks)} fallbacks" if loss.fallbacks else "")
        for loss in losses
    ]
    _add_stems(
        figure, "requests", losses, [0] * len(losses), graphed, text, get_colour(BLUE, theme), "y2"
    )
    if any(loss.fallbacks for loss in losses):
        totals = [loss.requests for loss in losses]
        red = get_colour(IDLE, theme)
        _add_stems(figure, "fallbacks", losses, graphed, totals, text, red, "y2")


def _add_costs(
    figure: go.Figure,
    losses: Sequence[SizeLoss],
    name: Literal["padding", "fallback"],
    axis: str,
    theme: Theme,
) -> str:
    """Add the cost of padding or of fallbacks, and return the title of its axis."""
    is_padding = name == "padding"
    costs_ns = [loss.padding_ns if is_padding else loss.fallback_ns or 0.0 for loss in losses]
    text = [
        f"<b>{loss.size:,}</b><br>{format_ns(ns)} {name} cost for "
        + pluralize(loss.requests - loss.fallbacks if is_padding else loss.fallbacks, "request")
        for loss, ns in zip(losses, costs_ns, strict=True)
    ]
    unit = choose_time_unit(max(0.0, *costs_ns))
    values = [max(ns, 0.0) / unit.ns for ns in costs_ns]
    colour = get_colour(VIOLET if is_padding else IDLE, theme)
    title = name if is_padding else f"{name}s"
    _add_stems(figure, title, losses, [0.0] * len(losses), values, text, colour, axis)
    return f"{title}, {unit.name}"


def _add_stems(
    figure: go.Figure,
    name: str,
    losses: Sequence[SizeLoss],
    low: Sequence[float],
    high: Sequence[float],
    text: Sequence[str],
    colour: str,
    axis: str,
) -> None:
    """Add vertical strokes; unlike bars, they have a constant width on both axis types."""
    width = 5 if len(losses) <= 40 else 3 if len(losses) <= 110 else 1.5
    visible = [index for index in range(len(losses)) if high[index] > low[index]]
    x: list[float | None] = []
    y: list[float | None] = []
    notes: list[str] = []
    for index in visible:
        x += [losses[index].size, losses[index].size, None]
        y += [low[index], high[index], None]
        notes += [text[index], text[index], ""]
    figure.add_scatter(
        name=name,
        x=x,
        y=y,
        mode="lines",
        line={"color": colour, "width": width},
        text=notes,
        hovertemplate="%{text}<extra></extra>",
        yaxis=axis,
        showlegend=False,
    )


def draw_cumulative_costs(family: FamilyReport, theme: Theme) -> go.Figure | None:
    """Draw cumulative device memory and startup time by size; None if no size is known."""
    members = [member for member in family.members if member.size]
    if not members:
        return None
    sizes = [member.size or 0 for member in members]
    private_bytes = [member.own_bytes or 0 for member in members]
    memory, startup = (
        list(accumulate(private_bytes)),
        list(accumulate(m.startup_ns for m in members)),
    )
    size_unit, size_name = (1 << 30, "GiB") if memory[-1] >= 4 << 30 else (1 << 20, "MiB")
    time = choose_time_unit(max(startup[-1], 1))
    figure = go.Figure()
    for values, unit, colour, axis, name, texts in (
        (memory, size_unit, BLUE, "y", "exclusive memory", [format_bytes(v) for v in memory]),
        (startup, time.ns, VIOLET, "y2", "startup", [format_ns(v) for v in startup]),
    ):
        figure.add_scatter(
            name=name,
            x=sizes,
            y=[value / unit for value in values],
            mode="lines+markers" if len(sizes) <= 60 else "lines",
            line={"shape": "hv", "width": 2, "color": get_colour(colour, theme)},
            marker={"size": 5},
            text=_format_stair_notes(sizes, texts, name) if len(sizes) <= _MAX_POINTS else None,
            hovertemplate="%{text}<extra></extra>"
            if len(sizes) <= _MAX_POINTS
            else f"<b>all up to %{{x:,}}</b><br>%{{y:,.3g}} {name}<extra></extra>",
            yaxis=axis,
        )
    figure.update_layout(
        yaxis={"domain": (0.56, 1.0), "title": size_name},
        yaxis2={"domain": (0.0, 0.44), "title": time.name, "anchor": "x"},
    )
    figure.update_layout(showlegend=False)
    apply_theme(figure, theme, 320)
    _configure_size_axis(figure, family, sizes, [], "y2")
    figure.update_yaxes(rangemode="tozero", tickformat=",", nticks=4)
    return set_fixed_margins(figure, _compute_label_width(figure))


def _compute_label_width(figure: go.Figure) -> float:
    """Compute the label width in pixels, by the largest value."""
    largest = max((y for trace in figure.data for y in trace.y if y is not None), default=0.0)
    return compute_tick_width([f"{largest:,.0f}", "0.05"])


def _format_stair_notes(sizes: Sequence[int], texts: Sequence[str], name: str) -> list[str]:
    return [
        f"<b>all up to {size:,}</b><br>{text} {name}"
        for size, text in zip(sizes, texts, strict=True)
    ]


_SET_MARKS: Final = {
    "current": (GREY, "circle"),
    "recommended": (ACCENT, "diamond"),
    "fastest": (BLUE, "circle"),
}


def draw_ladder(advice: LadderAdvice, theme: Theme) -> go.Figure | None:
    """Draw the minimum time per request by number of sizes; None if there is only one number."""
    curve = [(count, ns) for count, ns in advice.curve if count]
    if len(curve) < 2:
        return None
    unit = choose_time_unit(max(ns for _, ns in curve[1:]))
    figure = go.Figure()
    figure.add_scatter(
        name="best by number of sizes",
        x=[count for count, _ in curve],
        y=[ns / unit.ns for _, ns in curve],
        mode="lines",
        line={"shape": "hv", "color": get_colour(BLUE, theme), "width": 2},
        text=[f"<b>{pluralize(count, 'size')}</b><br>{format_ns(ns)}" for count, ns in curve],
        hovertemplate="%{text}<extra></extra>",
    )
    for name, sizes, use in list_sets(advice):
        count, (colour, symbol) = len(sizes), _SET_MARKS[name]
        time = use.total_ns / advice.requests
        if time == float("inf"):
            continue
        figure.add_scatter(
            name=name,
            x=[count],
            y=[time / unit.ns],
            mode="markers",
            marker={"size": 12, "symbol": symbol, "color": get_colour(colour, theme)},
            text=[
                f"<b>{name}</b><br>{pluralize(count, 'size')}, {format_ns(time)}<br>"
                f"{format_bytes(use.memory_bytes)}, {format_ns(use.startup_ns)} startup"
            ],
            hovertemplate="%{text}<extra></extra>",
        )
    apply_theme(figure, theme, 270)
    figure.update_xaxes(title_text="sizes", tickformat=",d", rangemode="tozero")
    values = [ns / unit.ns for _, ns in curve[1:]] + [
        use.total_ns / advice.requests / unit.ns
        for _, _, use in list_sets(advice)
        if use.total_ns != float("inf")
    ]
    # Sums of the same numbers in another order differ in the last bit. On an axis with that range,
    # the browser's coordinates become infinite.
    differs = max(values) - min(values) > max(values) * _EQUAL_TOLERANCE
    margin = (max(values) - min(values)) * 0.12 if differs else max(values) * 0.05
    figure.update_yaxes(
        title_text=f"GPU time per request, {unit.name}",
        tickformat=",",
        range=[min(values) - margin, max(values) + margin],
    )
    return figure
