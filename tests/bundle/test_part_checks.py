from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeIdRow
from tests.bundle.examples import CLEAN, IDS, NODE_IDS, write_bundle


def bundle(folder: Path, **parts: Any) -> Path:
    return write_bundle(folder / "run", traces=(), **parts)


def test_written_ids_are_read(tmp_path: Path) -> None:
    found = read_bundle(bundle(tmp_path, replay_ids=IDS, node_ids=NODE_IDS))
    assert found.replay_ids == IDS
    assert found.node_ids == NODE_IDS
    run = load_run(found.path)
    assert (run.replay_ids, run.node_ids) == (IDS, NODE_IDS)


def test_a_bundle_without_them_is_whole(tmp_path: Path) -> None:
    found = read_bundle(bundle(tmp_path))
    assert found.replay_ids == ()
    assert found.node_ids is None


def test_the_same_pass_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        bundle(tmp_path / name, node_ids=NODE_IDS)
    first, second = (
        hashlib.sha256((tmp_path / name / "run" / "node-ids.json.gz").read_bytes()).hexdigest()
        for name in ("a", "b")
    )
    assert first == second


BAD_IDS: dict[str, tuple[tuple[GraphIds, ...], str]] = {
    "unknown graph": ((GraphIds("graph-7", (1,), (0, 1, 2)),), "'graph-7'"),
    "twice": ((IDS[0], IDS[0]), "once"),
    "too few nodes": ((GraphIds("graph-0", (1,), (0, 1)),), "2 distinct ids"),
    "one id for two nodes": ((GraphIds("graph-0", (1,), (0, 1, 1)),), "2 distinct ids"),
}


@pytest.mark.parametrize(("ids", "found"), BAD_IDS.values(), ids=BAD_IDS)
def test_ids_that_fit_no_graph_are_refused(
    tmp_path: Path, ids: tuple[GraphIds, ...], found: str
) -> None:
    path = bundle(tmp_path, replay_ids=ids)
    with pytest.raises(InputError, match=found) as refusal:
        read_bundle(path)
    assert refusal.value.where.endswith("replay-ids.json")


def _with(**changes: Any) -> NodeIdPass:
    return msgspec.structs.replace(NODE_IDS, **changes)


BAD_PASSES: dict[str, tuple[NodeIdPass, str]] = {
    "look": (_with(rows=(NodeIdRow(0, 2, 0, 9, 0, 7, 0, 1),)), "look 9"),
    "launch": (_with(rows=(NodeIdRow(2, 2, 0, 0, 0, 7, 0, 1),)), "launch 2"),
    "step back": (_with(launch_steps=(1, 0)), "out of order"),
    "step beyond": (_with(launch_steps=(0, 2)), "out of order"),
    "no steps": (_with(steps=0, launch_steps=(1,), rows=()), "out of order"),
}


@pytest.mark.parametrize(("found", "told"), BAD_PASSES.values(), ids=BAD_PASSES)
def test_rows_that_point_at_nothing_are_refused(
    tmp_path: Path, found: NodeIdPass, told: str
) -> None:
    path = bundle(tmp_path, node_ids=found)
    with pytest.raises(InputError, match=told):
        read_bundle(path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"step_count": 2}, "3 rows of steps"),
        ({"back_to_back_count": 0}, "0 rows of back_to_back_ns"),
    ],
)
def test_processes_must_have_all_iterations_together(
    tmp_path: Path, changes: dict[str, int], told: str
) -> None:
    first, *others = CLEAN.processes
    processes = (msgspec.structs.replace(first, **changes), *others)
    path = bundle(tmp_path, clean=msgspec.structs.replace(CLEAN, processes=processes))
    with pytest.raises(InputError, match=told):
        read_bundle(path)


def test_iterations_are_divided_by_process() -> None:
    assert [len(steps) for steps in CLEAN.process_steps] == [1, 1]
    assert CLEAN.process_back_to_back_ns == (CLEAN.back_to_back_ns, ())
    alone = msgspec.structs.replace(CLEAN, processes=())
    assert alone.process_steps == (CLEAN.steps,)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda _: b"{}", "gzip"),
        (lambda content: content[:-12], "gzip"),
        (lambda _: gzip.compress(b"{}"), "missing required field"),
        (lambda _: gzip.compress(b'{"steps": '), "invalid JSON"),
    ],
)
def test_damage_is_an_input_error(
    tmp_path: Path, damage: Callable[[bytes], bytes], told: str
) -> None:
    file = tmp_path / "node-ids.json.gz"
    file.write_bytes(damage(gzip.compress(msgspec.json.encode(NODE_IDS))))
    with pytest.raises(InputError, match=told):
        _reread(tmp_path, file.read_bytes())


def _reread(folder: Path, content: bytes) -> None:
    """Reads a bundle whose node-ids.json.gz is ``content``, listed with its hash."""
    path = bundle(folder, node_ids=NODE_IDS)
    manifest = msgspec.json.decode((path / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        if entry["role"] == "node-ids":
            entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (path / "node-ids.json.gz").write_bytes(content)
    (path / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    read_bundle(path)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_PART_BYTES", 1000)
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(InputError, match="at most 1,000 bytes"):
        parts.NODE_IDS.read(file)
