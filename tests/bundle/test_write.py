from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import FileRole
from tests.bundle.examples import CLEAN, GRAPH, MANIFEST, MEMORY, TRACE, write_bundle


def test_nothing_is_at_the_target_before_the_commit(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with BundleWriter(target) as writer:
        writer.add(parts.CLEAN, CLEAN)
        assert not target.exists()
        staged = list(tmp_path.iterdir())
        assert [path.name.startswith(".run.") for path in staged] == [True]
        writer.commit(MANIFEST)
        assert (target / "manifest.json").is_file()
    assert list(tmp_path.iterdir()) == [target]


def test_without_commit_nothing_stays(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "run") as writer:
        writer.add(parts.CLEAN, CLEAN)
        writer.add_graph(GRAPH)
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with BundleWriter(tmp_path / "run") as writer:
            writer.add(parts.CLEAN, CLEAN)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("refuses_at", range(1, 7))
def test_a_full_disk_at_any_point_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses_at: int
) -> None:
    real, calls = os.fsync, 0

    def fsync(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == refuses_at:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)

    with pytest.raises(OSError, match="No space left"):
        write_bundle(tmp_path / "out" / "run", traces=())

    left = list((tmp_path / "out").iterdir())
    # The sixth sync is the parent folder's, after the rename: the bundle is whole by then.
    assert left == ([tmp_path / "out" / "run"] if refuses_at == 6 else [])
    for path in left:
        assert read_bundle(path).graphs == (GRAPH,)


def test_a_failing_rename_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(_self: Path, _target: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", rename)

    with pytest.raises(PermissionError):
        write_bundle(tmp_path / "out" / "run", traces=())
    assert list((tmp_path / "out").iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from tests.bundle.examples import CLEAN, GRAPH

with BundleWriter(Path(sys.argv[1])) as writer:
    writer.add(parts.CLEAN, CLEAN)
    writer.add_graph(GRAPH)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_collector_leaves_no_half_bundle(tmp_path: Path) -> None:
    target = tmp_path / "experiment" / "run"

    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(target)],
        cwd=Path(__file__).parents[2],
        check=False,
        timeout=60,
    )

    assert done.returncode == -signal.SIGKILL
    assert not target.exists()
    assert all(path.name.startswith(".") for path in target.parent.iterdir())
    # The place is free: collecting again succeeds.
    assert read_bundle(write_bundle(target)).clean == CLEAN


@pytest.mark.parametrize("there", ["folder", "file", "bundle", "dangling link"])
def test_an_existing_target_is_refused_and_kept(tmp_path: Path, there: str) -> None:
    target = tmp_path / "run"
    match there:
        case "folder":
            target.mkdir()
        case "file":
            target.write_text("mine")
        case "bundle":
            write_bundle(target)
        case _:
            target.symlink_to(tmp_path / "nowhere")
    before = _contents(tmp_path)

    with pytest.raises(InputError) as refusal:
        BundleWriter(target)

    assert refusal.value.where == str(target)
    assert refusal.value.found == "the path already exists"
    assert "\n" not in str(refusal.value)
    assert _contents(tmp_path) == before


def test_a_target_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "run"

    def write() -> None:
        with BundleWriter(target) as writer:
            writer.add(parts.CLEAN, CLEAN)
            target.mkdir()
            writer.commit(MANIFEST)

    with pytest.raises(InputError, match="was created meanwhile"):
        write()
    assert list(tmp_path.iterdir()) == [target]
    assert list(target.iterdir()) == []


def test_a_trace_is_moved_not_copied(tmp_path: Path) -> None:
    source = tmp_path / "trace.json.gz"
    source.write_bytes(TRACE)
    with BundleWriter(tmp_path / "run") as writer:
        writer.add_trace(FileRole.REPLAY_TRACE, source)
        writer.commit(MANIFEST)
    assert not source.exists()


def test_a_bundle_is_readable_by_others(tmp_path: Path) -> None:
    target = write_bundle(tmp_path / "run")
    assert target.stat().st_mode & 0o755 == 0o755


def test_the_manifest_is_written_for_people(tmp_path: Path) -> None:
    text = (write_bundle(tmp_path / "run") / "manifest.json").read_text()
    assert text.startswith('{\n  "format": "graphviz-dash-run",\n  "version": 7,\n')


def test_two_runs_beside_each_other(tmp_path: Path) -> None:
    first = write_bundle(tmp_path / "mlp" / "eager", graphs=())
    second = write_bundle(tmp_path / "mlp" / "graph", memory=None)
    assert read_bundle(first).memory == MEMORY
    assert read_bundle(second).memory is None


def _contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
