from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.model.recording import RecordedGraph, Recording
from graphviz_dash.model.run import ExecutionMode
from tests.bundle.arbitrary import recordings
from tests.bundle.examples import GRAPH, MANIFEST, RECORDING, write_bundle

RECORDED = msgspec.structs.replace(
    MANIFEST,
    mode=ExecutionMode.RECORDED,
    workload=msgspec.structs.replace(MANIFEST.workload, seed=None),
)


def written(folder: Path, recording: Recording) -> Path:
    return write_bundle(folder / "run", RECORDED, None, recording=recording)


def test_a_recording_is_read_as_written(tmp_path: Path) -> None:
    contents = read_bundle(written(tmp_path, RECORDING))
    assert contents.recording == RECORDING
    assert contents.manifest.workload.seed is None
    assert contents.clean is None


def test_other_runs_have_none(tmp_path: Path) -> None:
    assert read_bundle(write_bundle(tmp_path / "run")).recording is None


@settings(deadline=None, max_examples=40)
@given(recordings)
def test_any_recording_comes_back(recording: Recording) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert read_bundle(written(Path(folder), recording)).recording == recording


def a_graph(**fields: object) -> RecordedGraph:
    graph: RecordedGraph = msgspec.structs.replace(RECORDING.graphs[0], **fields)
    return graph


@pytest.mark.parametrize(
    ("graphs", "found"),
    [
        ((a_graph(), a_graph()), "'graph-0' twice"),
        ((a_graph(nodes=4),), f"4 nodes of 'graph-0', which has {len(GRAPH.nodes)}"),
        ((a_graph(graph="graph-9"),), "3 nodes of 'graph-9', which is missing"),
        ((a_graph(window_replays=61),), "61 of 60 replays"),
    ],
)
def test_a_recording_that_contradicts_itself_is_refused(
    tmp_path: Path, graphs: tuple[RecordedGraph, ...], found: str
) -> None:
    wrong: Recording = msgspec.structs.replace(RECORDING, graphs=graphs)
    path = written(tmp_path, wrong)
    with pytest.raises(InputError, match=r"recording\.json") as caught:
        read_bundle(path)
    assert found in str(caught.value)


def test_a_wrong_type_is_named(tmp_path: Path) -> None:
    wrong: Recording = msgspec.structs.replace(RECORDING, steps=-1)
    with pytest.raises(InputError, match=r"steps"):
        read_bundle(written(tmp_path, wrong))
