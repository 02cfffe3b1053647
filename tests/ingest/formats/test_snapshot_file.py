from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats import memory_snapshot
from graphviz_dash.ingest.formats.snapshot_file import read_snapshot_file
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.run import LiveMemory
from tests.cli.fixtures import Invoke, invoke

__all__ = ["invoke"]

MIB = 1 << 20


def read_live(path: Path, limits: Limits = DEFAULT_LIMITS) -> LiveMemory:
    live = read_snapshot_file(path, limits).live
    assert live is not None
    return live


def make_block(size: int, state: str = "active_allocated", *files: str) -> dict[str, Any]:
    frames = [{"filename": file, "line": 7, "name": "forward"} for file in files]
    return {"size": size, "state": state, "frames": frames}


def make_segment(size: int, blocks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    allocated = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    return {"total_size": size, "allocated_size": allocated, "blocks": blocks} | more


SNAPSHOT = {
    "segments": [
        make_segment(
            20 * MIB,
            [
                make_block(4 * MIB, "active_allocated", "x/torch/nn.py", "C:\\me\\model.py"),
                make_block(3 * MIB, "active_pending_free", "a.cpp", "/me/model.py"),
                make_block(13 * MIB, "inactive"),
            ],
        ),
        make_segment(2 * MIB, [make_block(700, "active_allocated", "a.cpp")], stream=5),
        make_segment(2 * MIB, [make_block(2 * MIB)], segment_pool_id=(0, 3), stream=5),
    ],
    "device_traces": [],
}


@pytest.mark.parametrize("is_pickle", [True, False])
def test_live_memory_is_summed_in_four_ways(tmp_path: Path, is_pickle: bool) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(pickle.dumps(SNAPSHOT) if is_pickle else json.dumps(SNAPSHOT).encode())
    blocks = read_live(path)
    groups = {
        "streams": blocks.streams,
        "pools": blocks.pools,
        "sizes": blocks.sizes,
        "lines": blocks.lines,
    }
    rows = {
        name: [(s.label, s.blocks, s.live_bytes, s.reserved_bytes) for s in shares]
        for name, shares in groups.items()
    }
    assert rows == {
        "streams": [
            ("stream 0", 2, 7 * MIB, 20 * MIB),
            ("stream 5", 2, 2 * MIB + 700, 4 * MIB),
        ],
        "pools": [
            ("default pool", 3, 7 * MIB + 700, 22 * MIB),
            ("pool 0-3", 1, 2 * MIB, 2 * MIB),
        ],
        "sizes": [
            ("2 to 4 MiB", 2, 7 * MIB, None),
            ("1 to 2 MiB", 1, 2 * MIB, None),
            ("up to 1 KiB", 1, 700, None),
        ],
        "lines": [
            ("model.py:7 forward", 2, 7 * MIB, None),
            ("no Python stack recorded", 2, 2 * MIB + 700, None),
        ],
    }
    assert {sum(s.live_bytes for s in shares) for shares in groups.values()} == {9 * MIB + 700}


def test_ranges_of_sizes_have_two_ends(tmp_path: Path) -> None:
    sizes = (1024, 1025, 512 << 10, (512 << 10) + 1, MIB, 1 << 30, (1 << 30) + 1)
    path = tmp_path / "snapshot.pickle"
    segments = [make_segment(4 << 30, [make_block(size) for size in sizes])]
    path.write_bytes(pickle.dumps({"segments": segments}))
    assert {share.label: share.blocks for share in read_live(path).sizes} == {
        "1 to 2 GiB": 1,
        "512 MiB to 1 GiB": 1,
        "512 KiB to 1 MiB": 2,
        "256 to 512 KiB": 1,
        "1 to 2 KiB": 1,
        "up to 1 KiB": 1,
    }


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(pickle.dumps({"segments": [{"blocks": 3}]}))
    with pytest.raises(InputError, match="blocks"):
        read_snapshot_file(path)


def test_streams_and_pools_of_two_gpus_are_separate(tmp_path: Path) -> None:
    segments = [make_segment(2 * MIB, [make_block(MIB)], device=gpu) for gpu in (0, 1)]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [[], []]}))
    live = read_live(path)
    assert [share.label for share in live.streams] == ["GPU 0, stream 0", "GPU 1, stream 0"]
    assert [share.reserved_bytes for share in live.pools] == [2 * MIB, 2 * MIB]


def test_stacks_of_older_torch_are_read(tmp_path: Path) -> None:
    block = make_block(MIB)
    block |= {"frames": [], "history": make_block(1, "x", "model.py")["frames"]}
    block["history"] = [{"addr": 1, "frames": block["history"]}]
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps([make_segment(2 * MIB, [block])]))
    assert [share.label for share in read_live(path).lines] == ["model.py:7 forward"]


def test_lines_beyond_the_largest_are_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_snapshot, "MAX_LINES", 2)
    blocks = [make_block(MIB, "active_allocated", f"model{n}.py") for n in range(5)]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [make_segment(8 * MIB, blocks)]}))
    lines = read_live(path).lines
    assert [share.label for share in lines][2:] == ["3 other lines"]
    assert sum(share.live_bytes for share in lines) == 5 * MIB


def test_one_block_named_many_times_is_counted(tmp_path: Path) -> None:
    blocks = [make_block(1)] * 1000
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [make_segment(1, blocks)] * 1000}))
    with pytest.raises(InputError, match="limit events"):
        read_live(path, Limits(events=100_000))


def test_the_command_prints_a_snapshot(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT))
    printed = invoke("memory", str(path), "--graphs", "1")
    assert printed.code == 0
    assert "9.00 MiB in 4 live blocks of 24.0 MiB reserved" in printed.out
    assert "1 of 3, the largest first" in printed.out
    (snapshot,) = json.loads(invoke("memory", str(path), "--json").out)["snapshots"]
    assert snapshot["reserved"] == 24 * MIB
    assert [share["live"] for share in snapshot["live"]["streams"]] == [7 * MIB, 2 * MIB + 700]


def test_an_imported_snapshot_has_the_same_breakdown(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT))
    folder = str(tmp_path / "E")
    assert invoke("import", str(path), "-o", folder).code == 0
    (imported,) = json.loads(invoke("memory", folder, "--json").out)["snapshots"]
    (alone,) = json.loads(invoke("memory", str(path), "--json").out)["snapshots"]
    assert imported["live"] == alone["live"]
    printed = invoke("memory", folder).out
    assert "snapshot: 9.00 MiB in 4 live blocks of 24.0 MiB reserved" in printed
    for title in ("By stream", "By pool", "By block size", "By allocating line"):
        assert title in printed
