"""Numbers for sentences: two values in one unit, and spreads."""

from __future__ import annotations

from graphviz_dash.analysis.metrics.registry import Unit
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind
from graphviz_dash.units import format_ns, pluralize, round_significant

_UNIT_NS = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def format_in_same_unit(first: float, second: float) -> tuple[str, str]:
    """Format two times in ns in the unit of the smaller one."""
    unit = format_ns(min(first, second)).rsplit(" ", 1)[1]
    size = _UNIT_NS[unit]
    return f"{round_significant(first / size)} {unit}", f"{round_significant(second / size)} {unit}"


def format_interval_basis(spread: Spread) -> str:
    """Format the level and process count of an interval."""
    return f"95%, {pluralize(spread.processes, 'process')}"


def format_spread(figure: MetricValue) -> str:
    """Format the spread of a figure; empty for a single measurement or equal values."""
    spread = figure.spread
    if spread is None or spread.low == spread.high:
        return ""
    if spread.high is None:
        text = f"{figure.metric.format(spread.low)} to never"
    elif figure.metric.unit is Unit.NANOSECONDS and spread.low > 0:
        low, high = format_in_same_unit(spread.low, spread.high)
        text = f"{low.partition(' ')[0]} to {high}"
    else:
        text = f"{figure.metric.format(spread.low)} to {figure.metric.format(spread.high)}"
    if spread.kind is SpreadKind.INTERVAL:
        return f"{format_interval_basis(spread)}: {text}"
    return f"90%: {text}" if spread.kind is SpreadKind.PREDICTION else text
