from __future__ import annotations

import json
from pathlib import Path

from tests.cli.fixtures import Invoke
from tests.importers.test_bundles import capture, replay


def test_says_what_each_file_is_and_what_is_absent(invoke: Invoke, tmp_path: Path) -> None:
    files = [capture(tmp_path / "m-capture.json.gz"), replay(tmp_path / "m-replay.json.gz")]
    result = invoke("import", *map(str, files), "-o", str(tmp_path / "out"))
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].endswith("out/m")
    assert lines[1].startswith("  m-capture.json.gz: Kineto trace, ")
    assert any(line.startswith("  missing dependencies between nodes: ") for line in lines)
    assert "Reading m-capture.json.gz" in result.err


def test_the_bundle_shows_and_validates(invoke: Invoke, tmp_path: Path) -> None:
    files = [capture(tmp_path / "m-capture.json.gz"), replay(tmp_path / "m-replay.json.gz")]
    out = tmp_path / "out"
    assert invoke("import", *map(str, files), "-o", str(out)).code == 0
    assert invoke("validate", str(out)).code == 0
    shown = invoke("show", str(out / "m"), "--all").out
    assert "m-capture.json.gz (Kineto trace" in shown
    assert "2 of 2 nodes attributed to an operator" in shown
    assert str(tmp_path) not in (out / "m" / "manifest.json").read_text()
    assert invoke("ls", str(tmp_path)).code == 0
    assert invoke("compare", str(out)).code == 0


def test_json(invoke: Invoke, tmp_path: Path) -> None:
    file = replay(tmp_path / "m.json.gz")
    result = invoke("import", str(file), "-o", str(tmp_path / "out"), "--json")
    document = json.loads(result.out)
    assert document["schema"] == "graphviz-dash/import"
    (run,) = document["runs"]
    assert run["sources"][0]["kind"] == "Kineto trace"
    assert {"fact": "memory", "reason": "no memory snapshot was imported"} in run["absent"]


def test_a_bad_file_is_one_line(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    result = invoke("import", str(tmp_path / "a.txt"), "-o", str(tmp_path / "out"))
    assert result.code == 2
    assert "a file of unknown kind" in result.err


def test_a_folder_is_joined(invoke: Invoke, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    replay(folder / "one.json.gz")
    capture(folder / "two.json.gz")
    (folder / "notes.txt").write_text("of another kind")
    (folder / "empty").touch()
    result = invoke("import", "--join", str(folder), "-o", str(tmp_path / "out"))
    assert result.code == 0
    assert "one.json.gz: Kineto trace" in result.out
    assert "two.json.gz: Kineto trace" in result.out
    assert len(list((tmp_path / "out").iterdir())) == 1


NESTED_DOT = """digraph dot {
subgraph cluster_1 {
label="graph_1" graph[style="dashed"];
"graph_1_node_0"[style="bold" shape="octagon" label="0
copy
"];
"graph_1_node_1"[style="solid" shape="rectangle" label="1
graph_2
"];
"graph_1_node_0" -> "graph_1_node_1";
}
subgraph cluster_2 {
label="graph_2" graph[style="dashed"];
"graph_2_node_0"[style="bold" shape="octagon" label="0
attention
"];
}
}
"""


def test_a_child_graph_counts_with_its_parent(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "nested.dot").write_text(NESTED_DOT)
    assert invoke("import", str(tmp_path / "nested.dot"), "-o", str(tmp_path / "out")).code == 0
    output = invoke("show", str(tmp_path / "out" / "nested")).out
    assert "1 graph with 3 nodes" in output
    (row,) = (line.split() for line in output.splitlines() if line.startswith("  Graphs "))
    assert row == ["Graphs", "1", "capture"]
