from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.attribution.attribution import (
    GAP_ALIGNED,
    NOT_ATTRIBUTED,
    ORDER_ALIGNED,
    attribute_graph,
    parse_launched_kind,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import GraphNode, NodeKind
from graphviz_dash.model.marks import MODULE, SOURCE
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
        # The optimizer is known only by its range, which these traces lack.
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
        # All matches beyond the doubtful ones are right.
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


class TestForwardOperator:
    def _scene(self) -> Scene:
        """A forward operator in a module, and its backward on the engine's thread."""
        scene = Scene()
        scene.capture(100, 1000)
        scene.mark(MODULE + "Net.fc", 200, 300)
        scene.mark(SOURCE + "net.py:7", 210, 290)
        # Reads the counter before the operator that makes the node does.
        scene.op("aten::empty", 150, 160, sequence=5, forward_tid=0)
        scene.op("aten::linear", 220, 280, sequence=5, forward_tid=0)
        scene.op("aten::addmm", 230, 270, sequence=5, forward_tid=0)
        scene.op("aten::relu", 310, 320, sequence=6, forward_tid=0)
        scene.mark(SOURCE + "train.py:9", 500, 900)
        scene.op(EVALUATE + "AddmmBackward0", 600, 700, tid=ENGINE, sequence=5, forward_tid=1)
        scene.op("AddmmBackward0", 610, 690, tid=ENGINE, sequence=5, forward_tid=1)
        mm = scene.op("aten::mm", 620, 650, tid=ENGINE, input_dims="[[2,3]]", input_types='["f"]')
        scene.launch(630, tid=ENGINE, external=mm)
        return scene

    def test_module_and_line_are_those_of_the_forward_operator(self) -> None:
        origin = attribute_graph(graph_of([kernel(0)]), self._scene().trace()).origins[0]
        assert origin.phase == "backward"
        assert (origin.module, origin.source) == ("Net.fc", "net.py:7")
        assert origin.source_method == "forward op"
        assert origin.op_path == (EVALUATE + "AddmmBackward0", "AddmmBackward0", "aten::mm")
        assert (origin.input_dims, origin.input_types) == ("[[2,3]]", '["f"]')

    def test_another_thread_with_the_same_numbers_is_not_mistaken(self) -> None:
        scene = self._scene()
        scene.mark(MODULE + "Other", 200, 300, tid=44)
        scene.op("aten::other", 240, 260, tid=44, sequence=5, forward_tid=0)
        # The engine shows one more number that only the main thread has.
        scene.op(EVALUATE + "ReluBackward0", 550, 560, tid=ENGINE, sequence=6, forward_tid=1)
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert origin.module == "Net.fc"

    def test_threads_that_cannot_be_told_apart_give_no_forward_operator(self) -> None:
        scene = self._scene()
        scene.mark(MODULE + "Other", 200, 300, tid=44)
        scene.op("aten::other", 240, 260, tid=44, sequence=5, forward_tid=0)
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert origin.module is None
        assert (origin.source, origin.source_method) == ("train.py:9", "enclosing call")

    def test_accumulation_has_the_call_that_waits_for_it(self) -> None:
        scene = self._scene()
        add = scene.op(EVALUATE + "torch::autograd::AccumulateGrad", 720, 760, tid=ENGINE)
        scene.launch(730, tid=ENGINE, external=add)
        origin = attribute_graph(graph_of([kernel(0), kernel(1)]), scene.trace()).origins[1]
        assert origin.phase == "backward"
        assert origin.module is None
        assert (origin.source, origin.source_method) == ("train.py:9", "enclosing call")

    def test_backward_on_the_calling_thread_still_leads_to_forward(self) -> None:
        scene = Scene()
        scene.capture(100, 1000)
        scene.mark(MODULE + "Net.fc", 200, 300)
        scene.mark(SOURCE + "net.py:7", 210, 290)
        scene.op("aten::mul", 220, 280, sequence=5, forward_tid=0)
        scene.mark(SOURCE + "train.py:9", 500, 900)
        op = scene.op(EVALUATE + "MulBackward0", 600, 700, sequence=5, forward_tid=1)
        scene.launch(630, external=op)
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert (origin.source, origin.source_method) == ("net.py:7", "forward op")
        assert origin.module == "Net.fc"


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("cudaLaunchKernel", NodeKind.KERNEL),
        ("cudaLaunchKernelExC", NodeKind.KERNEL),
        ("cudaLaunchCooperativeKernel", NodeKind.KERNEL),
        ("cuLaunchKernelEx", NodeKind.KERNEL),
        ("hipExtModuleLaunchKernel", NodeKind.KERNEL),
        ("hipLaunchKernel", NodeKind.KERNEL),
        ("cudaMemcpyAsync", NodeKind.MEMCPY),
        ("cudaMemcpy2DAsync", NodeKind.MEMCPY),
        ("cuMemcpyHtoDAsync_v2", NodeKind.MEMCPY),
        ("cudaMemsetAsync", NodeKind.MEMSET),
        ("cuMemsetD32Async", NodeKind.MEMSET),
        ("cudaLaunchHostFunc", NodeKind.HOST),
        ("cudaMallocAsync", NodeKind.MEM_ALLOC),
        ("cudaFreeAsync", NodeKind.MEM_FREE),
        ("cudaMemcpy", None),
        ("cudaGraphLaunch", None),
        ("cudaStreamIsCapturing", None),
        ("cudaLaunchCooperativeKernelMultiDevice", None),
        ("aten::cudaLaunchKernel", None),
    ],
)
def test_a_call_maps_to_the_node_kind_it_captures(call: str, kind: NodeKind | None) -> None:
    assert parse_launched_kind(call) is kind


