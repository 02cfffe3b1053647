"""Pictures of a family of graphs: replay time over size, requests, losses, costs, and ladders."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import accumulate
from typing import Any, Final

import plotly.graph_objects as go

from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    MemberReport,
    SizeLoss,
    total_fallback_ns,
)
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.charts.figures.axes import log_ticks, time_unit
from graphviz_dash.charts.figures.theme import dress, keep_margins, tick_room
from graphviz_dash.charts.shades import (
    ACCENT,
    BLUE,
    GREY,
    IDLE,
    MAGENTA,
    VIOLET,
    WARNING,
    Theme,
    shade,
)
from graphviz_dash.features.ladder.analysis.kernel_changes import KernelChange
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import counted, format_bytes, format_count, format_ns

_WIDE_RANGE: Final = 16
"""Largest size over smallest from which sizes stand on a logarithmic axis."""
_FEW: Final = 24
"""Sizes that are ticks of their own."""
_APART: Final = 240
"""Graphs that are drawn as points with bars; more are a line with a band."""
_CHANGES: Final = 12
"""Changes of kernels that have a line each."""
_EQUAL: Final = 1e-6
"""Share of a time below which two are drawn as one."""
_BARS: Final = 240
"""Sizes of requests that are drawn one by one; more are drawn for the sizes they are padded to."""


def family_chart(
    family: FamilyReport, changes: Sequence[KernelChange], theme: Theme
) -> go.Figure | None:
    """The time of a replay over the size with its quartiles, below it how often each size is asked
    for, and what that lost to padding and to fallbacks; None where no size is known."""
    members = [member for member in family.members if member.size]
    timed = [member for member in members if member.gpu]
    if not timed:
        return None
    losses = [] if isinstance(family.losses, Missing) else _binned(family)
    fell = any(loss.fallbacks and loss.fallback_ns is not None for loss in losses)
    domains, height = _LAYOUTS[0 if not losses else 2 if fell else 1]
    figure = go.Figure()
    unit = time_unit(max(member.gpu.median for member in timed if member.gpu))
    _add_lines(figure, timed, unit.ns, theme)
    titles = [f"replay, {unit.name}"]
    if losses:
        _add_requests(figure, losses, theme)
        titles += ["requests", _add_losses(figure, losses, "y3", theme)]
    if fell:
        titles.append(_add_fallbacks(figure, losses, "y4", theme))
    _add_changes(figure, changes, theme)
    for number, (domain, title) in enumerate(zip(domains, titles, strict=True), 1):
        axis = {"domain": domain, "title": {"text": title}, "anchor": "x"}
        figure.update_layout({f"yaxis{number if number > 1 else ''}": axis})
    dress(figure, theme, height)
    bottom = f"y{len(titles)}" if len(titles) > 1 else "y"
    _size_axis(figure, family, [member.size or 0 for member in members], losses, bottom)
    figure.update_yaxes(rangemode="tozero", tickformat=",", nticks=4)
    figure.update_layout(showlegend=bool(changes) or len({member.rest for member in timed}) > 1)
    return keep_margins(figure, _labels_room(figure))


_LAYOUTS: Final = (
    (((0.0, 1.0),), 300),
    (((0.56, 1.0), (0.29, 0.48), (0.0, 0.21)), 500),
    (((0.62, 1.0), (0.41, 0.56), (0.205, 0.35), (0.0, 0.145)), 600),
)
"""Where the pictures stand above each other, and the height in pixels: the replays alone, with
requests and padding, and with fallbacks too."""


def _size_axis(
    figure: go.Figure,
    family: FamilyReport,
    sizes: Sequence[int],
    losses: Sequence[SizeLoss],
    bottom: str,
) -> None:
    """The axis that all pictures share, labelled below the one whose axis is ``bottom``."""
    shown = [*sizes, *(loss.size for loss in losses)]
    wide = max(shown) > _WIDE_RANGE * min(shown)
    axis = family.family.size_axis
    name = "size" if axis is None else family.family.axes[axis]
    settings: dict[str, Any] = {"title_text": escape(name), "type": "log" if wide else "linear"}
    ticks = sorted(set(sizes))
    if len(ticks) <= _FEW:
        kept = _spaced(ticks, wide=wide)
        settings |= {"tickvals": kept, "ticktext": [f"{tick:,}" for tick in kept]}
    else:
        # Plotly's own on a logarithmic axis are powers of ten alone.
        settings |= _tens(shown) if wide else {"tickformat": ","}
    figure.update_xaxes(**settings, anchor=bottom)


def _tens(sizes: Sequence[int]) -> dict[str, Any]:
    ticks = log_ticks(sizes)
    return {"tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}


def _spaced(ticks: Sequence[int], *, wide: bool) -> list[int]:
    """Those of ``ticks`` that stand apart enough for their labels."""
    kept = [ticks[-1]]
    for tick in reversed(ticks[:-1]):
        apart = kept[-1] / tick > 1.25 if wide else kept[-1] - tick > ticks[-1] / 22
        if apart:
            kept.append(tick)
    return kept[::-1]


def _add_lines(
    figure: go.Figure, timed: Sequence[MemberReport], unit_ns: float, theme: Theme
) -> None:
    """A line for each set of the other numbers of keys, each graph a point with its quartiles: bars
    where points stand apart, else a band."""
    rests = sorted({member.rest for member in timed})
    colours = [shade(hue, theme) for hue in (BLUE, MAGENTA, VIOLET, WARNING, GREY)]
    for number, rest in enumerate(rests):
        line = [member for member in timed if member.rest == rest]
        colour = colours[min(number, len(colours) - 1)]
        sizes = [member.size for member in line]
        medians = [member.gpu.median / unit_ns for member in line if member.gpu]
        apart = len(line) <= _APART
        if not apart:
            _add_band(figure, line, unit_ns, colour)
        figure.add_scatter(
            name="replay" if len(rests) == 1 else "with " + ", ".join(f"{n:,}" for n in rest),
            x=sizes,
            y=medians,
            error_y=_error_bars(line, unit_ns, colour) if apart else None,
            mode="lines+markers" if apart else "lines",
            line={"color": colour, "width": 1.5},
            marker={"size": 7 if len(line) <= _FEW else 4, "color": colour},
            text=[_said(member) for member in line],
            hovertemplate="%{text}<extra></extra>",
            showlegend=len(rests) > 1,
        )


def _error_bars(line: Sequence[MemberReport], unit_ns: float, colour: str) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [_above(member) / unit_ns for member in line],
        "arrayminus": [_below(member) / unit_ns for member in line],
        "thickness": 1,
        "width": 2,
        "color": colour,
    }


def _add_band(figure: go.Figure, line: Sequence[MemberReport], unit_ns: float, colour: str) -> None:
    sizes = [member.size for member in line]
    ends = [
        [(member.gpu.median + sign * away(member)) / unit_ns for member in line if member.gpu]
        for sign, away in ((-1, _below), (1, _above))
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


def _above(member: MemberReport) -> float:
    return (member.gpu.spread.high or member.gpu.median) - member.gpu.median if member.gpu else 0.0


def _below(member: MemberReport) -> float:
    return member.gpu.median - member.gpu.spread.low if member.gpu else 0.0


def _said(member: MemberReport) -> str:
    assert member.gpu is not None
    key = ", ".join(f"{number:,}" for number in member.member.key or ())
    return (
        f"<b>{key}</b><br>{format_ns(member.gpu.median)} "
        f"({counted(member.gpu.spread.samples, 'sample')})<br>"
        f"{counted(member.steps, 'step')}"
    )


def _add_changes(figure: go.Figure, changes: Sequence[KernelChange], theme: Theme) -> None:
    """A mark between two sizes of other kernels, with a dotted line through the picture unless they
    are so many that lines would hide it."""
    colour = shade(WARNING, theme)
    for change in changes if len(changes) <= _CHANGES else ():
        figure.add_shape(
            type="line",
            xref="x",
            yref="paper",
            x0=_between(change),
            x1=_between(change),
            y0=0.0,
            y1=1.0,
            line={"color": colour, "width": 1, "dash": "dot"},
            layer="below",
        )
    if not changes:
        return
    figure.add_scatter(
        name="other kernels",
        x=[_between(change) for change in changes],
        y=[0.0] * len(changes),
        mode="markers",
        marker={"symbol": "diamond", "size": 9, "color": colour},
        text=[change_text(change) for change in changes],
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )


def _between(change: KernelChange) -> float:
    """Where a change is marked: the geometric mean of its sizes, in the middle on either axis
    nearly."""
    return float(((change.before.size or 1) * (change.after.size or 1)) ** 0.5)


def change_text(change: KernelChange) -> str:
    """The change as markup of a hover note: its sizes, and its most frequent replacements."""
    lines = [
        f"{replacement.count} × {_name(replacement.before)} → {_name(replacement.after)}"
        for replacement in change.replacements[:4]
    ]
    more = len(change.replacements) - len(lines)
    title = f"<b>{change.before.size:,} → {change.after.size:,}</b>, {change.nodes} nodes"
    return "<br>".join([title, *lines, *([f"and {more} more"] if more > 0 else [])])


def _name(kernel: str | None) -> str:
    return "nothing" if kernel is None else escape(short_name(kernel))


def _binned(family: FamilyReport) -> list[SizeLoss]:
    """The losses by real size; of many sizes by the captured size that serves them."""
    assert not isinstance(family.losses, Missing)
    losses = list(family.losses)
    if len(losses) <= _BARS:
        return losses
    ladder = sorted({member.size for member in family.members if member.size})
    if len(ladder) > _BARS:
        ladder = ladder[:: -(-len(ladder) // _BARS)]
    bins: dict[int, list[SizeLoss]] = {}
    for loss in losses:
        size = next((each for each in ladder if each >= loss.size), losses[-1].size)
        bins.setdefault(size, []).append(loss)
    return [
        SizeLoss(
            size,
            sum(each.requests for each in own),
            sum(each.fallbacks for each in own),
            sum(each.padding_ns for each in own),
            total_fallback_ns(own),
        )
        for size, own in bins.items()
    ]


def _add_requests(figure: go.Figure, losses: Sequence[SizeLoss], theme: Theme) -> None:
    graphed = [loss.requests - loss.fallbacks for loss in losses]
    text = [
        f"<b>{loss.size:,}</b><br>{counted(loss.requests, 'request')}"
        + (f", {format_count(loss.fallbacks)} without a graph" if loss.fallbacks else "")
        for loss in losses
    ]
    _stems(figure, "requests", losses, [0] * len(losses), graphed, text, shade(BLUE, theme), "y2")
    if any(loss.fallbacks for loss in losses):
        totals = [loss.requests for loss in losses]
        red = shade(IDLE, theme)
        _stems(figure, "requests without a graph", losses, graphed, totals, text, red, "y2")


def _add_losses(figure: go.Figure, losses: Sequence[SizeLoss], axis: str, theme: Theme) -> str:
    """What padding lost; returns the title of its axis."""
    lost = [max(loss.padding_ns, 0.0) for loss in losses]
    text = [
        f"<b>{loss.size:,}</b><br>{format_ns(loss.padding_ns)} lost to padding by "
        f"{counted(loss.requests - loss.fallbacks, 'request')}"
        for loss in losses
    ]
    unit = time_unit(max(lost))
    values = [ns / unit.ns for ns in lost]
    colour = shade(VIOLET, theme)
    _stems(figure, "padding", losses, [0.0] * len(lost), values, text, colour, axis)
    return f"padding, {unit.name}"


def _add_fallbacks(figure: go.Figure, losses: Sequence[SizeLoss], axis: str, theme: Theme) -> str:
    """What fallbacks lost; returns the title of its axis."""
    lost = [max(loss.fallback_ns or 0.0, 0.0) for loss in losses]
    text = [
        f"<b>{loss.size:,}</b><br>{format_ns(loss.fallback_ns or 0.0)} lost by "
        f"{counted(loss.fallbacks, 'request')} without a graph"
        for loss in losses
    ]
    unit = time_unit(max(lost))
    values = [ns / unit.ns for ns in lost]
    colour = shade(IDLE, theme)
    _stems(figure, "fallbacks", losses, [0.0] * len(lost), values, text, colour, axis)
    return f"fallbacks, {unit.name}"


def _stems(
    figure: go.Figure,
    name: str,
    losses: Sequence[SizeLoss],
    low: Sequence[float],
    high: Sequence[float],
    text: Sequence[str],
    colour: str,
    axis: str,
) -> None:
    """Upright strokes, which have one width on an axis of either kind, where bars have not."""
    width = 5 if len(losses) <= 40 else 3 if len(losses) <= 110 else 1.5
    shown = [index for index in range(len(losses)) if high[index] > low[index]]
    x: list[float | None] = []
    y: list[float | None] = []
    notes: list[str] = []
    for index in shown:
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


def stairs_chart(family: FamilyReport, theme: Theme) -> go.Figure | None:
    """What all graphs up to each size take together: device memory of their own, and start-up;
    None where no size is known."""
    members = [member for member in family.members if member.size]
    if not members:
        return None
    sizes = [member.size or 0 for member in members]
    own = [(member.own_bytes or 0) + (member.executable_bytes or 0) for member in members]
    memory, startup = list(accumulate(own)), list(accumulate(m.startup_ns for m in members))
    size_unit, size_name = (1 << 30, "GiB") if memory[-1] >= 4 << 30 else (1 << 20, "MiB")
    time = time_unit(max(startup[-1], 1))
    figure = go.Figure()
    for values, unit, colour, axis, name, words in (
        (memory, size_unit, BLUE, "y", "memory of their own", [format_bytes(v) for v in memory]),
        (startup, time.ns, VIOLET, "y2", "start-up", [format_ns(v) for v in startup]),
    ):
        figure.add_scatter(
            name=name,
            x=sizes,
            y=[value / unit for value in values],
            mode="lines+markers" if len(sizes) <= 60 else "lines",
            line={"shape": "hv", "width": 2, "color": shade(colour, theme)},
            marker={"size": 5},
            text=_stair_notes(sizes, words, name) if len(sizes) <= _APART else None,
            hovertemplate="%{text}<extra></extra>"
            if len(sizes) <= _APART
            else f"<b>all up to %{{x:,}}</b><br>%{{y:,.3g}} {name}<extra></extra>",
            yaxis=axis,
        )
    figure.update_layout(
        yaxis={"domain": (0.56, 1.0), "title": size_name},
        yaxis2={"domain": (0.0, 0.44), "title": time.name, "anchor": "x"},
    )
    dress(figure, theme, 320)
    _size_axis(figure, family, sizes, [], "y2")
    figure.update_yaxes(rangemode="tozero", tickformat=",", nticks=4)
    figure.update_layout(showlegend=False)
    return keep_margins(figure, _labels_room(figure))


def _labels_room(figure: go.Figure) -> float:
    """The pixels that the labels of axes from zero take, by the largest value of all."""
    largest = max((y for trace in figure.data for y in trace.y if y is not None), default=0.0)
    return tick_room([f"{largest:,.0f}", "0.05"])


def _stair_notes(sizes: Sequence[int], words: Sequence[str], name: str) -> list[str]:
    return [
        f"<b>all up to {size:,}</b><br>{said} {name}"
        for size, said in zip(sizes, words, strict=True)
    ]


def ladder_chart(advice: LadderAdvice, theme: Theme) -> go.Figure | None:
    """The least time of a request by the number of sizes, with today's and the best ladder; None
    where there is but one number."""
    curve = [(count, ns) for count, ns in advice.curve if count]
    if len(curve) < 2:
        return None
    unit = time_unit(max(ns for _, ns in curve[1:]))
    figure = go.Figure()
    figure.add_scatter(
        name="best with so many sizes",
        x=[count for count, _ in curve],
        y=[ns / unit.ns for _, ns in curve],
        mode="lines",
        line={"shape": "hv", "color": shade(BLUE, theme), "width": 2},
        text=[f"<b>{counted(count, 'size')}</b><br>{format_ns(ns)}" for count, ns in curve],
        hovertemplate="%{text}<extra></extra>",
    )
    points = (
        ("today", len(advice.today), advice.today_use, GREY, "circle"),
        ("best within the budget", len(advice.ladder.sizes), advice.use, ACCENT, "diamond"),
    )
    for name, count, use, colour, symbol in points:
        time = use.total_ns / advice.requests
        if time == float("inf"):
            continue
        figure.add_scatter(
            name=name,
            x=[count],
            y=[time / unit.ns],
            mode="markers",
            marker={"size": 12, "symbol": symbol, "color": shade(colour, theme)},
            text=[f"<b>{name}</b><br>{counted(count, 'size')}, {format_ns(time)}"],
            hovertemplate="%{text}<extra></extra>",
        )
    dress(figure, theme, 300)
    figure.update_xaxes(title_text="sizes", tickformat=",d", rangemode="tozero")
    values = [ns / unit.ns for _, ns in curve[1:]] + [
        use.total_ns / advice.requests / unit.ns
        for use in (advice.today_use, advice.use)
        if use.total_ns != float("inf")
    ]
    # Sums of the same numbers in another order differ in their last bit: on an axis of that height
    # the browser's coordinates of all else are infinite.
    differs = max(values) - min(values) > max(values) * _EQUAL
    margin = (max(values) - min(values)) * 0.12 if differs else max(values) * 0.05
    figure.update_yaxes(
        title_text=f"GPU time of a request, {unit.name}",
        tickformat=",",
        range=[min(values) - margin, max(values) + margin],
    )
    return figure
