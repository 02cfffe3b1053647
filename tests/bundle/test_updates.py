from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.model.graph import CapturedGraph, DriverResult, GraphNode, NodeKind
from graphviz_dash.model.run import GraphUpdate, GraphUpdates
from tests.bundle.examples import GRAPH, write_bundle

OTHER = msgspec.structs.replace(GRAPH, id="graph-1")
REFUSED = DriverResult("ERROR_NODE_TYPE_CHANGED", "graph-1", 2)
PAIR = GraphUpdate("graph-0", "graph-1", REFUSED, (2_000, 2_100), (8_000, 9_000))


def _write(path: Path, pair: GraphUpdate) -> Path:
    return write_bundle(path, graphs=(GRAPH, OTHER), updates=GraphUpdates((pair,)))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_bundle(_write(tmp_path / "run", PAIR)).updates == GraphUpdates((PAIR,))


def test_a_bundle_without_it_is_whole(tmp_path: Path) -> None:
    assert read_bundle(write_bundle(tmp_path / "run")).updates is None


@pytest.mark.parametrize(
    "wrong",
    [
        msgspec.structs.replace(PAIR, source_graph="graph-7"),
        msgspec.structs.replace(PAIR, target_graph="graph-7"),
        msgspec.structs.replace(PAIR, result=DriverResult("ERROR", "graph-1", 3)),
        msgspec.structs.replace(PAIR, result=DriverResult("ERROR", "graph-7", 0)),
    ],
)
def test_an_update_of_an_absent_graph_or_node_is_refused(
    tmp_path: Path, wrong: GraphUpdate
) -> None:
    with pytest.raises(InputError, match=r"updates\.json"):
        read_bundle(_write(tmp_path / "run", wrong))


def test_a_body_is_no_graph_to_update(tmp_path: Path) -> None:
    body = CapturedGraph("graph-0.1", (), (), "test", ("graph-0", 0))
    child = GraphNode(0, NodeKind.CHILD_GRAPH, None, ("graph-0.1",))
    holder = msgspec.structs.replace(GRAPH, nodes=(child, *GRAPH.nodes[1:]))
    pair = GraphUpdate("graph-0", "graph-0.1", DriverResult("SUCCESS"), (), ())
    path = write_bundle(tmp_path / "run", graphs=(holder, body), updates=GraphUpdates((pair,)))
    with pytest.raises(InputError, match="a top-level graph"):
        read_bundle(path)
