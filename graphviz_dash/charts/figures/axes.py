"""Units and round places for the labels of axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct


class TimeUnit(Struct, frozen=True):
    """A unit that an axis counts time in."""

    name: str
    ns: float
    """How many ns it is."""


_UNITS: Final = (TimeUnit("s", 1e9), TimeUnit("ms", 1e6), TimeUnit("µs", 1e3))


def time_unit(longest_ns: float) -> TimeUnit:
    """The unit of an axis that reaches to ``longest_ns``: the largest in which that is one or more,
    as single times are written; µs for what is shorter."""
    return next((unit for unit in _UNITS if longest_ns >= unit.ns), _UNITS[-1])


def tick_text(ns: float) -> str:
    """A round time as a tick of an axis that spans several units: "500 µs", "2 ms"."""
    unit = time_unit(ns)
    return f"{ns / unit.ns:,g} {unit.name}"


def log_ticks(values: Iterable[float]) -> list[float]:
    """Round ticks over the range of ``values``; Plotly's own on a logarithmic axis show the leading
    digit alone. The narrower the range, the more of each power of ten."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = min(positive), max(positive)
    if high < 1.5 * low:
        return _even_ticks(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few, some = (1, 10), (1, 2, 5, 10)
    many = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 8, 10)
    steps = many if high < 3 * low else some if high < 1e4 * low else few
    return sorted({round(step * 10.0**power, 9) for power in powers for step in steps})


def _even_ticks(low: float, high: float) -> list[float]:
    """Four to nine round ticks at even distances around a range so narrow that a logarithmic axis
    looks like a linear one."""
    rough = max((high - low) / 4, low * 1e-3)
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * max(multiple for multiple in (1, 2, 5) if multiple * power <= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(number * step, 9) for number in range(first, last + 1)]
