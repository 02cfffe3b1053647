"""Predicting cudaGraphExecUpdate: as the driver answered, to the offending node, and by each rule.

``answers/updates.json.gz`` holds what driver 580 (an H200) answered to 1,350 generated pairs of
graphs: the first graph was instantiated and cuGraphExecUpdate called with the second. A row is
``[first, second, result, path of the offending node, path of its dependency]``; a graph is a list
of ``[what, dependencies]``, a list for ``what`` being a child graph.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from graphviz_dash.features.graph.diff.update_prediction import (
    DEPENDENCY_ORDER,
    UpdateResult,
    predict_update,
)
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    EdgeType,
    GraphEdge,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
    Params,
    SemaphoreParams,
)

ANSWERS: Final = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "answers" / "updates.json.gz").read_bytes())
)


def _kernel(name: str = "spin", cooperative: bool = False) -> KernelParams:
    return KernelParams(
        name, name, (1, 1, 1), (32, 1, 1), 0, 0, 16, None, cooperative, 0, dynamic_parallelism=False
    )


def _copy(source: str = "device", height: int = 1, width: int = 4096) -> MemcpyParams:
    direction = "HtoD" if source == "host" else "DtoD"
    return MemcpyParams(source, "device", direction, width * height, width, height, 1, False)


def _set(height: int = 1, value: int = 0) -> MemsetParams:
    return MemsetParams(value, 4, 1024, height, 4096 * height)


WHAT: Final[dict[str, tuple[NodeKind, Params | None]]] = {
    "K": (NodeKind.KERNEL, _kernel()),
    "L": (NodeKind.KERNEL, _kernel("other")),
    "C": (NodeKind.KERNEL, _kernel(cooperative=True)),
    "D": (NodeKind.MEMCPY, _copy()),
    "H": (NodeKind.MEMCPY, _copy("host")),
    "D2": (NodeKind.MEMCPY, _copy(height=4)),
    "M": (NodeKind.MEMSET, _set()),
    "M2": (NodeKind.MEMSET, _set(height=4)),
    "E": (NodeKind.EMPTY, None),
    "F": (NodeKind.HOST, None),
    "R": (NodeKind.EVENT_RECORD, None),
}


def _graphs(drawn: list[Any], name: str, parent: tuple[str, int] | None = None) -> list[Any]:
    """The graph that an answer was asked of, then its bodies."""
    nodes, edges, inside = [], [], []
    for index, (what, before) in enumerate(drawn):
        if isinstance(what, list):
            body = f"{name}.{index}"
            inside += _graphs(what, body, (name, index))
            nodes.append(GraphNode(index, NodeKind.CHILD_GRAPH, None, (body,)))
        else:
            nodes.append(GraphNode(index, *WHAT[what]))
        edges += [GraphEdge(source, index) for source in before]
    graph = CapturedGraph(name, tuple(nodes), tuple(edges), DEPENDENCY_ORDER, parent)
    return [graph, *inside]


def _path(name: str, path: list[int] | None) -> tuple[str, int] | None:
    return None if path is None else (".".join([name, *map(str, path[:-1])]), path[-1])


def test_every_answer_of_the_driver_is_predicted_to_the_offending_node() -> None:
    wrong = []
    for first, second, result, node, from_node in ANSWERS:
        found = predict_update(_graphs(first, "a"), _graphs(second, "b"))
        violation = found.violation
        if violation is None:
            said: tuple[Any, ...] = ("SUCCESS", None, None)
        else:
            at = None if violation.node is None else (violation.graph, violation.node)
            back = None if violation.from_node is None else (violation.graph, violation.from_node)
            said = (violation.result.value, at, back)
        if said != (result, _path("b", node), _path("b", from_node)):
            wrong.append((first, second, result, node, said))
    assert wrong == []


def test_the_answers_cover_every_kind_of_result_often() -> None:
    counts = Counter(result for _, _, result, _, _ in ANSWERS)
    assert len(ANSWERS) == 1350
    assert min(counts.values()) > 25
    assert set(counts) == {
        "SUCCESS",
        *(
            f"ERROR_{name}_CHANGED"
            for name in ("TOPOLOGY", "NODE_TYPE", "PARAMETERS", "ATTRIBUTES")
        ),
    }


def _one(kind: NodeKind, params: Params | None) -> list[CapturedGraph]:
    return [CapturedGraph("graph-0", (GraphNode(0, kind, params),), (), DEPENDENCY_ORDER)]


KERNEL, COPY = NodeKind.KERNEL, NodeKind.MEMCPY
SIGNAL, CONDITION = NodeKind.SEMAPHORE_SIGNAL, NodeKind.CONDITIONAL


@pytest.mark.parametrize(
    ("kind", "before", "after", "result"),
    [
        (KERNEL, _kernel(), _kernel("other"), None),
        (
            KERNEL,
            _kernel(),
            msgspec.structs.replace(_kernel("nested"), dynamic_parallelism=True),
            UpdateResult.UNSUPPORTED_FUNCTION_CHANGE,
        ),
        (KERNEL, msgspec.structs.replace(_kernel("n"), dynamic_parallelism=True), _kernel(), None),
        (COPY, _copy(width=64), _copy(width=1 << 24), None),
        (COPY, _copy("unified"), _copy("device"), UpdateResult.PARAMETERS_CHANGED),
        (COPY, _copy(height=4), _copy(height=8), UpdateResult.PARAMETERS_CHANGED),
        (
            SIGNAL,
            SemaphoreParams((0,), (1,)),
            SemaphoreParams((0, 1), (1, 1)),
            UpdateResult.PARAMETERS_CHANGED,
        ),
        (SIGNAL, SemaphoreParams((0,), (1,)), SemaphoreParams((0,), (2,)), None),
        (
            CONDITION,
            ConditionalParams(ConditionalType.IF, 1),
            ConditionalParams(ConditionalType.WHILE, 1),
            UpdateResult.NOT_SUPPORTED,
        ),
    ],
)
def test_a_rule(kind: NodeKind, before: Params, after: Params, result: UpdateResult | None) -> None:
    found = predict_update(_one(kind, before), _one(kind, after))
    assert (found.violation.result if found.violation else None) is result
    assert found.is_accepted is (result is None)


def test_unrecorded_parameters_make_the_prediction_unknown() -> None:
    found = predict_update(_one(COPY, _copy(height=4)), _one(COPY, _copy(height=4)))
    assert found.is_accepted is None
    assert "several rows" in found.unknown[0]
    old = msgspec.structs.replace(_kernel(), cooperative=None)
    found = predict_update(_one(KERNEL, old), _one(KERNEL, old))
    assert found.is_accepted is None
    assert "cooperatively" in found.unknown[0]
    unread = msgspec.structs.replace(_kernel("new"), dynamic_parallelism=None)
    found = predict_update(_one(KERNEL, _kernel()), _one(KERNEL, unread))
    assert found.is_accepted is None


def test_an_unknown_that_comes_with_an_offence_is_no_longer_asked() -> None:
    rows = _one(COPY, _copy(height=4))
    found = predict_update(rows, _one(KERNEL, _kernel()))
    assert found.is_accepted is False
    assert found.unknown == ()


def test_an_old_bundle_does_not_tell_the_order_of_dependencies() -> None:
    graph = _graphs([["K", []], ["K", []], ["K", [0, 1]]], "a")[0]
    old = msgspec.structs.replace(graph, source_api="cuGraphGetNodes, cuGraphGetEdges")
    assert predict_update([graph], [graph]).is_accepted is True
    found = predict_update([old], [graph])
    assert found.is_accepted is None
    assert "order" in found.unknown[0]


def test_an_edge_of_another_type_is_another_topology() -> None:
    a = _graphs([["K", []], ["K", [0]]], "a")[0]
    b = msgspec.structs.replace(a, edges=(GraphEdge(0, 1, 1, 0, EdgeType.PROGRAMMATIC),))
    violation = predict_update([a], [b]).violation
    assert violation is not None
    assert (violation.result, violation.node, violation.from_node) == (
        UpdateResult.TOPOLOGY_CHANGED,
        1,
        0,
    )


def test_a_body_that_is_not_there_is_unknown() -> None:
    graphs = _graphs([[[["K", []]], []]], "a")
    found = predict_update(graphs[:1], graphs[:1])
    assert found.is_accepted is None
    assert "not in the bundle" in found.unknown[0]
