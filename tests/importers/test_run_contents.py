from __future__ import annotations

from pathlib import Path

from graphviz_dash.importers.group import SourceGroup, SourcePart
from graphviz_dash.importers.run_contents import build_run_contents
from graphviz_dash.ingest.formats.debug_dot import read_debug_dot
from graphviz_dash.ingest.formats.registry import ForeignContent, SourceKind
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import FileRole, MemoryUse
from tests.importers.test_bundles import capture, replay

DOT = """digraph dot {
subgraph cluster_1 {
"graph_1_node_0"[label="0
EMPTY
"];
}
}
"""


def group(*parts: SourcePart) -> SourceGroup:
    return SourceGroup("m", parts)


def dot_part(folder: Path) -> SourcePart:
    path = folder / "m.dot"
    path.write_text(DOT)
    graphs = read_debug_dot(path)
    return SourcePart(path, ForeignContent(SourceKind.DEBUG_DOT, graphs=graphs))


def trace_part(path: Path, role: FileRole) -> SourcePart:
    return SourcePart(path, ForeignContent(SourceKind.KINETO, path, read_trace(path)), role)


def test_graphs_of_several_files_are_numbered_one_behind_the_other(tmp_path: Path) -> None:
    part = dot_part(tmp_path)
    contents = build_run_contents(group(part, part, part), DEFAULT_LIMITS)
    assert [graph.id for graph in contents.graphs] == ["graph-0", "graph-1", "graph-2"]


def test_a_dot_alone_tells_neither_times_nor_machine(tmp_path: Path) -> None:
    contents = build_run_contents(group(dot_part(tmp_path)), DEFAULT_LIMITS)
    lacking = {absent.fact for absent in contents.absent}
    assert {Fact.CLEAN_PASS, Fact.CAPTURE_PASS, Fact.TRACED_PASS, Fact.MEMORY} <= lacking
    assert Fact.ENVIRONMENT in lacking
    assert Fact.GRAPHS not in lacking


def test_without_a_dot_graphs_are_inferred_and_said_to_be(tmp_path: Path) -> None:
    capture_part = trace_part(capture(tmp_path / "c.json.gz"), FileRole.CAPTURE_TRACE)
    replay_part = trace_part(replay(tmp_path / "r.json.gz"), FileRole.REPLAY_TRACE)
    contents = build_run_contents(group(capture_part, replay_part), DEFAULT_LIMITS)
    assert len(contents.graphs) == 1
    (reason,) = (a.reason for a in contents.absent if a.fact == "dependencies between nodes")
    assert "no debug DOT was imported" in reason
    alone = build_run_contents(group(capture_part), DEFAULT_LIMITS)
    assert alone.graphs == ()
    (reason,) = (absent.reason for absent in alone.absent if absent.fact == Fact.GRAPHS)
    assert "without a replay trace" in reason


def test_memory_of_a_snapshot_is_of_one_moment() -> None:
    use = MemoryUse(None, None, 1, 2, ())
    part = SourcePart(Path("s.pickle"), ForeignContent(SourceKind.MEMORY_SNAPSHOT, memory=use))
    contents = build_run_contents(group(part), DEFAULT_LIMITS)
    assert contents.memory == use
    lacking = {absent.fact for absent in contents.absent}
    assert Fact.MEMORY not in lacking
    assert Fact.MEMORY_PASS in lacking