class TestCapturedLaunches:
    def test_only_those_between_begin_and_end_whatever_the_thread(self) -> None:
        scene = Scene()
        scene.launch(50)
        scene.capture(100, 200)
        first = scene.op("aten::first", 110, 120)
        scene.launch(115, external=first)
        second = scene.op("aten::second", 130, 140, tid=ENGINE)
        scene.launch(135, tid=ENGINE, external=second)
        scene.launch(250)
        found = attribute_graph(graph_of([kernel(0), kernel(1)]), scene.trace())
        assert [origin.op for origin in found.origins] == ["aten::first", "aten::second"]
        assert found.capture_launches == 2

    def test_a_launch_that_ran_on_the_gpu_was_not_captured(self) -> None:
        scene = Scene()
        scene.capture(100, 200)
        # Another thread uses a separate stream meanwhile.
        ran = scene.launch(110, tid=77)
        scene.work(kernel(0), 130, ran)
        mine = scene.op("aten::mine", 140, 150)
        scene.launch(145, external=mine)
        found = attribute_graph(graph_of([kernel(0)]), scene.trace())
        assert found.origins[0].op == "aten::mine"
        assert found.origins[0].method == ORDER_ALIGNED

    def test_a_driver_call_within_a_runtime_call_counts_once(self) -> None:
        scene = Scene()
        scene.capture(100, 200)
        scene.call("cudaLaunchKernelExC", 110, 10)
        scene.call("cuLaunchKernelEx", 112, 6)
        scene.call("cuLaunchKernel", 130, 6)
        found = attribute_graph(graph_of([kernel(0), kernel(1)]), scene.trace())
        assert found.capture_launches == 2
        calls = [origin.launch_call for origin in found.origins]
        assert calls == ["cudaLaunchKernelExC", "cuLaunchKernel"]

    def test_several_captures_are_told_apart_by_their_ranges(self) -> None:
        scene = Scene()
        for number, start in enumerate((100, 300)):
            scene.capture(start, start + 50, f"graph-{number}")
            scene.launch(
                start + 20, external=scene.op(f"aten::of_{number}", start + 10, start + 30)
            )
        trace = scene.trace()
        for number in (0, 1):
            found = attribute_graph(graph_of([kernel(0)], name=f"graph-{number}"), trace)
            assert found.origins[0].op == f"aten::of_{number}"

    def test_without_ranges_the_capture_whose_launches_fit(self) -> None:
        scene = Scene()
        scene.capture(100, 150, None)
        scene.launch(110)
        scene.capture(200, 250, None)
        scene.call("cudaMemsetAsync", 210)
        scene.launch(220, external=scene.op("aten::sum", 215, 230))
        found = attribute_graph(graph_of([memset(0), kernel(1)]), scene.trace())
        assert found.origins[1].op == "aten::sum"
        assert found.origins[1].confidence == 1.0

    def test_without_ranges_two_captures_alike_are_not_guessed_between(self) -> None:
        scene = Scene()
        for start in (100, 200):
            scene.capture(start, start + 50, None)
            scene.launch(start + 10, external=scene.op("aten::sum", start + 5, start + 30))
        found = attribute_graph(graph_of([kernel(0)]), scene.trace())
        assert found.origins[0].op is None
        assert found.origins[0].reason == "the trace contains several equal captures"
