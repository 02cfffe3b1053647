from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.ingest.kineto.trace_head import Device, Rank, TraceHead, read_head

DEVICE = {
    "id": 0,
    "name": "NVIDIA H200",
    "totalGlobalMem": 150,
    "numSms": 132,
    "computeMajor": 9,
    "computeMinor": 0,
}


def head(folder: Path, **fields: Any) -> TraceHead:
    path = folder / "trace.json"
    path.write_text(json.dumps(fields | {"traceEvents": [{"deviceProperties": [DEVICE]}]}))
    return read_head(path)


def test_devices_and_rank(tmp_path: Path) -> None:
    info = {"backend": "nccl", "rank": 3, "world_size": 8, "nccl_version": "2.28.9"}
    found = head(tmp_path, deviceProperties=[DEVICE, {}], distributedInfo=info)
    assert found.devices == (
        Device("NVIDIA H200", (9, 0), 150, 132),
        Device(None, None, None, None),
    )
    assert found.rank == Rank(3, 8, "2.28.9")


def test_a_trace_of_one_process_has_no_rank(tmp_path: Path) -> None:
    """Its GPU is named behind the events."""
    found = head(tmp_path, schemaVersion=1)
    assert found.rank is None
    assert [device.name for device in found.devices] == ["NVIDIA H200"]


@pytest.mark.parametrize(
    "info",
    [
        None,
        [],
        {"rank": 0},
        {"rank": 0, "world_size": 1},
        {"rank": 8, "world_size": 8},
        {"rank": True, "world_size": 8},
        {"rank": -1, "world_size": 8},
        {"rank": "0", "world_size": 8},
        {"rank": 1 << 70, "world_size": 1 << 71},
    ],
)
def test_no_rank_of_several(tmp_path: Path, info: object) -> None:
    assert head(tmp_path, distributedInfo=info).rank is None


@pytest.mark.parametrize("devices", [None, {}, 5, "x", [5, None], [[[[]]]]])
def test_devices_of_another_shape_count_as_not_told(tmp_path: Path, devices: object) -> None:
    assert head(tmp_path, deviceProperties=devices).devices == ()


def test_names_are_cut(tmp_path: Path) -> None:
    found = head(tmp_path, deviceProperties=[DEVICE | {"name": "x" * 5_000, "numSms": "132"}])
    assert found.devices == (Device("x" * 200, (9, 0), 150, None),)


def test_fields_cut_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"deviceProperties": [{"name": "NVIDIA')
    assert read_head(path) == TraceHead((), None)
