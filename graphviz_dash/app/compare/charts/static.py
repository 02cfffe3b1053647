"""Static charts of a comparison, for reports without scripts and for paper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.comparison.break_even import BreakEven
from graphviz_dash.analysis.step_comparison.time_by_category import WAITING_FOR_RANKS
from graphviz_dash.analysis.step_comparison.waterfall import Cause, Waterfall
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import (
    ADDED,
    BASELINE,
    CATEGORY_SHADES,
    REMAINDER,
    RUN,
    SAVED,
    get_run_shade,
)
from graphviz_dash.charts.shades import IDLE
from graphviz_dash.charts.static.svg import (
    RULE,
    WIDTH,
    build_drawing,
    build_legend,
    build_rectangle,
    build_text,
    compute_round_numbers,
    css_colour,
    truncate_text,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_count, format_ns, pluralize

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import Comparison

_LEFT: Final = 170.0
_RIGHT: Final = 90.0
_ROW: Final = 30.0
_HATCH: Final = (
    '<defs><pattern id="{id}" width="7" height="7" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><path d="M0 0V7" style="stroke:{stroke};stroke-width:2"/>'
    "</pattern></defs>"
)


def draw_waterfall(waterfall: Waterfall) -> str:
    """Draw a bar per cause from the baseline's step to the run's."""
    level = waterfall.before_ns
    hatch = _HATCH.format(id="rest", stroke=css_colour(REMAINDER))
    rows = [(waterfall.baseline, 0, level, css_colour(BASELINE), "", format_ns(level))]
    for cause, saved in waterfall.saved_by_cause:
        shade = css_colour(SAVED if saved >= 0 else ADDED)
        extra = ""
        if cause is Cause.REMAINDER:
            shade, extra = "url(#rest)", f'stroke="{css_colour(REMAINDER)}"'
        sign = "\N{MINUS SIGN}" if saved > 0 else "+" if saved < 0 else ""
        low, high = min(level, level - saved), max(level, level - saved)
        rows.append((cause.value, low, high, shade, extra, f"{sign}{format_ns(abs(saved))}"))
        level -= saved
    last = (
        waterfall.run,
        0,
        waterfall.after_ns,
        css_colour(RUN),
        "",
        format_ns(waterfall.after_ns),
    )
    scale = (WIDTH - _LEFT - _RIGHT) / max(1, *(high for _, _, high, *_ in (*rows, last)))
    parts = [hatch]
    for index, (name, low, high, fill, extra, label) in enumerate([*rows, last]):
        y = index * _ROW
        x = _LEFT + low * scale
        parts.append(build_text(_LEFT - 10, y + 19, truncate_text(name, _LEFT - 14, 13), "", "end"))
        wide = max((high - low) * scale, 1.0)
        parts.append(build_rectangle(x, y + 4, wide, _ROW - 8, fill, extra=extra))
        parts.append(build_text(x + wide + 8, y + 19, label, "num"))
    description = (
        f"From {waterfall.baseline}, {format_ns(waterfall.before_ns)}, to {waterfall.run}, by cause"
    )
    return build_drawing(WIDTH, (len(rows) + 1) * _ROW, description, "".join(parts))


def draw_time_by_category(comparison: Comparison) -> str | None:
    """Draw a bar per run: a clean step divided into GPU work by category and idle time."""
    measured = [
        (run.name, run.time_by_category)
        for run in comparison.runs
        if not isinstance(run.time_by_category, Missing)
    ]
    if not measured:
        return None
    longest = max(breakdown.step_ns for _, breakdown in measured)
    scale = (WIDTH - _LEFT - _RIGHT) / max(longest, 1)
    categories = {part.category for _, breakdown in measured for part in breakdown.parts}
    entries = [
        (category.value, CATEGORY_SHADES[category])
        for category in Category
        if category in categories
    ]
    legend_markup, top = build_legend([*entries, ("GPU idle", IDLE)], _LEFT, 12, WIDTH)
    parts = [_HATCH.format(id="idle", stroke=css_colour(IDLE)), legend_markup]
    for index, (name, breakdown) in enumerate(measured):
        y, x = top + index * _ROW, _LEFT
        parts.append(build_text(_LEFT - 10, y + 19, truncate_text(name, _LEFT - 14, 13), "", "end"))
        for part in breakdown.scaled_parts:
            tip = f"{part.category.value}: {format_ns(part.ns)}"
            fill = css_colour(CATEGORY_SHADES[part.category])
            parts.append(build_rectangle(x, y + 4, part.ns * scale, _ROW - 8, fill, tip=tip))
            x += part.ns * scale
        if breakdown.waiting_ns:
            tip = f"{WAITING_FOR_RANKS}: {format_ns(breakdown.waiting_ns)}"
            wide = breakdown.waiting_ns * scale
            edge = f'stroke="{css_colour(IDLE)}"'
            parts.append(build_rectangle(x, y + 4, wide, _ROW - 8, "none", extra=edge, tip=tip))
            parts.append(
                build_text(x + 4, y + 19, truncate_text(WAITING_FOR_RANKS, wide - 8, 13), "muted")
            )
            x += wide
        if breakdown.idle_ns:
            tip, edge = f"GPU idle: {format_ns(breakdown.idle_ns)}", f'stroke="{css_colour(IDLE)}"'
            wide = breakdown.idle_ns * scale
            parts.append(
                build_rectangle(x, y + 4, wide, _ROW - 8, "url(#idle)", extra=edge, tip=tip)
            )
            x += wide
        parts.append(build_text(x + 8, y + 19, format_ns(breakdown.step_ns), "num"))
    profiled = any(breakdown.profiled for _, breakdown in measured)
    step_name = "step under the profiler" if profiled else "clean step"
    description = f"Time breakdown of a {step_name}, by run"
    return build_drawing(WIDTH, top + len(measured) * _ROW, description, "".join(parts))


def draw_break_even(comparison: Comparison, costs: BreakEven) -> str:
    """Draw the total time by number of steps, with the 95% band."""
    run, base = comparison[costs.run], comparison[costs.baseline]
    height, left, bottom = 220.0, 70.0, 34.0
    count = max(10, round(3 * min(costs.max_replays or costs.replays, 3 * costs.replays)))
    before = costs.step_ns + costs.saving_ns
    high = max(
        before * count, before * count - costs.compute_net_saving(count)[0], costs.one_off_ns
    )

    def format_point(number: float, ns: float) -> str:
        x = left + (WIDTH - left - _RIGHT) * number / count
        return f"{x:.1f} {height - bottom - (height - bottom - 16) * ns / high:.1f}"

    def compute_ends(bound: int) -> list[str]:
        totals = [
            (steps, before * steps - costs.compute_net_saving(steps)[bound]) for steps in (0, count)
        ]
        return [format_point(*total) for total in totals]

    run_colour, base_colour = (css_colour(get_run_shade(side.run)) for side in (run, base))
    band = "L".join((*compute_ends(2), *reversed(compute_ends(0))))
    parts = [f'<path d="M{band}Z" style="fill:{run_colour};opacity:.18"/>']
    parts += _draw_axes(count, high, left, height, bottom)
    for name, stroke, (begin, end) in (
        (base.name, base_colour, [format_point(0, 0), format_point(count, before * count)]),
        (run.name, run_colour, compute_ends(1)),
    ):
        parts.append(f'<path d="M{begin}L{end}" style="stroke:{stroke};fill:none;stroke-width:2"/>')
        x, y = map(float, end.split())
        parts.append(build_text(x + 8, y + 4, truncate_text(name, _RIGHT - 10, 12)))
    position = format_point(costs.replays, 0).split()[0]
    parts.append(
        f'<path d="M{position} 10V{height - bottom:g}" '
        f'style="stroke:{run_colour};stroke-dasharray:3 3"/>'
    )
    replays = pluralize(costs.replays, "replay")
    parts.append(build_text(float(position) + 6, 18, replays, "num"))
    description = f"Total time over steps: break-even of {costs.run} after {replays}"
    return build_drawing(WIDTH, height, description, "".join(parts))


def _draw_axes(count: int, high: float, left: float, height: float, bottom: float) -> Iterator[str]:
    base = height - bottom
    yield (
        f'<path d="M{left} 10V{base}H{WIDTH - _RIGHT}" '
        f'style="stroke:{css_colour(RULE)};fill:none"/>'
    )
    for number in compute_round_numbers(count):
        x = left + (WIDTH - left - _RIGHT) * number / count
        yield build_text(x, base + 16, format_count(round(number)), "axis", "middle")
    for ns in compute_round_numbers(high):
        y = base - (base - 16) * ns / high
        yield build_text(left - 8, y + 4, format_ns(ns) if ns else "0", "axis", "end")
    middle = left + (WIDTH - left - _RIGHT) / 2
    yield build_text(middle, height - 2, "steps", "axis", "middle")
