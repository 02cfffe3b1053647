from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.features.perfetto.trace.slice_arguments import BY_EXTERNAL_ID, build_gpu_args
from graphviz_dash.features.perfetto.trace.slices import Arg, ArgKind
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment, Run
from tests.builders import make_experiment


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load_experiment(make_experiment(tmp_path_factory.mktemp("arguments") / "toy"))


def told(run: Run) -> dict[str, list[object]]:
    assert run.replay_trace is not None
    return {arg.name: _values(arg) for arg in build_gpu_args(run, run.replay_trace)}


def _values(arg: Arg) -> list[object]:
    pairs = zip(arg.values.tolist(), arg.present.tolist(), strict=True)
    values = (value if present else None for value, present in pairs)
    return [arg.texts[v] if arg.kind is ArgKind.TEXT and v is not None else v for v in values]


def test_each_argument_has_a_value_or_none_for_each_row(toy: Experiment) -> None:
    for run in toy.runs:
        assert run.replay_trace is not None
        assert {len(values) for values in told(run).values()} == {run.replay_trace.gpu.height}


def test_an_eager_kernel_leads_to_its_operator_by_the_profilers_id(toy: Experiment) -> None:
    eager = told(toy.runs[0])
    attributed = [row for row, op in enumerate(eager["op"]) if op is not None]
    assert attributed
    assert {eager["attributed_by"][row] for row in attributed} == {BY_EXTERNAL_ID}
    assert {eager["attribution_confidence"][row] for row in attributed} == {1.0}
    assert set(eager["node"]) == {None}


def test_a_graphed_kernel_leads_to_its_node_with_the_method(toy: Experiment) -> None:
    graph = toy.runs[1]
    rows = told(graph)
    matched = [row for row, node in enumerate(rows["node"]) if node is not None]
    assert matched
    assert {rows["graph"][row] for row in matched} == {"graph-0"}
    assert all(rows["matched_by"][row] and rows["match_confidence"][row] for row in matched)
    nodes = graph.graphs[0].nodes
    assert {rows["node"][row] for row in matched} <= {node.index for node in nodes}


def test_shapes_are_those_of_the_trace(toy: Experiment, tmp_path: Path) -> None:
    trace = toy.runs[0].replay_trace
    assert trace is not None
    rows = told(toy.runs[0])
    for row, (kind, *grid) in enumerate(
        trace.gpu.select("kind", "grid_x", "grid_y", "grid_z").iter_rows()
    ):
        expected = f"({grid[0]}, {grid[1]}, {grid[2]})" if kind == "kernel" else None
        assert rows["grid"][row] == expected
