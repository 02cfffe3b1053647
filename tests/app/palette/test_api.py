from __future__ import annotations

from graphviz_dash.app.palette.api import find_experiments, find_hits
from tests.samples import compared_sample


def test_nodes_and_kernels_by_name() -> None:
    runs = compared_sample("fork-join").experiment.runs
    hits = find_hits(runs, "TANH").hits
    nodes = [hit for hit in hits if hit.kind == "node"]
    kernels = [hit for hit in hits if hit.kind == "kernel"]
    assert len(nodes) == 8
    assert len(kernels) == 1
    graph = next(run for run in runs if run.name == "graph").graphs[0]
    for hit in nodes:
        assert hit.page == "graph"
        assert "tanh" in graph.nodes[int(hit.query["node"])].label
    run, _, token = kernels[0].query["select"].partition("/")
    trace = next(one for one in runs if one.name == run).replay_trace
    assert trace is not None
    assert "tanh" in str(trace.gpu["name"][int(token[1:])])


def test_nodes_by_index() -> None:
    runs = compared_sample("fork-join").experiment.runs
    assert [hit.query["node"] for hit in find_hits(runs, "#12").hits] == ["12"]
    assert find_hits(runs, "  ").hits == []
    assert find_hits(runs, "no such kernel").hits == []


def test_experiments_by_words() -> None:
    names = [f"group-{number % 7}/Trial-{number}" for number in range(5000)]
    assert find_experiments(names, "trial-4321 GROUP-2").names == ["group-2/Trial-4321"]
    assert find_experiments(names, "experiment 4999").names == ["group-1/Trial-4999"]
    assert find_experiments(names, "trial-9999").names == []
    assert find_experiments(names, " ").names == names[:40]
