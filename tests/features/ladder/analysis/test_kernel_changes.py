from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from graphviz_dash.analysis.loop.family_report import build_loop_report
from graphviz_dash.analysis.loop.keys import list_graph_names
from graphviz_dash.bundle.read import read_node_names
from graphviz_dash.features.ladder.analysis.kernel_changes import Replacement, find_kernel_changes
from graphviz_dash.ingest.load import load_outlines, load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.node_names import CODE_TYPE
from tests.loops import make_segmented, make_server

SMALL, TALL = "void small_gemm<float>(float*)", "void tall_gemm<float>(float*)"


def test_neighbours_are_compared(tmp_path: Path) -> None:
    run = load_run(make_server(tmp_path, nodes=6))
    report = build_loop_report(run)
    assert not isinstance(report, Missing)
    members = report.families[0].members
    names = read_node_names(run.path, [graph.id for graph in run.graphs])
    labels = {graph.id: [node.label for node in graph.nodes] for graph in run.graphs}
    assert {graph: names.get_names([graph]) for graph in names.codes} == labels
    assert len(names.names) == len({label for each in labels.values() for label in each})
    (change,) = find_kernel_changes(members, names)
    assert (change.smaller.size, change.larger.size, change.node_count) == (8, 16, 2)
    assert change.replacements == (Replacement(SMALL, TALL, 2),)
    # One node less: what is alike around it stays alike.
    codes = memoryview(names.codes["graph-0"]).cast(CODE_TYPE)
    fewer = msgspec.structs.replace(names, codes=names.codes | {"graph-0": codes[1:].tobytes()})
    assert find_kernel_changes(members, fewer)[-1].replacements == (Replacement(TALL, None, 1),)
    # A graph that was not read is passed over.
    some = read_node_names(run.path, [*(labels.keys() - {"graph-1"}), "graph-99"])
    (wider,) = find_kernel_changes(members, some)
    assert (wider.smaller.size, wider.larger.size) == (8, 32)
    apart = [replace(member, other_axes=(number,)) for number, member in enumerate(members)]
    assert find_kernel_changes(apart, names) == ()


def test_names_of_graphs(tmp_path: Path) -> None:
    make_server(tmp_path / "service", sizes=(1, 2))
    (server,) = load_outlines(tmp_path / "service")
    assert not server.graphs
    assert list_graph_names(server.loop) == {
        "graph-0": "decode, batch 2",
        "graph-1": "decode, batch 1",
    }
    training = load_run(make_segmented(tmp_path / "training", segments=2, repeats=2))
    assert list_graph_names(training.loop) == {
        "graph-0": "create_fwd_graph, segment 1 of 4",
        "graph-1": "create_fwd_graph, segment 2 of 4",
    }
    assert list_graph_names(None) == {}
