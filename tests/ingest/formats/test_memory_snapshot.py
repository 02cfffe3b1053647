from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.memory_snapshot import convert_memory_use, read_memory_snapshot
from graphviz_dash.ingest.formats.pickles import read_pickle
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.run import PoolUse


def segment(total: int, allocated: int, pool: tuple[int, int] = (0, 0)) -> dict[str, Any]:
    return {
        "device": 0,
        "address": 0x7F00_0000_0000,
        "total_size": total,
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": allocated,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": pool,
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {"address": 1, "size": allocated, "requested_size": 1, "state": "active_allocated"}
        ],
    }


def event(action: str, size: int) -> dict[str, Any]:
    return {"action": action, "addr": 1, "size": size, "stream": 0, "time_us": 1, "frames": []}


SNAPSHOT: dict[str, Any] = {
    "segments": [segment(20, 12), segment(100, 60, (0, 3)), segment(50, 40, (0, 3))],
    "device_traces": [
        [
            event("segment_alloc", 100),
            event("alloc", 60),
            event("alloc", 30),
            event("free_requested", 30),
            event("free_completed", 30),
            event("segment_free", 40),
            event("alloc", 52),
        ]
    ],
    "allocator_settings": {"expandable_segments": False},
}
HERE = Path("snapshot.pickle")


def test_bytes_by_pool() -> None:
    found = convert_memory_use(SNAPSHOT, HERE)
    assert (found.allocated_bytes, found.reserved_bytes) == (112, 170)
    assert found.pools == (PoolUse((0, 3), 2, 150, 100),)


def test_peaks_of_the_recorded_history() -> None:
    # Allocated, latest first: 112, 60 before the last, 90 before the free, 60 and 0 before that.
    found = convert_memory_use(SNAPSHOT, HERE)
    assert found.peak_allocated_bytes == 112
    # 170 now, 210 before the segment was given back.
    assert found.peak_reserved_bytes == 210


def test_a_history_without_segments_shows_that_their_size_never_changed() -> None:
    history = [event("alloc", 112), event("alloc", 30), event("free_completed", 30)]
    found = convert_memory_use({**SNAPSHOT, "device_traces": [history]}, HERE)
    assert (found.peak_allocated_bytes, found.peak_reserved_bytes) == (142, 170)


@pytest.mark.parametrize("traces", [[], [[]], [[event("oom", 5)] * 2], [[event("alloc", 30)]]])
def test_no_history_no_peak(traces: list[Any]) -> None:
    found = convert_memory_use({**SNAPSHOT, "device_traces": traces}, HERE)
    assert found.peak_allocated_bytes is found.peak_reserved_bytes is None


def test_histories_of_two_devices_without_times_have_no_common_peak() -> None:
    trace = [
        {name: value for name, value in entry.items() if name != "time_us"}
        for entry in SNAPSHOT["device_traces"][0]
    ]
    found = convert_memory_use({**SNAPSHOT, "device_traces": [trace, trace]}, HERE)
    assert found.peak_reserved_bytes is found.peak_allocated_bytes is None


def test_the_peak_of_two_devices_is_that_of_their_sum() -> None:
    # Live on the first device: 112 at time 4, 12 before. On the second: 50 from time 2 to 3.
    first = [event("segment_alloc", 170) | {"time_us": 1}, event("alloc", 100) | {"time_us": 4}]
    second = [event("alloc", 50) | {"time_us": 2}, event("free_completed", 50) | {"time_us": 3}]
    found = convert_memory_use({**SNAPSHOT, "device_traces": [first, second]}, HERE)
    assert (found.peak_allocated_bytes, found.peak_reserved_bytes) == (112, 170)
    second[1]["time_us"] = 5
    found = convert_memory_use({**SNAPSHOT, "device_traces": [first, second]}, HERE)
    assert found.peak_allocated_bytes == 162


def test_pickled_and_as_json_are_the_same(tmp_path: Path) -> None:
    pickled, text = tmp_path / "s.pickle", tmp_path / "s.json"
    pickled.write_bytes(pickle.dumps(SNAPSHOT))
    text.write_text(json.dumps(SNAPSHOT))
    assert convert_memory_use(read_pickle(pickled), pickled) == read_memory_snapshot(text)


def test_the_list_of_segments_of_old_torch() -> None:
    assert convert_memory_use(SNAPSHOT["segments"], HERE).reserved_bytes == 170


@pytest.mark.parametrize(
    "value", [None, "text", {}, {"segments": 3}, {"segments": [{"total_size": -1}]}]
)
def test_a_value_without_segments_is_refused(value: Any) -> None:
    with pytest.raises(InputError):
        convert_memory_use(value, HERE)


def test_one_list_named_many_times_is_counted() -> None:
    trace = [event("alloc", 1)] * 1000
    with pytest.raises(InputError, match="limit events"):
        convert_memory_use(
            {**SNAPSHOT, "device_traces": [trace] * 1000}, HERE, Limits(events=100_000)
        )
