from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.nodes.node_table import build_table, list_source_lines
from graphviz_dash.ingest.load import load_run


def test_source_lines_hold_every_attributed_node_once() -> None:
    run = load_run(Path("sample_traces/fork-join/graph"))
    table = build_table(run, "graph-0")
    lines = list_source_lines(table, run.source_code)
    assert sum(line.nodes for line in lines) == sum(
        row.origin.source is not None for row in table.rows
    )
    works = [line.work_ns or 0.0 for line in lines]
    assert works == sorted(works, reverse=True)
    (tanh,) = [line for line in lines if line.source.endswith("fork_join.py:26")]
    rows = [row for row in table.rows if row.origin.source == tanh.source]
    assert tanh.work_ns == sum(row.times.median_ns or 0 for row in rows)
    assert tanh.code == "x = torch.tanh(layer(x))"
    assert 0 < sum(line.share or 0.0 for line in lines) <= 1 + 1e-9


def test_lines_that_were_not_timed_have_no_time() -> None:
    run = load_run(Path("sample_traces/graph-update/graph"))
    lines = list_source_lines(build_table(run, "graph-1"))
    assert lines
    assert {(line.work_ns, line.share, line.code) for line in lines} == {(None, None, None)}
