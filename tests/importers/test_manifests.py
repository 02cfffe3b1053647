from __future__ import annotations

import hashlib
from pathlib import Path

from graphviz_dash.importers.group import SourceGroup, SourcePart
from graphviz_dash.importers.manifests import build_imported_manifest, iter_sources, read_trace_head
from graphviz_dash.importers.run_contents import RunContents
from graphviz_dash.ingest.formats.registry import ForeignContent, SourceKind
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.run import ExecutionMode, FileRole
from tests.importers.test_bundles import capture, replay

NOTHING = RunContents((), (), None, None, ())


def part(path: Path, role: FileRole) -> SourcePart:
    return SourcePart(path, ForeignContent(SourceKind.KINETO, path, read_trace(path)), role)


def test_each_file_is_a_source_once(tmp_path: Path) -> None:
    path = replay(tmp_path / "m.json.gz")
    group = SourceGroup("m", (part(path, FileRole.REPLAY_TRACE),) * 2)
    (source,) = iter_sources(group)
    assert (source.name, source.kind) == ("m.json.gz", "Kineto trace")
    assert source.bytes == path.stat().st_size
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert source.method is None  # it is kept as it is


def test_replays_say_where_the_run_was(tmp_path: Path) -> None:
    captured = part(capture(tmp_path / "c.json.gz"), FileRole.CAPTURE_TRACE)
    replayed = part(replay(tmp_path / "r.json.gz"), FileRole.REPLAY_TRACE)
    for parts in ((captured, replayed), (replayed,), (captured,)):
        group = SourceGroup("m", parts)
        assert read_trace_head(group) is not None
        manifest = build_imported_manifest(
            group, NOTHING, (), ExecutionMode.EAGER, ("graphviz-dash",)
        )
        assert manifest.mode is ExecutionMode.EAGER
        assert manifest.environment.cuda_runtime == "13.0"
        assert manifest.workload.traced_iterations == (3 if replayed in parts else 0)


def test_without_a_trace_little_is_known() -> None:
    group = SourceGroup("m", ())
    assert read_trace_head(group) is None
    manifest = build_imported_manifest(group, NOTHING, (), ExecutionMode.RECORDED, ())
    assert (manifest.rank, manifest.group, manifest.environment.gpu) == (None, None, None)
    assert manifest.workload.traced_iterations == 0
