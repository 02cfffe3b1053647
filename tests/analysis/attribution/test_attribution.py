from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.attribution.attribution import (
    GAP_ALIGNED,
    NOT_ATTRIBUTED,
    ORDER_ALIGNED,
    attribute_graph,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import GraphNode, NodeKind
from graphviz_dash.model.marks import SOURCE
from tests.analysis.scenes import ENGINE, EVALUATE, MAIN, Scene, graph_of, kernel, memcpy, memset
from tests.builders import STEP, make_run


def test_every_node_of_a_training_step(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "toy"))
    found = attribute_graph(run.graphs[0], run.capture_trace)
    assert (found.capture_launches, found.unmatched_launches) == (len(STEP), 0)
    for work, origin in zip(STEP, found.origins, strict=True):
        assert (origin.method, origin.confidence) == (ORDER_ALIGNED, 1.0)
        assert origin.launch_call == work.launch_call
        assert (origin.op, origin.op_path[-1]) == (work.op, work.op)
        assert origin.module == work.module
        assert origin.source == work.source
        # These traces have no range around the optimizer, which is all that tells it.
        assert origin.phase == ("other" if work.phase == "optimizer" else work.phase)
        assert json.loads(origin.input_dims or "") == [[64, 64]]
        assert origin.reason is None
        in_backward = work.phase == "backward"
        assert origin.source_method == ("forward op" if in_backward else "range")


class TestNothingToGoBy:
    def test_no_trace(self) -> None:
        found = attribute_graph(graph_of([kernel(0)]))
        assert found.origins[0].method == NOT_ATTRIBUTED
        assert found.origins[0].reason == "the capture was not traced"
        assert found.unmatched_nodes == 1

    def test_no_capture_in_the_trace(self) -> None:
        found = attribute_graph(graph_of([kernel(0)]), Scene().trace())
        assert found.origins[0].reason == "the trace contains no capture of this graph"

    def test_nodes_that_no_launch_makes(self) -> None:
        scene = Scene()
        scene.capture(100, 200)
        scene.launch(110)
        nodes = [GraphNode(0, NodeKind.EMPTY), kernel(1), GraphNode(2, NodeKind.EVENT_RECORD)]
        found = attribute_graph(graph_of(nodes), scene.trace())
        assert found.origins[0].reason == "launches do not create nodes of kind Empty"
        assert found.origins[1].method == ORDER_ALIGNED
        assert found.origins[1].reason == "launched outside any operator"
        assert found.origins[2].reason == "launches do not create nodes of kind EventRecord"
        assert found.unmatched_nodes == 0

    def test_a_graph_without_nodes(self) -> None:
        scene = Scene()
        scene.capture(100, 200)
        assert attribute_graph(graph_of([]), scene.trace()).origins == ()


class TestGaps:
    def _scene(self, calls: list[str]) -> Scene:
        scene = Scene()
        scene.capture(100, 100 + 20 * (len(calls) + 2))
        for place, call in enumerate(calls):
            start = 110 + 20 * place
            scene.call(call, start + 5, external=scene.op(f"aten::op{place}", start, start + 15))
        return scene

    def test_one_launch_too_many_lowers_the_confidence_where_it_may_be(self) -> None:
        nodes = [memset(0), kernel(1), kernel(2), memset(3), *(kernel(i) for i in range(4, 24))]
        calls = [
            "cudaMemsetAsync" if n.kind is NodeKind.MEMSET else "cudaLaunchKernel" for n in nodes
        ]
        calls.insert(2, "cudaLaunchKernel")
        found = attribute_graph(graph_of(nodes), self._scene(calls).trace())
        assert {origin.method for origin in found.origins} == {GAP_ALIGNED}
        assert (found.unmatched_launches, found.unmatched_nodes) == (1, 0)
        assert [origin.confidence for origin in found.origins[:4]] == [0.9, 0.5, 0.5, 0.9]
        # Whatever lies beyond the doubt is right.
        assert [origin.op for origin in found.origins[3:]] == [f"aten::op{i}" for i in range(4, 25)]

    def test_a_launch_that_is_missing_leaves_a_node_without_one(self) -> None:
        nodes = [kernel(0), memcpy(1), *(kernel(i) for i in range(2, 20))]
        found = attribute_graph(graph_of(nodes), self._scene(["cudaLaunchKernel"] * 19).trace())
        assert found.origins[1].method == NOT_ATTRIBUTED
        assert found.origins[1].reason == "no matching launch found in the capture"
        assert found.unmatched_nodes == 1
        assert found.origins[2].op == "aten::op1"

    def test_another_capture_altogether_is_no_match(self) -> None:
        calls = ["cudaMemcpyAsync"] * 20
        found = attribute_graph(
            graph_of([kernel(i) for i in range(20)]), self._scene(calls).trace()
        )
        assert all(origin.method == NOT_ATTRIBUTED for origin in found.origins)
        assert "20 launches, which do not match 20 nodes" in str(found.origins[0].reason)
        assert found.unmatched_launches == 20

    @settings(max_examples=60)
    @given(st.lists(st.sampled_from("kcs"), min_size=15, max_size=30), st.integers(0, 29))
    def test_pairs_keep_kind_and_order(self, kinds: list[str], dropped: int) -> None:
        make: dict[str, Callable[[int], GraphNode]] = {"k": kernel, "c": memcpy, "s": memset}
        call = {"k": "cudaLaunchKernel", "c": "cudaMemcpyAsync", "s": "cudaMemsetAsync"}
        nodes = [make[kind](index) for index, kind in enumerate(kinds)]
        left = [kind for index, kind in enumerate(kinds) if index != dropped % len(kinds)]
        found = attribute_graph(graph_of(nodes), self._scene([call[kind] for kind in left]).trace())
        assert found.unmatched_nodes == 1
        places = []
        for kind, origin in zip(kinds, found.origins, strict=True):
            if origin.op is not None:
                assert origin.launch_call == call[kind]
                assert 0 < origin.confidence <= 0.9
                places.append(int(origin.op.removeprefix("aten::op")))
        assert places == sorted(set(places))
        assert len(places) == len(left)


def test_fifty_thousand_nodes() -> None:
    scene = Scene()
    count = 50_000
    scene.capture(100, 200 + 100 * count)
    for place in range(count):
        start = 150 + 100 * place
        tid = ENGINE if place % 3 == 0 else MAIN
        scene.mark(f"{SOURCE}a.py:{place % 90}", start, start + 90, tid=MAIN)
        op = scene.op(EVALUATE if tid == ENGINE else "aten::mm", start + 5, start + 50, tid=tid)
        scene.launch(start + 20, tid=tid, external=op)
    graph, trace = graph_of([kernel(i) for i in range(count)]), scene.trace()
    found = attribute_graph(graph, trace)
    assert all(origin.source is not None for origin in found.origins)
