from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from collectors.workloads import BUILT_IN
from graphviz_dash.analysis.replays.matching import number_executable_nodes
from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.model.graph import KernelParams, MemcpyParams, MemsetParams
from graphviz_dash.model.node_ids import NodeIdPass, NodeSignature

STEPS = 3

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("cupti") is None, reason="cupti-python is not installed"
)


def collected(folder: Path, workload: str, modes: str) -> dict[str, BundleContents]:
    from collectors.collection.cli import collect

    output = folder / workload
    result = CliRunner().invoke(
        collect,
        [
            f"--workload={workload}",
            f"--modes={modes}",
            f"--output={output}",
            "--iterations=3",
            "--processes=1",
            f"--traced-iterations={STEPS}",
            "--node-ids",
        ],
    )
    assert result.exit_code == 0, (result.output, result.exception)
    return {mode: read_bundle(output / mode) for mode in modes.split(",")}


def looks_like(look: NodeSignature, params: object) -> bool:
    """Return True if a record fits a node; the driver runs small memcpys and memsets as kernels."""
    match params:
        case KernelParams():
            shared = params.dynamic_shared + (params.static_shared or 0)
            shape = (look.name, look.grid, look.block, look.shared)
            return shape == (params.demangled, params.grid, params.block, shared)
        case MemcpyParams():
            return look.bytes == params.bytes or look.name.startswith("memcpy")
        case MemsetParams():
            return look.bytes == params.bytes or look.name.startswith("memset")
        case _:
            return False


def named(run: BundleContents) -> tuple[NodeIdPass, set[tuple[str, int]]]:
    """Return the pass and the nodes of its records, checked against each record."""
    found = run.node_ids
    assert found is not None
    by_id = {graph.id: graph for graph in run.graphs}
    ids = {ident: one for one in found.graphs for ident in one.executable_ids}
    numbers = {
        ident: number_executable_nodes(by_id[one.graph], by_id, one.nodes)
        for ident, one in ids.items()
    }
    seen = set()
    for row in found.rows:
        graph, index = numbers[row.graph][row.node]
        params = by_id[graph].nodes[index].params
        assert looks_like(found.signatures[row.signature], params), (
            graph,
            index,
            found.signatures[row.signature],
        )
        seen.add((graph, index))
    return found, seen


@pytest.mark.timeout(400)
def test_every_record_of_every_replay_names_its_node(tmp_path: Path) -> None:
    for mode, run in collected(tmp_path, "mlp-train", "graph,partial").items():
        found, seen = named(run)
        roots = [graph for graph in run.graphs if graph.parent is None]
        assert [one.graph for one in found.graphs] == [graph.id for graph in roots]
        for one, graph in zip(found.graphs, roots, strict=True):
            assert one.nodes == tuple(range(len(graph.nodes)))
        shown = {
            (graph.id, node.index)
            for graph in roots
            for node in graph.nodes
            if isinstance(node.params, KernelParams | MemcpyParams | MemsetParams)
        }
        assert seen == shown
        assert len(found.rows) == STEPS * len(shown)
        assert found.launch_steps == tuple(
            step for step in range(STEPS) for _ in range(1 if mode == "graph" else len(roots))
        )
        assert (found.steps, found.dropped_records) == (STEPS, 0)
        assert (found.outside_records > 0) == (mode == "partial")


@pytest.mark.timeout(400)
def test_parallel_branches_too(tmp_path: Path) -> None:
    found, seen = named(collected(tmp_path, "fork-join", "graph")["graph"])
    assert len({row.stream for row in found.rows}) > 1
    assert len(found.rows) == STEPS * len(seen)


@pytest.mark.timeout(400)
@pytest.mark.skipif("all-nodes" not in BUILT_IN, reason="no such workload")
def test_child_graphs_and_bodies_of_conditionals_too(tmp_path: Path) -> None:
    run = collected(tmp_path, "all-nodes", "graph")["graph"]
    _, seen = named(run)
    inside = {graph.id for graph in run.graphs if graph.parent is not None}
    assert inside & {graph for graph, _ in seen}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("fork", ["two", "four", "four_beside", "eight", "twice"])
def test_branches_that_look_the_same_run_on_streams_in_the_order_of_creation(
    tmp_path: Path, fork: str
) -> None:
    """Alignment relies on this order if nothing else distinguishes branches."""
    found, _ = named(collected(tmp_path, f"tests.gpu.lookalike:{fork}", "graph")["graph"])
    for launch in range(STEPS):
        rows = [row for row in found.rows if row.launch == launch]
        first = {row.stream: row.node for row in sorted(rows, key=lambda row: -row.node)}
        assert len(first) > 1
        assert [first[stream] for stream in sorted(first)] == sorted(first.values())
