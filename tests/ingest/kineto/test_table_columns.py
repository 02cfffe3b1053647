from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from graphviz_dash.ingest.kineto.events import ABSENT, Event, UnusableEventError
from graphviz_dash.ingest.kineto.table_columns import (
    MAX_TIME_NS,
    NeedsExactTimesError,
    TableColumns,
    TextCodes,
)


def put(table: TableColumns, *times: tuple[Any, Any], exact: bool = False) -> None:
    """Puts a piece of events with these starts and durations, without committing it."""
    table.start_piece(len(times))
    table.stage_times([Event(ph="X", name="k", ts=ts, dur=dur) for ts, dur in times], exact=exact)


def columns_of(table: TableColumns) -> tuple[list[int], list[int]]:
    table.finish()
    return table.expand_column("ts").tolist(), table.expand_column("dur").tolist()


def test_codes_keep_each_text_once() -> None:
    codes = TextCodes()
    first, again = codes.encode(["a", "b", "a"]), codes.encode(["b"])
    assert first == b"".join(n.to_bytes(8, "little") for n in (0, 1, 0))
    assert again == (1).to_bytes(8, "little")
    assert codes.values == ["a", "b"]
    assert int.from_bytes(codes.encode([b""]), "little", signed=True) == ABSENT


def test_whole_and_decimal_microseconds_one_behind_the_other() -> None:
    table = TableColumns("here")
    put(table, (1, 2), (3, 4))
    table.commit()
    assert table.whole_microseconds
    put(table, (5.125, 0.5))
    table.commit()
    assert not table.whole_microseconds
    assert columns_of(table) == ([1_000, 3_000, 5_125], [2_000, 4_000, 500])
    assert table.rows == [2, 1]


def test_a_piece_that_is_discarded_leaves_nothing() -> None:
    table = TableColumns("here")
    put(table, (1, 2))
    table.commit()
    put(table, (5.125, 0.5))
    table.discard()
    assert table.whole_microseconds
    put(table, (7, 1))
    table.commit()
    assert columns_of(table) == ([1_000, 7_000], [2_000, 1_000])


@pytest.mark.parametrize(
    ("ts", "dur", "cause"),
    [
        (1, -1, "a negative duration"),
        (1.5, -0.5, "a negative duration"),
        (float("nan"), 1.0, "no ts"),
        (1.0, float("nan"), "no dur"),
        (1e19, 1.0, "a ts out of range"),
        (1, 10**30, "a dur out of range"),
        (float("inf"), 1.0, "a ts out of range"),
    ],
)
def test_times_that_cannot_be(ts: Any, dur: Any, cause: str) -> None:
    table = TableColumns("here")
    with pytest.raises(UnusableEventError, match=cause):
        put(table, (5, 5), (ts, dur))


@pytest.mark.parametrize(
    ("ts", "cause"), [(Decimal("NaN"), "no ts"), (Decimal(MAX_TIME_NS), "a ts out of range")]
)
def test_decimals_that_cannot_be(ts: Decimal, cause: str) -> None:
    with pytest.raises(UnusableEventError, match=cause):
        put(TableColumns("here"), (ts, Decimal(1)), exact=True)


def test_times_too_large_for_floats_ask_for_decimals() -> None:
    table = TableColumns("here")
    epoch = 1_790_857_026_000_000  # microseconds
    with pytest.raises(NeedsExactTimesError):
        put(table, (epoch + 0.125, 1.0))
    table.discard()
    put(table, (Decimal(epoch) + Decimal("0.125"), Decimal(1)), exact=True)
    table.commit()
    assert columns_of(table)[0] == [epoch * 1000 + 125]


def test_numbers_that_are_text_or_none() -> None:
    table = TableColumns("here")
    packed = table.pack_integers([7, "8", "x", None], "stream")
    numbers = [int.from_bytes(packed[at : at + 8], "little", signed=True) for at in (0, 8, 16, 24)]
    assert numbers == [7, 8, ABSENT, ABSENT]
    with pytest.raises(UnusableEventError, match="a stream out of range"):
        table.pack_integers([1 << 70], "stream")
