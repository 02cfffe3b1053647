from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.graph_data import read_graph_data
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.graph import EventParams, KernelParams, NodeKind
from graphviz_dash.model.node_ids import GraphIds


def node(index: int, kind: str, before: list[int], **more: Any) -> dict[str, Any]:
    """A node as torch 2.13 writes it."""
    return {
        "index": index,
        "node_type": kind,
        "tools_id": (9 << 32) | (index + 4),
        "graph_id": 9,
        "node_id": index + 4,
        "kernel_name": None,
        "event_ptr": 0,
        "dependencies": before,
        "dependents": [],
    } | more


DATA: dict[str, Any] = {
    "exec_graph_id": 9,
    "nodes": [
        node(0, "kernel", [], kernel_name="_Z4fillPf"),
        node(1, "event_record", [0], event_ptr=0xBEEF),
        node(2, "wait_event", [1], event_ptr=0xBEEF),
        node(3, "kernel", [2], kernel_name="gemm", grid_dim=[8, 2, 1], block_dim=[128, 1, 1]),
        node(4, "cudaGraphNodeType.cudaGraphNodeTypeConditional", [3, 2]),
    ],
}


def written(folder: Path, value: Any) -> Path:
    file = folder / "graph.json"
    file.write_text(json.dumps(value))
    return file


def test_nodes_edges_and_ids(tmp_path: Path) -> None:
    graph, ids = read_graph_data(written(tmp_path, DATA))
    kinds = [one.kind for one in graph.nodes]
    assert kinds == [
        NodeKind.KERNEL,
        NodeKind.EVENT_RECORD,
        NodeKind.EVENT_WAIT,
        NodeKind.KERNEL,
        NodeKind.CONDITIONAL,
    ]
    assert [(edge.source, edge.target) for edge in graph.edges] == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (2, 4),
    ]
    first, last = graph.nodes[0].params, graph.nodes[3].params
    assert isinstance(first, KernelParams)
    assert isinstance(last, KernelParams)
    assert (first.demangled, first.grid) == ("fill(float*)", None)
    assert (last.grid, last.block) == ((8, 2, 1), (128, 1, 1))
    assert graph.nodes[1].params == graph.nodes[2].params == EventParams(0)
    assert ids == GraphIds("graph-0", (9,), (4, 5, 6, 7, 8))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"nodes": []}, "without nodes"),
        ({"exec_graph_id": "nine"}, "Expected `int`"),
        ({"nodes": [node(1, "kernel", [])]}, "node 1 at position 0"),
        ({"nodes": [node(0, "teleport", [])]}, "a node of type 'teleport'"),
        ({"nodes": [node(0, "kernel", [7])]}, "depends on node 7"),
        ({"nodes": [node(0, "kernel", [0])]}, "depends on node 0"),
        ({"nodes": [node(0, "kernel", [-1])]}, "Expected `int` >= 0"),
    ],
)
def test_invalid_graph_data_is_refused(tmp_path: Path, change: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError) as error:
        read_graph_data(written(tmp_path, DATA | change))
    assert found in error.value.found


def test_limits(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="limit nodes"):
        read_graph_data(written(tmp_path, DATA), Limits(nodes=3))


def test_nesting_of_any_depth_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"exec_graph_id": ' + "[" * 200_000)
    with pytest.raises(InputError):
        read_graph_data(file)
