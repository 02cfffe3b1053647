from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.units import (
    format_bytes,
    format_count,
    format_flops,
    format_ns,
    format_percent,
    format_ratio,
    pluralize,
    round_significant,
)

SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
TIMES = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def read(text: str, units: dict[str, int]) -> float:
    number, unit = text.split()
    return float(number.replace(",", "")) * units[unit]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "0.977 KiB"),
        (1_024, "1.00 KiB"),
        (999 << 20, "999 MiB"),
        (1_020 << 20, "0.996 GiB"),
        (-(12 << 20), "-12.0 MiB"),
        (5_000 << 30, "5,000 GiB"),
    ],
)
def test_sizes(count: float | None, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(min_value=-(1 << 50), max_value=1 << 50))
def test_a_size_says_what_it_is_within_three_digits(count: int) -> None:
    assert read(format_bytes(count), SIZES) == pytest.approx(count, rel=0.006)


@given(st.integers(min_value=0, max_value=10**13))
def test_a_time_says_what_it_is_within_three_digits(ns: int) -> None:
    assert read(format_ns(ns), TIMES) == pytest.approx(ns, rel=0.006)


@given(st.integers(min_value=0, max_value=1 << 40), st.integers(min_value=0, max_value=1 << 40))
def test_sizes_of_different_units_never_show_the_same_number(one: int, other: int) -> None:
    """1,020 MiB and 1.02 GiB would."""
    if abs(one - other) > 0.02 * max(one, other, 1):
        assert format_bytes(one) != format_bytes(other)
    for count in (one, other):
        number = float(format_bytes(count).split()[0].replace(",", ""))
        assert number <= 1_000 or count >= 1 << 30


@pytest.mark.parametrize(
    ("ns", "text"),
    [(None, "–"), (0, "0 ns"), (999, "999 ns"), (1_304, "1.30 µs"), (2.5, "2.50 ns")],
)
def test_times(ns: float | None, text: str) -> None:
    assert format_ns(ns) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (None, "–"),
        (0, "0%"),
        (1, "100%"),
        (0.0004, "<0.1%"),
        (0.9995, ">99.9%"),
        (0.25, "25.0%"),
        (9.871, "987.1%"),
        (117.222, "11,722%"),
        (-12.5, "-1,250%"),
    ],
)
def test_percentages_are_never_whole_unless_they_are(fraction: float | None, text: str) -> None:
    assert format_percent(fraction) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "node", "0 nodes"),
        (1, "node", "1 node"),
        (1204, "node", "1,204 nodes"),
        (1, "launch", "1 launch"),
        (2, "launch", "2 launches"),
        (1, "copy", "1 copy"),
        (120, "copy", "120 copies"),
        (2, "key", "2 keys"),
    ],
)
def test_counts_with_their_nouns(number: int, noun: str, text: str) -> None:
    assert pluralize(number, noun) == text


def test_the_rest() -> None:
    assert (format_ratio(10.26), format_ratio(None)) == ("10.3x", "–")
    assert (format_flops(4.12e14), format_flops(999.4), format_flops(None)) == (
        "412 TFLOP/s",
        "999 FLOP/s",
        "–",
    )
    assert (format_count(12_345), format_count(1.25), format_count(None)) == ("12,345", "1.2", "–")
    assert (round_significant(1304.2), round_significant(0.001234), round_significant(0)) == (
        "1,304",
        "0.00123",
        "0",
    )
