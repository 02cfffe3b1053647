"""Units and round tick positions of axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct


class TimeUnit(Struct, frozen=True):
    """Time unit of an axis."""

    name: str
    ns: float


_UNITS: Final = (TimeUnit("s", 1e9), TimeUnit("ms", 1e6), TimeUnit("µs", 1e3))


def choose_time_unit(longest_ns: float) -> TimeUnit:
    """Return the largest unit in which ``longest_ns`` is at least 1; µs for shorter times."""
    return next((unit for unit in _UNITS if longest_ns >= unit.ns), _UNITS[-1])


def build_error_bars(
    values: Iterable[float],
    ends: Iterable[tuple[float | None, float | None]],
    scale: float = 1,
    **style: Any,
) -> dict[str, Any]:
    """Build error bars from ``values`` to their low and high ``ends``, divided by ``scale``; an
    unknown end has no bar."""
    rows = [(value, low, high) for value, (low, high) in zip(values, ends, strict=True)]
    upper = [0.0 if high is None else max(high - value, 0.0) / scale for value, _, high in rows]
    lower = [0.0 if low is None else max(value - low, 0.0) / scale for value, low, _ in rows]
    return {"type": "data", "symmetric": False, "array": upper, "arrayminus": lower, **style}


def format_tick(ns: float) -> str:
    """Format a round time as a tick of an axis that spans several units: "500 µs", "2 ms"."""
    unit = choose_time_unit(ns)
    return f"{ns / unit.ns:,g} {unit.name}"


def compute_log_ticks(values: Iterable[float]) -> list[float]:
    """Compute round ticks over the range of ``values``, denser for narrower ranges. Plotly's ticks
    on a logarithmic axis show only the leading digit."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = min(positive), max(positive)
    if high < 1.5 * low:
        return _compute_even_ticks(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    coarse, medium = (1, 10), (1, 2, 5, 10)
    fine = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 8, 10)
    steps = fine if high < 3 * low else medium if high < 1e4 * low else coarse
    return sorted({round(step * 10.0**power, 9) for power in powers for step in steps})


def _compute_even_ticks(low: float, high: float) -> list[float]:
    """Compute four to nine even round ticks around a range too narrow for logarithmic ones."""
    rough = max((high - low) / 4, low * 1e-3)
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * max(multiple for multiple in (1, 2, 5) if multiple * power <= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(number * step, 9) for number in range(first, last + 1)]
