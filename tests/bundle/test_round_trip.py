from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.bundle.read import is_bundle, read_bundle, read_manifest
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.observers import ObserverPass
from graphviz_dash.model.run import FileRole, GraphUpdates, Manifest, MemoryUse
from graphviz_dash.model.timings import CleanTimings
from tests.bundle.arbitrary import (
    cleans,
    doctors,
    graph_updates,
    graphs,
    manifests,
    memories,
    memory_passes,
    observer_passes,
)
from tests.bundle.examples import CLEAN, GRAPH, MANIFEST, MEMORY, TRACE, write_bundle


@settings(max_examples=25, deadline=None)
@given(
    manifest=manifests,
    clean=st.none() | cleans,
    memory=st.none() | memories,
    memory_pass=st.none() | memory_passes,
    graph=st.none() | graphs(),
    doctor=st.none() | doctors,
    updates=st.none() | graph_updates,
    observers=st.none() | observer_passes,
)
def test_any_run_is_read_as_it_was_written(
    manifest: Manifest,
    clean: CleanTimings | None,
    memory: MemoryUse | None,
    memory_pass: MemoryPass | None,
    graph: CapturedGraph | None,
    doctor: DoctorReport | None,
    updates: GraphUpdates | None,
    observers: ObserverPass | None,
) -> None:
    # What updates say of graphs is checked against those of the bundle, see test_part_checks.py.
    updates = None if graph else updates
    with tempfile.TemporaryDirectory() as folder:
        parts = (graph,) if graph else ()
        path = write_bundle(
            Path(folder) / "run",
            manifest,
            clean,
            memory,
            memory_pass,
            parts,
            traces=(),
            doctor=doctor,
            updates=updates,
            observers=observers,
        )

        found = read_bundle(path)

        assert found.clean == clean
        assert found.memory == memory
        assert found.memory_pass == memory_pass
        assert found.doctor == doctor
        assert found.graphs == parts
        assert found.updates == updates
        assert found.observers == observers
        assert found.capture_trace is None
        assert found.replay_trace is None
        listed = {entry.path for entry in found.manifest.files}
        on_disk = {
            str(file.relative_to(path))
            for file in path.rglob("*")
            if file.is_file() and file.name != "manifest.json"
        }
        assert listed == on_disk
        for field in Manifest.__struct_fields__:
            if field != "files":
                assert getattr(found.manifest, field) == getattr(manifest, field)


def test_a_whole_run(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "graph")

    found = read_bundle(path)

    assert is_bundle(path)
    assert found.path == path
    assert (found.clean, found.memory, found.graphs) == (CLEAN, MEMORY, (GRAPH,))
    assert found.manifest.absent == MANIFEST.absent
    assert [entry.role for entry in found.manifest.files] == [
        FileRole.CLEAN,
        FileRole.MEMORY,
        FileRole.GRAPH,
        FileRole.CAPTURE_TRACE,
        FileRole.REPLAY_TRACE,
    ]
    assert read_manifest(path) == found.manifest


def test_a_trace_keeps_its_bytes(tmp_path: Path) -> None:
    found = read_bundle(write_bundle(tmp_path / "run"))

    assert found.capture_trace == tmp_path / "run" / "traces" / "capture.json.gz"
    assert found.replay_trace == tmp_path / "run" / "traces" / "replay.json.gz"
    assert found.replay_trace.read_bytes() == TRACE
    assert gzip.decompress(TRACE) == b'{"traceEvents": []}'


def test_a_run_of_a_failed_mode_has_no_parts(tmp_path: Path) -> None:
    found = read_bundle(write_bundle(tmp_path / "run", MANIFEST, None, None, None, (), ()))

    assert found.manifest.files == ()
    assert (found.clean, found.memory, found.graphs) == (None, None, ())


def test_several_graphs_keep_their_order(tmp_path: Path) -> None:
    ids = ["graph-1", "graph-0", "graph-0.7", "layers.0.forward"]
    captured = tuple(CapturedGraph(one, (), (), "test") for one in ids)

    found = read_bundle(write_bundle(tmp_path / "run", graphs=captured))

    assert [graph.id for graph in found.graphs] == ids


def test_a_bundle_can_be_moved_and_reached_by_a_link(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "run")
    moved = path.rename(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(moved)

    assert read_bundle(tmp_path / "link").graphs == (GRAPH,)
