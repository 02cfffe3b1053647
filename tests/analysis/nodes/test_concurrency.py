from __future__ import annotations

from graphviz_dash.analysis.nodes.concurrency import analyze_run
from graphviz_dash.analysis.nodes.node_table import build_table
from graphviz_dash.model.absence import Fact, Missing
from tests.analysis.forks import FORK
from tests.analysis.frames import make_run


def test_a_run_without_a_trace_says_so_of_each_graph() -> None:
    run = make_run("graph", graphs=(FORK,), trace=None)
    found = analyze_run(run, [build_table(run, "graph-0")])
    assert found == {"graph-0": Missing(Fact.NODE_TIMES, "there is no trace of replays")}
