"""Format numbers with their unit. Times are integer nanoseconds, sizes are bytes."""

from __future__ import annotations

_TIME_STEPS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SIZE_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

_RATE_STEPS = ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"))


def round_significant(value: float, digits: int = 3) -> str:
    """Round ``value`` to ``digits`` significant digits, without exponent, thousands grouped.

    Digits before the decimal point are never rounded away: 1304.2 is "1,304", not "1,300".
    """
    if value == 0:
        return "0"
    integer_digits = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    if integer_digits:
        decimals = max(0, digits - integer_digits)
    else:
        decimals = digits
        scaled = abs(value)
        while scaled < 0.1 and decimals < 12:
            scaled *= 10
            decimals += 1
    return f"{value:,.{decimals}f}"


def format_ns(ns: float | None, digits: int = 3) -> str:
    """Format nanoseconds in a suitable unit: ``127 µs``, ``1.30 ms``; ``None`` is an en dash."""
    if ns is None:
        return "–"
    for size, unit in _TIME_STEPS:
        if abs(ns) >= size:
            return f"{round_significant(ns / size, digits)} {unit}"
    return f"{round_significant(ns, digits)} ns" if ns != int(ns) else f"{int(ns)} ns"


def format_bytes(count: float | None, digits: int = 3) -> str:
    """Format bytes in binary units: ``512 B``, ``1.50 MiB``; ``None`` is an en dash.

    Switches to the next unit at 1,000, because 1,020 MiB next to 1.02 GiB would look alike.
    """
    if count is None:
        return "–"
    for size, unit in _SIZE_STEPS:
        if abs(count) >= 1000 * (size >> 10):
            return f"{round_significant(count / size, digits)} {unit}"
    return f"{int(count)} B"


def format_flops(rate: float | None) -> str:
    """Format operations per second: ``412 TFLOP/s``; ``None`` is an en dash."""
    if rate is None:
        return "–"
    for size, unit in _RATE_STEPS:
        if abs(rate) >= size:
            return f"{round_significant(rate / size)} {unit}"
    return f"{round_significant(rate)} FLOP/s"


def format_hertz(frequency: float | None) -> str:
    """Format a frequency: ``1,980 MHz``; ``None`` is an en dash."""
    return "–" if frequency is None else f"{round_significant(frequency / 1e6)} MHz"


def format_tokens(rate: float | None) -> str:
    """Format tokens per second: ``12,345 tokens/s``; ``None`` is an en dash."""
    return "–" if rate is None else f"{round_significant(rate)} tokens/s"


def format_ratio(value: float | None) -> str:
    """Format a ratio such as a speedup: ``10.3x``; ``None`` is an en dash."""
    return "–" if value is None else f"{round_significant(value)}x"


def format_percent(fraction: float | None) -> str:
    """Format a fraction as a percentage; "0%" and "100%" only for exact values.

    From 1,000%, whole percent with thousands grouped.
    """
    if fraction is None:
        return "–"
    if 0 < fraction < 0.001:
        return "<0.1%"
    if 0.999 < fraction < 1:
        return ">99.9%"
    if abs(fraction) >= 10:
        return f"{fraction * 100:,.0f}%"
    return f"{fraction * 100:.1f}%" if fraction not in (0, 1) else f"{fraction * 100:.0f}%"


def pluralize(number: int, noun: str) -> str:
    """Format a count with its noun: ``1 node``, ``1,204 nodes``, ``2 matches``, ``3 copies``."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith(('ch', 'ss')) else 's'}"


def format_count(value: float | None) -> str:
    """Format a count with thousands grouped; ``None`` is an en dash."""
    if value is None:
        return "–"
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}"


def format_signed_bytes(count: int) -> str:
    """Format a difference in bytes with its sign."""
    return f"+{format_bytes(count)}" if count > 0 else format_bytes(count)


def format_signed_percent(fraction: float) -> str:
    """Format a difference as a percentage with its sign."""
    sign = "+" if fraction > 0 else "-" if fraction < 0 else ""
    return f"{sign}{format_percent(abs(fraction))}"
