from __future__ import annotations

import io
import json
import os
import tempfile
from typing import Any

import msgspec
import pytest

from graphviz_dash.ingest.kineto.columns import EventColumns
from graphviz_dash.ingest.kineto.events import EventDecoder
from graphviz_dash.ingest.kineto.worker import (
    ADDED,
    DECLINED,
    INEXACT,
    LENGTH,
    Result,
    _add_piece,
    _write_result,
)

KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2.0}


def taken(piece: bytes) -> tuple[int, int]:
    return _add_piece(EventColumns("the trace", exact=False), EventDecoder(), piece)


def encoded(*events: dict[str, Any]) -> bytes:
    return json.dumps(events).encode()


@pytest.mark.parametrize(
    ("piece", "answer"),
    [
        (encoded(KERNEL, KERNEL), (ADDED, 2)),
        (encoded(KERNEL, KERNEL | {"dur": -1}), (ADDED, 2)),
        (b"[]", (ADDED, 0)),
        (b'[{"ph": "X"', (DECLINED, 0)),
        (b'[{"name": "\xff"}]', (DECLINED, 0)),
        (b"[" * 5_000 + b"]" * 5_000, (DECLINED, 0)),
        (encoded(KERNEL | {"ts": 1_790_857_026_000_000.125}), (INEXACT, 0)),
    ],
)
def test_a_piece_is_taken_or_declined(piece: bytes, answer: tuple[int, int]) -> None:
    assert taken(piece) == answer


def test_the_written_result_equals_the_decoded_events() -> None:
    columns, decoder = EventColumns("the trace", exact=False), EventDecoder()
    for number in range(3):
        events = [KERNEL | {"ts": 10.0 * number + n, "name": f"k{n}"} for n in range(number + 1)]
        assert _add_piece(columns, decoder, encoded(*events)) == (ADDED, number + 1)
    _add_piece(columns, decoder, encoded(KERNEL | {"dur": -1}, {"ph": "M", "name": "x"}))
    answers = io.BytesIO()
    with tempfile.TemporaryFile() as memory:
        _write_result(columns, decoder, memory.fileno(), 64, answers)
        size = os.fstat(memory.fileno()).st_size
    answers.seek(0)
    (length,) = LENGTH.unpack(answers.read(LENGTH.size))
    result = msgspec.msgpack.decode(answers.read(), type=Result)
    assert answers.tell() == LENGTH.size + length
    assert result.events == [1, 2, 3, 2]
    assert result.unusable == {"a negative duration": 1}
    assert result.skipped == {"metadata": 1, "unusable": 1}
    gpu = result.tables["gpu"]
    assert gpu.rows == [1, 2, 3, 0]
    assert gpu.names == ["k0", "k1", "k2"]
    blocks = [block for column in gpu.columns.values() for block in column]
    assert all(block.rows == 6 for block in blocks)
    ends = [64 + block.offset + block.rows * block.width for block in blocks if block.width]
    assert max(ends) <= -(-size // 8) * 8
